// SPDX-License-Identifier: GPL-2.0-only
//! What commands in a guest counted, as lines of name=number.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use anyhow::{Context, Result, ensure};

use crate::rig::guest::Outcome;

/// What a command counted, by name.
pub struct Counts {
    by_name: BTreeMap<String, u64>,
    output: String,
}

impl Counts {
    pub fn get(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    /// Of what was counted under both schedulers, ours by the kernel's own.
    pub fn ours_by_kernels(&self, name: &str) -> f64 {
        let of = |whose: &str| self[format!("{whose}_{name}").as_str()] as f64;
        of("ours") / of("kernels")
    }
}

impl Index<&str> for Counts {
    type Output = u64;

    /// A test that asks for what was not counted has to be told what was said
    /// instead.
    #[expect(clippy::panic, reason = "as indexing any map does, which says less")]
    fn index(&self, name: &str) -> &u64 {
        let missing = || panic!("{name} was not counted; the command said:\n{}", self.output);
        self.by_name.get(name).unwrap_or_else(missing)
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_name.fmt(out)
    }
}

/// The counts of a command that has to succeed.
pub fn counts_of(outcome: &Outcome, command: usize) -> Result<Counts> {
    let command = &outcome.commands[command];
    ensure!(command.status == 0, "{}\n{}", command.stdout, command.stderr);
    let by_name = command
        .stdout
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, number)| {
            let number = number.parse().with_context(|| format!("{name} is {number:?}"))?;
            Ok((name.to_owned(), number))
        })
        .collect::<Result<_>>()?;
    Ok(Counts { by_name, output: format!("{}{}", command.stdout, command.stderr) })
}

/// The mean of what the first command counted so many times.
pub fn mean_of(outcome: &Outcome, name: &str, times: u32) -> Result<f64> {
    Ok(each_of(outcome, name, times)?.iter().sum::<f64>() / f64::from(times))
}

pub fn each_of(outcome: &Outcome, name: &str, times: u32) -> Result<Vec<f64>> {
    let counted: Vec<f64> = outcome
        .stdout(0)?
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .map(|number| number.parse().with_context(|| format!("{name} is {number:?}")))
        .collect::<Result<_>>()?;
    ensure!(counted.len() == times as usize, "{name} was counted {} times", counted.len());
    Ok(counted)
}
