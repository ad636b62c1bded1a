// SPDX-License-Identifier: GPL-2.0-only
//! Compares two policies for as long as somebody wants, whatever comes of it.

use anyhow::Result;

use super::judge::{Judgement, Pair, judge};
use super::windows::{Step, Subject, Windows};

/// There are to be this many windows. Shorter windows would tell what tasks are owed from the
/// window before. Longer windows would be fewer, and each pair counts.
const WINDOWS: u64 = 40;
const WINDOW_MIN_NS: u64 = 80_000_000;
const WINDOW_MAX_NS: u64 = 1_000_000_000;
/// There are at most this many windows, because all are kept.
const WINDOWS_MAX: u64 = 600;

pub struct Comparison {
    windows: Windows,
    window_ns: u64,
    pairs: Vec<Pair>,
    /// When the comparison goes on, and when it is over.
    due_ns: u64,
    ends_ns: u64,
}

impl Comparison {
    pub fn new(seed: u64, now_ns: u64, lasts_ns: u64) -> Self {
        let window_ns = (lasts_ns / WINDOWS).clamp(WINDOW_MIN_NS, WINDOW_MAX_NS);
        let window_ns = window_ns.max(lasts_ns / WINDOWS_MAX);
        Self {
            windows: Windows::new(seed, window_ns),
            window_ns,
            pairs: Vec::new(),
            due_ns: now_ns,
            ends_ns: now_ns + lasts_ns,
        }
    }

    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    pub fn nr_pairs(&self) -> usize {
        self.pairs.len()
    }

    pub fn due_ns(&self) -> u64 {
        self.due_ns.min(self.ends_ns)
    }

    pub fn ends_ns(&self) -> u64 {
        self.ends_ns
    }

    /// Goes on with the comparison, which must be due and not over.
    pub fn go_on(&mut self, now_ns: u64, subject: &mut impl Subject) -> Result<()> {
        let after_ns = loop {
            match self.windows.go_on(subject)? {
                Step::After(ns) => break ns,
                Step::Whole(pair) => self.pairs.push(pair),
            }
        };
        self.due_ns = now_ns + after_ns;
        Ok(())
    }

    pub fn judgement(&self) -> Option<Judgement> {
        judge(&self.pairs)
    }
}
