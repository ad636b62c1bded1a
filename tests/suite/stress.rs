// SPDX-License-Identifier: GPL-2.0-only
//! What breaks schedulers: affinities, policies and priorities that change all
//! the time, storms of short-lived processes, many at once.
//!
//! Guest time is counted in instructions. So a second is a second of work even
//! where eight CPUs take turns on one of the host's, and the kernel's watchdog
//! cannot be set off by a host that is busy with something else.

use anyhow::{Result, ensure};

use super::{scheduler_guest, script};
use crate::rig::{Flavour, Qemu};

crate::tests! {
    stress:
    a_third_of_a_minute_on_eight_cpus_ends_without_stall_or_ejection(99),
}

fn a_third_of_a_minute_on_eight_cpus_ends_without_stall_or_ejection() -> Result<()> {
    on_eight_cpus(20, 2)
}

/// A machine with fewer instructions a second leaves the scheduler less time
/// for the same work before the watchdog takes note, and takes less of ours.
pub fn on_eight_cpus(seconds: u32, nanoseconds_an_instruction: u32) -> Result<()> {
    let outcome =
        scheduler_guest(Qemu::cpus(8).counted_time(nanoseconds_an_instruction), Flavour::Stock)?
            .release("trixie")
            .package("stress-ng")
            .command(&script(&format!(
                "start_scheduler
             stress-ng --cpu-sched 0 --affinity 0 --fork 0 --timeout {seconds} --metrics \\
                 >/tmp/stress.out 2>&1 || {{ cat /tmp/stress.out >&2; fail stress-ng failed; }}
             is_enabled || fail the scheduler was ejected
             kill -0 $scheduler || fail the scheduler is gone
             stop_scheduler
             echo status $status
             cat /tmp/stress.out"
            )))
            .limit(300 + 20 * u64::from(seconds))
            .boot()?;
    let output = outcome.stdout(0)?;
    ensure!(output.contains("status 0"), "{output}");
    for stressor in ["cpu-sched", "affinity", "fork"] {
        ensure!(
            output.lines().any(|line| line.contains("metrc") && line.contains(stressor)),
            "{stressor} did not run:\n{output}"
        );
    }
    Ok(())
}
