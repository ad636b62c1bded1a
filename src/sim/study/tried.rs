// SPDX-License-Identifier: GPL-2.0-only
//! A policy on trial on a modelled machine: it is in force, or AVX-512 is left alone, depending on
//! under which of both programs get more done.

use anyhow::Result;

use crate::bpf::intf::{avx_policy, avx_policy_in_force};
use crate::bpf::trials::without;
use crate::sim::kernel::engine::Engine;
use crate::sim::machine::hardware::Modelled;
use crate::trials::{Course, Side, Subject, Sums};

pub struct Tried {
    course: Course,
    both: Both,
}

/// The policy, and the same without AVX cores.
struct Both {
    policy: avx_policy,
    generation: u64,
}

struct Machine<'a> {
    engine: &'a mut Engine<Modelled>,
    both: &'a mut Both,
}

impl Tried {
    /// Begins trials of a policy that is in force.
    pub fn new(policy: &avx_policy, seed: u64, now_ns: u64) -> Self {
        let both = Both { policy: *policy, generation: 1 };
        Self { course: Course::new(seed, now_ns), both }
    }

    /// Returns what AVX cores gain, as trials found it, for people to read.
    pub fn found(&self) -> Option<String> {
        self.course.decided()?;
        let balance = &self.course.judgement()?.balance;
        let ratio = balance.mean.exp();
        Some(format!("{ratio:.3} +- {:.3}", ratio * balance.error))
    }

    pub fn run_for(&mut self, engine: &mut Engine<Modelled>, ns: u64) -> Result<()> {
        let Self { course, both } = self;
        let end = engine.now() + ns;
        while engine.now() < end {
            while course.due_ns() <= engine.now() {
                course.go_on(engine.now(), &mut Machine { engine, both })?;
            }
            engine.run_for(course.due_ns().min(end) - engine.now())?;
        }
        Ok(())
    }
}

impl Subject for Machine<'_> {
    fn is_concerned(&mut self) -> bool {
        let kernel = self.engine.kernel();
        (0..kernel.nr_cpus()).any(|cpu| kernel.stats(cpu).looks_wide > 0)
    }

    fn enter(&mut self, side: Side) -> Result<()> {
        let policy = match side {
            Side::With => self.both.policy,
            Side::Without => without(&self.both.policy),
        };
        self.both.generation += 1;
        let generation = self.both.generation;
        let in_force = avx_policy_in_force { generation, checksum: 0, policy };
        self.engine.kernel_mut().set_policy(&in_force);
        Ok(())
    }

    fn sums(&mut self) -> Result<Sums> {
        Ok(self.engine.sums())
    }
}
