// SPDX-License-Identifier: GPL-2.0-only
//! Connections of clients that are not trusted. Each has a thread of its own. There is a bound on
//! how many there are at once, and one on how long each of them may take for what it does.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tracing::warn;

/// How long to wait after a connection could not be served, because there were no descriptors or
/// for any other reason.
const PAUSE: Duration = Duration::from_millis(100);

/// A server that receives connections.
pub trait Host: Send + Sync + 'static {
    type Stream: Send + 'static;
    /// What is served, which is also the name of the threads.
    const NAME: &str;
    /// How many connections are served at once.
    const MOST: usize;

    fn accept(&self) -> io::Result<Self::Stream>;

    /// Serves a connection, in a thread of its own.
    fn serve(&self, stream: &Self::Stream);

    /// Refuses a connection that is one too many. No other one is accepted meanwhile.
    fn refuse(&self, stream: &Self::Stream);
}

/// Returns what a client is told whose connection is one too many.
pub fn refusal(most: usize) -> String {
    format!("at most {most} connections are served at once: try again later")
}

struct House<H> {
    host: H,
    open: AtomicUsize,
}

pub fn receive<H: Host>(host: H) -> Result<()> {
    let house = Arc::new(House { host, open: AtomicUsize::new(0) });
    thread::Builder::new()
        .name(H::NAME.to_owned())
        .spawn(move || accept_all(&house))
        .with_context(|| format!("cannot start the thread for {}", H::NAME))?;
    Ok(())
}

fn accept_all<H: Host>(house: &Arc<House<H>>) {
    let mut has_warned = false;
    loop {
        if let Err(error) = house.host.accept().map_err(Into::into).and_then(|it| let_in(it, house))
        {
            if !has_warned {
                warn!("cannot serve {} at the moment: {error:#}", H::NAME);
            }
            has_warned = true;
            thread::sleep(PAUSE);
        }
    }
}

fn let_in<H: Host>(stream: H::Stream, house: &Arc<House<H>>) -> Result<()> {
    let Some(seat) = Seat::take(house) else {
        house.host.refuse(&stream);
        return Ok(());
    };
    thread::Builder::new()
        .name(format!("{}-peer", H::NAME))
        .spawn(move || seat.0.host.serve(&stream))
        .context("cannot start a thread")?;
    Ok(())
}

/// The place of one of the connections that are served at once, until it is dropped.
struct Seat<H>(Arc<House<H>>);

impl<H: Host> Seat<H> {
    /// Takes a seat, if one is free. Only one thread takes seats.
    fn take(house: &Arc<House<H>>) -> Option<Self> {
        let is_free = house.open.load(Ordering::Acquire) < H::MOST;
        is_free.then(|| {
            house.open.fetch_add(1, Ordering::AcqRel);
            Self(house.clone())
        })
    }
}

impl<H> Drop for Seat<H> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A socket whose calls can be bounded.
pub trait Socket {
    fn bound_reads(&self, time: Duration) -> io::Result<()>;
    fn bound_writes(&self, time: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn bound_reads(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }

    fn bound_writes(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }
}

impl Socket for UnixStream {
    fn bound_reads(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }

    fn bound_writes(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }
}

/// A stream with a deadline, by which all that is read or written has to be done. A bound for each
/// call would not bound all of them together.
pub struct Until<'a, S> {
    stream: &'a S,
    deadline: Instant,
}

impl<'a, S> Until<'a, S> {
    pub fn after(patience: Duration, stream: &'a S) -> Self {
        Self { stream, deadline: Instant::now() + patience }
    }

    fn remaining(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl<S: Socket> Read for Until<'_, S>
where
    for<'b> &'b S: Read,
{
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        self.stream.bound_reads(self.remaining()?)?;
        let mut stream = self.stream;
        stream.read(part)
    }
}

impl<S: Socket> Write for Until<'_, S>
where
    for<'b> &'b S: Write,
{
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.stream.bound_writes(self.remaining()?)?;
        let mut stream = self.stream;
        stream.write(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
