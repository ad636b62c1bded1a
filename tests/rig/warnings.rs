// SPDX-License-Identifier: GPL-2.0-only
//! What compilers have to say of a series, and did not say without it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::kernel::{Flavour, Recipe, Tree};
use super::series::paths_touched_by;

/// How make is told of each compiler.
const COMPILERS: [&str; 2] = ["CC=gcc", "CC=clang-19"];

/// The warnings, W=1 included, that the series brings, with all compilers.
pub fn brought_by_the_series() -> Result<BTreeSet<String>> {
    let mut brought = BTreeSet::new();
    for compiler in COMPILERS {
        eprintln!("rig: {compiler} W=1, without the series and with it");
        let before = warnings(compiler, Flavour::Stock)?;
        let after = warnings(compiler, Flavour::Patched)?;
        brought.extend(after.difference(&before).map(|warning| format!("{compiler}: {warning}")));
    }
    Ok(brought)
}

fn warnings(compiler: &'static str, flavour: Flavour) -> Result<BTreeSet<String>> {
    let recipe = Recipe::of(flavour)?;
    let touched = paths_touched_by(&Recipe::of(Flavour::Patched)?.series)?;
    let mut tree = Tree::obtain_as(&recipe, "warnings")?;
    tree.arguments = vec![compiler];
    tree.source.hold(&recipe.series)?;
    tree.configure(&recipe)?;

    let root = &tree.source.tree;
    let objects: BTreeSet<String> =
        touched.iter().filter_map(|path| object_of(root, path)).collect();
    ensure!(!objects.is_empty(), "the series touches no source that could be compiled");
    let mut targets = vec!["W=1"];
    for object in &objects {
        // Compiled already, it would be passed over in silence.
        let _ = fs::remove_file(root.join(object));
        targets.push(object);
    }
    let mut found = BTreeSet::new();
    tree.make(&targets, |line| found.extend(warning_in(line)))?;
    Ok(found)
}

/// The object that `source` is compiled into, if it is there.
fn object_of(tree: &Path, source: &str) -> Option<String> {
    if !tree.join(source).exists() {
        return None;
    }
    // All that belongs to scheduling classes is included by one file.
    if source.starts_with("kernel/sched/") {
        return Some("kernel/sched/build_policy.o".to_owned());
    }
    let stem = source.strip_suffix(".c").or_else(|| source.strip_suffix(".S"))?;
    Some(format!("{stem}.o"))
}

/// "file.c:12:3: warning: text" without the numbers, which a series changes;
/// objtool's and the linker's warnings as they are.
pub fn warning_in(line: &str) -> Option<String> {
    let (place, text) = line.split_once("warning: ")?;
    let file = place.split(':').next().unwrap_or_default();
    Some(format!("{file}: {text}"))
}
