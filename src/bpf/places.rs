// SPDX-License-Identifier: GPL-2.0-only
//! Where each CPU is, in the words of the BPF programs: a core, a cache and a node
//! are named by the first CPU that they have.

use std::collections::{BTreeMap, BTreeSet};

use super::intf::avx_topology;

/// The core, the cache and the node of each CPU, however they are numbered.
pub type Groups = BTreeMap<u32, [usize; 3]>;

pub fn name_by_first_cpu(cpus: &Groups, isolated: &BTreeSet<u32>) -> BTreeMap<u32, avx_topology> {
    let first = |group: usize, id: usize| {
        cpus.iter().find(|(_, groups)| groups[group] == id).map_or(0, |(&cpu, _)| cpu)
    };
    let is_usable = |cpu: u32| !isolated.contains(&cpu);
    let llcs: BTreeSet<u32> = cpus.values().map(|groups| first(1, groups[1])).collect();
    let next_llc = |llc: u32| llcs.range(llc + 1..).chain(&llcs).next().copied().unwrap_or(llc);
    let place = |(&cpu, groups): (&u32, &[usize; 3])| {
        let siblings = cpus.iter().filter(|(other, of)| of[0] == groups[0] && is_usable(**other));
        let beside = cpus.iter().find(|(other, of)| of[0] == groups[0] && **other != cpu);
        let place = avx_topology {
            core: first(0, groups[0]),
            llc: first(1, groups[1]),
            next_llc: next_llc(first(1, groups[1])),
            node: first(2, groups[2]),
            core_cpus: siblings.count() as u32,
            sibling: beside.map_or(cpu, |(&other, _)| other),
            online: 1,
            usable: u32::from(is_usable(cpu)),
        };
        (cpu, place)
    };
    cpus.iter().map(place).collect()
}

/// Returns the number of usable CPUs of the core that has the most of them.
pub fn cpus_per_core<'a>(places: impl Iterator<Item = &'a avx_topology>) -> u32 {
    places.map(|place| place.core_cpus).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_by_their_first_cpu() {
        // There are two nodes with a cache each. CPU 1 is offline, and CPU 4 is isolated.
        let cpus =
            BTreeMap::from([(0, [10, 5, 1]), (2, [11, 6, 2]), (3, [10, 5, 1]), (4, [11, 6, 2])]);
        let places = name_by_first_cpu(&cpus, &BTreeSet::from([4]));
        let found: Vec<_> = places
            .iter()
            .map(|(&cpu, at)| (cpu, at.core, at.llc, at.node, at.core_cpus, at.usable))
            .collect();
        assert_eq!(
            found,
            [(0, 0, 0, 0, 2, 1), (2, 2, 2, 2, 1, 1), (3, 0, 0, 0, 2, 1), (4, 2, 2, 2, 1, 0)]
        );
        let beside: Vec<_> = places.values().map(|at| at.sibling).collect();
        assert_eq!(beside, [3, 4, 0, 2]);
        let ring: Vec<_> = places.values().map(|at| (at.llc, at.next_llc)).collect();
        assert_eq!(ring, [(0, 2), (2, 0), (0, 2), (2, 0)]);
    }
}
