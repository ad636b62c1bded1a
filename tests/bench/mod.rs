// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig bench`: every figure with its bar and a verdict.

mod agent;
mod avx;
mod beside_jobs;
mod callbacks;
mod eevdf;
pub mod figures;
mod hiding;
mod modelled;
pub mod soak;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::rig::machine::Machine;
use crate::rig::results::{Bar, Bench, Figure, Reason, Results};
use crate::rig::{Bochs, Flavour, Guest, Kernel, Qemu};
use crate::suite::avx::shares;
use crate::suite::{oracle, wakeups};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only figures whose name begins with one of these
    prefixes: Vec<String>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "rig.qemu_boot_s",
        unit: "s",
        bar: Bar::AtMost(15.0),
        measure: || boot_seconds(Qemu::cpus(4).into()),
    },
    Bench {
        name: "rig.bochs_boot_s",
        unit: "s",
        bar: Bar::AtMost(60.0),
        measure: || boot_seconds(Bochs::cpus(2).into()),
    },
    Bench {
        name: "rig.oracle_error",
        unit: "of the count",
        bar: Bar::AtMost(0.001),
        measure: oracle_error,
    },
    Bench {
        name: "rig.kernel_rebuild_s",
        unit: "s",
        bar: Bar::AtMost(180.0),
        measure: kernel_rebuild_seconds,
    },
    Bench {
        name: "patch.trap_instructions",
        unit: "instructions",
        bar: Bar::AtMost(1200.0),
        measure: hiding::of_a_trap,
    },
    Bench {
        name: "patch.hide_instructions",
        unit: "instructions",
        bar: Bar::AtMost(250.0),
        measure: hiding::of_hiding,
    },
    Bench {
        name: "patch.idle_cost_ratio",
        unit: "of unpatched",
        bar: Bar::AtMost(1.005),
        measure: hiding::ratio_without_a_scheduler,
    },
    Bench {
        name: "patch.parking_share",
        unit: "of switches",
        bar: Bar::Any,
        measure: hiding::share_to_be_parked,
    },
    Bench {
        name: "patch.lines",
        unit: "lines",
        bar: Bar::AtMost(300.0),
        measure: hiding::lines_added,
    },
    Bench {
        name: "sched.evex_light_migrations",
        unit: "instructions",
        bar: Bar::AtMost(0.0),
        measure: avx::evex_light_migrations,
    },
    Bench {
        name: "sched.wide_on_scalar_share",
        unit: "of all",
        bar: Bar::AtMost(0.001),
        measure: shares::wide_on_scalar_share,
    },
    Bench {
        name: "sched.wide_on_scalar_evex",
        unit: "of all",
        bar: Bar::AtMost(0.05),
        measure: shares::wide_on_scalar_evex,
    },
    Bench {
        name: "sched.scalar_on_avx_share",
        unit: "of looks",
        bar: Bar::AtMost(0.05),
        measure: shares::scalar_on_avx_share,
    },
    Bench {
        name: "sched.scalar_on_avx_share_of_siblings",
        unit: "of looks",
        bar: Bar::AtMost(0.05),
        measure: shares::scalar_on_avx_share_of_siblings,
    },
    Bench {
        name: "sched.scalar_on_lent_share",
        unit: "of looks",
        bar: Bar::AtMost(0.05),
        measure: shares::scalar_on_lent_share,
    },
    Bench {
        name: "sched.scalar_program_ratio",
        unit: "of the kernel's",
        bar: Bar::AtMost(1.02),
        measure: avx::scalar_program_ratio,
    },
    Bench {
        name: "sched.switch_ratio",
        unit: "of the least",
        bar: Bar::AtMost(1.1),
        measure: avx::switch_ratio,
    },
    Bench {
        name: "fair.switch_instructions",
        unit: "instructions",
        bar: Bar::AtMost(120.0),
        measure: avx::compensation_with_avx_cores,
    },
    Bench {
        name: "fair.switch_instructions_alone",
        unit: "instructions",
        bar: Bar::AtMost(120.0),
        measure: avx::compensation_alone,
    },
    Bench {
        name: "fair.switch_instructions_counters",
        unit: "instructions",
        bar: Bar::Any,
        measure: avx::compensation_by_counters,
    },
    Bench {
        name: "sched.migration_instructions",
        unit: "instructions",
        bar: Bar::AtMost(5500.0),
        measure: avx::migration_instructions,
    },
    Bench { name: "agent.rss_mib", unit: "MiB", bar: Bar::AtMost(25.0), measure: agent::rss_mib },
    Bench {
        name: "agent.cpu_share",
        unit: "of one CPU",
        bar: Bar::AtMost(0.002),
        measure: agent::cpu_share,
    },
    Bench {
        name: "agent.switch_ms",
        unit: "ms",
        bar: Bar::AtMost(10.0),
        measure: agent::switch_ms,
    },
    Bench {
        name: "agent.switch_command_ms",
        unit: "ms",
        bar: Bar::Any,
        measure: agent::switch_command_ms,
    },
    Bench {
        name: "sched.migration_vs_setaffinity",
        unit: "of by hand",
        bar: Bar::AtMost(0.5),
        measure: avx::migration_vs_setaffinity,
    },
    Bench {
        name: "sched.wakeup_observe_light_p50",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::observe_light_p50,
    },
    Bench {
        name: "sched.wakeup_observe_light_p99",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::observe_light_p99,
    },
    Bench {
        name: "sched.wakeup_observe_heavy_p50",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::observe_heavy_p50,
    },
    Bench {
        name: "sched.wakeup_observe_heavy_p99",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::observe_heavy_p99,
    },
    Bench {
        name: "sched.wakeup_adaptive_light_p50",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::adaptive_light_p50,
    },
    Bench {
        name: "sched.wakeup_adaptive_light_p99",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::adaptive_light_p99,
    },
    Bench {
        name: "sched.wakeup_adaptive_heavy_p50",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::adaptive_heavy_p50,
    },
    Bench {
        name: "sched.wakeup_adaptive_heavy_p99",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.1),
        measure: wakeups::adaptive_heavy_p99,
    },
    Bench {
        name: "sched.beside_jobs_2_worst",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.15),
        measure: || beside_jobs::worst(2),
    },
    Bench {
        name: "sched.beside_jobs_2_mean",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.0),
        measure: || beside_jobs::mean(2),
    },
    Bench {
        name: "sched.beside_jobs_4_worst",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.15),
        measure: || beside_jobs::worst(4),
    },
    Bench {
        name: "sched.beside_jobs_4_mean",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.0),
        measure: || beside_jobs::mean(4),
    },
    Bench {
        name: "sched.beside_jobs_16_worst",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.15),
        measure: || beside_jobs::worst(16),
    },
    Bench {
        name: "sched.beside_jobs_16_mean",
        unit: "of EEVDF",
        bar: Bar::AtMost(1.0),
        measure: || beside_jobs::mean(16),
    },
    Bench {
        name: "sched.tools_sysbench",
        unit: "of EEVDF",
        bar: Bar::AtLeast(1.0),
        measure: || tools::ratio("sysbench"),
    },
    Bench {
        name: "sched.tools_hackbench",
        unit: "of EEVDF",
        bar: Bar::AtLeast(1.0),
        measure: || tools::ratio("hackbench"),
    },
    Bench {
        name: "sched.tools_yield",
        unit: "of EEVDF",
        bar: Bar::AtLeast(1.0),
        measure: || tools::ratio("yield"),
    },
    Bench {
        name: "sched.tools_futex",
        unit: "of EEVDF",
        bar: Bar::AtLeast(1.0),
        measure: || tools::ratio("futex"),
    },
    Bench {
        name: "sched.tools_mutex",
        unit: "of EEVDF",
        bar: Bar::AtLeast(1.0),
        measure: || tools::ratio("mutex"),
    },
    Bench {
        name: "sched.tools_pipe",
        unit: "of EEVDF",
        bar: Bar::AtLeast(1.0),
        measure: || tools::ratio("pipe"),
    },
    Bench {
        name: "sched.tools_switch",
        unit: "of EEVDF",
        bar: Bar::AtLeast(1.0),
        measure: || tools::ratio("switch"),
    },
];

