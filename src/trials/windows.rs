// SPDX-License-Identifier: GPL-2.0-only
//! Pairs of windows, one of them under each of two policies, in an order that is random.

use anyhow::Result;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::judge::{Pair, Sums, since};

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

/// What two policies are tried on.
pub trait Subject {
    /// Returns true if there is anything to be decided.
    fn is_concerned(&mut self) -> bool {
        true
    }
    fn enter(&mut self, side: Side) -> Result<()>;
    fn sums(&mut self) -> Result<Sums>;
    /// Has these programs, and no others, go on as without the policy, whatever is in force.
    fn leave_alone(&mut self, _programs: &[u64]) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
enum Stage {
    Begins,
    Settles(Side),
    Counts(Side, Sums),
}

/// What came of a step.
pub enum Step {
    /// There is nothing to be done for this many nanoseconds.
    After(u64),
    /// A pair is whole. The next one begins with the next step.
    Whole(Pair),
}

pub struct Windows {
    window_ns: u64,
    stage: Stage,
    /// What was done in the first window of a pair.
    first: Option<Sums>,
    random: Pcg64,
}

impl Windows {
    pub fn new(seed: u64, window_ns: u64) -> Self {
        let random = Pcg64::seed_from_u64(seed);
        Self { window_ns, stage: Stage::Begins, first: None, random }
    }

    /// Returns how long the first part of a window lasts. It is not counted, because in it tasks go
    /// where they are to be, clocks rise, and caches warm up.
    fn settles_ns(&self) -> u64 {
        self.window_ns / 4
    }

    pub fn go_on(&mut self, subject: &mut impl Subject) -> Result<Step> {
        match std::mem::replace(&mut self.stage, Stage::Begins) {
            Stage::Begins => {
                let is_first = self.random.next_u64() & 1 == 0;
                self.enter(if is_first { Side::With } else { Side::Without }, subject)
            }
            Stage::Settles(side) => {
                self.stage = Stage::Counts(side, subject.sums()?);
                Ok(Step::After(self.window_ns - self.settles_ns()))
            }
            Stage::Counts(side, before) => {
                let done = since(&before, &subject.sums()?);
                self.end_window(side, done, subject)
            }
        }
    }

    fn enter(&mut self, side: Side, subject: &mut impl Subject) -> Result<Step> {
        subject.enter(side)?;
        self.stage = Stage::Settles(side);
        Ok(Step::After(self.settles_ns()))
    }

    fn end_window(&mut self, side: Side, done: Sums, subject: &mut impl Subject) -> Result<Step> {
        let Some(before) = self.first.take() else {
            self.first = Some(done);
            return self.enter(side.other(), subject);
        };
        Ok(Step::Whole(match side {
            Side::With => Pair { with: done, without: before },
            Side::Without => Pair { with: before, without: done },
        }))
    }
}
