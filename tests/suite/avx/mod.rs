// SPDX-License-Identifier: GPL-2.0-only
//! AVX work and AVX cores, by the counts of the emulator.

pub mod costs;

use anyhow::{Result, ensure};

use super::{Test, scheduler_guest, script};
use crate::vm::{Bochs, Flavour, census, in_repository, program};

pub const TESTS: &[Test] = &[Test {
    name: "avx::wide_work_goes_to_avx_cores_before_it_begins",
    budget_s: 90,
    body: wide_work_goes_to_avx_cores,
}];

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
