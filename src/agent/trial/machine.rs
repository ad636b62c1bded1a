// SPDX-License-Identifier: GPL-2.0-only
//! The machine that policies are tried on: what is put into force there, and what is measured.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::meter::Meter;
use super::outside::{Asked, Outside};
use super::programs::Programs;
use crate::agent::policy::InForce;
use crate::bpf::intf::avx_owner;
use crate::trials::{Side, Subject, Sums};

/// What programs get done, for as long as that is measured.
pub struct Measured {
    cpus: Vec<u32>,
    outside: Outside,
    running: Option<Running>,
    pub programs: Programs,
    /// The names of programs that are left alone.
    pub left_alone: Vec<String>,
}

pub struct Running {
    meter: Meter,
    _asked: Asked,
}

/// What a trial asks for.
pub enum Order<'a> {
    PutIntoForce(&'a InForce),
    /// Only the work of these programs gets no AVX cores, whatever is in force.
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
    pub fn new(cpus: Vec<u32>, outside: Outside) -> Self {
        let (programs, left_alone) = (Programs::default(), Vec::new());
        Self { cpus, outside, running: None, programs, left_alone }
    }

    /// Starts to measure, unless that has begun. `sums` calls this as well.
    pub fn start(&mut self) -> Result<&Meter> {
        let running = match &mut self.running {
            Some(running) => running,
            running => running.insert(Running {
                meter: Meter::start(self.cpus.clone())?,
                _asked: self.outside.ask(),
            }),
        };
        Ok(&running.meter)
    }

    pub fn stop(&mut self) {
        self.running = None;
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
        let Measured { programs: known, left_alone, .. } = &mut *self.measured;
        let owners: Vec<_> = programs.iter().flat_map(|it| known.owners(*it)).collect();
        let named = programs.iter().filter_map(|it| known.get(*it));
        *left_alone = named.map(|it| it.name.clone()).collect();
        (self.obey)(Order::LeaveAlone(&owners))
    }

    fn sums(&mut self) -> Result<Sums> {
        let progress = self.measured.start()?.progress()?;
        Ok(self.measured.programs.sums(&progress, &self.measured.outside.sums()))
    }
}

/// Returns the time as courses count it, which begin at 0.
pub fn ns_since(began: Instant, now: Instant) -> u64 {
    let passed = now.saturating_duration_since(began).as_nanos();
    u64::try_from(passed).unwrap_or(u64::MAX)
}

pub fn after_ns(began: Instant, ns: u64) -> Instant {
    began + Duration::from_nanos(ns)
}
