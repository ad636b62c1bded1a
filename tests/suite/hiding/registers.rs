// SPDX-License-Identifier: GPL-2.0-only
//! All vector registers of tasks to which everything happens while AVX-512 is
//! hidden from them, compared bit by bit.

use anyhow::{Result, ensure};

use super::{forcing_guest, judge, test_program};
use crate::ensure_eq;
use crate::rig::{Bochs, in_repository, program};
use crate::suite::counts::{Counts, counts_of};

crate::tests! {
    hiding:
    no_register_is_lost_in_strict_mode(18),
    no_register_is_lost_at_call_boundaries(8),
    no_register_is_lost_with_avx_hidden_too(16),
    no_register_is_lost_with_cpuid_faulting(8),
    a_scheduler_cannot_keep_a_task_from_going_on(6),
    a_restartable_sequence_gets_on_as_well(5),
    who_gets_a_signal_with_each_fault_gets_on_as_well(6),
    a_fault_is_no_reason_to_stay_visible(5),
    who_got_on_after_a_fault_is_hidden_from_at_an_interrupt(6),
    images_of_user_mode_are_restored_as_documented(14),
    tracers_core_dumps_and_signal_frames_see_everything(6),
    programs_of_32_bits_lose_nothing_either(6),
    nmis_find_nothing_and_change_nothing(16),
    illegal_instructions_stay_illegal(6),
    workers_of_io_uring_are_left_alone(5),
}

fn no_register_is_lost_in_strict_mode() -> Result<()> {
    survive(STRICT)
}

fn no_register_is_lost_at_call_boundaries() -> Result<()> {
    survive(CALL_BOUNDARY)
}

fn no_register_is_lost_with_avx_hidden_too() -> Result<()> {
    survive(AVX_TOO)
}

fn no_register_is_lost_with_cpuid_faulting() -> Result<()> {
    survive(CPUID_TOO)
}

/// One way to hide: what `bpf_task_hide_xfeatures` is given.
#[derive(Clone, Copy)]
struct Mode {
    what: u32,
    strict: bool,
}

const STRICT: Mode = Mode { what: 0x4000_00e0, strict: true };
const CALL_BOUNDARY: Mode = Mode { what: 0xe0, strict: false };
const AVX_TOO: Mode = Mode { what: 0xe4, strict: false };
const CPUID_TOO: Mode = Mode { what: 0x2000_00e0, strict: false };

/// Cycles checked in each mode; `make soak` checks many more.
const CYCLES: u64 = 1300;

/// What the scheduler of the tests must have done, and what must never happen.
const FORCED: [&str; 3] = ["hides", "ud_traps", "migrations"];
const FORBIDDEN: [&str; 9] = [
    "refused",
    "wrongly_granted",
    "other_traps",
    "fault_keeps",
    "claimed_hidden",
    "fork_inherits",
    "exec_keeps",
    "in_use_wrong",
    "asking_showed",
];

fn survive(mode: Mode) -> Result<()> {
    let counts = check(mode, CYCLES)?;
    ensure!(counts["cycles_checked"] >= CYCLES, "{counts:?}");
    judge(
        &counts,
        &["forks", "execs", "signals", "in_use_checks", "asked_hidden", "zmm_in_use"],
        &[],
    )
}

/// Checks so many cycles in each mode; returns the sum.
pub fn check_all_modes(cycles: u64) -> Result<f64> {
    let mut checked = 0;
    for mode in [STRICT, CALL_BOUNDARY, AVX_TOO, CPUID_TOO] {
        checked += check(mode, cycles)?["cycles_checked"];
        eprintln!("rig: {checked} cycles checked");
    }
    Ok(checked as f64)
}

/// Runs `vectors` until it has checked so many cycles; nothing may be lost.
fn check(mode: Mode, cycles: u64) -> Result<Counts> {
    let strict = if mode.strict { "strict" } else { "" };
    let knobs = "--set visible_in=5 --set tick_flips=3 --set check_in_use=1";
    forced_with(knobs, mode, "vectors", &format!("{cycles} 3 {} {strict}", seed()))
}

/// Runs a test program while everything is hidden from everybody, all the time.
fn forced(mode: Mode, name: &str, arguments: &str) -> Result<Counts> {
    forced_with("--set visible_in=5 --set tick_flips=3", mode, name, arguments)
}

fn forced_with(knobs: &str, mode: Mode, name: &str, arguments: &str) -> Result<Counts> {
    // A task that never gets past an instruction is to be found out in time.
    let rounds: u64 = arguments.split(' ').next().map_or(Ok(0), str::parse)?;
    let limit_s = 200 + rounds / 10;
    let program = match name {
        "compat" => program::compile_compat(&in_repository("tests/guest/hiding/compat.c"))?,
        _ => test_program(name)?,
    };
    let outcome = forcing_guest(Bochs::cpus(2))?
        .program(&program)
        .command(&format!(
            "echo core >/proc/sys/kernel/core_pattern
             rig force --set what={} {knobs} --set migrate=1 --set slice_us=2000 \
             -- {name} {arguments}",
            mode.what
        ))
        .limit(limit_s)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    judge(&counts, &FORCED, &FORBIDDEN)?;
    judge(&counts, &[], &["registers_lost"])?;
    Ok(counts)
}

/// Another one each time; a guest that fails shows the command with it.
pub(super) fn seed() -> u32 {
    std::process::id()
}

