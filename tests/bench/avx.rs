// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler costs, in instructions that the emulator counts.

use std::sync::OnceLock;

use anyhow::{Result, ensure};

use crate::rig::results::once;
use crate::rig::{Bochs, Flavour, Guest, bpf, in_repository, program};
use crate::suite::avx::fairness::{LICENCES, with_fake_counters};
use crate::suite::avx::{SCALAR_LIBRARY, phases_guest};
use crate::suite::counts::{Counts, counts_of, mean_of};
use crate::suite::hiding::{test_program, with_force};
use crate::suite::{scheduler_guest, script};

/// How often a switch is measured in one boot, for the mean.
const MEASUREMENTS: u32 = 20;

/// Turns of a program that is moved to an AVX core and back with each.
const TURNS: u32 = 2000;

/// Of two CPUs; those with high numbers become AVX cores first.
const AVX_CPU: u32 = 1;

/// A byte through a pipe and back on one CPU: the worse of the tiers, over the same
/// with the least that makes a fair scheduler.
pub fn switch_ratio() -> Result<f64> {
    let least = switch_under_the_least_scheduler()?;
    let stock = switch_under_ours(Flavour::Stock)?;
    let patched = switch_under_ours(Flavour::Patched)?;
    Ok(stock.max(patched) / least)
}

/// What a switch takes more if who runs at a low clock is compensated, with work on the sibling
/// that lowers it, and AVX cores.
pub fn compensation_with_avx_cores() -> Result<f64> {
    compensation("--policy static --set avx-cpus=1")
}

/// The same where nobody is moved.
pub fn compensation_alone() -> Result<f64> {
    compensation("--policy fair")
}

/// The same with counters, though not those of a processor, to read which may take longer.
pub fn compensation_by_counters() -> Result<f64> {
    compensation(&format!("--policy fair --clock-counters {LICENCES}"))
}

fn compensation(policy: &str) -> Result<f64> {
    let cost = |fairness: &str| {
        let guest = phases_guest(Bochs::cpus(2).siblings(), Flavour::Patched)?;
        let outcome = with_fake_counters(guest, Flavour::Patched)?
            .program(&test_program("costs")?)
            .command(&script(&format!(
                "insmod /fake_clocks.ko
                 start_scheduler {policy} --set fairness={fairness}
                 taskset -p 1 $$ >/dev/null
                 taskset 2 phases 1 1000000000 20 200 >/dev/null & phases=$!
                 sleep 0.3
                 {}
                 kill $phases
                 stop_scheduler",
                repeated_switches()
            )))
            .limit(900)
            .boot()?;
        // There and back.
        Ok::<f64, anyhow::Error>(mean_of(&outcome, "instructions", MEASUREMENTS)? / 2.0)
    };
    Ok(cost("compensate")? - cost("off")?)
}

fn repeated_switches() -> String {
    format!("for n in $(seq {MEASUREMENTS}); do costs pipe || exit 1; done")
}

fn switch_under_ours(flavour: Flavour) -> Result<f64> {
    let outcome = scheduler_guest(Bochs::cpus(1), flavour)?
        .program(&test_program("costs")?)
        .command(&script(&format!("start_scheduler\n{}\nstop_scheduler", repeated_switches())))
        .limit(900)
        .boot()?;
    mean_of(&outcome, "instructions", MEASUREMENTS)
}

fn switch_under_the_least_scheduler() -> Result<f64> {
    let vtime = bpf::compile(&in_repository("tests/guest/avx/vtime.bpf.c"))?;
    let outcome = with_force(Guest::new(Bochs::cpus(1).into(), Flavour::Patched))?
        .program(&test_program("costs")?)
        .file("/vtime.o", &vtime)
        .command(&format!("rig force --object /vtime.o -- sh -c '{}'", repeated_switches()))
        .limit(900)
        .boot()?;
    mean_of(&outcome, "instructions", MEASUREMENTS)
}

/// What it takes to move a task to an AVX core before its first wide instruction, and
/// away with its next system call: kernel instructions on all CPUs for each way.
pub fn migration_instructions() -> Result<f64> {
    Ok(migrations()?.by_fault)
}

/// The same over what it takes when the program does it by itself.
pub fn migration_vs_setaffinity() -> Result<f64> {
    let cost = migrations()?;
    Ok(cost.by_fault / cost.by_hand)
}

/// Both figures are of one run, which is expensive.
fn migrations() -> Result<Migrations> {
    static MEASURED: OnceLock<Migrations> = OnceLock::new();
    once(&MEASURED, measure_migrations).copied()
}

