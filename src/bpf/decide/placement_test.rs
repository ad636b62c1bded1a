// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs become AVX cores, on machines of all shapes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::native::{is_listed, preference_to_add, preference_to_remove};
use crate::agent::policy;
use crate::bpf::intf::{
    PLACEMENT_PACK, PLACEMENT_SPREAD, SERVED_NOBODY, avx_candidate, avx_policy,
};

const PACK: u64 = PLACEMENT_PACK as u64;
const SPREAD: u64 = PLACEMENT_SPREAD as u64;

#[derive(Debug, Clone, Copy)]
struct Cpu {
    core: u32,
    llc: u32,
    node: u32,
    usable: bool,
    confined: bool,
    in_use: bool,
    busy: bool,
    is_avx: bool,
}

#[derive(Debug, Clone)]
struct Machine {
    cpus: Vec<Cpu>,
    placement: u64,
}

impl Machine {
    /// Siblings are numbered as servers do it: first one of each core, then the others.
    fn new(placement: u64, nodes: u32, llcs: u32, cores: u32, threads: u32) -> Self {
        let nr_cores = nodes * llcs * cores;
        let cpus = (0..nr_cores * threads)
            .map(|cpu| {
                let core = cpu % nr_cores;
                let llc = core / cores;
                let node = llc / llcs;
                Cpu {
                    core,
                    llc,
                    node,
                    usable: true,
                    confined: false,
                    in_use: false,
                    busy: false,
                    is_avx: false,
                }
            })
            .collect();
        Self { cpus, placement }
    }

    fn count(&self, those: impl Fn(&Cpu) -> bool) -> u32 {
        self.cpus.iter().filter(|cpu| those(cpu)).count() as u32
    }

    fn candidate(&self, number: usize) -> avx_candidate {
        let cpu = self.cpus[number];
        avx_candidate {
            cpu: number as u32,
            core_cpus: self.count(|other| other.usable && other.core == cpu.core),
            core_avx: self.count(|other| other.is_avx && other.core == cpu.core),
            llc_avx: self.count(|other| other.is_avx && other.llc == cpu.llc),
            node_avx: self.count(|other| other.is_avx && other.node == cpu.node),
            confined: cpu.confined,
            in_use: cpu.in_use,
            busy: cpu.busy,
        }
    }

    /// The best of all of one kind.
    fn best(&self, is_avx: bool, preference: impl Fn(&avx_candidate) -> u64) -> Option<usize> {
        let candidates = (0..self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].usable && self.cpus[cpu].is_avx == is_avx);
        let preferences: BTreeMap<u64, usize> =
            candidates.clone().map(|cpu| (preference(&self.candidate(cpu)), cpu)).collect();
        assert_eq!(preferences.len(), candidates.count(), "two are preferred alike");
        assert!(!preferences.contains_key(&0), "0 is for those that are not eligible");
        preferences.into_values().next_back()
    }

    fn add(&mut self) -> Option<usize> {
        let cpu = self.best(false, |it| preference_to_add(it, self.placement))?;
        self.cpus[cpu].is_avx = true;
        Some(cpu)
    }

    fn remove(&mut self) -> Option<usize> {
        let cpu = self.best(true, |it| preference_to_remove(it, self.placement))?;
        self.cpus[cpu].is_avx = false;
        Some(cpu)
    }

    fn per(&self, of: impl Fn(&Cpu) -> u32, those: impl Fn(&Cpu) -> bool) -> BTreeMap<u32, u32> {
        let mut counts = BTreeMap::new();
        self.cpus
            .iter()
            .for_each(|cpu| *counts.entry(of(cpu)).or_insert(0) += u32::from(those(cpu)));
        counts
    }

    fn usable(&self) -> u32 {
        self.count(|cpu| cpu.usable)
    }

    /// What holds of a set that only grew, or grew and then only shrank.
    fn check(&self) {
        assert_eq!(self.count(|cpu| cpu.is_avx && !cpu.usable), 0);
        let all = self.per(|cpu| cpu.core, |cpu| cpu.usable);
        let avx = self.per(|cpu| cpu.core, |cpu| cpu.is_avx);
        let half_done = avx.iter().filter(|&(core, &n)| n > 0 && n < all[core]).count();
        assert!(half_done <= 1, "{half_done} cores half done");

        let room = self.per(|cpu| cpu.node, |cpu| cpu.usable);
        let used = self.per(|cpu| cpu.node, |cpu| cpu.is_avx);
        let largest_core = all.values().copied().max().unwrap_or(0);
        if self.placement == PACK {
            let begun = used.iter().filter(|&(node, &n)| n > 0 && n < room[node]).count();
            assert!(begun <= 1, "{begun} nodes begun");
        } else {
            let least = used.iter().filter(|&(node, &n)| n < room[node]).map(|(_, &n)| n).min();
            let most = used.values().copied().max().unwrap_or(0);
            assert!(most <= least.unwrap_or(most) + largest_core, "{used:?}");
        }
    }
}

