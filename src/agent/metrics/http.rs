// SPDX-License-Identifier: GPL-2.0-only
//! The listening socket, and what each path is answered with.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};

use super::connection::{self, Answer, Request};
use super::exposition::{self, Format};
use super::families::Facts;
use super::process::Usage;
use super::source::Source;
use crate::agent::peers::{self, Host};

struct Server {
    listener: TcpListener,
    source: Source,
    scrapes: AtomicU64,
    refused: AtomicU64,
}

/// Returns the address at which it listens, which has the port that was chosen in place of port 0.
pub fn serve(address: SocketAddr, source: Source) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let bound = listener.local_addr().context("cannot tell the address")?;
    let (scrapes, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    peers::receive(Server { listener, source, scrapes, refused })?;
    Ok(bound)
}

impl Host for Server {
    type Stream = TcpStream;
    const NAME: &str = "metrics";
    const MOST: usize = 64;

    fn accept(&self) -> io::Result<TcpStream> {
        self.listener.accept().map(|(stream, _)| stream)
    }

    fn serve(&self, stream: &TcpStream) {
        connection::serve(stream, |request| self.answer(request));
    }

    fn refuse(&self, stream: &TcpStream) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        connection::refuse(stream, Self::MOST);
    }
}

impl Server {
    fn answer(&self, request: &Request) -> Answer {
        if request.method != "GET" {
            return Answer::sentence(405, "only GET is understood here");
        }
        match request.path.as_str() {
            "/metrics" => self.metrics(request.format),
            "/healthz" => Answer::sentence(200, "metrics are served"),
            "/readyz" if self.source.is_attached() => {
                Answer::sentence(200, "the scheduler is attached")
            }
            "/readyz" => Answer::sentence(503, "no scheduler is attached at the moment"),
            _ => Answer::sentence(404, "there are /metrics, /healthz and /readyz, and no more"),
        }
    }

    fn metrics(&self, format: Format) -> Answer {
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        let text = self.source.view().and_then(|view| {
            let refused = self.refused.load(Ordering::Relaxed);
            let facts = Facts { view, usage: Usage::now(), scrapes, refused };
            exposition::text_of(facts, format).map_err(|error| format!("{error:#}"))
        });
        match text {
            Ok(text) => Answer { status: 200, content_type: format.content_type(), body: text },
            Err(why) => Answer::sentence(503, &why),
        }
    }
}
