// SPDX-License-Identifier: GPL-2.0-only
//! What the documentation tells people to type is typed here.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::{all_tests, scheduler};
use crate::vm::in_repository;
use crate::vm::process::tail;
use crate::vm::slots;

crate::tests! {
    readme:
    every_command_is_run_by_a_test(1),
    make_run_compares_a_load_without_and_with_avx_cores(300),
    cargo_rig_boot_runs_a_command(60),
    make_bench_writes_results(60),
}

const MAKE_RUN: &str = "readme::make_run_compares_a_load_without_and_with_avx_cores";
const RIG_BOOT: &str = "readme::cargo_rig_boot_runs_a_command";
const BENCH_PART: &str = "readme::make_bench_writes_results";

/// The commands in README.md, and what runs each of them: a test, or the
/// script that continuous integration starts.
const RUN_BY: &[(&str, &str)] = &[
    ("make run", MAKE_RUN),
    ("make test", ".ci/run"),
    ("make check", "Makefile"),
    ("make bench ONLY=rig.qemu", BENCH_PART),
    (
        "cargo rig boot --machine qemu --cpus 4 -- 'scx_avxspec & until scx_avxspec status; do sleep 1; done; dmesg | grep sched_ext'",
        RIG_BOOT,
    ),
    ("target/release/scx_avxspec check", scheduler::CHECK),
    (
        "sudo target/release/scx_avxspec --stats 1",
        "scheduler::reports_statistics_to_itself_and_to_a_monitor",
    ),
];

fn every_command_is_run_by_a_test() -> Result<()> {
    let readme = fs::read_to_string(in_repository("README.md"))?;
    let told: BTreeSet<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let known: BTreeSet<&str> = RUN_BY.iter().map(|(command, _)| *command).collect();
    ensure!(told == known, "README.md tells {told:?}, the tests run {known:?}");
    for (command, runner) in RUN_BY {
        let is_test = all_tests().any(|test| test.name == *runner);
        let is_script = fs::read_to_string(in_repository(runner))
            .is_ok_and(|script| script.contains(command.trim_start_matches("make ")));
        ensure!(is_test || is_script, "{command:?}: {runner} does not run it");
    }
    Ok(())
}

/// Types `command` into a shell in the repository; returns all it printed.
pub fn type_in(command: &str) -> Result<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{command} 2>&1")]).current_dir(in_repository(""));
    // A person's shell does not have what cargo sets for tests.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO") && text != "CARGO_HOME" || text.starts_with("MAKE") {
            shell.env_remove(&name);
        }
    }
    let output = shell.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{command}: {}\n{}", output.status, tail(&text, 40));
    Ok(text)
}

/// A command that starts one guest after the other: those are of another rig, which knows nothing
/// of this one's, and take one of the host's CPUs.
fn type_in_with_guests(command: &str) -> Result<String> {
    let _slot = slots::take(1);
    type_in(command)
}

fn make_run_compares_a_load_without_and_with_avx_cores() -> Result<()> {
    let text = type_in_with_guests("make run")?;
    for sign in [
        "the scheduler runs: avxspec",
        "AVX cores: 0 of 4  policy 1",
        "adaptive would gain ",
        "guest seconds of load took",
    ] {
        ensure!(text.contains(sign), "no {sign:?} in:\n{}", tail(&text, 60));
    }
    // One most of the time, and two now and then.
    let has_some = |line: &str| line.contains(" of 4  policy 2") && !line.contains(" 0 of 4 ");
    ensure!(text.lines().any(has_some), "no AVX cores:\n{}", tail(&text, 60));
    // Under both policies.
    let counted = |words: &str| -> Option<[u64; 2]> {
        let line = text.lines().find_map(|line| line.strip_prefix(words))?;
        let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
        Some([numbers.next()??, numbers.next()??])
    };
    let Some([before, after]) = counted("512-bit instructions on scalar CPUs") else {
        bail!("no count of 512-bit instructions:\n{}", tail(&text, 60));
    };
    ensure!(before > 1_000_000 && after < before / 10, "{before} before, {after} after");
    Ok(())
}

fn cargo_rig_boot_runs_a_command() -> Result<()> {
    let (command, _) = RUN_BY
        .iter()
        .find(|(_, runner)| *runner == RIG_BOOT)
        .ok_or_else(|| anyhow::anyhow!("the command is in the table"))?;
    let text = type_in_with_guests(command)?;
    ensure!(text.contains("sched_ext: BPF scheduler \"avxspec"), "{}", tail(&text, 40));
    ensure!(text.contains("rig: status 0"), "{}", tail(&text, 40));
    Ok(())
}

/// Beside other tests nothing is measured that `make figures` should show.
fn make_bench_writes_results() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let text = type_in_with_guests(&format!(
        "RIG_RESULTS={} make bench ONLY=rig.qemu",
        dir.path().display()
    ))?;
    ensure!(text.contains("rig.qemu_boot_s"), "{}", tail(&text, 40));
    let results = fs::read_to_string(dir.path().join("bench/results.json"))?;
    let results: serde_json::Value = serde_json::from_str(&results)?;
    let figure = &results["figures"][0];
    ensure!(figure["name"] == "rig.qemu_boot_s" && figure["value"].is_f64(), "{results}");
    Ok(())
}