fn machines() -> impl Strategy<Value = Machine> {
    let shape = (prop_oneof![Just(PACK), Just(SPREAD)], 1u32..=8, 1u32..=2, 1u32..=5, 1u32..=2);
    let machine = shape.prop_map(|(placement, nodes, llcs, cores, threads)| {
        Machine::new(placement, nodes, llcs, cores, threads)
    });
    // Offline holes, siblings that are off, and CPUs where somebody is.
    (machine, prop::collection::vec((0u8..8, any::<bool>()), 160)).prop_map(
        |(mut machine, states)| {
            for (cpu, (hole, busy)) in machine.cpus.iter_mut().zip(states) {
                cpu.usable = hole > 0;
                cpu.busy = busy;
            }
            machine
        },
    )
}

/// The other nodes have none before there is one on each of these.
#[test]
fn each_node_in_use_gets_its_first_core_and_keeps_its_last() {
    for placement in [PACK, SPREAD] {
        let mut machine = Machine::new(placement, 4, 1, 4, 2);
        machine.cpus.iter_mut().for_each(|cpu| cpu.in_use = cpu.node == 1 || cpu.node == 2);
        let sizes = |machine: &Machine| -> Vec<u32> {
            machine.per(|cpu| cpu.node, |cpu| cpu.is_avx).into_values().collect()
        };
        (0..4).for_each(|_| _ = machine.add());
        assert_eq!(sizes(&machine), [0, 2, 2, 0]);
        (0..4).for_each(|_| _ = machine.add());
        assert_eq!(sizes(&machine).iter().sum::<u32>(), 8);
        (0..4).for_each(|_| _ = machine.remove());
        assert_eq!(sizes(&machine), [0, 2, 2, 0]);
    }
}

/// Whatever node or cache would come first otherwise; but no core is left half done for that.
#[test]
fn cpus_for_confined_tasks_come_first_and_are_kept() {
    for placement in [PACK, SPREAD] {
        let mut machine = Machine::new(placement, 2, 1, 4, 2);
        machine.add();
        let siblings = [2, 10];
        machine.cpus[2].confined = true;
        (0..3).for_each(|_| _ = machine.add());
        assert!(siblings.iter().all(|cpu| machine.cpus[*cpu].is_avx), "{placement}");
        (0..2).for_each(|_| _ = machine.remove());
        assert!(siblings.iter().all(|cpu| machine.cpus[*cpu].is_avx), "{placement}");
    }
}

proptest! {
    #[test]
    fn sets_are_made_of_whole_cores_on_the_right_nodes(mut machine in machines()) {
        for _ in 0..machine.usable() {
            prop_assert!(machine.add().is_some());
            machine.check();
        }
        prop_assert_eq!(machine.add(), None);
        for _ in 0..machine.usable() {
            prop_assert!(machine.remove().is_some());
        }
        prop_assert_eq!(machine.remove(), None);
    }

    #[test]
    fn what_was_removed_is_what_comes_back(mut machine in machines(), size in 0u32..40) {
        machine.cpus.iter_mut().for_each(|cpu| (cpu.usable, cpu.busy) = (true, false));
        (0..size).for_each(|_| _ = machine.add());
        if let Some(removed) = machine.remove() {
            prop_assert_eq!(machine.add(), Some(removed));
        }
    }
}

fn added(machine: &mut Machine, count: usize) -> Vec<usize> {
    (0..count).map_while(|_| machine.add()).collect()
}

#[test]
fn odd_machines_are_served() {
    let mut alone = Machine::new(PACK, 1, 1, 1, 1);
    assert_eq!(added(&mut alone, 2), [0]);

    let mut three = Machine::new(PACK, 1, 1, 3, 1);
    assert_eq!(added(&mut three, 4), [2, 1, 0]);

    // 4 cores; the siblings of the first two are off.
    let mut uneven = Machine::new(PACK, 1, 1, 4, 2);
    uneven.cpus[4].usable = false;
    uneven.cpus[5].usable = false;
    assert_eq!(added(&mut uneven, 6), [7, 3, 6, 2, 1, 0]);

    let mut nodes = Machine::new(SPREAD, 8, 1, 2, 2);
    let first: Vec<u32> = added(&mut nodes, 16).iter().map(|&cpu| nodes.cpus[cpu].node).collect();
    assert_eq!(first, [7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0]);

    let mut large = Machine::new(PACK, 8, 1, 32, 2);
    assert_eq!(added(&mut large, 64).iter().filter(|&&cpu| large.cpus[cpu].node == 7).count(), 64);
    large.check();
}

#[test]
fn whoever_idles_is_taken_first_and_let_go_first() {
    let mut machine = Machine::new(PACK, 1, 1, 4, 1);
    machine.cpus[3].busy = true;
    assert_eq!(added(&mut machine, 3), [2, 1, 0]);
    machine.cpus[0].busy = true;
    assert_eq!(machine.remove(), Some(1));
}

#[test]
fn what_the_operator_lists_is_listed() {
    let listed = policy::turned(policy::standard(), &["avx-cpu-list=1,63-64,1023".to_owned()]);
    let listed = listed.unwrap();
    let found: Vec<u32> = (0..2000).filter(|cpu| is_listed(&listed, *cpu)).collect();
    assert_eq!(found, [1, 63, 64, 1023]);
    let for_nobody = avx_policy { avx_cores_for: SERVED_NOBODY.into(), ..listed };
    assert!(!(0..2000).any(|cpu| is_listed(&for_nobody, cpu)));
}
