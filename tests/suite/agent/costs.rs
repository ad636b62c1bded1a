// SPDX-License-Identifier: GPL-2.0-only
//! What the agent costs.

use anyhow::Result;

use crate::suite::counts::{Counts, counts_of};
use crate::suite::{scheduler_guest, script};
use crate::vm::{Flavour, Qemu, in_repository, program};

/// For so many seconds it is asked for metrics, once in each, as Prometheus asks.
const SCRAPES: u64 = 10;

/// Times that the policy is changed and changed back.
const SWITCHES: u64 = 50;

/// On a machine of this size.
const LARGE: usize = 64;

pub fn rss_mib() -> Result<f64> {
    let counts = scraped(Qemu::topology(4, LARGE / 8, 2).numa_nodes(4))?;
    Ok(counts["rss_kb"] as f64 / 1024.0)
}

/// Machines on which time can be counted in instructions, of so many nanoseconds each: the large one
/// would take hours to boot.
const COUNTED: [usize; 2] = [4, 16];
const NANOSECONDS: u32 = 4;

/// Of one CPU that executes an instruction in each nanosecond, as a slow one does. What is done
/// for each CPU is known from two smaller machines.
pub fn cpu_share() -> Result<f64> {
    let share = |cpus: usize| -> Result<f64> {
        let counts = scraped(Qemu::cpus(cpus).counted_time(NANOSECONDS))?;
        let instructions = counts["ran_ns"] as f64 / f64::from(NANOSECONDS);
        Ok(instructions / counts["elapsed_ns"] as f64)
    };
    let [few, many] = COUNTED;
    let (with_few, with_many) = (share(few)?, share(many)?);
    let of_a_cpu = (with_many - with_few) / (many - few) as f64;
    Ok(with_many + of_a_cpu * (LARGE - many) as f64)
}

fn scraped(machine: Qemu) -> Result<Counts> {
    let outcome = scheduler_guest(machine, Flavour::Stock)?
        .package("curl")
        .command(&script(&format!(
            "metrics() {{
                 curl --silent --fail --header 'Accept: application/openmetrics-text' \
                     http://127.0.0.1:9829/metrics
             }}
             ran() {{ sed -n 's/^process_cpu_seconds_total //p' /tmp/metrics |
                 awk '{{ printf \"%.0f\", $1 * 1e9 }}'; }}
             now() {{ awk '{{ printf \"%.0f\", $1 * 1e9 }}' /proc/uptime; }}
             ip link set lo up
             start_scheduler --force
             metrics >/tmp/metrics || fail no metrics
             ran=$(ran) now=$(now)
             for n in $(seq {SCRAPES}); do sleep 1; metrics >/tmp/metrics; done
             echo ran_ns=$(($(ran) - ran))
             echo elapsed_ns=$(($(now) - now))
             awk '/^VmRSS/ {{ print \"rss_kb=\" $2 }}' /proc/$scheduler/status
             stop_scheduler"
        )))
        .limit(900)
        .boot()?;
    counts_of(&outcome, 0)
}

/// The median from the start of `scx_avxspec policy use` to its end, when each decision goes by the
/// other policy, beside a task that never sleeps. Time is counted in instructions, one in a
/// nanosecond. All CPUs would share that, so that four of them made a machine of 250 MIPS each:
/// there is one.
pub fn switch_ms() -> Result<f64> {
    let outcome = scheduler_guest(Qemu::cpus(1).counted_time(1), Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/time_commands.c"))?)
        .command(&script(&format!(
            "start_scheduler --force
             busy_loops 1
             time_commands {SWITCHES} scx_avxspec policy use static -- \
                 scx_avxspec policy use adaptive
             stop_scheduler"
        )))
        .limit(1200)
        .boot()?;
    let median = counts_of(&outcome, 0)?["median_us"];
    Ok(median as f64 / 1000.0)
}
