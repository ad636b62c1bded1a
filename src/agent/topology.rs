// SPDX-License-Identifier: GPL-2.0-only
//! Where each CPU is, in the words of the BPF programs: a core, a cache and a node
//! are named by the first CPU that they have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use scx_utils::{Topology, read_cpulist};
use tracing::debug;

use crate::bpf::intf::avx_topology;

const ISOLATED_CPUS: &str = "/sys/devices/system/cpu/isolated";

/// A CPU that goes takes its files along, perhaps while they are read.
const TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Of the online CPUs.
pub fn places() -> Result<BTreeMap<u32, avx_topology>> {
    let topology = patiently(BETWEEN_TRIES, Topology::new)
        .context("cannot read the topology of the machine")?;
    let found = topology.all_cpus.values().map(|cpu| {
        let groups = [cpu.core_id, cpu.llc_id, cpu.node_id];
        (cpu.id as u32, groups)
    });
    Ok(name_by_first_cpu(&found.collect(), &isolated()?))
}

/// What `look` finds as soon as it succeeds, or why it does not in the end.
fn patiently<T>(pause: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match look() {
            Ok(found) => return Ok(found),
            Err(error) => debug!("trying again: {error:#}"),
        }
        thread::sleep(pause);
    }
    look()
}

fn isolated() -> Result<BTreeSet<u32>> {
    let Ok(list) = fs::read_to_string(ISOLATED_CPUS) else { return Ok(BTreeSet::new()) };
    let list = list.trim();
    if list.is_empty() {
        return Ok(BTreeSet::new());
    }
    let cpus = read_cpulist(list).with_context(|| format!("cannot parse {ISOLATED_CPUS}"))?;
    Ok(cpus.into_iter().map(|cpu| cpu as u32).collect())
}

/// From any numbering of cores, caches and nodes.
fn name_by_first_cpu(
    cpus: &BTreeMap<u32, [usize; 3]>,
    isolated: &BTreeSet<u32>,
) -> BTreeMap<u32, avx_topology> {
    let first = |group: usize, id: usize| {
        cpus.iter().find(|(_, groups)| groups[group] == id).map_or(0, |(&cpu, _)| cpu)
    };
    let is_usable = |cpu: u32| !isolated.contains(&cpu);
    let llcs: BTreeSet<u32> = cpus.values().map(|groups| first(1, groups[1])).collect();
    let next_llc = |llc: u32| llcs.range(llc + 1..).chain(&llcs).next().copied().unwrap_or(llc);
    let place = |(&cpu, groups): (&u32, &[usize; 3])| {
        let siblings = cpus.iter().filter(|(other, of)| of[0] == groups[0] && is_usable(**other));
        let place = avx_topology {
            core: first(0, groups[0]),
            llc: first(1, groups[1]),
            next_llc: next_llc(first(1, groups[1])),
            node: first(2, groups[2]),
            core_cpus: siblings.count() as u32,
            online: 1,
            usable: u32::from(is_usable(cpu)),
        };
        (cpu, place)
    };
    cpus.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::{bail, ensure};

    use super::*;

    #[test]
    fn what_is_there_again_soon_is_waited_for() {
        let mut failures = 3;
        let found = patiently(Duration::ZERO, || {
            failures -= 1;
            ensure!(failures < 0, "not there");
            Ok(7)
        });
        assert_eq!(found.unwrap(), 7);
        let error = patiently(Duration::ZERO, || -> Result<()> { bail!("never there") });
        assert_eq!(error.unwrap_err().to_string(), "never there");
    }

    #[test]
    fn groups_are_named_by_their_first_cpu() {
        // Two nodes with a cache each; CPU 1 is offline, CPU 4 isolated.
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
        let ring: Vec<_> = places.values().map(|at| (at.llc, at.next_llc)).collect();
        assert_eq!(ring, [(0, 2), (2, 0), (0, 2), (2, 0)]);
    }
}
