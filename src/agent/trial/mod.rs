// SPDX-License-Identifier: GPL-2.0-only
//! Tries a policy against the one in force, because somebody asks which is better for which
//! programs.
//!
//! Both are in force by turns. The client that asked for the trial goes on asking how far it is.
//! The trial ends when nobody asks any more, when its time is over, or when somebody puts another
//! policy into force.

mod current;
mod machine;
mod meter;
pub mod outside;
mod programs;
mod report;
pub mod standing;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::policy::InForce;
use crate::bpf::trials::number_of;
use crate::trials::Comparison;
pub use current::Trials;
use machine::{Machine, after_ns, ns_since};
pub use machine::{Measured, Order};
pub use report::{Ended, More, Report};
use report::{Outcome, Side};

/// How long a trial may take.
pub const TIME: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(24 * 3600);

/// A trial ends if nobody asks for this long.
const PATIENCE: Duration = Duration::from_secs(15);

pub struct Trial {
    tried: InForce,
    in_force: InForce,
    measured: Measured,
    comparison: Comparison,
    began: Instant,
    asked: Instant,
}

impl Trial {
    pub fn begin(
        tried: InForce,
        in_force: InForce,
        time: Duration,
        mut measured: Measured,
        now: Instant,
    ) -> Result<Self> {
        ensure!(
            TIME.contains(&time),
            "a trial takes {} to {}",
            humantime::format_duration(*TIME.start()),
            humantime::format_duration(*TIME.end())
        );
        let lasts_ns = u64::try_from(time.as_nanos())?;
        measured.start()?;
        Ok(Self {
            tried,
            in_force,
            measured,
            comparison: Comparison::new(tried.generation, 0, lasts_ns),
            began: now,
            asked: now,
        })
    }

    /// Returns when there is something to be done.
    pub fn due(&self) -> Instant {
        after_ns(self.began, self.comparison.due_ns())
    }

    pub fn tried(&self) -> &InForce {
        &self.tried
    }

    pub fn left(&self, now: Instant) -> Duration {
        let end = after_ns(self.began, self.comparison.ends_ns());
        end.saturating_duration_since(now)
    }

    /// Goes on with the trial. Returns why it is over, if it is.
    pub fn go_on(
        &mut self,
        now: Instant,
        mut put_into_force: impl FnMut(&InForce) -> Result<()>,
    ) -> Option<Ended> {
        if self.left(now).is_zero() {
            return Some(Ended::Over);
        }
        if now.saturating_duration_since(self.asked) > PATIENCE {
            return Some(Ended::Because("nobody waits for it any more".to_owned()));
        }
        if now < self.due() {
            return None;
        }
        let mut machine = Machine {
            with: &self.tried,
            without: &self.in_force,
            obey: |order: Order<'_>| match order {
                Order::PutIntoForce(policy) => put_into_force(policy),
                // Somebody wants to know of all programs whether they are better off, so none is
                // left alone.
                Order::LeaveAlone(_) => Ok(()),
            },
            measured: &mut self.measured,
            is_concerned: true,
        };
        let went_on = self.comparison.go_on(ns_since(self.began, now), &mut machine);
        went_on.err().map(|error| Ended::Because(format!("{error:#}")))
    }

    /// Returns how far the trial is. What came of it is worked out when it is over.
    pub fn report(&self, now: Instant, ended: Option<Ended>) -> Report {
        let side = |it: &InForce| Side {
            generation: number_of(it.generation),
            policy: it.name.to_owned(),
        };
        let judgement = ended.as_ref().and_then(|_| self.comparison.judgement());
        Report {
            tried: side(&self.tried),
            in_force: side(&self.in_force),
            left_s: self.left(now).as_secs_f64(),
            window_s: self.comparison.window_ns() as f64 / 1e9,
            nr_pairs: self.comparison.nr_pairs() as u64,
            result: judgement.map(|it| Outcome::new(&it, &self.measured.programs)),
            ended,
        }
    }
}
