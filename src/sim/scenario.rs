// SPDX-License-Identifier: GPL-2.0-only
//! One workload on one modelled machine, under several policies.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use anyhow::{Context, Result};
use serde::Serialize;

use super::engine::{COSTS, Engine, Hardware};
use super::kernel::Kernel;
use super::machine::{Machine, Place, Topology};
use super::model::{Kind, Model};
use super::workload::{Cipher, Worker};
use crate::bpf::intf::{
    avx_policy, avx_policy_in_force, avx_tier, avx_tier_AVX_TIER_OBSERVE, avx_tier_AVX_TIER_TRAP,
    avx_topology,
};
use crate::bpf::places::name_by_first_cpu;

const SECOND: u64 = 1_000_000_000;

/// Until caches, averages and licences are what they will be.
const WARM_UP_NS: u64 = SECOND / 2;

/// The machine of the model, as the engine sees it.
struct Modelled {
    machine: Machine,
    changed: Vec<u32>,
}

impl Hardware for Modelled {
    fn run(&mut self, cpu: u32, what: Option<Kind>) {
        let changed = self.machine.run(cpu as usize, what);
        self.changed.extend(changed.iter().map(|cpu| *cpu as u32));
    }

    fn rate(&self, cpu: u32) -> f64 {
        self.machine.rate(cpu as usize)
    }

    fn next_change(&self) -> Option<u64> {
        self.machine.next_change()
    }

    fn advance(&mut self, to: u64) {
        let changed = self.machine.advance(to);
        self.changed.extend(changed.iter().map(|cpu| *cpu as u32));
    }

    fn take_changed(&mut self) -> Option<u32> {
        self.changed.pop()
    }
}

/// How the machine is run.
#[derive(Clone, Debug)]
pub struct Variant {
    pub name: &'static str,
    pub cipher: Cipher,
    tier: avx_tier,
    /// What is not as in the standard policy.
    pub settings: &'static [&'static str],
}

/// What is compared: the first one is what the others are measured by.
pub const VARIANTS: [Variant; 4] = [
    Variant {
        name: "without AVX-512",
        cipher: Cipher::Scalar,
        tier: avx_tier_AVX_TIER_OBSERVE,
        settings: &[],
    },
    Variant {
        name: "AVX-512, left alone",
        cipher: Cipher::Avx512,
        tier: avx_tier_AVX_TIER_OBSERVE,
        settings: &[],
    },
    Variant {
        name: "two siblings, back with system calls",
        cipher: Cipher::Avx512,
        tier: avx_tier_AVX_TIER_TRAP,
        settings: &["sizing=static", "avx-cpus=2", "return=syscall"],
    },
    Variant {
        name: "the default policy",
        cipher: Cipher::Avx512,
        tier: avx_tier_AVX_TIER_TRAP,
        settings: &[],
    },
];

/// All of it modelled.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub variant: &'static str,
    pub requests_per_s: f64,
    /// How much of their time the CPUs were busy.
    pub busy_share: f64,
    pub avx_cores: u32,
    pub role_changes: u64,
    pub migrations_per_request: f64,
}

/// As many workers of a web server as CPUs, for so many seconds.
pub fn nginx(
    model: &Model,
    topology: &Topology,
    variant: &Variant,
    policy: &avx_policy,
    seconds: u64,
    seed: u64,
) -> Result<Outcome> {
    let places = places(topology);
    let in_force = avx_policy_in_force { generation: 1, checksum: 0, policy: *policy };
    let kernel = Kernel::boot(&places, variant.tier, &in_force)?;
    let hardware = Modelled { machine: Machine::new(model, topology.clone()), changed: Vec::new() };
    let mut engine = Engine::new(kernel, hardware, COSTS);

    let requests = Rc::new(Cell::new(0));
    let tasks: Vec<_> = (0..places.len() as u64)
        .map(|n| {
            let worker = Worker::new(seed * 1000 + n, variant.cipher, requests.clone());
            engine.spawn(Box::new(worker), 100)
        })
        .collect();
    engine.run_for(WARM_UP_NS).context("warming up")?;
    let moves = |engine: &Engine<Modelled>| -> u64 {
        tasks.iter().map(|task| engine.kernel().moves(*task)).sum()
    };
    let changes = |engine: &Engine<Modelled>| -> u64 {
        (0..engine.kernel().nr_cpus()).map(|cpu| engine.kernel().stats(cpu).role_changes).sum()
    };
    let ran = |engine: &Engine<Modelled>| -> u64 {
        tasks.iter().map(|task| engine.kernel().ran(*task)).sum()
    };
    let (done, moved, changed) = (requests.get(), moves(&engine), changes(&engine));
    let ran_before = ran(&engine);
    engine.run_for(seconds * SECOND)?;
    let done = (requests.get() - done) as f64;
    Ok(Outcome {
        variant: variant.name,
        requests_per_s: done / seconds as f64,
        busy_share: (ran(&engine) - ran_before) as f64
            / (seconds * SECOND * places.len() as u64) as f64,
        avx_cores: engine.kernel().nr_avx_cores(),
        role_changes: changes(&engine) - changed,
        migrations_per_request: (moves(&engine) - moved) as f64 / done,
    })
}

/// What the agent would read of the machine, and each CPU's sibling.
fn places(topology: &Topology) -> Vec<(avx_topology, u32)> {
    let cpus = &topology.cpus;
    let is_same_core = |a: &Place, b: &Place| (a.socket, a.core) == (b.socket, b.core);
    let core = |it: &Place| cpus.iter().position(|other| is_same_core(other, it)).unwrap_or(0);
    let sibling = |cpu: u32| {
        let mut others = (0..).zip(cpus).filter(|(other, _)| *other != cpu);
        let found = others.find(|(_, other)| is_same_core(other, &cpus[cpu as usize]));
        found.map_or(cpu, |(other, _)| other)
    };
    let groups = (0..).zip(cpus.iter().map(|it| [core(it), it.llc, it.socket])).collect();
    let places = name_by_first_cpu(&groups, &BTreeSet::new());
    places.into_iter().map(|(cpu, place)| (place, sibling(cpu))).collect()
}
