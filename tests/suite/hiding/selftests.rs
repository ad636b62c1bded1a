// SPDX-License-Identifier: GPL-2.0-only
//! Linux's own tests, of the same source as the kernel: what they find while
//! AVX-512 is hidden from them is what they find while it is not.
//!
//! Each is run without and with hiding in one boot. How it ended and what it
//! said of each of its checks must be the same, numbers aside: addresses,
//! process ids and counts differ from run to run.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::{forcing_guest, judge};
use crate::ensure_eq;
use crate::rig::cache::files_below;
use crate::rig::console::trouble_in;
use crate::rig::guest::Outcome;
use crate::rig::kernel::Variant;
use crate::rig::{Bochs, Guest, Kernel, bpf, in_repository};
use crate::suite::Test;
use crate::suite::counts::counts_of;

crate::tests! {
    hiding:
    selftests_of_x86_find_no_difference(42),
    selftests_of_sched_ext_find_no_difference(45),
}

/// Those of tools/testing/selftests/x86 that succeed here.
const X86: [&str; 44] = [
    "check_initial_reg_state_32",
    "check_initial_reg_state_64",
    "corrupt_xstate_header_64",
    "entry_from_vm86_32",
    "fsgsbase_64",
    "fsgsbase_restore_32",
    "fsgsbase_restore_64",
    "ioperm_32",
    "ioperm_64",
    "iopl_32",
    "iopl_64",
    "ldt_gdt_32",
    "ldt_gdt_64",
    "mov_ss_trap_32",
    "mov_ss_trap_64",
    "nx_stack_32",
    "nx_stack_64",
    "ptrace_syscall_32",
    "ptrace_syscall_64",
    "sigaltstack_32",
    "sigaltstack_64",
    "sigreturn_32",
    "sigreturn_64",
    "sigtrap_loop_32",
    "sigtrap_loop_64",
    "single_step_syscall_32",
    "single_step_syscall_64",
    "syscall_arg_fault_32",
    "syscall_arg_fault_64",
    "syscall_nt_32",
    "syscall_nt_64",
    "sysret_rip_64",
    "sysret_ss_attrs_32",
    "sysret_ss_attrs_64",
    "test_FCMOV_32",
    "test_FCOMI_32",
    "test_FISTTP_32",
    "test_mremap_vdso_32",
    "test_mremap_vdso_64",
    "test_syscall_vdso_32",
    "test_vsyscall_32",
    "test_vsyscall_64",
    "unwind_vdso_32",
    "vdso_restorer_32",
];

/// Those that do not, hidden or not, and why. They are run and compared as well.
/// (`entry_from_vm86_32` succeeds by skipping what needs a kernel of 32 bits.)
const X86_CANNOT_SUCCEED: [(&str, &str); 3] = [
    ("amx_64", "no AMX support"),
    ("lam_64", "Unsupported LAM feature"),
    ("test_shadow_stack_64", "Could not enable Shadow stack"),
];

/// Succeeds, but takes more time than all others together: every number that a
/// system call could have, in many ways.
const X86_LONG: [&str; 1] = ["syscall_numbering_64"];

/// Those of tools/testing/selftests/sched_ext that `make test` has time for.
/// All but `example` bring schedulers of their own, so what hides from their
/// tasks is a program beside these (`tests/guest/hiding/beside.bpf.c`).
const SCHED_EXT: [&str; 6] =
    ["dsp_local_on", "enq_last_no_enq_fails", "example", "maximal", "minimal", "prog_run"];

/// The others: some load a dozen schedulers, and loading takes emulated seconds.
const SCHED_EXT_LONG: [&str; 15] = [
    "create_dsq",
    "ddsp_bogus_dsq_fail",
    "ddsp_vtimelocal_fail",
    "enq_select_cpu_fails",
    "exit",
    "hotplug",
    "init_enable_count",
    "maybe_null",
    "reload_loop",
    "select_cpu_dfl",
    "select_cpu_dfl_nodispatch",
    "select_cpu_dispatch",
    "select_cpu_dispatch_bad_dsq",
    "select_cpu_dispatch_dbl_dsp",
    "select_cpu_vtime",
];

