// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig prepare` and `clean`: the cache, filled and emptied.

use std::fs;
use std::process::ExitCode;

use anyhow::Result;

use crate::vm::cache::Cache;
use crate::vm::userland::Userland;
use crate::vm::{Flavour, Kernel, bochs};

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
