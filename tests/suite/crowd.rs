// SPDX-License-Identifier: GPL-2.0-only
//! Crowds: hundreds of threads that change their affinity, their policy and their control
//! group all the time, while CPUs come and go. Each looks itself whether it is where it may
//! be. Guest time is counted in instructions, as for the stress.

use anyhow::{Result, ensure};

use super::counts::{Counts, counts_of};
use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::{Flavour, Qemu, in_repository, program};

crate::tests! {
    crowd:
    five_hundred_on_sixteen_cpus_are_where_they_may_be(54),
}

fn five_hundred_on_sixteen_cpus_are_where_they_may_be() -> Result<()> {
    on_sixteen_cpus(30, 4)
}

/// Milliseconds for which a CPU is there, and for which it is not.
const HOTPLUG_MS: u32 = 1500;

/// On a machine with the CPUs of a small server.
pub fn on_sixteen_cpus(seconds: u32, nanoseconds_an_instruction: u32) -> Result<()> {
    let machine = Qemu::cpus(16).counted_time(nanoseconds_an_instruction);
    let counts = crowd(machine, 500, seconds, HOTPLUG_MS)?;
    ensure!(counts["hotplugs"] > u64::from(seconds) / 3, "{counts:?}");
    Ok(())
}

/// The same on a large one, whose CPUs have two threads each and belong to four nodes.
pub fn on_sixty_four_cpus(seconds: u32) -> Result<()> {
    let machine = Qemu::topology(4, 8, 2).numa_nodes(4).counted_time(1);
    crowd(machine, 200, seconds, 0).map(|_| ())
}

fn crowd(machine: Qemu, tasks: u32, seconds: u32, hotplug_ms: u32) -> Result<Counts> {
    let outcome = scheduler_guest(machine, Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/crowd.c"))?)
        .command(&script(&format!(
            "echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
             start_scheduler
             trap 'cat /tmp/scheduler.err /tmp/scheduler.out >&2' EXIT
             crowd {tasks} {seconds} {hotplug_ms} || fail the crowd came to grief
             wait_until 30 is_enabled || fail the scheduler was ejected
             kill -0 $scheduler || fail the scheduler is gone
             stop_scheduler
             echo status=$status"
        )))
        .limit(400 + 30 * u64::from(seconds))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!((counts["outside"], counts["status"]), (0, 0), "{counts:?}");
    for done in ["works", "checks", "masks", "sleeps", "realtimes", "moves"] {
        ensure!(counts[done] > u64::from(tasks), "too few {done}: {counts:?}");
    }
    let said = &outcome.commands[0].stderr;
    ensure!(!said.contains("stall"), "{said}");
    Ok(counts)
}
