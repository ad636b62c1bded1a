// SPDX-License-Identifier: GPL-2.0-only
//! What a guest's console tells: how far it is, and what went wrong.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Result;

/// What a kernel says when something is broken in it. The scheduler under test
/// is never an excuse: each of these fails the test.
const TROUBLE: [&str; 13] = [
    "Kernel panic - not syncing",
    "BUG: ",
    "Oops: ",
    "Oops:",
    "WARNING: ",
    "general protection fault",
    "rcu_preempt self-detected stall",
    "rcu_preempt detected stalls",
    "soft lockup",
    "blocked for more than",
    "Unable to mount root",
    "double fault",
    "unchecked MSR access error",
];

/// The reasons with which a scheduler goes because somebody wanted it to. It goes with any other
/// one because the kernel did.
const ORDERLY_ENDS: [&str; 2] = ["unregistered from ", "disabled by sysrq-S"];

/// The first whole line of `log` that a healthy kernel does not print, but for
/// those that contain one of `tolerated`: what is still being written may yet
/// turn out to.
pub fn trouble_in<'a>(log: &'a str, tolerated: &[&str]) -> Option<&'a str> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().find(|line| {
        is_kernel_message(line)
            && !line.contains("] rig: ")
            && (TROUBLE.iter().any(|sign| line.contains(sign)) || is_ejection(line))
            && !tolerated.iter().any(|known| line.contains(known))
    })
}

/// A line `sched_ext: BPF scheduler "name" disabled (reason)`.
fn is_ejection(line: &str) -> bool {
    let end =
        line.split_once("sched_ext: BPF ").and_then(|(_, end)| end.split_once("\" disabled ("));
    end.is_some_and(|(_, reason)| !ORDERLY_ENDS.iter().any(|start| reason.starts_with(start)))
}

/// Kernel messages begin with their time: "[    1.234567] ". What programs
/// print may say anything.
fn is_kernel_message(line: &str) -> bool {
    let line = line.trim_start_matches(['\r', '\0']);
    line.strip_prefix('[').is_some_and(|rest| {
        let stamp = rest.trim_start();
        stamp.find(']').is_some_and(|end| {
            stamp[..end].chars().all(|char| {
                char.is_ascii_digit() || char == '.' || char == ' ' || char == 'T' || char == 'C'
            })
        })
    })
}

/// The seconds that the guest's clock showed when it said "rig: `what` at".
pub fn time_of(log: &str, what: &str) -> Option<f64> {
    let sign = format!("rig: {what} at ");
    log.lines()
        .find_map(|line| line.trim_end().split_once(&sign))
        .and_then(|(_, seconds)| seconds.parse().ok())
}

/// A console log that grows while it is read.
pub struct Console {
    path: PathBuf,
    bytes_read: u64,
    text: String,
    handed_out: usize,
}

impl Console {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), bytes_read: 0, text: String::new(), handed_out: 0 }
    }

    /// Reads what is new.
    pub fn advance(&mut self) -> Result<()> {
        // The emulator creates the file when it gets to it.
        let Ok(mut file) = File::open(&self.path) else {
            return Ok(());
        };
        file.seek(SeekFrom::Start(self.bytes_read))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        self.bytes_read += bytes.len() as u64;
        self.text.push_str(&String::from_utf8_lossy(&bytes).replace('\r', ""));
        Ok(())
    }

    /// All that was read so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The lines that were finished since the last call.
    pub fn whole_lines(&mut self) -> Vec<String> {
        let fresh = &self.text[self.handed_out..];
        let end = fresh.rfind('\n').map_or(0, |newline| newline + 1);
        let lines = fresh[..end].lines().map(str::to_owned).collect();
        self.handed_out += end;
        lines
    }
}
