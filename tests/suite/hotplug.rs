// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that come and go under load.

use anyhow::{Result, ensure};

use super::avx::fairness::with_fake_counters;
use super::{scheduler_guest, script};
use crate::rig::{Flavour, Qemu};

crate::tests! {
    hotplug:
    the_scheduler_restarts_by_itself_and_nothing_stalls(75),
    several_cpus_may_go_while_it_restarts(86),
}

fn the_scheduler_restarts_by_itself_and_nothing_stalls() -> Result<()> {
    rounds(3)
}

pub fn rounds(count: u32) -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?
        .command(&script(&format!(
            "start_scheduler
             busy_loops 8
             for round in $(seq {count}); do
                 for state in 0 1; do
                     before=$(loads)
                     set_cpu 2 $state
                     wait_until 60 is_loaded_since $before || fail_with_its_words no restart after cpu2 $state
                     all_progress $loops
                     grep -q 'ext.enabled.*1' /proc/$$/sched || fail not scheduled by it
                 done
             done
             stop_scheduler
             echo status $status
             cat /tmp/scheduler.err /tmp/scheduler.out >&2"
        )))
        .limit(200 + 60 * u64::from(count))
        .boot()?;
    let output = outcome.stdout(0)?;
    ensure!(output.ends_with("status 0\n"), "{output}");
    let said = &outcome.commands[0].stderr;
    ensure!(!said.contains("stall"), "{said}");
    Ok(())
}

/// It counts on each CPU, and one goes before it has begun to there; then they go in a row. No CPU
/// is said to leave while the first counters are opened: for that one they would wait forever.
fn several_cpus_may_go_while_it_restarts() -> Result<()> {
    let guest = scheduler_guest(Qemu::cpus(6), Flavour::Stock)?;
    let outcome = with_fake_counters(guest, Flavour::Stock)?
        .command(&script(
            "insmod /fake_clocks.ko cycles=600,300,100,1000 operations=50 room=4
             start_scheduler --force --tier counters \
                 --clock-counters fake_clocks:0,fake_clocks:1,fake_clocks:2
             busy_loops 6
             wait_until 30 has_counters 18 || fail_with_its_words counters are not open
             echo 4 >/sys/module/fake_clocks/parameters/leaves
             for cpu in 5 4; do
                 before=$(loads)
                 set_cpu $cpu 0
                 wait_until 60 is_loaded_since $before || fail_with_its_words no restart after cpu$cpu
             done
             all_progress $loops
             echo -1 >/sys/module/fake_clocks/parameters/leaves
             for state in 0 1; do
                 before=$(loads)
                 for cpu in 5 4 3 2 1; do
                     set_cpu $cpu $state
                 done
                 wait_until 60 is_loaded_since $before || fail_with_its_words no restart after $state
                 all_progress $loops
             done
             stop_scheduler
             echo status $status",
        ))
        .limit(800)
        .boot()?;
    let output = outcome.stdout(0)?;
    ensure!(output.ends_with("status 0\n"), "{output}");
    Ok(())
}
