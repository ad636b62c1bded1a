// SPDX-License-Identifier: GPL-2.0-only
//! The machine that policies are tried on: what is put into force there, and what is measured.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::meter::Meter;
use super::programs::Programs;
use crate::agent::policy::InForce;
use crate::bpf::intf::avx_owner;
use crate::trials::{Side, Subject, Sums};

/// What programs get done, for as long as that is measured.
pub struct Measured {
    cpus: Vec<u32>,
    meter: Option<Meter>,
    pub programs: Programs,
}

/// What a trial asks for.
pub enum Order<'a> {
    PutIntoForce(&'a InForce),
    /// The only programs for whose work AVX cores are not, whatever is in force.
    LeaveAlone(&'a [avx_owner]),
}

pub struct Machine<'a, F> {
    pub with: &'a InForce,
    pub without: &'a InForce,
    pub obey: F,
    pub measured: &'a mut Measured,
    pub is_concerned: bool,
}

impl Measured {
    pub fn new(cpus: Vec<u32>) -> Self {
        Self { cpus, meter: None, programs: Programs::default() }
    }

    /// Unless it has, which it does as well when somebody wants to know.
    pub fn start(&mut self) -> Result<&Meter> {
        Ok(match &mut self.meter {
            Some(meter) => meter,
            meter => meter.insert(Meter::start(self.cpus.clone())?),
        })
    }

    pub fn stop(&mut self) {
        self.meter = None;
    }
}

impl<F: FnMut(Order<'_>) -> Result<()>> Subject for Machine<'_, F> {
    fn is_concerned(&mut self) -> bool {
        self.is_concerned
    }

    fn enter(&mut self, side: Side) -> Result<()> {
        let policy = if side == Side::With { self.with } else { self.without };
        (self.obey)(Order::PutIntoForce(policy))
    }

    fn leave_alone(&mut self, programs: &[u64]) -> Result<()> {
        let programs = programs.iter().filter_map(|it| self.measured.programs.get(*it));
        let owners: Vec<_> = programs.map(|it| it.owner).collect();
        (self.obey)(Order::LeaveAlone(&owners))
    }

    fn sums(&mut self) -> Result<Sums> {
        let progress = self.measured.start()?.progress()?;
        Ok(self.measured.programs.sums(&progress))
    }
}

/// As courses have it, which begin at 0.
pub fn ns_since(began: Instant, now: Instant) -> u64 {
    let passed = now.saturating_duration_since(began).as_nanos();
    u64::try_from(passed).unwrap_or(u64::MAX)
}

pub fn after_ns(began: Instant, ns: u64) -> Instant {
    began + Duration::from_nanos(ns)
}
