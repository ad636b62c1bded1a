// SPDX-License-Identifier: GPL-2.0-only
//! Runs one trial at a time, and keeps what came of the last one.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use tracing::{info, warn};

use super::{Ended, Report, Trial};
use crate::agent::policy::InForce;
use crate::agent::policy::history::RETRY;

#[derive(Default)]
pub struct Trials {
    current: Option<Trial>,
    last: Option<Report>,
    /// When the policy in force has to be put back.
    back_at: Option<Instant>,
}

impl Trials {
    pub fn current(&self) -> Option<&Trial> {
        self.current.as_ref()
    }

    pub fn ensure_none(&self, now: Instant) -> Result<()> {
        let Some(trial) = &self.current else { return Ok(()) };
        let (generation, left) = (trial.tried.generation, trial.left(now).as_secs());
        bail!("policy {generation} is tried for another {left} s: wait until that is over");
    }

    /// Begins a trial. There must be none.
    pub fn begin(&mut self, trial: Trial, now: Instant) -> Report {
        let report = trial.report(now, None);
        self.current = Some(trial);
        report
    }

    /// Returns how far the trial is, or what came of the last one. A trial goes on while somebody
    /// asks.
    pub fn asked(&mut self, now: Instant) -> Result<Report> {
        if let Some(trial) = &mut self.current {
            trial.asked = now;
            return Ok(trial.report(now, None));
        }
        self.last.clone().context("no policy was tried since this was loaded")
    }

    /// Ends the trial, because another policy is in force.
    pub fn overtaken_by(&mut self, generation: u64, now: Instant) {
        if let Some(trial) = self.current.take() {
            let why = format!("policy {generation} came into force");
            self.last = Some(trial.report(now, Some(Ended::Because(why))));
        }
    }

    /// Goes on with the trial. Returns true if the policy in force was put back.
    pub fn go_on(
        &mut self,
        in_force: &InForce,
        now: Instant,
        mut put_into_force: impl FnMut(&InForce) -> Result<()>,
    ) -> bool {
        if let Some(trial) = &mut self.current
            && let Some(ended) = trial.go_on(now, &mut put_into_force)
        {
            info!("policy {} is tried no more", trial.tried.generation);
            self.last = Some(trial.report(now, Some(ended)));
            self.current = None;
            self.back_at = Some(now);
        }
        if self.back_at.is_none_or(|at| now < at) {
            return false;
        }
        self.back_at = None;
        if let Err(error) = put_into_force(in_force) {
            warn!("cannot put policy {} back into force: {error:#}", in_force.generation);
            self.back_at = Some(now + RETRY);
        }
        self.back_at.is_none()
    }
}
