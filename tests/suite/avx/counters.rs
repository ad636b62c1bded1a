// SPDX-License-Identifier: GPL-2.0-only
//! What the CPUs' own counters say, for people to read. The counters are made up; that they are
//! shared out among all who want them is the kernel's own doing.

use anyhow::{Context, Result, ensure};

use super::fairness::with_fake_counters;
use crate::ensure_eq;
use crate::rig::{Flavour, Qemu, in_repository, program};
use crate::suite::counts::counts_of;
use crate::suite::{scheduler_guest, script};

crate::tests! {
    avx:
    counters_tell_of_licences_and_are_left_to_others(14),
}

/// One core of two threads, whose cycles are 600, 300 and 100 in a microsecond at each licence, with
/// 50 operations.
const EVENTS: &str = "fake_clocks:0,fake_clocks:1,fake_clocks:2,fake_clocks:5";

/// There is room for four events on each CPU. Somebody else comes who wants three of CPU 0. For a
/// while they take turns, and then that one has them alone.
fn counters_tell_of_licences_and_are_left_to_others() -> Result<()> {
    let guest = scheduler_guest(Qemu::topology(1, 1, 2), Flavour::Stock)?;
    let outcome = with_fake_counters(guest, Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/avx/rival.c"))?)
        .package("curl")
        .command(&script(&format!(
            "ip link set lo up
             insmod /fake_clocks.ko cycles=600,300,100,1000 operations=50 room=4
             scrape() {{ curl --silent http://127.0.0.1:9829/metrics >/tmp/$1; }}
             is_alone() {{
                 scrape meanwhile
                 has_counters 3 && [ \"$(tail -n 1 /tmp/rival)\" = 100 ]
             }}
             start_scheduler --force --clock-counters {EVENTS}
             tell_counters before
             scrape first
             tell_counters asked
             sleep 1
             scrape second
             scx_avxspec status >/tmp/status
             rival fake_clocks >/tmp/rival & rival=$!
             wait_until 10 grep -q . /tmp/rival || fail nobody counts
             head -n 1 /tmp/rival | sed s/^/rivals_part=/
             scrape shared
             wait_until 30 is_alone || fail \"the rival has $(cat /tmp/rival)\"
             kill $rival
             stop_scheduler
             wait_until 10 has_counters 0
             tell_counters stopped
             start_scheduler --force --clock-counters none
             scrape none
             stop_scheduler"
        )))
        .collect("/tmp/first")
        .collect("/tmp/second")
        .collect("/tmp/shared")
        .collect("/tmp/none")
        .collect("/tmp/status")
        .boot()?;
    outcome.all_succeeded()?;
    let counts = counts_of(&outcome, 0)?;
    for (when, open) in [("before", 0), ("asked", 8), ("stopped", 0)] {
        ensure_eq!(counts[when], open, "{when}");
    }
    let part = counts["rivals_part"];
    ensure!((10..90).contains(&part), "in the first half second the rival had {part} %");

    let text = |name: &str| -> Result<String> {
        Ok(String::from_utf8(outcome.file(&format!("/tmp/{name}"))?)?)
    };
    ensure!(!text("none")?.contains("licence_cycles_total{"), "counted though nobody was to count");
    let status = text("status")?;
    let is_told = |line: &str| {
        line.starts_with("counted: ") && line.ends_with(" floating-point operations of 512 bits")
    };
    ensure!(status.lines().any(is_told), "{status}");

    let (first, second, shared) = (text("first")?, text("second")?, text("shared")?);
    for (earlier, later) in [(&first, &second), (&second, &shared)] {
        for cpu in [0, 1] {
            ensure_rates(earlier, later, cpu)?;
        }
    }
    Ok(())
}

/// For each second that was counted, or for which what was counted stands: half of the core's
/// cycles, and all of the CPU's own operations.
fn ensure_rates(earlier: &str, later: &str, cpu: u32) -> Result<()> {
    let grown = |series: &str| -> Result<f64> {
        let value = |text: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(series));
            found.map_or(Ok(0.0), |value| value.trim().parse::<f64>())
        };
        Ok(value(later).context(series.to_owned())? - value(earlier)?)
    };
    let seconds = |counters: &str| {
        let series = "avxspec_cpu_counted_seconds_total";
        grown(&format!("{series}{{cpu=\"{cpu}\",counters=\"{counters}\"}}"))
    };
    let licences = seconds("licences")?;
    ensure!(licences > 0.4, "CPU {cpu} counted for {licences} s");
    let is_about = |rate: f64, expected: f64| (rate / expected - 1.0).abs() < 0.02;
    for (licence, cycles) in [(0, 600e6), (1, 300e6), (2, 100e6)] {
        let series = "avxspec_cpu_licence_cycles_total";
        let rate = grown(&format!("{series}{{cpu=\"{cpu}\",licence=\"{licence}\"}}"))? / licences;
        ensure!(is_about(rate, cycles / 2.0), "CPU {cpu}: {rate} cycles a second at {licence}");
    }
    let operations = grown(&format!("avxspec_cpu_wide_operations_total{{cpu=\"{cpu}\"}}"))?;
    let rate = operations / seconds("operations")?;
    ensure!(is_about(rate, 50e6), "CPU {cpu}: {rate} operations a second");
    Ok(())
}