/// Where a guest leaves what the tests said, and the script that runs them.
const PLAIN: &str = "/tmp/plain";
const HIDDEN: &str = "/tmp/hidden";

/// Commands of a guest.
const UNDER_FORCE: usize = 2;
const LOG: usize = 3;

/// Whether a test is one of these and cannot be run: the lists are those of one
/// source, and the kernel that was chosen is of another.
pub fn are_not_of_this_kernel(test: &Test) -> bool {
    TESTS.iter().any(|own| own.name == test.name)
        && Variant::chosen().is_ok_and(|chosen| !chosen.has_usual_source())
}

fn ensure_of_this_kernel() -> Result<()> {
    ensure!(Variant::chosen()?.has_usual_source(), "these tests are those of another source");
    Ok(())
}

fn selftests_of_x86_find_no_difference() -> Result<()> {
    of_x86_named(&X86).map(|_| ())
}

/// Runs all of those of x86; returns how many.
pub fn of_x86_all() -> Result<f64> {
    Ok(of_x86_named(&[&X86[..], &X86_LONG].concat())? as f64)
}

fn of_x86_named(names: &[&str]) -> Result<usize> {
    ensure_of_this_kernel()?;
    let mut guest = forcing_guest(Bochs::cpus(2))?.package("libc6-i386").package("lib32gcc-s1");
    for program in files_below(&Kernel::selftests()?.join("x86"))? {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_left_out = X86_LONG.contains(&&*name) && !names.contains(&&*name);
        if !is_left_out {
            guest = guest.file(&format!("/selftests/{name}"), &program);
        }
    }
    let patience = Variant::chosen()?.patience;
    // One that hangs is to be known by its name. A base outlives its segment where the task is
    // switched right then, which the kernel allows, and slow ones see: that is tried again.
    let each = format!(
        "for test in /selftests/*; do
             echo \"== ${{test##*/}}\"
             for try in 1 2 3; do
                 timeout {} $test >/tmp/said 2>&1; status=$?
                 grep -q \"FAIL.*New [FG]SBASE was\" /tmp/said || break
             done
             cat /tmp/said; echo \"exit status $status\"
         done",
        120 * patience
    );
    // Where a switch takes that many times as long, so must a slice, or little else is done.
    let force = format!(
        "rig force --set what=0xe0 --set visible_in=5 --set migrate=1 --set slice_us={}",
        2000 * patience
    );
    let outcome = twice(guest, &each, &force, &[])?;
    let verdicts = same_verdicts(&outcome)?;
    let lines_of = |name: &str| verdicts.get(name).with_context(|| format!("{name} was not run"));
    for name in names {
        let lines = lines_of(name)?;
        ensure!(lines.iter().any(|line| line == "exit status 0"), "{name}: {lines:?}");
    }
    for (name, why) in X86_CANNOT_SUCCEED {
        let lines = lines_of(name)?;
        ensure!(lines.iter().any(|line| line.contains(why)), "{name}: {lines:?}");
    }
    let known = names.len() + X86_CANNOT_SUCCEED.len();
    ensure_eq!(verdicts.len(), known, "a test without an entry");
    Ok(known)
}

fn selftests_of_sched_ext_find_no_difference() -> Result<()> {
    of_sched_ext_named(&SCHED_EXT).map(|_| ())
}

/// Runs all of those of sched_ext; returns how many.
pub fn of_sched_ext_all() -> Result<f64> {
    Ok(of_sched_ext_named(&[&SCHED_EXT[..], &SCHED_EXT_LONG].concat())? as f64)
}

