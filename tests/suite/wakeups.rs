// SPDX-License-Identifier: GPL-2.0-only
//! How long a task waits that wakes up, beside others that compute all the time.
//!
//! The program serve is run under the kernel's own scheduler and under ours in one guest, and what
//! counts is the ratio of the two.

use std::sync::OnceLock;

use anyhow::{Result, ensure};

use super::counts::{Counts, counts_of};
use super::{scheduler_guest, script};
use crate::rig::machine::Machine;
use crate::rig::results::once;
use crate::rig::{Bochs, Flavour, Qemu, in_repository, program};

crate::tests! {
    wakeups:
    who_wakes_up_waits_for_no_turn_of_a_background_job(19),
}

/// Four threads that serve beside four jobs at nice 10, on four CPUs: each computes for a tenth of
/// a CPU, or for most of one, and then uses 512-bit vectors for a fifteenth of that.
const LIGHT: &str = "-s 4 -t 400 -g 266 -w 25 -W 15 -j 4 -n 10";
const HEAVY: &str = "-s 4 -t 600 -g 266 -w 212 -W 15 -j 4 -n 10";

/// A turn takes up to 20 ms. One that waits for its end has more than ten times the latency.
///
/// An emulator that counts time runs CPUs by turns, and the same load has a median that is up to
/// four times another time's: the best of a few is compared.
fn who_wakes_up_waits_for_no_turn_of_a_background_job() -> Result<()> {
    let machine = Qemu::cpus(2).counted_time(1);
    let loads = ["serve -s 2 -t 100 -g 266 -w 25 -j 2 -n 10"; 4];
    let counts = served(machine.into(), Flavour::Stock, "--force --policy observe", &loads)?;
    let best = |whose: &str| {
        let median = |load: usize| counts[format!("{whose}_{load}_p50").as_str()];
        (0..loads.len()).map(median).min().unwrap_or_default()
    };
    let [kernels, ours] = ["kernels", "ours"].map(best);
    ensure!(ours < 5 * kernels, "{ours} ns, and {kernels} ns under the kernel's own scheduler");
    Ok(())
}

/// Median and 99th percentile of each load, in nanoseconds, under both schedulers.
pub fn served(
    machine: Machine,
    flavour: Flavour,
    arguments: &str,
    loads: &[&str],
) -> Result<Counts> {
    let under = |whose: &str| -> String {
        let told = |(n, load): (usize, &&str)| {
            format!("{load} | sed -n 's/^\\(p[0-9]*\\)_ns=/{whose}_{n}_\\1=/p'\n")
        };
        loads.iter().enumerate().map(told).collect()
    };
    let (kernels, ours) = (under("kernels"), under("ours"));
    let outcome = scheduler_guest(machine, flavour)?
        .program(&program::compile(&in_repository("tests/guest/serve.c"))?)
        .command(&script(&format!(
            "{kernels}
             start_scheduler {arguments}
             sleep 0.3
             {ours}
             stop_scheduler"
        )))
        .limit(900)
        .boot()?;
    counts_of(&outcome, 0)
}

/// Ours by the kernel's own, under a policy.
fn ratio(policy: &'static str, kept: &OnceLock<Counts>, figure: &str) -> Result<f64> {
    let measure = || {
        let machine = Bochs::cpus(4).at_a_servers_pace();
        let loads = [LIGHT, HEAVY].map(|load| format!("serve {load}"));
        let loads: Vec<&str> = loads.iter().map(String::as_str).collect();
        served(machine.into(), Flavour::Patched, &format!("--policy {policy}"), &loads)
    };
    Ok(once(kept, measure)?.ours_by_kernels(figure))
}

macro_rules! figures {
    ($($name:ident: $policy:literal $figure:literal),* $(,)?) => {
        $(pub fn $name() -> Result<f64> { ratio($policy, kept($policy), $figure) })*
    };
}

/// All figures of a policy are of one run.
fn kept(policy: &str) -> &'static OnceLock<Counts> {
    static OBSERVE: OnceLock<Counts> = OnceLock::new();
    static ADAPTIVE: OnceLock<Counts> = OnceLock::new();
    if policy == "observe" { &OBSERVE } else { &ADAPTIVE }
}

figures! {
    observe_light_p50: "observe" "0_p50",
    observe_light_p99: "observe" "0_p99",
    observe_heavy_p50: "observe" "1_p50",
    observe_heavy_p99: "observe" "1_p99",
    adaptive_light_p50: "adaptive" "0_p50",
    adaptive_light_p99: "adaptive" "0_p99",
    adaptive_heavy_p50: "adaptive" "1_p50",
    adaptive_heavy_p99: "adaptive" "1_p99",
}
