// SPDX-License-Identifier: GPL-2.0-only
//! A patch series laid over a built source tree, and changed under it.
//!
//! make goes by time stamps, so a tree is rebuilt cheaply only if a file is
//! written when, and only when, its content differs. Hence a new series is
//! never applied to the tree itself: the files that it touches are patched in
//! a scratch directory, from the originals kept aside, and then compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cache::write_if_different;
use super::process::output_of;

/// A source tree, and beside it what it takes to change its series.
pub struct Source {
    /// The tree itself.
    pub tree: PathBuf,
    /// Where originals and the list of touched files are kept.
    pub aside: PathBuf,
}

impl Source {
    /// Makes the tree hold exactly `series`; returns the files written.
    pub fn hold(&self, series: &[PathBuf]) -> Result<Vec<String>> {
        let before = self.touched()?;
        let after = paths_touched_by(series)?;
        for path in after.difference(&before) {
            self.keep_original(path)?;
        }
        let either: BTreeSet<String> = before.union(&after).cloned().collect();
        // Should this be cut off, the next call has to look at all of them.
        self.record_touched(&either)?;

        let patched = self.patch_in_scratch(series, &after)?;
        let mut written = Vec::new();
        for path in &either {
            let wanted =
                if after.contains(path) { patched.join(path) } else { self.original(path) };
            if self.replace(path, &wanted)? {
                written.push(path.clone());
            }
        }
        self.record_touched(&after)?;
        Ok(written)
    }

    fn replace(&self, path: &str, wanted: &Path) -> Result<bool> {
        let present = self.tree.join(path);
        if wanted.exists() {
            return write_if_different(&present, &fs::read(wanted)?);
        }
        match fs::remove_file(&present) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn patch_in_scratch(&self, series: &[PathBuf], touched: &BTreeSet<String>) -> Result<PathBuf> {
        let scratch = self.aside.join("scratch");
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        for path in touched {
            if self.original(path).exists() {
                copy(&self.original(path), &scratch.join(path))?;
            }
        }
        apply(series, &scratch)?;
        Ok(scratch)
    }

    fn keep_original(&self, path: &str) -> Result<()> {
        let original = self.original(path);
        if original.exists() {
            fs::remove_file(&original)?;
        }
        let present = self.tree.join(path);
        if present.exists() {
            copy(&present, &original)?;
        }
        Ok(())
    }

    fn original(&self, path: &str) -> PathBuf {
        self.aside.join("original").join(path)
    }

    fn touched(&self) -> Result<BTreeSet<String>> {
        match fs::read_to_string(self.aside.join("touched")) {
            Ok(list) => Ok(list.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn record_touched(&self, paths: &BTreeSet<String>) -> Result<()> {
        let list: String = paths.iter().map(|path| format!("{path}\n")).collect();
        write_if_different(&self.aside.join("touched"), list.as_bytes())?;
        Ok(())
    }
}

/// The *.patch files of a directory, in the order in which they apply.
pub fn patches_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut patches = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "patch") {
            patches.push(path);
        }
    }
    patches.sort();
    Ok(patches)
}

/// Patches the files in `dir`, an absolute path.
pub fn apply(series: &[PathBuf], dir: &Path) -> Result<()> {
    for patch in series {
        // git apply skips silently what lies outside a repository around it;
        // the ceiling keeps it from finding one.
        output_of(
            Command::new("git")
                .args(["apply", "--whitespace=nowarn"])
                .arg(fs::canonicalize(patch)?)
                .current_dir(dir)
                .env("GIT_CEILING_DIRECTORIES", dir.parent().context("a tree has a place")?),
        )
        .with_context(|| format!("{} does not apply", patch.display()))?;
    }
    Ok(())
}

pub fn paths_touched_by(series: &[PathBuf]) -> Result<BTreeSet<String>> {
    let mut paths = BTreeSet::new();
    for patch in series {
        paths.extend(paths_in(&fs::read_to_string(patch)?));
    }
    Ok(paths)
}

/// The files named in the headers of a unified diff.
fn paths_in(diff: &str) -> Vec<String> {
    diff.lines()
        .filter_map(|line| line.strip_prefix("--- a/").or_else(|| line.strip_prefix("+++ b/")))
        .map(|path| path.split('\t').next().unwrap_or(path).to_owned())
        .collect()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}
