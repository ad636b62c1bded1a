// SPDX-License-Identifier: GPL-2.0-only
//! What AVX cores would gain, told while there are none.

use anyhow::{Context, Result, ensure};

use super::{CPUS, phases_guest, status};
use crate::rig::guest::Outcome;
use crate::rig::{Bochs, Flavour, Qemu};
use crate::suite::{scheduler_guest, script};

crate::tests! {
    avx:
    what_avx_cores_would_gain_is_told_before_there_are_any(52),
    what_avx_cores_would_gain_is_told_on_a_stock_kernel(51),
}

/// A tenth of what the threads do is wide work, in pieces of 40 us. A trial of AVX cores, and it is
/// looked anew.
fn what_avx_cores_would_gain_is_told_before_there_are_any() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(CPUS).siblings(), Flavour::Patched)?
        .command(&script(
            "start_scheduler --policy observe
             phases 5 100000000 180 20 & phases=$!
             sleep 1
             scx_avxspec status --json >/tmp/observed
             scx_avxspec explain $(ls /proc/$phases/task | sort -n | tail -n 1) >&2
             scx_avxspec policy use adaptive >&2
             scx_avxspec status --json >/tmp/served
             # From here on there is nothing to see.
             kill $phases
             scx_avxspec policy use observe >&2
             scx_avxspec status
             stop_scheduler",
        ))
        .collect("/tmp/observed")
        .collect("/tmp/served")
        .limit(400)
        .boot()?;
    let anew = outcome.stdout(0)?;
    ensure!(anew.contains("it is not known whether they pay: too little was seen yet"), "{anew}");
    let said = &outcome.commands[0].stderr;
    ensure!(said.contains("is scalar: it was seen with wide vectors, and AVX cores are"), "{said}");
    let served = status(&outcome, "/tmp/served")?;
    ensure!(served.get("prospect").is_none(), "{served}");

    let prospect = worth(&outcome)?;
    let [cores, work, least, most] = prospect;
    // A core has two CPUs here.
    ensure!(cores == 2 && (8..=13).contains(&work), "{prospect:?}");
    // A quarter of the clock, of nine tenths of the work, less what the moves cost.
    ensure!(least <= 0 && (15..=22).contains(&most), "{prospect:?}");
    Ok(())
}

/// Where only those are seen who are switched out in the middle of it. QEMU has no AVX-512, and
/// there it is not known.
fn what_avx_cores_would_gain_is_told_on_a_stock_kernel() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(CPUS), Flavour::Stock)?
        .command(&script(
            "start_scheduler --policy observe
             phases 1 1 0 1000000000 & wide=$!
             phases 5 100000000 200 0 & scalar=$!
             sleep 1
             scx_avxspec status --json >/tmp/observed
             kill $wide $scalar
             stop_scheduler",
        ))
        .collect("/tmp/observed")
        .limit(400)
        .boot()?;
    outcome.all_succeeded()?;
    let prospect = worth(&outcome)?;
    let [cores, work, _, most] = prospect;
    ensure!(cores == 1 && (10..=30).contains(&work) && most > 5, "{prospect:?}");

    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(&script(
            "start_scheduler --policy observe --force
             scx_avxspec status
             stop_scheduler",
        ))
        .boot()?;
    let told = outcome.stdout(0)?;
    ensure!(told.contains("not known whether they pay: no thread says that"), "{told}");
    Ok(())
}

/// AVX cores, percent of AVX work, and the least and the most percent of gain.
fn worth(outcome: &Outcome) -> Result<[i64; 4]> {
    let status = status(outcome, "/tmp/observed")?;
    let worth = &status["prospect"]["modelled"];
    let number = |name: &str| worth[name].as_i64().with_context(|| format!("no {name}: {status}"));
    Ok([
        number("avx_cores")?,
        number("avx_work_percent")?,
        number("least_gain_percent")?,
        number("most_gain_percent")?,
    ])
}
