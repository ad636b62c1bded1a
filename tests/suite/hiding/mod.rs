// SPDX-License-Identifier: GPL-2.0-only
//! The kernel patch: AVX-512 is hidden and taken back all the time, and nobody
//! loses a bit, or notices.

pub mod kernel_users;
pub mod lifetime;
pub mod registers;
pub mod selftests;
pub mod series;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::counts::Counts;
use crate::rig::machine::Machine;
use crate::rig::{Flavour, Guest, bpf, in_repository, program};

/// A guest of the patched kernel that can do `rig force`.
fn forcing_guest(machine: impl Into<Machine>) -> Result<Guest> {
    with_force(Guest::new(machine.into(), Flavour::Patched))
}

/// Puts this very program into a guest, and the scheduler that it loads there.
pub fn with_force(guest: Guest) -> Result<Guest> {
    Ok(guest
        .program_as("rig", &std::env::current_exe()?)
        .file("/force.o", &bpf::compile(&in_repository("tests/guest/hiding/force.bpf.c"))?))
}

/// The program of ours with this name, compiled.
pub fn test_program(name: &str) -> Result<PathBuf> {
    program::compile(&in_repository(&format!("tests/guest/hiding/{name}.c")))
}

/// Each of these was counted, and each of those was not.
fn judge(counts: &Counts, some: &[&str], none: &[&str]) -> Result<()> {
    for name in some {
        ensure!(counts.get(name).is_some_and(|n| n > 0), "nothing counted as {name}: {counts:?}");
    }
    for name in none {
        ensure!(counts.get(name) == Some(0), "{name} is not 0: {counts:?}");
    }
    Ok(())
}
