// SPDX-License-Identifier: GPL-2.0-only
//! A thread that reads what the BPF programs tell, as long as any client follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapHandle, RingBuffer, RingBufferBuilder};
use tracing::warn;

use super::Event;
use super::audience::Reads;
use super::hub::Hub;
use crate::agent::books;

/// How long it may go unnoticed that nobody follows any more.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// A thread that reads events. When this is dropped, the events that are there are still read.
pub struct Reader {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    pub fn start(events: MapHandle, hub: &Arc<Hub>) -> Result<Self> {
        let buffer = open(&events, hub.clone()).context("cannot read what happens")?;
        let stopped = Arc::new(AtomicBool::new(false));
        let is_stopped = stopped.clone();
        let thread = thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || read(&buffer, &is_stopped))
            .context("cannot start the thread that reads what happens")?;
        Ok(Self { stopped, thread: Some(thread) })
    }
}

impl Reads for Reader {
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already printed its message.
            let _ = thread.join();
        }
    }
}

fn open(events: &dyn MapCore, hub: Arc<Hub>) -> libbpf_rs::Result<RingBuffer<'static>> {
    let mut builder = RingBufferBuilder::new();
    builder.add(events, move |bytes| {
        hand_on(bytes, &hub);
        0
    })?;
    builder.build()
}

fn hand_on(bytes: &[u8], hub: &Hub) {
    let Ok(event) = books::event(bytes) else { return };
    hub.publish_missed(event.missed.into());
    if let Some(event) = Event::parse(&event, hub.begun_ns()) {
        hub.publish(&event);
    }
}

fn read(buffer: &RingBuffer<'_>, is_stopped: &AtomicBool) {
    while !is_stopped.load(Ordering::Relaxed) {
        let read = buffer.poll(LOOK_AROUND);
        // A signal is no reason to stop.
        if let Err(error) = read.or_else(interrupted) {
            warn!("no more events: {error}");
            return;
        }
    }
    let _ = buffer.consume();
}

fn interrupted(error: libbpf_rs::Error) -> libbpf_rs::Result<()> {
    if error.kind() == libbpf_rs::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn it_has_ended_when_its_thread_has() {
        let (end, ended) = crossbeam::channel::bounded::<()>(0);
        let thread = thread::spawn(move || assert!(ended.recv().is_err()));
        let reader = Reader { stopped: Arc::default(), thread: Some(thread) };
        assert!(!reader.has_ended());
        drop(end);
        let begun = Instant::now();
        while !reader.has_ended() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
    }
}
