// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig prepare` and `clean`: the cache, filled and emptied; `cargo rig
//! warnings`: the series, looked at by compilers.

use std::fs;
use std::process::ExitCode;

use anyhow::Result;

use crate::rig::cache::Cache;
use crate::rig::userland::Userland;
use crate::rig::{Flavour, Kernel, bochs, warnings as compilers};

pub fn prepare() -> Result<ExitCode> {
    let emulator = bochs::emulator()?;
    eprintln!("rig: emulator: {}", emulator.display());
    for flavour in [Flavour::Stock, Flavour::Patched] {
        let kernel = Kernel::get(flavour)?;
        eprintln!("rig: kernel ({flavour:?}): {}", kernel.image.display());
    }
    let userland = Userland::with(None, &[])?;
    eprintln!("rig: root file system: {}", userland.image.display());
    Ok(ExitCode::SUCCESS)
}

pub fn clean() -> Result<ExitCode> {
    let dir = Cache::open()?.dir("")?;
    fs::remove_dir_all(&dir)?;
    eprintln!("rig: removed {}", dir.display());
    Ok(ExitCode::SUCCESS)
}

pub fn warnings() -> Result<ExitCode> {
    let warnings = compilers::brought_by_the_series()?;
    for warning in &warnings {
        println!("{warning}");
    }
    println!("{} warnings that the series brings", warnings.len());
    Ok(if warnings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
