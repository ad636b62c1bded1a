// SPDX-License-Identifier: GPL-2.0-only
//! How far a long stage is, on a terminal and in a log.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// One stage of `expected` steps: a bar where somebody watches, and a line
/// every so often where the output goes to a file.
pub struct Progress {
    bar: ProgressBar,
    name: String,
    expected: u64,
    done: u64,
    begun: Instant,
    last_line: Instant,
}

const LINE_EVERY: Duration = Duration::from_secs(20);

impl Progress {
    pub fn new(name: &str, expected: u64) -> Self {
        let bar = ProgressBar::new(expected);
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix} [{bar:30}] {pos}/{len} steps, {elapsed} gone, about {eta} left",
        ) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(name.to_owned());
        if !std::io::stderr().is_terminal() {
            eprintln!("rig: {name}: begins, {expected} steps");
        }
        Self {
            bar,
            name: name.to_owned(),
            expected,
            done: 0,
            begun: Instant::now(),
            last_line: Instant::now(),
        }
    }

    pub fn step(&mut self) {
        self.done += 1;
        self.bar.set_length(self.expected.max(self.done));
        self.bar.set_position(self.done);
        if !std::io::stderr().is_terminal() && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            eprintln!("rig: {}: {}", self.name, self.said());
        }
    }

    /// The expectation is that of the last build; this one may be longer.
    fn said(&self) -> String {
        if self.done > self.expected {
            return format!("{} steps, more than the last time", self.done);
        }
        let left = seconds_left(self.begun.elapsed(), self.done, self.expected);
        format!("{} of {} steps, about {left} s left", self.done, self.expected)
    }

    /// Ends the stage and returns how many steps it had.
    pub fn finish(self) -> u64 {
        self.bar.finish_and_clear();
        eprintln!("rig: {}: done in {} s", self.name, self.begun.elapsed().as_secs());
        self.done
    }
}

fn seconds_left(elapsed: Duration, done: u64, expected: u64) -> u64 {
    (elapsed.as_secs_f64() / done.max(1) as f64 * (expected - done) as f64).round() as u64
}
