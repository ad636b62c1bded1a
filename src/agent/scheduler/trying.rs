// SPDX-License-Identifier: GPL-2.0-only
//! Policies are in force by turns if somebody asks which is better, or if the policy leaves it to
//! trials whether there are AVX cores.

use std::time::{Duration, Instant};

use anyhow::Result;
use tracing::info;

use super::{LOOK_AROUND, Scheduler};
use crate::agent::books;
use crate::agent::control::{Answer, Pending};
use crate::agent::policy::history::History;
use crate::agent::trial::standing::{Known, Standing};
use crate::agent::trial::{Measured, Order, Trial};
use crate::bpf::intf::avx_cpu_stats;
use crate::bpf::trials::{are_wanted, number_of};

impl Scheduler<'_> {
    pub(super) fn begin_trial(
        &mut self,
        history: &mut History,
        settings: &[String],
        time: Duration,
        pending: &Pending,
    ) -> Result<Answer> {
        let now = Instant::now();
        self.trials.ensure_none(now)?;
        let standing = self.standing.as_ref().map(Standing::in_force);
        let in_force = standing.unwrap_or(*history.in_force());
        let tried = history.tries(settings, now)?;
        let trial = Trial::begin(tried, in_force, time, self.measured(), now)?;
        info!(
            "{}: policy {} ({}) is tried against {} for {}",
            pending.peer,
            tried.generation,
            tried.name,
            number_of(in_force.generation),
            humantime::format_duration(time)
        );
        self.standing = None;
        Ok(Answer::Tried(Box::new(self.trials.begin(trial, now))))
    }

    pub(super) fn tell_of_trial(&mut self) -> Result<Answer> {
        Ok(Answer::Tried(Box::new(self.trials.asked(Instant::now())?)))
    }

    pub(super) fn go_on_trying(&mut self, history: &mut History) -> Result<()> {
        let now = Instant::now();
        let mut trials = std::mem::take(&mut self.trials);
        if trials.go_on(history.in_force(), now, |it| self.put_into_force(it)) {
            self.counted_before = None;
        }
        self.trials = trials;
        if self.trials.current().is_none() {
            self.go_on_with_standing_trials(history, now)?;
        }
        Ok(())
    }

    /// Goes on with standing trials as long as the policy in force wants them.
    fn go_on_with_standing_trials(&mut self, history: &mut History, now: Instant) -> Result<()> {
        let in_force = *history.in_force();
        if !are_wanted(&in_force.policy) {
            self.standing = None;
            return Ok(());
        }
        let known = self.standing.take().filter(|it| it.is_of(&in_force));
        let mut standing = known.unwrap_or_else(|| Standing::new(in_force, self.measured(), now));
        let is_wide = |it: &avx_cpu_stats| it.looks_wide > 0;
        let has_avx_work = standing.rests() && books::cpu_stats(&self.skel)?.iter().any(is_wide);
        standing.go_on(now, has_avx_work, |order| match order {
            Order::PutIntoForce(policy) => self.put_into_force(policy),
            Order::LeaveAlone(programs) => self.left_alone.put(&mut self.skel, programs),
        });
        self.standing = Some(standing);
        Ok(())
    }

    fn measured(&self) -> Measured {
        Measured::new(self.places.keys().copied().collect(), self.outside.clone())
    }

    /// Returns what trials know of AVX cores, if the policy leaves it to them.
    pub(super) fn known_by_trials(&self) -> Option<Known> {
        self.standing.as_ref().map(|it| it.known(Instant::now()))
    }

    /// Returns the time until something is to be done, if nobody asks for anything.
    pub(super) fn idle_time(&self) -> Duration {
        let standing = || self.standing.as_ref().and_then(Standing::due);
        let due = self.trials.current().map(Trial::due).or_else(standing);
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        left.map_or(LOOK_AROUND, |left| left.min(LOOK_AROUND))
    }
}
