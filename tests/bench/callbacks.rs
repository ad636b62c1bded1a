// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler's callbacks cost on small machines and on large ones: instructions of the
//! same source, natively, with the model's own maps and masks, as valgrind counts them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::rig::in_repository;
use crate::rig::process::output_of;
use crate::suite::scheduler_program;

/// Those that are called all the time.
const CALLBACKS: [&str; 7] = [
    "avxspec_select_cpu",
    "avxspec_enqueue",
    "avxspec_dispatch",
    "avxspec_running",
    "avxspec_tick",
    "avxspec_hidden_used",
    "avxspec_syscall_done",
];

/// 8 CPUs that share a cache, and 512 of four processors.
const SMALL: [&str; 2] = ["--sockets=1", "--cores=4"];
const LARGE: [&str; 2] = ["--sockets=4", "--cores=64"];

/// Calls, and the instructions of all of them.
type Costs = BTreeMap<String, (u64, u64)>;

/// Of the callback that grows the most, how much dearer a call is.
pub fn growth() -> Result<f64> {
    let dir = tempfile::tempdir()?;
    let (small, large) = (costs(&SMALL, dir.path())?, costs(&LARGE, dir.path())?);
    let of_a_call = |costs: &Costs, name: &str| -> Result<f64> {
        let (calls, cost) = costs.get(name).with_context(|| format!("{name} is never called"))?;
        Ok(*cost as f64 / *calls as f64)
    };
    let mut largest = 0f64;
    for name in CALLBACKS {
        let (small, large) = (of_a_call(&small, name)?, of_a_call(&large, name)?);
        eprintln!("{name}: {small:.0} instructions, and {large:.0} on the large machine");
        largest = largest.max(large / small);
    }
    Ok(largest)
}

fn costs(machine: &[&str], dir: &Path) -> Result<Costs> {
    let file = dir.join("callgrind.out");
    let mut written = std::ffi::OsString::from("--callgrind-out-file=");
    written.push(&file);
    output_of(
        Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(written)
            .arg(scheduler_program()?)
            .args(["sim", "run", "--policy=untried", "--workload"])
            .arg(in_repository("tests/bench/callbacks.toml"))
            .args(machine),
    )?;
    Ok(calls_in(&std::fs::read_to_string(&file)?))
}

/// Of each function in what callgrind writes, where a name stands once, and its number from then on.
fn calls_in(text: &str) -> Costs {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Costs::new();
    let (mut called, mut calls) = ("", None);
    for line in text.lines() {
        let function = line.strip_prefix("fn=").or(line.strip_prefix("cfn="));
        if let Some((number, name)) = function.and_then(|it| it.split_once(')')) {
            if !name.is_empty() {
                names.insert(number, name.trim_start());
            }
            called = names.get(number).copied().unwrap_or_default();
        } else if let Some(rest) = line.strip_prefix("calls=") {
            calls = rest.split(' ').next().and_then(|nr| nr.parse::<u64>().ok());
        } else if let Some(calls) = calls.take() {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
            let sum = found.entry(called.to_owned()).or_default();
            sum.0 += calls;
            sum.1 += cost.unwrap_or(0);
        }
    }
    found
}
