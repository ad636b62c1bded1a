// SPDX-License-Identifier: GPL-2.0-only
//! What the agent costs.

use std::sync::OnceLock;

use anyhow::Result;

use crate::ensure_eq;
use crate::rig::results::once;
use crate::rig::{Flavour, Qemu, in_repository, program};
use crate::suite::counts::{Counts, counts_of};
use crate::suite::{scheduler_guest, script};

/// For so many seconds it is asked for metrics, once in each, as Prometheus asks.
const SCRAPES: u64 = 10;

/// Times that the policy is changed and changed back.
const SWITCHES: u64 = 50;

/// Of each instruction, where time is counted in them.
const NANOSECONDS: u32 = 4;

/// Of 64 CPUs in four nodes.
fn large_machine() -> Qemu {
    Qemu::topology(4, 8, 2).numa_nodes(4)
}

pub fn rss_mib() -> Result<f64> {
    let counts = scraped(large_machine())?;
    Ok(counts["rss_kb"] as f64 / 1024.0)
}

/// Of one CPU that executes an instruction in each nanosecond, as a slow one does.
pub fn cpu_share() -> Result<f64> {
    let counts = scraped(large_machine().counted_time(NANOSECONDS))?;
    let instructions = counts["ran_ns"] as f64 / f64::from(NANOSECONDS);
    Ok(instructions / counts["elapsed_ns"] as f64)
}

/// The agent's threads share one CPU. Where time is counted all CPUs share it, and a thread that spins
/// for the answer of another would be told what that one does as time of its own.
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
             for thread in /proc/$scheduler/task/*; do
                 taskset -p 1 ${{thread##*/}} || fail it has no CPU of its own
             done
             metrics >/tmp/metrics || fail no metrics
             ran=$(ran) now=$(now)
             for n in $(seq {SCRAPES}); do
                 sleep 1
                 metrics >/tmp/metrics || fail no metrics
             done
             echo ran_ns=$(($(ran) - ran))
             echo elapsed_ns=$(($(now) - now))
             awk '/^VmRSS/ {{ print \"rss_kb=\" $2 }}' /proc/$scheduler/status
             stop_scheduler"
        )))
        .limit(900)
        .boot()?;
    counts_of(&outcome, 0)
}

/// The median from the start of `scx_avxspec policy use` to its effect: from then on each decision
/// goes by the other policy.
pub fn switch_ms() -> Result<f64> {
    Ok(switches()?["effect_us"] as f64 / 1000.0)
}

/// The same to its end: it waits for its turn once more to say that all is well.
pub fn switch_command_ms() -> Result<f64> {
    Ok(switches()?["median_us"] as f64 / 1000.0)
}

/// Both figures are of one run.
fn switches() -> Result<&'static Counts> {
    static MEASURED: OnceLock<Counts> = OnceLock::new();
    once(&MEASURED, measure_switches)
}

/// Beside a task that never sleeps. Time is counted in instructions, one in a nanosecond. All CPUs
/// would share that, so that four of them made a machine of 250 MIPS each: there is one. The kernel
/// tells when a command was forked, and when the agent had last written to one of the maps before
/// the next command: what it wrote is looked at from the very next store on.
fn measure_switches() -> Result<Counts> {
    let outcome = scheduler_guest(Qemu::cpus(1).counted_time(1), Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/time_commands.c"))?)
        .command(&script(&format!(
            "start_scheduler --force
             busy_loops 1
             mount -t tracefs tracefs /sys/kernel/tracing
             cd /sys/kernel/tracing
             echo 'r:effect __x64_sys_bpf' >kprobe_events
             echo common_pid == $scheduler >events/kprobes/effect/filter
             echo 1 >events/kprobes/effect/enable
             echo 'parent_comm == \"time_commands\"' >events/sched/sched_process_fork/filter
             echo 1 >events/sched/sched_process_fork/enable
             time_commands {SWITCHES} scx_avxspec policy use static -- \
                 scx_avxspec policy use adaptive
             awk '/sched_process_fork:/ {{ if (effect) printf \"%d\\n\", effect - begun
                                           begun = $4 * 1e6; effect = 0 }}
                  /effect:/ {{ effect = $4 * 1e6 }}' trace | sort -n >/tmp/effects
             echo effects=$(wc -l </tmp/effects)
             echo effect_us=$(sed -n $(({SWITCHES} / 2))p /tmp/effects)
             stop_scheduler"
        )))
        .limit(1200)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!(counts["effects"], SWITCHES - 1);
    Ok(counts)
}
