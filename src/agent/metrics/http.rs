// SPDX-License-Identifier: GPL-2.0-only
//! The listening socket: a thread for each connection, and a bound on how many there are.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tracing::warn;

use super::connection::{self, Answer, Request};
use super::exposition::{self, Format};
use super::families::Facts;
use super::process::Usage;
use super::source::Source;

const CONNECTIONS_MAX: usize = 64;

/// How long it is waited when there are no descriptors, or whatever else it is.
const PAUSE: Duration = Duration::from_millis(100);

struct Server {
    source: Source,
    open: AtomicUsize,
    scrapes: AtomicU64,
    refused: AtomicU64,
}

/// Returns where it listens, which tells the port that port 0 became.
pub fn serve(address: SocketAddr, source: Source) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let bound = listener.local_addr().context("cannot tell the address")?;
    let server = Arc::new(Server {
        source,
        open: AtomicUsize::new(0),
        scrapes: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    });
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || accept_all(&listener, &server))
        .context("cannot start the thread that serves metrics")?;
    Ok(bound)
}

fn accept_all(listener: &TcpListener, server: &Arc<Server>) {
    let mut has_warned = false;
    for stream in listener.incoming() {
        if let Err(error) = stream.map_err(Into::into).and_then(|it| accept(it, server)) {
            if !has_warned {
                warn!("cannot serve metrics at the moment: {error:#}");
            }
            has_warned = true;
            thread::sleep(PAUSE);
        }
    }
}

fn accept(stream: TcpStream, server: &Arc<Server>) -> Result<()> {
    let Some(seat) = Seat::take(server) else {
        server.refused.fetch_add(1, Ordering::Relaxed);
        connection::refuse(&stream, CONNECTIONS_MAX);
        return Ok(());
    };
    thread::Builder::new()
        .name("metrics-peer".to_owned())
        .spawn(move || connection::serve(&stream, |request| seat.0.answer(request)))
        .context("cannot start a thread")?;
    Ok(())
}

/// One of so many connections, until it is dropped.
struct Seat(Arc<Server>);

impl Seat {
    /// Only one thread takes seats.
    fn take(server: &Arc<Server>) -> Option<Self> {
        let is_free = server.open.load(Ordering::Acquire) < CONNECTIONS_MAX;
        is_free.then(|| {
            server.open.fetch_add(1, Ordering::AcqRel);
            Self(server.clone())
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
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
