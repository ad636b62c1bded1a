// SPDX-License-Identifier: GPL-2.0-only
//! AVX work and AVX cores, by the counts of the emulator.

pub mod costs;

use anyhow::{Result, ensure};

use super::counts::counts_of;
use super::{Test, scheduler_guest, script};
use crate::ensure_eq;
use crate::vm::{Bochs, Flavour, census, in_repository, program};

pub const TESTS: &[Test] = &[
    Test {
        name: "avx::wide_work_goes_to_avx_cores_before_it_begins",
        budget_s: 90,
        body: wide_work_goes_to_avx_cores,
    },
    Test {
        name: "avx::policies_are_switched_live_and_each_decision_sees_a_whole_one",
        budget_s: 90,
        body: policies_are_switched_live,
    },
];

const CPUS: usize = 4;

/// With one of them, and nobody there: CPUs with high numbers come first.
const AVX_CPU: usize = 3;

const WIDE: [&str; 2] = ["v512_light", "v512_heavy"];

/// As many threads as CPUs alternate between scalar work, 512-bit work and a system
/// call. Counted while they are at it, long after the first of them.
fn wide_work_goes_to_avx_cores() -> Result<()> {
    let outcome = scheduler_guest(Bochs::cpus(CPUS), Flavour::Patched)?
        .program(&census::oraclectl()?)
        .program(&program::compile(&in_repository("tests/avx/phases.c"))?)
        .command(&script(
            "start_scheduler --set sizing=static --set avx-cpus=1
             phases 4 1000000 200 20 & phases=$!
             sleep 0.3
             oraclectl run -- sleep 1
             kill $phases
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    let rows = census::read(outcome.stdout(0)?)?;
    let user = |cpu: usize| rows.iter().find(|row| row.cpu == cpu && row.level == "user");
    let wide_on = |cpu: usize| user(cpu).map_or(0, |row| row.sum(&WIDE));
    let on_scalar: u64 = (0..CPUS).filter(|&cpu| cpu != AVX_CPU).map(wide_on).sum();
    let all = on_scalar + wide_on(AVX_CPU);
    ensure!(all > 1_000_000, "{all} wide instructions in a second");
    ensure!(on_scalar * 1000 <= all, "{on_scalar} of {all} wide instructions on scalar CPUs");

    // And the rest is done where it belongs.
    let retired_on = |cpu: usize| user(cpu).map_or(0, |row| row.get("retired"));
    let scalar_on_avx = retired_on(AVX_CPU) - wide_on(AVX_CPU);
    let elsewhere: u64 = (0..CPUS).filter(|&cpu| cpu != AVX_CPU).map(retired_on).sum();
    ensure!(elsewhere > 5 * scalar_on_avx, "{scalar_on_avx} scalar instructions on the AVX core");
    Ok(())
}

const SWITCHES: u64 = 1000;

/// At random, while threads alternate between scalar and wide work. Each decision computes the
/// checksum of what it read; what is refused changes nothing.
fn policies_are_switched_live() -> Result<()> {
    let outcome = scheduler_guest(Bochs::cpus(2), Flavour::Patched)?
        .program(&program::compile(&in_repository("tests/avx/phases.c"))?)
        .program(&program::compile(&in_repository("tests/avx/switch_policies.c"))?)
        .command(&script(&format!(
            "start_scheduler --check-policies --stats 0.5 --set return=syscall
             phases 4 1000000 20 2 & phases=$!
             switch_policies {SWITCHES} /run/scx_avxspec/control
             kill $phases
             scx_avxspec policy set sizing=static avx-cpus=2 >&2
             scx_avxspec policy set avx-cpus=1 sizing=lots >&2
             echo refused=$?
             scx_avxspec policy show >/tmp/policy
             sed -n 's/^# policy /generation=/p' /tmp/policy
             grep '^avx-cpus=' /tmp/policy
             sleep 1
             stop_scheduler
             awk '/policies read/ {{ read += $(NF - 4); torn += $(NF - 1) }}
                  END {{ print \"read=\" read \"\\ntorn=\" torn }}' /tmp/scheduler.out"
        )))
        .limit(400)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!(counts["granted"], SWITCHES);
    ensure_eq!(counts["generation"], 1 + SWITCHES + 1);
    ensure_eq!((counts["refused"], counts["avx-cpus"]), (1, 2));
    ensure!(counts["read"] > 10 * SWITCHES, "{counts:?}");
    ensure_eq!(counts["torn"], 0);
    Ok(())
}
