// SPDX-License-Identifier: GPL-2.0-only
//! When which policy is in force: pairs of windows, the decision, and the next trial. Whoever runs
//! one says what time it is, and does what it says.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::judge::{Judgement, PAIRS_MAX, Pair, Sums, judge, since};

/// Of a window. Shorter ones are decided by what tasks are owed from the window before. In the first
/// part of it tasks go where they are to be, clocks rise, and caches warm up: that is not counted.
const WINDOW_NS: u64 = 80_000_000;
const SETTLES_NS: u64 = 20_000_000;

/// Until the set of AVX cores is as large as the work needs.
const BEGINS_AFTER_NS: u64 = 200_000_000;

/// It is asked anew after so long, and each time that the answer is the same after twice as long as
/// before, so that trials take hardly any of the time.
const AGAIN_MIN_NS: u64 = 10_000_000_000;
const AGAIN_MAX_NS: u64 = 600_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    With,
    Without,
}

impl Side {
    fn other(self) -> Self {
        if self == Side::With { Side::Without } else { Side::With }
    }
}

/// What is tried on.
pub trait Subject {
    /// Whether there is anything to be decided.
    fn is_concerned(&mut self) -> bool;
    fn enter(&mut self, side: Side);
    fn sums(&mut self) -> Sums;
}

#[derive(Debug)]
enum Stage {
    /// There was nothing to decide so far.
    Rests,
    /// With a pair of windows, as soon as it is due: until then what was decided is in force.
    Begins,
    Settles(Side),
    Counts(Side, Sums),
}

pub struct Course {
    stage: Stage,
    /// When it goes on.
    due_ns: u64,
    /// Of a pair the first window.
    first: Option<(Side, Sums)>,
    pairs: Vec<Pair>,
    random: Pcg64,
    /// What came of the last trial, and for how long that is good.
    is_better: bool,
    pause_ns: u64,
    judgement: Option<Judgement>,
}

impl Course {
    pub fn new(seed: u64, now_ns: u64) -> Self {
        Self {
            stage: Stage::Rests,
            due_ns: now_ns,
            first: None,
            pairs: Vec::new(),
            random: Pcg64::seed_from_u64(seed),
            is_better: true,
            pause_ns: 0,
            judgement: None,
        }
    }

    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// There was a trial, and there is none now.
    pub fn is_decided(&self) -> bool {
        self.pause_ns > 0 && matches!(self.stage, Stage::Begins)
    }

    /// What came of the last trial, or is known of this one.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.judgement.as_ref()
    }

    /// It is due.
    pub fn go_on(&mut self, now_ns: u64, subject: &mut impl Subject) {
        let (stage, after_ns) = match std::mem::replace(&mut self.stage, Stage::Rests) {
            Stage::Rests if !subject.is_concerned() => (Stage::Rests, WINDOW_NS),
            Stage::Rests => (Stage::Begins, BEGINS_AFTER_NS),
            Stage::Begins => self.begin_pair(subject),
            Stage::Settles(side) => (Stage::Counts(side, subject.sums()), WINDOW_NS - SETTLES_NS),
            Stage::Counts(side, before) => {
                self.end_window(side, since(&before, &subject.sums()), subject)
            }
        };
        self.stage = stage;
        self.due_ns = now_ns + after_ns;
    }

    fn begin_pair(&mut self, subject: &mut impl Subject) -> (Stage, u64) {
        let is_first = self.random.next_u64() & 1 == 0;
        Self::enter(if is_first { Side::With } else { Side::Without }, subject)
    }

    fn enter(side: Side, subject: &mut impl Subject) -> (Stage, u64) {
        subject.enter(side);
        (Stage::Settles(side), SETTLES_NS)
    }

    fn end_window(&mut self, side: Side, done: Sums, subject: &mut impl Subject) -> (Stage, u64) {
        let Some((_, before)) = self.first.take() else {
            self.first = Some((side, done));
            return Self::enter(side.other(), subject);
        };
        self.pairs.push(match side {
            Side::With => Pair { with: done, without: before },
            Side::Without => Pair { with: before, without: done },
        });
        match self.verdict() {
            Some(is_better) => self.rest(is_better, subject),
            None => self.begin_pair(subject),
        }
    }

    fn verdict(&mut self) -> Option<bool> {
        self.judgement = judge(&self.pairs);
        match &self.judgement {
            Some(judgement) => judgement.verdict(),
            // Nothing is known of anybody.
            None => (self.pairs.len() >= PAIRS_MAX).then_some(false),
        }
    }

    fn rest(&mut self, is_better: bool, subject: &mut impl Subject) -> (Stage, u64) {
        subject.enter(if is_better { Side::With } else { Side::Without });
        let is_as_before = self.is_better == is_better;
        let longer_ns = if is_as_before { 2 * self.pause_ns } else { 0 };
        self.pause_ns = longer_ns.clamp(AGAIN_MIN_NS, AGAIN_MAX_NS);
        self.is_better = is_better;
        self.pairs.clear();
        (Stage::Begins, self.pause_ns)
    }
}