/// It hides while it is told of a fault, at each switch, and switches at each
/// fault: what has faulted is executed nevertheless.
fn a_scheduler_cannot_keep_a_task_from_going_on() -> Result<()> {
    let knobs = "--set rehide=1";
    let counts = forced_with(knobs, CALL_BOUNDARY, "vectors", &format!("50 2 {}", seed()))?;
    ensure!(counts["cycles_checked"] >= 50, "{counts:?}");
    Ok(())
}

/// Under the same scheduler each fault aborts the sequence, which then starts at
/// another instruction than the one that faulted.
fn a_restartable_sequence_gets_on_as_well() -> Result<()> {
    let counts = forced_with("--set rehide=1", CALL_BOUNDARY, "rseq", "300")?;
    judge(&counts, &["aborts", "hidden"], &[])
}

/// Under the same scheduler a signal comes with each fault, and its handler makes a system call
/// before the instruction that faulted is tried again.
fn who_gets_a_signal_with_each_fault_gets_on_as_well() -> Result<()> {
    let knobs = format!("--set rehide=1 --set signal={}", libc::SIGUSR1);
    let counts = forced_with(&knobs, CALL_BOUNDARY, "signalled", "300")?;
    judge(&counts, &["hidden", "signals"], &[])
}

/// The scheduler hides nothing of its own at any switch, and switches at each fault.
fn a_fault_is_no_reason_to_stay_visible() -> Result<()> {
    let counts = forced_with("--set visible_in=1", CALL_BOUNDARY, "again", "500")?;
    judge(&counts, &["hidden"], &[])?;
    // As often where it asks and looks, and where it asks and uses it at once.
    ensure!(counts["ud_traps"] >= 750, "too few faults: {counts:?}");
    Ok(())
}

/// It makes no system call, and the scheduler hides anew while it is told of the fault.
fn who_got_on_after_a_fault_is_hidden_from_at_an_interrupt() -> Result<()> {
    let counts = forced_with("--set rehide=1", CALL_BOUNDARY, "again", "100 ticks")?;
    ensure_eq!(counts["hidden"], 100);
    Ok(())
}

fn images_of_user_mode_are_restored_as_documented() -> Result<()> {
    // It shows what becomes of sizes where nothing lies behind AVX-512.
    let outcome = forcing_guest(Bochs::cpus(2).without_protection_keys())?
        .program(&test_program("xsave")?)
        .command(&format!("rig force --set what=0 -- xsave 20 {}", seed()))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    let shown = [
        "full_images_restored",
        "admitted_zeroed",
        "admitted_stale",
        "admitted_upper",
        "admitted_left",
        "admitted_longer",
        "strict_kept",
        "debugged",
        "signals",
        "armed",
    ];
    // Masks and zmm16-31 are in use whenever this program has CPUID hidden as well.
    judge(&counts, &shown, &["wrong", "other_traps", "armed_blindly"])?;
    // Each full image that was restored while hidden raised #GP, once, and so
    // did each CPUID.
    let images = counts["full_images_restored"] + counts["admitted_upper"];
    let faults = images + counts["detections"];
    ensure!(counts["gp_traps"] == faults, "{counts:?}");
    Ok(())
}

fn tracers_core_dumps_and_signal_frames_see_everything() -> Result<()> {
    let counts = forced(CALL_BOUNDARY, "traced", &format!("150 {}", seed()))?;
    judge(&counts, &["peeks", "pokes", "frames", "cores", "hidden"], &["odd"])
}

fn programs_of_32_bits_lose_nothing_either() -> Result<()> {
    let counts = forced(CALL_BOUNDARY, "compat", &format!("1500 {}", seed()))?;
    judge(&counts, &["signals", "hidden_in_handler"], &["hidden_alive"])
}

/// They come anywhere, and so also between the reduction of XCR0 and user mode.
fn nmis_find_nothing_and_change_nothing() -> Result<()> {
    let outcome = forcing_guest(Bochs::cpus(2))?
        .program(&test_program("vectors")?)
        .command(&format!(
            "nmis() {{ awk '/NMI:/ {{ print $2 + $3 }}' /proc/interrupts; }}
             levels=$(cat /proc/sys/kernel/printk)
             echo 1 >/proc/sys/kernel/printk
             before=$(nmis)
             (while :; do echo l >/proc/sysrq-trigger; done) & storm=$!
             rig force --set what=0xe0 --set visible_in=5 --set migrate=1 --set slice_us=2000 \
                 -- vectors 300 3 {} || exit 1
             kill $storm; wait $storm
             echo \"$levels\" >/proc/sys/kernel/printk
             echo nmis=$(($(nmis) - before))",
            seed()
        ))
        .limit(400)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    judge(&counts, &["nmis", "hides", "ud_traps", "cycles_checked"], &["registers_lost"])
}

fn illegal_instructions_stay_illegal() -> Result<()> {
    check_illegal(600).map(|_| ())
}

/// Executes so many genuinely illegal instructions; each must get its signal.
pub fn check_illegal(rounds: u64) -> Result<f64> {
    let counts = forced(CALL_BOUNDARY, "illegal", &format!("{rounds} {}", seed()))?;
    judge(&counts, &["illegal", "sigills", "sigsegvs", "hidden"], &["sigill_wrong"])?;
    Ok(counts["illegal"] as f64)
}

fn workers_of_io_uring_are_left_alone() -> Result<()> {
    let counts = forced(CALL_BOUNDARY, "uring", &format!("300 {}", seed()))?;
    judge(&counts, &["reads", "hidden"], &[])
}
