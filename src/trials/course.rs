// SPDX-License-Identifier: GPL-2.0-only
//! Decides when which policy is in force: pairs of windows, the decision, and the next trial. The
//! caller of a course says what time it is, and does what the course says.

use anyhow::Result;

use super::judge::{Judgement, PAIRS_MAX, Pair, judge};
use super::windows::{Side, Step, Subject, Windows};

/// What tasks are owed from the window before would decide shorter windows.
const WINDOW_NS: u64 = 80_000_000;

/// How long it takes until the set of AVX cores is as large as the work needs.
const BEGINS_AFTER_NS: u64 = 200_000_000;

/// The next trial begins after the shorter time. Each time that the result is the same, the pause
/// doubles, up to the longer time, so that trials take hardly any of the time.
const AGAIN_MIN_NS: u64 = 10_000_000_000;
const AGAIN_MAX_NS: u64 = 600_000_000_000;

/// The share of all time for which the side that was not decided for is in force in the end. It is
/// half of each trial.
pub const SHARE_OF_THE_OTHER: f64 = {
    let half_ns = PAIRS_MAX as u64 * WINDOW_NS;
    half_ns as f64 / (2 * half_ns + AGAIN_MAX_NS) as f64
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    New,
    /// There was nothing to decide so far.
    Rests,
    /// What was decided is in force until the next trial is due.
    Decided,
    Tries,
}

pub struct Course {
    stage: Stage,
    /// When the course goes on.
    due_ns: u64,
    windows: Windows,
    pairs: Vec<Pair>,
    /// What came of the last trial, and for how long that is valid.
    is_better: bool,
    pause_ns: u64,
    judgement: Option<Judgement>,
}

impl Course {
    pub fn new(seed: u64, now_ns: u64) -> Self {
        Self {
            stage: Stage::New,
            due_ns: now_ns,
            windows: Windows::new(seed, WINDOW_NS),
            pairs: Vec::new(),
            is_better: false,
            pause_ns: 0,
            judgement: None,
        }
    }

    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Returns true if there was nothing to decide so far. The policy is not in force then, because
    /// it is not known to be better.
    pub fn rests(&self) -> bool {
        matches!(self.stage, Stage::New | Stage::Rests)
    }

    /// Returns whether the policy is better, if there was a trial and there is none now.
    pub fn decided(&self) -> Option<bool> {
        (self.stage == Stage::Decided).then_some(self.is_better)
    }

    /// Returns what came of the last trial, or what is known of this one.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.judgement.as_ref()
    }

    /// Goes on with the course, which must be due.
    pub fn go_on(&mut self, now_ns: u64, subject: &mut impl Subject) -> Result<()> {
        let after_ns = match self.stage {
            Stage::New => {
                subject.enter(Side::Without)?;
                self.stage = Stage::Rests;
                WINDOW_NS
            }
            Stage::Rests if !subject.is_concerned() => WINDOW_NS,
            Stage::Rests => {
                subject.enter(Side::With)?;
                self.stage = Stage::Tries;
                BEGINS_AFTER_NS
            }
            Stage::Decided => {
                subject.leave_alone(&[])?;
                self.try_on(subject)?
            }
            Stage::Tries => self.try_on(subject)?,
        };
        self.due_ns = now_ns + after_ns;
        Ok(())
    }

    fn try_on(&mut self, subject: &mut impl Subject) -> Result<u64> {
        self.stage = Stage::Tries;
        loop {
            match self.windows.go_on(subject)? {
                Step::After(ns) => return Ok(ns),
                Step::Whole(pair) => self.pairs.push(pair),
            }
            if let Some(is_better) = self.verdict() {
                return self.rest(is_better, subject);
            }
        }
    }

    fn verdict(&mut self) -> Option<bool> {
        self.judgement = judge(&self.pairs);
        match &self.judgement {
            Some(judgement) => judgement.verdict(),
            // Nothing is known of any program.
            None => (self.pairs.len() >= PAIRS_MAX).then_some(false),
        }
    }

    fn rest(&mut self, is_better: bool, subject: &mut impl Subject) -> Result<u64> {
        let harmed = self.judgement.as_ref().filter(|_| is_better).map(Judgement::claimed_harms);
        subject.leave_alone(&harmed.unwrap_or_default())?;
        subject.enter(if is_better { Side::With } else { Side::Without })?;
        let is_as_before = self.is_better == is_better;
        let longer_ns = if is_as_before { 2 * self.pause_ns } else { 0 };
        self.pause_ns = longer_ns.clamp(AGAIN_MIN_NS, AGAIN_MAX_NS);
        self.is_better = is_better;
        self.pairs.clear();
        self.stage = Stage::Decided;
        Ok(self.pause_ns)
    }
}
