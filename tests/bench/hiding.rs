// SPDX-License-Identifier: GPL-2.0-only
//! What the patch costs, in instructions that the emulator counts.

use std::fs;

use anyhow::Result;

use crate::rig::code_lines::code_lines_added;
use crate::rig::guest::Outcome;
use crate::rig::series::patches_in;
use crate::rig::{Bochs, Flavour, Guest, all_series, bpf, in_repository};
use crate::suite::counts::{counts_of, each_of, mean_of};
use crate::suite::hiding::{test_program, with_force};

/// How often each cost is measured in one boot, for the mean. Two processes may
/// meet such that each switch between them takes some hundred instructions more,
/// with any kernel.
const MEASUREMENTS: u32 = 100;

/// Where kernels are compared: each boot lays out memory in another way.
const BOOTS: u32 = 4;

/// One CPU, one kernel, `costs WHAT`, and the scheduler around it if there is one.
fn run(flavour: Flavour, scheduler: Option<&str>, what: &str) -> Result<Outcome> {
    let costs = test_program("costs")?;
    let mut guest = Guest::new(Bochs::cpus(1).into(), flavour).program(&costs).limit(900);
    let repeated = format!("for n in $(seq {MEASUREMENTS}); do costs {what} || exit 1; done");
    let command = match scheduler {
        None => repeated,
        Some(knobs) => {
            let bare = bpf::compile(&in_repository("tests/guest/hiding/bare.bpf.c"))?;
            guest = with_force(guest)?.file("/bare.o", &bare);
            format!("rig force --object /bare.o --set {knobs} -- sh -c '{repeated}'")
        }
    };
    guest.command(&command).boot()
}

fn instructions(flavour: Flavour, scheduler: Option<&str>, what: &str) -> Result<f64> {
    mean_of(&run(flavour, scheduler, what)?, "instructions", MEASUREMENTS)
}

/// The fewest, without a scheduler: how often the two meet such that it takes more is chance.
fn fewest_instructions(flavour: Flavour, what: &str) -> Result<f64> {
    let mut fewest = f64::INFINITY;
    for _ in 0..BOOTS {
        let counted = each_of(&run(flavour, None, what)?, "instructions", MEASUREMENTS)?;
        fewest = counted.into_iter().fold(fewest, f64::min);
    }
    Ok(fewest)
}

/// From a user's first use of AVX-512 to the restart of the instruction.
pub fn of_a_trap() -> Result<f64> {
    instructions(Flavour::Patched, Some("what=0"), "trap")
}

/// Two kinds of switches between processes; the worse ratio of both.
pub fn ratio_without_a_scheduler() -> Result<f64> {
    let ratio = |what| -> Result<f64> {
        let patched = fewest_instructions(Flavour::Patched, what)?;
        Ok(patched / fewest_instructions(Flavour::Stock, what)?)
    };
    Ok(ratio("pipe")?.max(ratio("yield")?))
}

/// What hiding at a switch adds to it: half of what it adds to a turn there and
/// back.
pub fn of_hiding() -> Result<f64> {
    let added = |what| -> Result<f64> {
        let hiding = instructions(Flavour::Patched, Some("what=0xe0"), what)?;
        Ok((hiding - instructions(Flavour::Patched, Some("what=0"), what)?) / 2.0)
    };
    Ok(added("pipe")?.max(added("yield")?))
}

/// How many of the switches away from ordinary programs find masks or zmm16-31
/// in use, and no more: so often would they have to be parked.
pub fn share_to_be_parked() -> Result<f64> {
    let outcome = with_force(Guest::new(Bochs::cpus(1).into(), Flavour::Patched))?
        .package("openssl")
        .command(
            "rig force --set what=0 --set check_in_use=1 --set slice_us=20000 -- sh -c '
                 for n in $(seq 20); do
                     ls -lR /etc | sort | sed s/a/b/ | openssl dgst -sha256 >/dev/null
                 done'",
        )
        .limit(600)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    Ok(counts["high_in_use"] as f64 / counts["switch_outs"] as f64)
}

/// Lines that the series adds to the kernel's code, comments, blank lines, help
/// texts and the list of maintainers aside; of the longest, if there are several.
pub fn lines_added() -> Result<f64> {
    let mut most = 0;
    for dir in all_series() {
        let patches = patches_in(&in_repository(dir))?;
        let series = patches.iter().map(fs::read_to_string).collect::<Result<Vec<_>, _>>()?;
        most = most.max(code_lines_added(&series));
    }
    Ok(most as f64)
}
