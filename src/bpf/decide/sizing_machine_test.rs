// SPDX-License-Identifier: GPL-2.0-only
//! A machine whose AVX cores are sized, with threads that want them.

use super::native::{first_need, size_avx_set};
use crate::agent::policy;
use crate::bpf::intf::{
    SERVED_NOBODY, SIZING_SHARE, avx_demand, avx_policy, avx_sizing, avx_waiting,
};

pub const MS: u64 = 1_000_000;
pub const STEP: u64 = MS / 10;
pub const LOOK: u64 = 10 * MS;
pub const SECOND: u64 = 1000 * MS;

/// A thread that alternates: so much scalar work, then so much with wide vectors.
#[derive(Debug, Clone, Copy)]
pub struct Thread {
    scalar_ns: u64,
    wide_ns: u64,
    /// What is left of the present phase, and which one that is.
    pub left: u64,
    is_wide: bool,
    waits: bool,
}

/// What came of it.
#[derive(Debug, Default, Clone, Copy)]
pub struct Result {
    /// The sum over time of the AVX cores, and of the time that wide work ran.
    pub avx_cpu_ns: u64,
    pub wide_ns: u64,
    pub wait_ns: u64,
    pub bursts: u64,
    pub changes: u32,
    pub largest: u32,
}

impl Result {
    pub fn mean_size(&self, ns: u64) -> f64 {
        self.avx_cpu_ns as f64 / ns as f64
    }

    pub fn mean_wait_us(&self) -> f64 {
        self.wait_ns as f64 / 1000.0 / self.bursts.max(1) as f64
    }
}

/// A machine on which wide work runs on AVX cores, first come, first served, and
/// all else finds a place, unless others wait; but nobody sees more CPUs busy than there are.
pub struct Machine {
    pub policy: avx_policy,
    pub sizing: avx_sizing,
    /// How many AVX cores there are.
    pub size: u32,
    pub shape: avx_demand,
    since_look: avx_demand,
    pub threads: Vec<Thread>,
    now: u64,
    pub result: Result,
}

impl Machine {
    pub fn new(policy: avx_policy, nr_cpus: u32, granule: u32) -> Self {
        let shape = avx_demand { nr_cpus, granule, ..avx_demand::default() };
        let (sizing, threads) = (avx_sizing::default(), Vec::new());
        let (since_look, result) = (shape, Result::default());
        Self { policy, sizing, size: 0, shape, since_look, threads, now: 0, result }
    }

    /// So many threads from now on, out of step with each other.
    pub fn threads(&mut self, count: usize, scalar_ns: u64, wide_ns: u64) {
        self.threads.truncate(count);
        for n in self.threads.len()..count {
            let left = (n as u64 * 7 * STEP) % scalar_ns + STEP;
            self.threads.push(Thread { scalar_ns, wide_ns, left, is_wide: false, waits: false });
        }
    }

    fn resize(&mut self, size: impl FnOnce(&mut avx_sizing, &avx_policy, &avx_demand) -> u32) {
        let before = self.size;
        let after = size(&mut self.sizing, &self.policy, &self.since_look);
        assert!(after <= self.shape.nr_cpus);
        self.size = after;
        self.result.changes += u32::from(after != before);
        self.result.largest = self.result.largest.max(after);
    }

    fn step(&mut self) {
        let serves = self.policy.avx_cores_for != u64::from(SERVED_NOBODY);
        if serves && self.threads.iter().any(|thread| thread.is_wide) {
            self.resize(|sizing, policy, demand| first_need(sizing, policy, demand));
        }
        let mut free = self.size;
        let full = (self.since_look.elapsed_ns + STEP) * u64::from(self.shape.nr_cpus);
        for thread in &mut self.threads {
            thread.waits = thread.is_wide && free == 0;
            free -= u32::from(thread.is_wide && !thread.waits);
            if thread.waits {
                self.since_look.wait_ns += STEP;
                self.result.wait_ns += STEP;
                continue;
            }
            self.since_look.total_ns = full.min(self.since_look.total_ns + STEP);
            if thread.is_wide {
                self.since_look.avx_ns += STEP;
                self.result.wide_ns += STEP;
            }
            thread.left = thread.left.saturating_sub(STEP);
            if thread.left == 0 {
                self.since_look.nr_waits += u64::from(thread.is_wide);
                self.result.bursts += u64::from(thread.is_wide);
                thread.is_wide = !thread.is_wide;
                thread.left = if thread.is_wide { thread.wide_ns } else { thread.scalar_ns };
            }
        }
        // Who waited is first the next time.
        let mut running: Vec<Thread> = Vec::new();
        self.threads.retain(|thread| {
            thread.waits || {
                running.push(*thread);
                false
            }
        });
        self.threads.append(&mut running);

        self.now += STEP;
        self.since_look.elapsed_ns += STEP;
        self.result.avx_cpu_ns += u64::from(self.size) * STEP;
        if self.since_look.elapsed_ns == LOOK {
            let nr = self.threads.iter().filter(|thread| thread.waits).count() as u64;
            self.since_look.avx = avx_waiting { nr, weight: 100 * nr };
            if self.shape.other.nr > 0 {
                self.since_look.total_ns = full;
            }
            self.resize(|sizing, policy, demand| size_avx_set(sizing, policy, demand));
            self.since_look = self.shape;
        }
    }

    /// Runs for so long; what came of it.
    pub fn run(&mut self, ns: u64) -> Result {
        self.result = Result::default();
        let end = self.now + ns;
        while self.now < end {
            self.step();
        }
        self.result
    }
}

pub fn policy_with(change: impl FnOnce(&mut avx_policy)) -> avx_policy {
    let mut policy = policy::standard();
    change(&mut policy);
    policy
}

pub fn by_share(alpha: u32) -> avx_policy {
    policy_with(|policy| {
        policy.sizing = SIZING_SHARE.into();
        policy.share_alpha = alpha.into();
    })
}

/// Twenty threads with a tenth of wide work each need two CPUs.
pub const SCALAR: u64 = 18 * STEP;
pub const WIDE: u64 = 2 * STEP;