fn of_sched_ext_named(names: &[&str]) -> Result<usize> {
    ensure_of_this_kernel()?;
    let guest = forcing_guest(Bochs::cpus(2))?
        .program(&Kernel::selftests()?.join("sched_ext/runner"))
        .file("/beside.o", &bpf::compile(&in_repository("tests/guest/hiding/beside.bpf.c"))?);
    // The runner runs all tests that have the word in their name. Itself it
    // sleeps most of the time; others give the schedulers something to do.
    let each = format!(
        "while sleep 0.02; do ls -l /usr/bin; done >/dev/null & others=$!
         for test in {}; do runner -t $test; done
         kill $others",
        names.join(" ")
    );
    let force = "rig force --object /beside.o --set what=0xe0 --set visible_in=5 \
                 --set reschedule=1";
    // What is ejected there are schedulers of the tests, most of which are made for that.
    let outcome = twice(guest, &each, force, &["sched_ext: BPF scheduler \""])?;
    let verdicts = same_verdicts(&outcome)?;
    for name in names {
        let said = format!("ok N {name} #");
        let checks = verdicts.get(*name).with_context(|| format!("no {name}"))?;
        ensure!(checks.contains(&said), "{name}: {checks:?}");
    }
    Ok(names.len())
}

/// Runs the script without hiding and with it.
///
/// What the kernel says of schedulers that fail would take seconds on the
/// console, and some tests wait for such an end for one second. So it goes to the
/// kernel's log alone, which is looked at in the end.
fn twice(guest: Guest, script: &str, force: &str, tolerated: &[&str]) -> Result<Outcome> {
    let outcome = guest
        .command("dmesg -n 3")
        .command(&format!("{{ {script}; }} >{PLAIN} 2>&1"))
        .command(&format!("{force} -- sh -c '{{ {script}; }} >{HIDDEN} 2>&1'"))
        .command("dmesg")
        .collect(PLAIN)
        .collect(HIDDEN)
        .limit(3600)
        .boot()?;
    let trouble = trouble_in(outcome.stdout(LOG)?, tolerated);
    ensure!(trouble.is_none(), "the guest's kernel is in trouble: {trouble:?}");
    Ok(outcome)
}

/// What the tests said of each check, by test. It is the same in both passes,
/// and in the second something was hidden, and missed.
fn same_verdicts(outcome: &Outcome) -> Result<Verdicts> {
    let read = |path| -> Result<Verdicts> {
        Ok(verdicts_in(&String::from_utf8_lossy(&outcome.file(path)?)))
    };
    let (plain, hidden) = (read(PLAIN)?, read(HIDDEN)?);
    judge(&counts_of(outcome, UNDER_FORCE)?, &["hides", "ud_traps"], &["other_traps"])?;
    for (name, checks) in &plain {
        ensure_eq!(Some(checks), hidden.get(name), "{name}");
    }
    ensure_eq!(plain.len(), hidden.len());
    Ok(plain)
}

/// The checks of each test, and its end, as it tells of them; sorted, since some
/// leave children behind who are not done yet.
type Verdicts = BTreeMap<String, Vec<String>>;

fn verdicts_in(output: &str) -> Verdicts {
    let mut verdicts = Verdicts::new();
    let mut current = None;
    for line in output.lines().map(str::trim) {
        let begins = line.strip_prefix("== ").or_else(|| line.strip_prefix("TEST: "));
        if let Some(name) = begins {
            current = Some(verdicts.entry(name.to_owned()).or_default());
        } else if let Some(checks) = &mut current
            && is_verdict(line)
        {
            checks.push(comparable(line));
        }
    }
    verdicts.values_mut().for_each(|checks| checks.sort());
    verdicts
}

fn is_verdict(line: &str) -> bool {
    ["[", "ok ", "not ok ", "# no ", "# Unsupported ", "Bail out", "exit status "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// What must not differ of a line.
fn comparable(line: &str) -> String {
    if line.starts_with("exit status") {
        line.to_owned()
    } else if line.contains("because IRET is defective") {
        // IRET clears a selector of 1 to 3, and whether an interrupt comes while
        // fsgsbase has one is chance. It says this where one did.
        "[OK]\tGS/BASE remained N/N".to_owned()
    } else {
        without_numbers(line)
    }
}

/// Each number, in hexadecimal or not, becomes an N.
fn without_numbers(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut text = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = match is_part(first) {
            true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let word = &rest[..end];
        let is_number = word.chars().all(|c| c.is_ascii_hexdigit() || c == 'x')
            && word.starts_with(|c: char| c.is_ascii_digit());
        text.push_str(if is_number { "N" } else { word });
        rest = &rest[end..];
    }
    text
}
