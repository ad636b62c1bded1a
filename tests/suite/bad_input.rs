// SPDX-License-Identifier: GPL-2.0-only
//! Bad input gets one sentence that says what is wrong and what to do, an exit
//! status other than 0, and changes nothing.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{scheduler_guest, scheduler_program, script};
use crate::ensure_eq;
use crate::rig::guest::CommandResult;
use crate::rig::{Flavour, Qemu, in_repository};

crate::tests! {
    bad_input:
    unknown_flags_are_refused_by_name(1),
    who_cannot_be_told_is_refused_all_the_same(1),
    who_waits_for_a_scheduler_ends_when_told_to(2),
    help_and_version_need_nothing(1),
    a_place_where_it_cannot_run_is_refused_in_one_sentence(14),
    a_missing_build_tool_is_named_with_its_package(2),
}

fn unknown_flags_are_refused_by_name() -> Result<()> {
    let output = Command::new(scheduler_program()?).arg("--fast").output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure_eq!(output.status.code(), Some(2));
    ensure!(error.contains("unexpected argument '--fast'"), "{error}");
    Ok(())
}

/// The disk is full where errors go: no reason to panic.
fn who_cannot_be_told_is_refused_all_the_same() -> Result<()> {
    let full = File::options().write(true).open("/dev/full")?;
    let refused = Command::new(scheduler_program()?)
        .args(["policy", "use", "nobody"])
        .stderr(full)
        .status()?;
    ensure_eq!(refused.code(), Some(1));
    let full = File::options().write(true).open("/dev/full")?;
    let untold = Command::new(scheduler_program()?).arg("--version").stdout(full).status()?;
    ensure_eq!(untold.code(), Some(1));
    Ok(())
}

/// Once it has said that it waits it has installed whatever handles signals.
fn who_waits_for_a_scheduler_ends_when_told_to() -> Result<()> {
    let mut monitor = Command::new(scheduler_program()?)
        .args(["--monitor", "600"])
        .stderr(Stdio::piped())
        .spawn()?;
    let said = monitor.stderr.take().context("nothing to read from")?;
    let waits = BufReader::new(said).lines().next();
    Command::new("kill").arg(monitor.id().to_string()).status()?;
    let ended = monitor.wait()?;
    let line = waits.context("it said nothing")??;
    ensure!(line.contains("retrying"), "{line}");
    ensure_eq!(ended.signal(), Some(libc::SIGTERM));
    Ok(())
}

fn help_and_version_need_nothing() -> Result<()> {
    for flag in ["--help", "--version", "--help-stats", "--help-policy", "--help-metrics"] {
        let output = Command::new(scheduler_program()?).arg(flag).env_clear().output()?;
        ensure!(output.status.success() && !output.stdout.is_empty(), "{flag}");
    }
    Ok(())
}

fn a_place_where_it_cannot_run_is_refused_in_one_sentence() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command("su nobody -s /bin/sh -c scx_avxspec")
        .command("unshare -m sh -c 'mount -t tmpfs none /sys/kernel; scx_avxspec'")
        .command(&script("start_scheduler; scx_avxspec"))
        .command(&script("is_enabled; echo $?; pidof scx_avxspec | wc -w"))
        .command("scx_avxspec --set worthwhile=2")
        .command("su nobody -s /bin/sh -c 'scx_avxspec --monitor 1'")
        .command("scx_avxspec --kconfig /nowhere")
        .boot()?;
    is_one_sentence(&outcome.commands[0], &["root", "sudo"])?;
    is_one_sentence(&outcome.commands[1], &["sched_ext", "CONFIG_SCHED_CLASS_EXT"])?;
    is_one_sentence(&outcome.commands[2], &["avxspec", "already loaded"])?;
    is_one_sentence(&outcome.commands[4], &["worthwhile", "\"2\"", "0s to 100ms"])?;
    is_one_sentence(&outcome.commands[5], &["root", "/run/scx/root/stats", "sudo"])?;
    is_one_sentence(&outcome.commands[6], &["--kconfig", "/nowhere", "no such file"])?;
    ensure_eq!(outcome.commands[3].stdout, "0\n1\n", "the first one goes on");
    Ok(())
}

/// One line on standard error that has `words` in it, and a failing status.
fn is_one_sentence(result: &CommandResult, words: &[&str]) -> Result<()> {
    let error = &result.stderr;
    ensure!(result.status != 0, "it was not refused");
    ensure_eq!(error.lines().count(), 1, "more than a sentence:\n{error}");
    for word in words {
        ensure!(error.contains(word), "no {word:?} in {error:?}");
    }
    Ok(())
}

/// The check that runs before anything is compiled, on a host that has nothing.
fn a_missing_build_tool_is_named_with_its_package() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let check = dir.path().join("requirements");
    let built = Command::new("rustc")
        .args(["--edition", "2024", "-o"])
        .arg(&check)
        .arg(in_repository("build/requirements.rs"))
        .output()
        .context("cannot start rustc")?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let refused = Command::new(&check).env_clear().env("PATH", dir.path()).output()?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success(), "a host without clang passed");
    ensure_eq!(error.lines().count(), 1, "more than a sentence:\n{error}");
    ensure!(error.contains("clang 18 or newer (Debian: clang-19)"), "{error}");
    Ok(())
}
