// SPDX-License-Identifier: GPL-2.0-only
//! A machine that runs, watched until it is where it was to get, or in trouble.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::console::{Console, time_of, trouble_in};
use super::process::{Tied, tail};

const CONSOLE_LINES_SHOWN: usize = 40;
/// How long a guest may take from its last word to switching itself off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(15);
/// What is broken goes on talking for a while; the whole of it is wanted.
const TROUBLE_TALKS_FOR: Duration = Duration::from_secs(2);

pub struct Run {
    dir: PathBuf,
    console: Console,
    pub begun: Instant,
    /// From its beginning to the first command.
    pub ready: Option<Duration>,
    streams: bool,
    tolerated: Vec<&'static str>,
}

impl Run {
    /// In this directory, with this console.
    pub fn new(dir: &Path, console: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            console: Console::new(console),
            begun: Instant::now(),
            ready: None,
            streams: false,
            tolerated: Vec::new(),
        }
    }

    /// Shows what its commands print.
    pub fn streams(mut self, streams: bool) -> Self {
        self.streams = streams;
        self
    }

    pub fn tolerates(mut self, tolerated: &[&'static str]) -> Self {
        self.tolerated = tolerated.to_owned();
        self
    }

    /// Waits until the guest has finished. Returning drops `emulator`, which
    /// kills it: on every path.
    pub fn watch(&mut self, mut emulator: Tied, limit: Duration) -> Result<()> {
        self.watch_until(&mut emulator, limit, |run| {
            Ok(time_of(run.console.text(), "finished").is_some())
        })?;
        let asked = Instant::now();
        while emulator.try_wait()?.is_none() && asked.elapsed() < POWER_OFF_LIMIT {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn watch_until(
        &mut self,
        emulator: &mut Tied,
        limit: Duration,
        mut is_there: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        loop {
            std::thread::sleep(Duration::from_millis(30));
            let ended = emulator.try_wait()?;
            self.advance()?;
            if let Some(sign) = trouble_in(self.console.text(), &self.tolerated) {
                let sign = sign.to_owned();
                std::thread::sleep(TROUBLE_TALKS_FOR);
                self.advance()?;
                bail!(self.report(&format!("the guest's kernel is in trouble: {}", sign.trim())));
            }
            if is_there(self)? {
                return Ok(());
            }
            if let Some(status) = ended {
                let words = tail(&self.emulator_log(), CONSOLE_LINES_SHOWN);
                bail!(self.report(&format!("the machine ended too early ({status})\n{words}")));
            }
            if self.begun.elapsed() > limit + emulator.kept_waiting() {
                bail!(self.report(&format!("the guest hangs: {} s are over", limit.as_secs())));
            }
        }
    }

    fn advance(&mut self) -> Result<()> {
        self.console.advance()?;
        let is_up = time_of(self.console.text(), "ready").is_some();
        if self.ready.is_none() && is_up {
            self.ready = Some(self.begun.elapsed());
        }
        for line in self.console.whole_lines() {
            if self.streams && self.ready.is_some() && !line.contains("] rig: ") {
                println!("{line}");
            }
        }
        Ok(())
    }

    /// What the emulator itself had to say.
    fn emulator_log(&self) -> String {
        ["emulator.log", "bochs.log"]
            .map(|name| fs::read_to_string(self.dir.join(name)).unwrap_or_default())
            .concat()
    }

    pub fn report(&self, what: &str) -> String {
        format!(
            "{what}\n--- the end of its console ---\n{}\n---",
            tail(self.console.text(), CONSOLE_LINES_SHOWN)
        )
    }
}
