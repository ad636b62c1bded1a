// SPDX-License-Identifier: GPL-2.0-only
//! BPF programs for tests, compiled on the host.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use libbpf_cargo::SkeletonBuilder;

use super::cache::{Cache, Key};
use super::kernel::in_repository;
use super::process::version_of;
use super::program::files_read_for;

/// Where the build script put the types of the kernel.
const KERNEL_TYPES: &str = concat!(env!("OUT_DIR"), "/scx_utils-bpf_h");

/// The object made of `source`, which ends in ".bpf.c".
pub fn compile(source: &Path) -> Result<PathBuf> {
    let name = source.file_stem().context("a source has a name")?;
    let clang = in_repository("build/clang");
    let includes = [format!("-I{KERNEL_TYPES}"), format!("-I{KERNEL_TYPES}/arch/x86")];
    let key = Key::new()
        .text_part("object", &name.to_string_lossy())
        .text_part("compiler", &version_of(&clang.to_string_lossy())?);
    let files = files_read_for(source, &includes)?;
    let key = files.iter().try_fold(key, |key, file| key.file_part(file))?;
    let made = Cache::open()?.artefact("bpf", &key, |dir| {
        SkeletonBuilder::new()
            .source(source)
            .obj(dir.join(name).with_extension("o"))
            .clang(&clang)
            .clang_args(["-Wall", "-Werror"].into_iter().chain(includes.iter().map(String::as_str)))
            .build()
            .with_context(|| format!("cannot compile {}", source.display()))
    })?;
    Ok(made.join(name).with_extension("o"))
}
