// SPDX-License-Identifier: GPL-2.0-only
//! The log. Who writes to it goes on at once: a terminal that was stopped, or a pipe that nobody
//! reads, is no reason to schedule nobody.

use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::about::NAME;

/// Bytes that may wait to be read. A line for which there is no room is lost.
const ROOM: usize = 1 << 20;

/// How long the last lines may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes what still waits when it goes, as far as that is read.
pub struct Log(Arc<Lines>);

/// For who writes whole lines.
#[derive(Clone)]
pub struct Writer(Arc<Lines>);

#[derive(Default)]
struct Lines {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    lost: u64,
    /// No more come.
    is_closed: bool,
    /// Nor is one of them still to be written.
    is_over: bool,
}

impl Log {
    pub fn to(out: impl Write + Send + 'static) -> Result<Self> {
        let lines = Arc::new(Lines::default());
        let log = Self(lines.clone());
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || lines.write_to(out))
            .context("cannot start the thread that writes the log")?;
        Ok(log)
    }

    pub fn writer(&self) -> Writer {
        Writer(self.0.clone())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.is_closed = true;
        self.0.changed.notify_all();
        let over = self.0.changed.wait_timeout_while(waiting, PATIENCE, |it| !it.is_over);
        drop(over);
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After one that is lost there is no place for others, until it is told.
    fn add(&self, line: &[u8]) {
        let mut waiting = self.waiting();
        if waiting.lost > 0 || waiting.text.len() + line.len() > ROOM {
            waiting.lost += 1;
        } else {
            waiting.text.extend_from_slice(line);
        }
        self.changed.notify_all();
    }

    fn write_to(&self, mut out: impl Write) {
        while let Some(text) = self.next() {
            // Where there is no room for it there is none to say so.
            let _ = out.write_all(&text).and_then(|()| out.flush());
        }
        self.waiting().is_over = true;
        self.changed.notify_all();
    }

    /// All that waits, as soon as anything does.
    fn next(&self) -> Option<Vec<u8>> {
        let is_idle = |it: &mut Waiting| it.text.is_empty() && it.lost == 0 && !it.is_closed;
        let waiting = self.changed.wait_while(self.waiting(), is_idle);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let (mut text, lost) = (take(&mut waiting.text), take(&mut waiting.lost));
        if lost > 0 {
            let told = format!("{NAME}: {lost} lines of the log are lost, since nobody read it\n");
            text.extend_from_slice(told.as_bytes());
        }
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_is_logged_is_there_at_the_end() {
        let (mut reader, out) = pipe().unwrap();
        let log = Log::to(out).unwrap();
        let mut writer = log.writer();
        (0..1000).for_each(|n| writeln!(writer, "{n}").unwrap());
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, (0..1000).map(|n| format!("{n}\n")).collect::<String>());
    }

    /// A pipe has room for 64 KiB. Whoever reads it too late is told of what is missing, where it is
    /// missing, and whoever does not read it at all is not waited for.
    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up() {
        let (mut reader, out) = pipe().unwrap();
        let log = Log::to(out).unwrap();
        let mut writer = log.writer();
        let line = "x".repeat(1023) + "\n";
        let begun = Instant::now();
        (0..4096).for_each(|_| writer.write_all(line.as_bytes()).unwrap());
        drop(log);
        let took = begun.elapsed();
        assert!(took < PATIENCE * 5, "{took:?}");

        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let (whole, told): (Vec<_>, Vec<_>) = text.lines().partition(|it| *it == line.trim_end());
        let nr_lost: usize = told
            .iter()
            .map(|it| {
                let it = it.strip_prefix("scx_avxspec: ").expect("whole lines, or a word of them");
                let it = it.strip_suffix(" lines of the log are lost, since nobody read it");
                it.unwrap().parse::<usize>().unwrap()
            })
            .sum();
        assert!(nr_lost > 0);
        assert_eq!(whole.len() + nr_lost, 4096);
    }
}
