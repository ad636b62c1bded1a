// SPDX-License-Identifier: GPL-2.0-only
//! Small C programs for guests, compiled on the host.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cache::{Cache, Key};
use super::process::{output_of, text_of, version_of};

/// The static program made of `source`.
pub fn compile(source: &Path) -> Result<PathBuf> {
    compile_with(&["-static"], source)
}

/// A program of 32 bits.
pub fn compile_compat(source: &Path) -> Result<PathBuf> {
    compile_with(&["-m32", "-static"], source)
}

/// The same with these arguments for the compiler.
pub fn compile_with(arguments: &[&str], source: &Path) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has a name")?;
    let key = Key::new()
        .text_part("program", &name.to_string_lossy())
        .text_part("arguments", &arguments.join(" "))
        .text_part("compiler", &version_of("gcc")?);
    let key = files_read_for(source, &[])?.iter().try_fold(key, |key, file| key.file_part(file))?;
    let made = Cache::open()?.artefact("programs", &key, |dir| {
        output_of(
            Command::new("gcc")
                .args(arguments)
                .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
                .arg(dir.join(name))
                .arg(source)
                .arg("-lm"),
        )?;
        Ok(())
    })?;
    Ok(made.join(name))
}

/// `source` and what it includes, but for the system's headers.
pub fn files_read_for(source: &Path, includes: &[String]) -> Result<Vec<PathBuf>> {
    let rule = text_of(Command::new("gcc").arg("-MM").args(includes).arg(source))?;
    let (_, files) = rule.split_once(':').context("gcc gave no rule")?;
    Ok(files.split_whitespace().filter(|word| *word != "\\").map(PathBuf::from).collect())
}
