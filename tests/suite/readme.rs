// SPDX-License-Identifier: GPL-2.0-only
//! What the documentation tells people to type is typed here.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{all_tests, scheduler};
use crate::rig::in_repository;
use crate::rig::process::tail;
use crate::rig::slots;

crate::tests! {
    readme:
    every_command_is_run_by_a_test(1),
    make_run_compares_a_load_without_and_with_avx_cores(208),
    cargo_rig_boot_runs_a_command(40),
    make_bench_writes_results(6),
    the_references_are_what_is_printed(1),
    whoever_changes_something_is_shown_what_there_is(2),
}

const MAKE_RUN: &str = "readme::make_run_compares_a_load_without_and_with_avx_cores";
const RIG_BOOT: &str = "readme::cargo_rig_boot_runs_a_command";
const REFERENCES: &str = "readme::the_references_are_what_is_printed";
const SHOWN: &str = "readme::whoever_changes_something_is_shown_what_there_is";
const BENCH_PART: &str = "readme::make_bench_writes_results";

/// The commands in a document, and what runs each of them: a test, or the
/// script that continuous integration starts.
type RunBy = &'static [(&'static str, &'static str)];

const OF_README: RunBy = &[
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

const OF_HACKING: RunBy = &[
    ("make test", ".ci/run"),
    ("make check", "Makefile"),
    ("make bench ONLY=rig.qemu", BENCH_PART),
    ("target/release/scx_avxspec generate policy >docs/policy.md", REFERENCES),
    ("target/release/scx_avxspec --help-metrics >docs/metrics.md", REFERENCES),
    ("target/release/scx_avxspec sim run few --seconds 1", SHOWN),
    ("cargo rig mutants --list the_library_is", SHOWN),
    (
        "cargo test --release --locked --test rig -- --exact host::each_known_bug_can_still_be_seeded",
        SHOWN,
    ),
];

fn every_command_is_run_by_a_test() -> Result<()> {
    for (document, run_by) in [("README.md", OF_README), ("docs/hacking.md", OF_HACKING)] {
        let text = fs::read_to_string(in_repository(document))?;
        let told: BTreeSet<&str> =
            text.lines().filter_map(|line| line.trim_start().strip_prefix("$ ")).collect();
        let known: BTreeSet<&str> = run_by.iter().map(|(command, _)| *command).collect();
        ensure!(told == known, "{document} tells {told:?}, the tests run {known:?}");
        for (command, runner) in run_by {
            let is_test = all_tests().any(|test| test.name == *runner);
            let is_script = fs::read_to_string(in_repository(runner))
                .is_ok_and(|script| script.contains(command.trim_start_matches("make ")));
            ensure!(is_test || is_script, "{command:?}: {runner} does not run it");
        }
    }
    Ok(())
}

/// Of the commands in docs/hacking.md those that `runner` runs.
fn commands_run_by(runner: &str) -> impl Iterator<Item = &'static str> {
    OF_HACKING.iter().filter(move |(_, by)| *by == runner).map(|(command, _)| *command)
}

/// They print what stands in the file that they are to be written to.
fn the_references_are_what_is_printed() -> Result<()> {
    for command in commands_run_by(REFERENCES) {
        let (print, file) = command.split_once(" >").context("it is written to a file")?;
        ensure!(type_in(print)? == fs::read_to_string(in_repository(file))?, "{command}");
    }
    Ok(())
}

fn whoever_changes_something_is_shown_what_there_is() -> Result<()> {
    let signs = ["few", "the_library_is_never_quiet ", "1 passed"];
    for (command, sign) in commands_run_by(SHOWN).zip(signs) {
        let text = type_in(command)?;
        ensure!(text.contains(sign), "no {sign:?} after {command:?}:\n{}", tail(&text, 40));
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
    let (command, _) = OF_README
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
