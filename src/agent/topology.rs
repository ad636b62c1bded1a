// SPDX-License-Identifier: GPL-2.0-only
//! Where each CPU of this machine is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use scx_utils::{NR_CPU_IDS, Topology, read_cpulist};
use tracing::debug;

use crate::bpf::intf::avx_topology;
use crate::bpf::places::name_by_first_cpu;

const ISOLATED_CPUS: &str = "/sys/devices/system/cpu/isolated";
const PRESENT_CPUS: &str = "/sys/devices/system/cpu/present";
const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";

/// When a CPU goes, its files go too, perhaps while they are read.
const TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Returns where each online CPU is.
pub fn places() -> Result<BTreeMap<u32, avx_topology>> {
    must_all_be_known(&listed_in(ONLINE_CPUS)?, *NR_CPU_IDS)?;
    let topology = patiently(BETWEEN_TRIES, Topology::new)
        .context("cannot read the topology of the machine")?;
    let found = topology.all_cpus.values().map(|cpu| {
        let groups = [cpu.core_id, cpu.llc_id, cpu.node_id];
        (cpu.id as u32, groups)
    });
    Ok(name_by_first_cpu(&found.collect(), &isolated()?))
}

/// Fails if a CPU is online that `NR_CPU_IDS` does not cover. How many there may be is found out
/// once in the life of a process, and what uses that number leaves out any further CPU.
fn must_all_be_known(online: &BTreeSet<u32>, nr_cpu_ids: usize) -> Result<()> {
    match online.last() {
        Some(cpu) if *cpu as usize >= nr_cpu_ids => bail!(
            "CPU {cpu} was added to the machine while this ran: start the scheduler again, which \
             systemd does by itself"
        ),
        _ => Ok(()),
    }
}

/// Returns what `look` finds as soon as it succeeds, or why the last try failed.
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

/// Returns the first online CPU.
pub fn first_cpu() -> Result<u32> {
    Ok(listed_in(ONLINE_CPUS)?.first().copied().unwrap_or_default())
}

/// Returns the CPUs that are present and not online, or none if that cannot be found out.
pub fn offline() -> Vec<u32> {
    let (present, online) = (listed_in(PRESENT_CPUS), listed_in(ONLINE_CPUS));
    let (present, online) = (present.unwrap_or_default(), online.unwrap_or_default());
    present.difference(&online).copied().collect()
}

fn isolated() -> Result<BTreeSet<u32>> {
    listed_in(ISOLATED_CPUS)
}

fn listed_in(file: &str) -> Result<BTreeSet<u32>> {
    let Ok(list) = fs::read_to_string(file) else { return Ok(BTreeSet::new()) };
    let list = list.trim();
    if list.is_empty() {
        return Ok(BTreeSet::new());
    }
    let cpus = read_cpulist(list).with_context(|| format!("cannot parse {file}"))?;
    Ok(cpus.into_iter().map(|cpu| cpu as u32).collect())
}

#[cfg(test)]
mod tests {
    use anyhow::{bail, ensure};

    use super::*;

    #[test]
    fn who_was_added_to_the_machine_is_not_overlooked() {
        assert!(must_all_be_known(&[].into(), 4).is_ok());
        assert!(must_all_be_known(&[0, 3].into(), 4).is_ok());
        let told = must_all_be_known(&[0, 4].into(), 4).unwrap_err().to_string();
        assert!(told.starts_with("CPU 4 was added to the machine"), "{told}");
    }

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
}
