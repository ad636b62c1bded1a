// SPDX-License-Identifier: GPL-2.0-only
//! What commands in a guest counted, as lines of name=number.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use crate::vm::guest::Outcome;

pub type Counts = BTreeMap<String, u64>;

/// The counts of a command that has to succeed.
pub fn counts_of(outcome: &Outcome, command: usize) -> Result<Counts> {
    let command = &outcome.commands[command];
    ensure!(command.status == 0, "{}\n{}", command.stdout, command.stderr);
    command
        .stdout
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, number)| {
            let number = number.parse().with_context(|| format!("{name} is {number:?}"))?;
            Ok((name.to_owned(), number))
        })
        .collect()
}

/// The mean of what the first command counted so many times.
pub fn mean_of(outcome: &Outcome, name: &str, times: u32) -> Result<f64> {
    let counted: Vec<f64> = outcome
        .stdout(0)?
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .map(|number| number.parse().with_context(|| format!("{name} is {number:?}")))
        .collect::<Result<_>>()?;
    ensure!(counted.len() == times as usize, "{name} was counted {} times", counted.len());
    Ok(counted.iter().sum::<f64>() / f64::from(times))
}