const REASONS: &[Reason] = &[
    Reason {
        figures: &["rig.qemu_boot_s"],
        why: "seconds of one run, in an emulator on a machine that others use as well",
    },
    Reason {
        figures: &["sched.switch_ratio"],
        why: "each time that a task wakes up it is compared with the one that runs, and each switch \
              reads the time twice, where the least scheduler does neither: enqueue() takes 460 \
              instructions, and 26 there",
    },
    Reason {
        figures: &["sched.tools_switch"],
        why: "instructions: each switch calls BPF programs, and goes through the queues of \
              sched_ext, where Linux's own class does neither",
    },
    Reason {
        figures: &["sched.tools_futex", "sched.beside_jobs_2_worst"],
        why: "an emulator that counts time runs its CPUs by turns: from one run to the next the first \
              changes from 0.87 to 1.22, and the medians of a load up to four times",
    },
];

const ALL: [(&str, &[Bench]); 2] = [("measuring", BENCHES), ("modelling", modelled::BENCHES)];

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.into_iter().flat_map(|(_, benches)| benches).map(|it| it.name)
}

pub fn reasons() -> impl Iterator<Item = &'static Reason> {
    REASONS.iter().chain(modelled::REASONS)
}

pub fn bench(arguments: &Arguments) -> Result<ExitCode> {
    let prefixes = &arguments.prefixes;
    for prefix in prefixes {
        ensure!(
            names().any(|name| name.starts_with(prefix)),
            "no figure begins with {prefix:?}: they are {}",
            names().collect::<Vec<_>>().join(", ")
        );
    }
    let is_chosen =
        |name: &str| prefixes.is_empty() || prefixes.iter().any(|it| name.starts_with(it));
    let mut all_measured = true;
    for (doing, benches) in ALL {
        for bench in benches.iter().filter(|it| is_chosen(it.name)) {
            eprintln!("rig: {doing} {}", bench.name);
            let figure = bench.take();
            println!("{}", row(&figure));
            // A figure that falls short was measured all the same: its verdict says so.
            all_measured &= figure.value.is_some();
            Results::record("bench", figure)?;
        }
    }
    eprintln!("rig: written to {}", Results::path("bench").display());
    Ok(if all_measured { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(figure: &Figure) -> String {
    let value = figure.value.map_or("-".to_owned(), |value| format!("{value:.4}"));
    format!(
        "{:28} {value:>12} {:23} {:16} {}",
        figure.name,
        figure.unit,
        figure.bar,
        figure.judgement()
    )
}

/// From power-on to the first command, by the host's clock; the machine and
/// the kernel are built before.
fn boot_seconds(machine: Machine) -> Result<f64> {
    machine.prepare()?;
    let kernel = Kernel::get(Flavour::Patched)?;
    let outcome = Guest::with_kernel(machine, kernel).boots_by_itself().command("true").boot()?;
    outcome.all_succeeded()?;
    Ok(outcome.boot.as_secs_f64())
}

/// The worst relative error of all counts.
fn oracle_error() -> Result<f64> {
    let cases = oracle::measure_cases(1)?;
    cases
        .iter()
        .map(oracle::Case::error)
        .max_by(f64::total_cmp)
        .context("the oracle's test has cases")
}

/// A patched kernel with one line of one .c file of its series changed.
fn kernel_rebuild_seconds() -> Result<f64> {
    let dir = tempfile::tempdir()?;
    // Neither was built before, or it would be found and not built.
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    Kernel::with_series(series_with(&format!("bench_{stamp}_begun"), dir.path())?)?;
    let changed = series_with(&format!("bench_{stamp}_changed"), dir.path())?;
    let begun = Instant::now();
    Kernel::with_series(changed)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The project's series and one patch more, which adds the word to a .c file
/// that the hiding of AVX-512 is about.
fn series_with(word: &str, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut series =
        crate::rig::series::patches_in(&crate::rig::in_repository("kernel-patch/6.12"))?;
    let patch = dir.join(format!("9999-{word}.patch"));
    fs::write(
        &patch,
        format!(
            "--- a/arch/x86/kernel/fpu/core.c\n+++ b/arch/x86/kernel/fpu/core.c\n\
             @@ -1,3 +1,4 @@\n \
             // SPDX-License-Identifier: GPL-2.0-only\n\
             +static const char bench_word[] __attribute__((used)) = \"{word}\";\n \
             /*\n  *  Copyright (C) 1994 Linus Torvalds\n"
        ),
    )?;
    series.push(patch);
    Ok(series)
}
