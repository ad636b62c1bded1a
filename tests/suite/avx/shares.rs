// SPDX-License-Identifier: GPL-2.0-only
//! Where AVX work is done under the policy that nobody chose, by the counts of the emulator.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::occupancy::{Looks, looks_at};
use super::{CPUS, WIDE, phases_guest, status, user_rows, wide_work};
use crate::ensure_eq;
use crate::rig::guest::Outcome;
use crate::rig::{Bochs, Flavour, Guest};
use crate::suite::script;

/// What fraction of the wide instructions is executed on scalar CPUs, of a program that
/// starts under the scheduler.
pub fn wide_on_scalar_share() -> Result<f64> {
    let (share, screen) = wide_on_scalar(SCHEDULER, &phases(CPUS))?;
    ensure!(!screen.contains(MIXES), "{screen}");
    Ok(share)
}

/// The same of one that ran before it, and so has string functions with the encoding of
/// AVX-512 from the C library. As it faults for these it is kept on AVX cores with all that
/// it does: so that there are other CPUs as many threads do nothing else.
pub fn wide_on_scalar_evex() -> Result<f64> {
    let others = format!("phases {CPUS} 1000000 20000 0 string & phases=\"$phases $!\"");
    let first = format!("{}\n{others}\nsleep 0.1", phases(CPUS));
    // All CPUs would be at work while the kernel verifies, which is what takes long.
    let second = format!("kill -STOP $phases\n{SCHEDULER}\nkill -CONT $phases");
    let (share, screen) = wide_on_scalar(&first, &second)?;
    ensure!(screen.contains(MIXES), "{screen}");
    Ok(share)
}

/// What the operator is told of such a program.
const MIXES: &str = "\nphases does all its work on AVX cores";

const SCHEDULER: &str = "start_scheduler --set trials=off";

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
    let looks = looks_beside_idle_cpus(Bochs::cpus(CPUS), "")?;
    Ok(looks.with_scalar_on_avx as f64 / looks.with_idle_scalar as f64)
}

/// The same where CPUs are siblings, and cores that idle are not lent.
pub fn scalar_on_avx_share_of_siblings() -> Result<f64> {
    let looks = looks_beside_idle_cpus(Bochs::cpus(CPUS).siblings(), "--set lend-idle-cores=off")?;
    Ok(looks.with_scalar_on_avx as f64 / looks.with_idle_scalar as f64)
}

/// The same where they are lent, and the idle CPU would be better.
pub fn scalar_on_lent_share() -> Result<f64> {
    let looks = looks_beside_idle_cpus(Bochs::cpus(CPUS).siblings(), "")?;
    Ok(looks.with_better_place as f64 / looks.with_idle_scalar as f64)
}

fn looks_beside_idle_cpus(machine: Bochs, policy: &str) -> Result<Looks> {
    let threads_per_core = machine.threads_per_core();
    let outcome = guest(machine.traces())?
        .command(&script(&format!(
            "{SCHEDULER} {policy}
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
    let trace = String::from_utf8(outcome.host_file("oracle.trace")?)?;
    let looks = looks_at(&trace, threads_per_core)?;
    eprintln!("rig: {looks:?}");
    ensure!(looks.with_idle_scalar > 1000, "scalar CPUs are too rarely idle: {looks:?}");
    Ok(looks)
}

const FEWEST_WIDE: u64 = 10_000_000;

/// Long after the first wide instruction, for a tenth of a second in which no CPU has another
/// role; and what the status is then. How many CPUs AVX work may have where others want them,
/// too, is known after some tenths of a second.
fn wide_on_scalar(first: &str, second: &str) -> Result<(f64, String)> {
    let outcome = guest(Bochs::cpus(CPUS))?
        .command(&script(&format!(
            "{first}
             {second}
             sleep 0.3
             roles() {{ grep -o '\"role_changes\":[ 0-9]*' $1; }}
             for try in 1 2 3 4 5; do
                 scx_avxspec status --json >/tmp/before
                 oraclectl run -- sleep 0.1 >/tmp/counted
                 scx_avxspec status --json >/tmp/after
                 [ \"$(roles /tmp/before)\" != \"$(roles /tmp/after)\" ] || break
             done
             scx_avxspec status
             kill $phases
             stop_scheduler"
        )))
        .command("cat /tmp/counted")
        .collect("/tmp/before")
        .collect("/tmp/after")
        .boot()?;
    outcome.all_succeeded()?;
    let [before, after] = [roles_in(&outcome, "/tmp/before")?, roles_in(&outcome, "/tmp/after")?];
    let is_all_the_time = |cpu: &usize| before[*cpu].is_avx_core && before[*cpu] == after[*cpu];
    let avx_cores: Vec<usize> = (0..CPUS).filter(is_all_the_time).collect();
    let nr = avx_cores.len();
    ensure!((1..CPUS).contains(&nr), "{nr} of {CPUS} CPUs are AVX cores all the time");
    let rows = user_rows(outcome.stdout(1)?)?;
    let (on_scalar, all) = wide_work(&rows, &avx_cores);
    ensure!(all >= FEWEST_WIDE, "{all} wide instructions");
    ensure_eq!(rows.len(), CPUS);
    for row in &rows {
        let wide = row.sum(&WIDE);
        // Where nobody works nobody can be at the wrong place.
        ensure!(row.get("retired") > wide, "no scalar work on CPU {}", row.cpu);
        ensure!(wide > 0 || !avx_cores.contains(&row.cpu), "no wide work on AVX core {}", row.cpu);
    }
    eprintln!("rig: {on_scalar} of {all} wide instructions beside the AVX cores {avx_cores:?}");
    Ok((on_scalar as f64 / all as f64, outcome.stdout(0)?.to_owned()))
}

/// What a CPU is, and how often that has changed.
#[derive(Debug, Deserialize, PartialEq)]
struct Role {
    is_avx_core: bool,
    role_changes: u64,
}

fn roles_in(outcome: &Outcome, file: &str) -> Result<Vec<Role>> {
    let roles: Vec<Role> = serde_json::from_value(status(outcome, file)?["cpus"].take())?;
    ensure_eq!(roles.len(), CPUS);
    Ok(roles)
}
