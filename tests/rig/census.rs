// SPDX-License-Identifier: GPL-2.0-only
//! The oracle's report, read: who executed how many instructions of what kind.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::kernel::in_repository;
use super::program;

/// `oraclectl`, for a guest.
pub fn oraclectl() -> Result<PathBuf> {
    program::compile(&in_repository("tests/rig/oracle/oraclectl.c"))
}

/// The counters of one CPU and one privilege level ("user", "kernel"), or of a
/// whole CPU ("all").
pub struct Row {
    pub cpu: usize,
    pub level: String,
    counters: BTreeMap<String, u64>,
}

impl Row {
    /// A counter by its name in the report; what did not occur is not named.
    pub fn get(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// The sum of several counters.
    pub fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.get(name)).sum()
    }
}

/// The lines of `oraclectl report`.
pub fn read(report: &str) -> Result<Vec<Row>> {
    report.lines().filter(|line| line.starts_with("cpu=")).map(read_row).collect()
}

fn read_row(line: &str) -> Result<Row> {
    let mut pairs = line.split_whitespace().map(|pair| {
        pair.split_once('=').with_context(|| format!("{pair:?} in the oracle's report"))
    });
    let mut header = |name: &str| -> Result<&str> {
        let (key, value) = pairs.next().context("a short line in the oracle's report")??;
        anyhow::ensure!(key == name, "{key} where {name} was expected");
        Ok(value)
    };
    let cpu = header("cpu")?.parse()?;
    let level = header("level")?.to_owned();
    let counters = pairs
        .map(|pair| {
            let (name, value) = pair?;
            Ok((name.to_owned(), value.parse()?))
        })
        .collect::<Result<_>>()?;
    Ok(Row { cpu, level, counters })
}
