// SPDX-License-Identifier: GPL-2.0-only
//! The machine of the model, as the engine and the kernel see it.

use std::collections::BTreeSet;

use super::model::{Kind, Model};
use super::{Books, Machine, Place, Topology};
use crate::bpf::intf::{APERF_AND_MPERF, CYCLES_BY_LICENCE, avx_clock_counters, avx_topology};
use crate::bpf::places::name_by_first_cpu;

/// How fast CPUs are.
pub trait Hardware {
    /// Lets the CPU execute `what` from now on, or idle if that is `None`.
    fn run(&mut self, cpu: u32, what: Option<Kind>);
    /// Tells whether what runs on the CPU waits for its caches from now on.
    fn wait(&mut self, _cpu: u32, _waits: bool) {}
    /// Returns the work that the CPU does in a nanosecond.
    fn rate(&self, cpu: u32) -> f64;
    /// Returns the share of its speed that a CPU loses to licences.
    fn loses(&self, _cpu: u32) -> f64 {
        0.0
    }
    /// Returns what the clock counters of a CPU have counted, if there are any.
    fn counts(&mut self, _cpu: u32) -> Option<[u64; 3]> {
        None
    }
    /// Returns how long it takes until the CPU can run something. This is 0 if it already runs
    /// something.
    fn wakes_in(&self, _cpu: u32) -> u64 {
        0
    }
    /// Returns when rates change next, if neither `run` nor `wait` is called before.
    fn next_change(&self) -> Option<u64>;
    fn advance(&mut self, to: u64);
    /// Returns a CPU whose rate changed and that was not returned yet.
    fn take_changed(&mut self) -> Option<u32>;
    /// Returns where the CPU is. Here this matters for caches.
    fn place(&self, cpu: u32) -> Place {
        Place { core: cpu as usize, llc: 0, node: 0, socket: 0 }
    }
}

pub struct Modelled {
    machine: Machine,
    places: Vec<Place>,
    changed: Vec<u32>,
    counters: avx_clock_counters,
}

impl Modelled {
    pub fn new(model: &Model, topology: &Topology, counters: avx_clock_counters) -> Self {
        Self {
            machine: Machine::new(model, topology.clone()),
            places: topology.cpus.clone(),
            changed: Vec::new(),
            counters,
        }
    }

    /// Returns the books of the core of a CPU.
    pub fn books(&mut self, cpu: u32) -> Books {
        self.machine.books(cpu as usize)
    }
}

impl Hardware for Modelled {
    fn run(&mut self, cpu: u32, what: Option<Kind>) {
        let changed = self.machine.run(cpu as usize, what);
        self.changed.extend(changed.iter().map(|cpu| *cpu as u32));
    }

    fn wait(&mut self, cpu: u32, waits: bool) {
        let changed = self.machine.wait(cpu as usize, waits);
        self.changed.extend(changed.iter().map(|cpu| *cpu as u32));
    }

    fn rate(&self, cpu: u32) -> f64 {
        self.machine.rate(cpu as usize)
    }

    fn loses(&self, cpu: u32) -> f64 {
        self.machine.loses(cpu as usize)
    }

    fn counts(&mut self, cpu: u32) -> Option<[u64; 3]> {
        match self.counters {
            APERF_AND_MPERF => {
                let Books { by_licence, cycles, .. } = self.books(cpu);
                Some([cycles.iter().sum(), by_licence.iter().sum(), 0])
            }
            CYCLES_BY_LICENCE => Some(self.books(cpu).cycles),
            _ => None,
        }
    }

    fn wakes_in(&self, cpu: u32) -> u64 {
        self.machine.wakes_in(cpu as usize)
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

    fn place(&self, cpu: u32) -> Place {
        self.places[cpu as usize]
    }
}

/// CPUs that always run at full speed.
#[cfg(any(test, feature = "fuzz"))]
pub struct Steady;

#[cfg(any(test, feature = "fuzz"))]
impl Hardware for Steady {
    fn run(&mut self, _cpu: u32, _what: Option<Kind>) {}
    fn rate(&self, _cpu: u32) -> f64 {
        1.0
    }
    fn next_change(&self) -> Option<u64> {
        None
    }
    fn advance(&mut self, _to: u64) {}
    fn take_changed(&mut self) -> Option<u32> {
        None
    }
}

/// Returns what the agent would read about the topology of the machine.
pub fn places(topology: &Topology) -> Vec<avx_topology> {
    let cpus = &topology.cpus;
    let is_same_core = |a: &Place, b: &Place| (a.socket, a.core) == (b.socket, b.core);
    let core = |it: &Place| cpus.iter().position(|other| is_same_core(other, it)).unwrap_or(0);
    let groups = (0..).zip(cpus.iter().map(|it| [core(it), it.llc, it.node])).collect();
    name_by_first_cpu(&groups, &BTreeSet::new()).into_values().collect()
}