/// Kernel instructions for each migration.
#[derive(Clone, Copy, Debug)]
struct Migrations {
    by_fault: f64,
    by_hand: f64,
}

/// One by hand takes 4 % more in most boots than in others, for which nobody here is to blame.
const BOOTS_OF_MIGRATIONS: u32 = 8;

/// The mean of some boots.
fn measure_migrations() -> Result<Migrations> {
    let mut sum = Migrations { by_fault: 0.0, by_hand: 0.0 };
    for _ in 0..BOOTS_OF_MIGRATIONS {
        let of_one = migrations_of_a_boot()?;
        eprintln!("rig: {of_one:?}");
        sum.by_fault += of_one.by_fault;
        sum.by_hand += of_one.by_hand;
    }
    let boots = f64::from(BOOTS_OF_MIGRATIONS);
    Ok(Migrations { by_fault: sum.by_fault / boots, by_hand: sum.by_hand / boots })
}

/// Less what the same loop takes where nobody is moved, under the same scheduler.
fn migrations_of_a_boot() -> Result<Migrations> {
    let under_ours = |avx_cpus: u32| {
        script(&format!(
            "{SCALAR_LIBRARY}
             start_scheduler --policy static --set avx-cpus={avx_cpus} --set return=syscall
             migrate {TURNS} && stop_scheduler"
        ))
    };
    let outcome = scheduler_guest(Bochs::cpus(2).at_a_servers_pace(), Flavour::Patched)?
        .program(&program::compile(&in_repository("tests/guest/avx/migrate.c"))?)
        .command(&under_ours(1))
        .command(&under_ours(2))
        .command(&format!("{SCALAR_LIBRARY}; migrate {TURNS} {AVX_CPU}"))
        .command(&format!("{SCALAR_LIBRARY}; migrate {TURNS}"))
        .limit(900)
        .boot()?;
    let counts = |command| counts_of(&outcome, command);
    Ok(Migrations {
        by_fault: each_migration(&counts(0)?, &counts(1)?)?,
        by_hand: each_migration(&counts(2)?, &counts(3)?)?,
    })
}

fn each_migration(moved: &Counts, still: &Counts) -> Result<f64> {
    let migrations = moved["migrations"] as f64;
    let expected = f64::from(2 * TURNS);
    ensure!((migrations / expected - 1.0).abs() < 0.05, "not moved to and fro: {moved:?}");
    ensure!(still["migrations"] < u64::from(TURNS / 100), "moved without need: {still:?}");
    Ok((moved["instructions"] as f64 - still["instructions"] as f64) / migrations)
}

/// Rounds of scalar work, each with a system call, after the program was seen with wide
/// vectors.
const ROUNDS: u32 = 20_000;

/// Under a policy with which each light fault is followed by the next one soon.
const OFTEN_HIDDEN: &str = "--policy static --set quiet-library=off --set avx-cpus=1 \
     --set return=syscall --set mixed-memory=0s --set backoff-min=50us --set backoff-max=50us";

/// What a program without wide vectors, that was seen with some before, executes with
/// our scheduler, over what it executes with the kernel's.
pub fn scalar_program_ratio() -> Result<f64> {
    let outcome = scheduler_guest(Bochs::cpus(2).at_a_servers_pace(), Flavour::Patched)?
        .program(&program::compile(&in_repository("tests/guest/avx/afterwards.c"))?)
        .command(&format!("{SCALAR_LIBRARY}; afterwards {ROUNDS}"))
        .command(&script(&format!(
            "{SCALAR_LIBRARY}
             start_scheduler {OFTEN_HIDDEN}
             afterwards {ROUNDS} && stop_scheduler"
        )))
        .limit(900)
        .boot()?;
    let instructions =
        |command| -> Result<f64> { Ok(counts_of(&outcome, command)?["instructions"] as f64) };
    Ok(instructions(1)? / instructions(0)?)
}

/// How much a program executes on an AVX core that does nothing with AVX-512 any more but
/// string functions, and is hidden from each time it did: its instructions with that
/// encoding there.
pub fn evex_light_migrations() -> Result<f64> {
    let outcome = scheduler_guest(Bochs::cpus(4), Flavour::Patched)?
        .program(&program::compile(&in_repository("tests/guest/avx/afterwards.c"))?)
        .command(&script(&format!(
            "start_scheduler {OFTEN_HIDDEN}
             afterwards {ROUNDS} strings && stop_scheduler"
        )))
        .limit(900)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure!(counts["faults"] >= 1000, "hidden from too rarely: {counts:?}");
    Ok(counts["on_last_cpu"] as f64)
}
