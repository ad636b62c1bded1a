// SPDX-License-Identifier: GPL-2.0-only
//! Small C programs for guests, compiled on the host.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cache::{Cache, Key};
use super::process::{output_of, version_of};

/// The static program made of `source`, which may include what lies beside it.
pub fn compile(source: &Path) -> Result<PathBuf> {
    let dir = source.parent().context("a source has a directory")?;
    let name = source.file_stem().context("a source has a name")?;
    let key = Key::new()
        .text_part("program", &name.to_string_lossy())
        .text_part("compiler", &version_of("gcc")?)
        .dir_part(dir)?;
    let made = Cache::open()?.artefact("programs", &key, |dir| {
        output_of(
            Command::new("gcc")
                .args(["-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
                .arg(dir.join(name))
                .arg(source),
        )?;
        Ok(())
    })?;
    Ok(made.join(name))
}
