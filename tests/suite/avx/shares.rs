// SPDX-License-Identifier: GPL-2.0-only
//! Where AVX work is done under the policy that nobody chose, by the counts of the emulator.

use anyhow::{Result, ensure};

use super::occupancy::looks_at;
use super::{CPUS, WIDE, phases_guest, user_rows, wide_work};
use crate::ensure_eq;
use crate::suite::counts::counts_of;
use crate::suite::script;
use crate::vm::{Bochs, Flavour, Guest};

/// What fraction of the wide instructions is executed on scalar CPUs, of a program that
/// starts under the scheduler.
pub fn wide_on_scalar_share() -> Result<f64> {
    wide_on_scalar(SCHEDULER, &phases(CPUS))
}

/// The same of one that ran before it, and so has string functions with the encoding of
/// AVX-512 from the C library.
pub fn wide_on_scalar_evex() -> Result<f64> {
    wide_on_scalar(&phases(CPUS), SCHEDULER)
}

const SCHEDULER: &str = "start_scheduler --stats 0.05";

/// Threads with string functions, two million instructions of scalar work, a tenth of that
/// with wide vectors, a system call, and so on.
fn phases(threads: usize) -> String {
    format!("phases {threads} 1000000 20000 2000 string & phases=$!")
}

fn guest(machine: Bochs) -> Result<Guest> {
    Ok(phases_guest(machine.at_a_servers_pace(), Flavour::Patched)?.limit(900))
}

/// How often an AVX core does scalar work though a scalar CPU is idle, of all times that one
/// is. With as many threads as CPUs none idles, but while somebody is on the way to it.
pub fn scalar_on_avx_share() -> Result<f64> {
    let outcome = guest(Bochs::cpus(CPUS).traces())?
        .command(&script(&format!(
            "start_scheduler
             {}
             sleep 0.3
             oraclectl trace start
             sleep 0.1
             oraclectl trace stop
             kill $phases
             stop_scheduler",
            phases(CPUS / 2)
        )))
        .boot()?;
    outcome.all_succeeded()?;
    let looks = looks_at(&String::from_utf8(outcome.host_file("oracle.trace")?)?)?;
    eprintln!("rig: {looks:?}");
    ensure!(looks.with_idle_scalar > 1000, "scalar CPUs are too rarely idle: {looks:?}");
    Ok(looks.with_scalar_on_avx as f64 / looks.with_idle_scalar as f64)
}

const FEWEST_WIDE: u64 = 10_000_000;

/// Long after the first wide instruction, for a tenth of a second.
fn wide_on_scalar(first: &str, second: &str) -> Result<f64> {
    let outcome = guest(Bochs::cpus(CPUS))?
        .command(&script(&format!(
            "{first}
             {second}
             sleep 0.3
             before=$(wc -l </tmp/scheduler.out)
             oraclectl run -- sleep 0.1 >/tmp/counted
             tail -n +$((before + 1)) /tmp/scheduler.out >/tmp/meanwhile
             kill $phases
             stop_scheduler
             sed -n 's/.*, \\([0-9]*\\) AVX cores for.*/\\1/p' /tmp/meanwhile | sort -n |
                 sed -n '1s/^/fewest_avx_cores=/p'"
        )))
        .command("cat /tmp/counted")
        .boot()?;
    // Those that are AVX cores all the time: CPUs with high numbers come first.
    let avx_cores = counts_of(&outcome, 0)?["fewest_avx_cores"] as usize;
    ensure!((1..CPUS).contains(&avx_cores), "{avx_cores} of {CPUS} CPUs are AVX cores");
    let first_avx_cpu = CPUS - avx_cores;
    let rows = user_rows(outcome.stdout(1)?)?;
    let (on_scalar, all) = wide_work(&rows, first_avx_cpu);
    ensure!(all >= FEWEST_WIDE, "{all} wide instructions");
    ensure_eq!(rows.len(), CPUS);
    for row in &rows {
        let wide = row.sum(&WIDE);
        // Where nobody works nobody can be at the wrong place.
        ensure!(row.get("retired") > wide, "no scalar work on CPU {}", row.cpu);
        ensure!(wide > 0 || row.cpu < first_avx_cpu, "no wide work on AVX core {}", row.cpu);
    }
    eprintln!("rig: {on_scalar} of {all} wide instructions beside {avx_cores} AVX cores");
    Ok(on_scalar as f64 / all as f64)
}
