// SPDX-License-Identifier: GPL-2.0-only
//! When hiding begins and ends: schedulers, classes, programs, CPUs.

use anyhow::{Result, ensure};

use super::{forcing_guest, judge, test_program};
use crate::ensure_eq;
use crate::rig::{Bochs, Flavour, Guest, Kernel, Qemu, in_repository};
use crate::suite::counts::counts_of;
use crate::suite::recovery::{ERROR, STALL, ejector};
use crate::suite::{scheduler_program, script};

crate::tests! {
    hiding:
    every_end_of_a_scheduler_gives_everything_back(77),
    who_faults_as_a_scheduler_ends_is_hidden_from_by_the_next_one(64),
    a_task_that_leaves_the_scheduler_gets_everything_back(14),
    the_kernel_may_use_avx512_in_the_middle_of_exec(10),
    cpus_come_and_go_while_avx512_is_hidden(14),
    a_cpu_that_went_offline_reduced_comes_back_in_full(8),
    nothing_is_hidden_where_the_cpu_does_not_qualify(5),
    schedulers_come_and_go_where_the_cpu_has_no_xcr0(6),
}

/// A guest with all that these tests need.
pub fn guest_with_module() -> Result<Guest> {
    let module = Kernel::get(Flavour::Patched)?.module(
        &in_repository("tests/guest/hiding"),
        "module",
        "hiding_test",
    )?;
    Ok(forcing_guest(Bochs::cpus(2))?
        .program(&test_program("spinners")?)
        .program(&test_program("vectors")?)
        .program(&test_program("execstop")?)
        .file("/lib.sh", &in_repository("tests/guest/lib.sh"))
        .file("/hiding.sh", &in_repository("tests/guest/hiding/lib.sh"))
        .file("/hiding_test.ko", &module)
        .limit(600))
}

/// A script that begins with the libraries, and the module loaded.
fn hiding_script(body: &str) -> String {
    script(&format!(". /hiding.sh\ninsmod /hiding_test.ko || exit 1\n{body}"))
}

/// While nobody makes a system call, and again with the next scheduler.
fn every_end_of_a_scheduler_gives_everything_back() -> Result<()> {
    let outcome = guest_with_module()?
        .release("trixie")
        .package("bpftool")
        .file("/eject.o", &ejector()?)
        .tolerates(ERROR)
        .tolerates(STALL)
        .command(&hiding_script(
            "bpftool prog loadall /eject.o /sys/fs/bpf/eject autoattach || fail cannot load
             spinners run & run=$!
             reduced() { cat $module/reduced_at_stop; }
             begin() {
                 before=$(reduced)
                 start_forcing --set what=0xe0 $*
                 wait_until 30 spinners_see 0x207 || fail \"$end: nothing is hidden\"
             }
             check() {
                 wait_until 30 is_disabled || fail \"$end: the scheduler is still there\"
                 wait_until 30 spinners_see 0x2e7 || fail \"$end: AVX-512 is still hidden\"
                 cpus_are_full || fail \"$end: $(cat /tmp/cpus)\"
                 [ $(reduced) -gt $before ] || fail \"$end: nothing was reduced\"
                 [ $(cat $module/reduced_after_stop) -eq 0 ] || fail \"$end: not at once\"
                 echo \"$end: $(($(reduced) - before))\"
             }
             end=normal; begin; stop_forcing; check
             end=killed; begin; kill -KILL $forcing; check
             end=error; begin; hostname other; check
             end=sysrq; begin; echo S >/proc/sysrq-trigger; check
             end=watchdog; begin --set stall=1
             sh -c 'printf stalled >/proc/$$/comm; while :; do :; done' & stalled=$!
             check; kill $stalled
             end=again; begin; stop_forcing; check
             kill $run",
        ))
        .boot()?;
    let output = outcome.stdout(0)?;
    for end in ["normal", "killed", "error", "sysrq", "watchdog", "again"] {
        ensure!(output.contains(&format!("{end}: ")), "no word of {end}: {output}");
    }
    Ok(())
}

/// The program is at 512-bit work nearly all the time, also when its CPU is made to look reduced
/// at the end of a scheduler. It faults, and nobody wants to know any more. The next scheduler
/// hides from it where it comes from a system call, and it always comes from the same one. It
/// stands still while there is nothing to be seen of it.
fn who_faults_as_a_scheduler_ends_is_hidden_from_by_the_next_one() -> Result<()> {
    let outcome = guest_with_module()?
        .program(&scheduler_program()?)
        .program(&test_program("caller")?)
        .command(&hiding_script(
            "caller /tmp/missing & caller=$!
             missing() { od -A n -t u8 /tmp/missing | tr -d ' '; }
             is_hidden_from() { [ $(missing) -gt $1 ]; }
             wait_until 30 test -s /tmp/missing || fail the caller does not start
             for end in 1 2; do
                 before=$(missing)
                 kill -STOP $caller
                 start_scheduler --policy static --set avx-cpus=1 --set return=syscall
                 kill -CONT $caller
                 wait_until 60 is_hidden_from $before || fail \"$end: nothing is hidden\"
                 stop_scheduler
             done
             kill $caller
             [ $(cat $module/reduced_at_stop) -gt 0 ] || fail nothing was reduced
             echo ends=$end",
        ))
        .boot()?;
    ensure_eq!(counts_of(&outcome, 0)?["ends"], 2);
    Ok(())
}

fn a_task_that_leaves_the_scheduler_gets_everything_back() -> Result<()> {
    let outcome = guest_with_module()?
        .command(&hiding_script(
            "# The realtime task has its CPU to itself: whoever is there waits for ever.
             taskset -p 1 $$ >/dev/null
             spinners run & run=$!
             start_forcing --set what=0xe0 --set slice_us=50000
             wait_until 30 spinners_see 0x207 || fail nothing is hidden
             spinners fifo 1 || fail no change of class
             wait_until 30 spinner_sees 1 0x2e7 || fail hidden from a realtime task
             spinners other 1 || fail no change of class
             wait_until 30 spinner_sees 1 0x207 || fail not hidden again
             kill $run; stop_forcing",
        ))
        .boot()?;
    outcome.all_succeeded()
}

/// The new program's registers are in memory by then, and what the old one had
/// was never saved: nothing but the kernel's own use makes XCR0 full.
fn the_kernel_may_use_avx512_in_the_middle_of_exec() -> Result<()> {
    check_in_exec("use_in_exec")
}

/// Has the module do something in the middle of exec, where XCR0 is reduced.
pub(super) fn check_in_exec(what: &str) -> Result<()> {
    let outcome = guest_with_module()?
        .command(&hiding_script(&format!(
            "rmmod hiding_test && insmod /hiding_test.ko {what}=1 || exit 1
             taskset -p 1 $$ >/dev/null
             start_forcing --set what=0xe0 --set slice_us=50000
             for attempt in $(seq 10); do
                 rm -f /tmp/execstop
                 execstop 1 >/tmp/execstop & stop=$!
                 wait_until 10 grep -q stopped /tmp/execstop || fail nothing was executed
                 kill $stop
             done
             stop_forcing
             cd $module && grep . exec_checks reduced_in_exec wrong
             [ $(cat exec_checks) -ge 10 ] && [ $(cat reduced_in_exec) -gt 0 ] &&
                 [ $(cat wrong) -eq 0 ] && cpus_are_full",
        )))
        .boot()?;
    outcome.all_succeeded()
}

fn cpus_come_and_go_while_avx512_is_hidden() -> Result<()> {
    let outcome = guest_with_module()?
        .command(&hiding_script(
            "rig force --set what=0xe0 --set visible_in=5 --set migrate=1 --set slice_us=2000 \
                 -- vectors 600 3 >/tmp/vectors 2>&1 & force=$!
             await_start is_enabled || fail no scheduler
             turns=0
             while kill -0 $force 2>/dev/null; do
                 set_cpu 1 0; sleep 0.1
                 set_cpu 1 1; sleep 0.1
                 cpus_are_consistent || fail \"inconsistent: $(cat /tmp/cpus)\"
                 turns=$((turns + 1))
             done
             cat /tmp/vectors
             wait $force || fail registers were lost
             cpus_are_full || fail \"not full: $(cat /tmp/cpus)\"
             echo turns=$turns; [ $turns -gt 2 ]",
        ))
        .boot()?;
    outcome.all_succeeded()
}

fn a_cpu_that_went_offline_reduced_comes_back_in_full() -> Result<()> {
    let outcome = guest_with_module()?
        .command(&hiding_script(
            "# Whoever runs on the other CPU after this makes its XCR0 full.
             taskset -p 1 $$ >/dev/null
             start_forcing --set what=0xe0 --set slice_us=50000
             for attempt in $(seq 20); do
                 rm -f /tmp/execstop
                 execstop 1 >/tmp/execstop & stop=$!
                 wait_until 10 grep -q stopped /tmp/execstop || fail nothing was stopped
                 grep -q 'cpu=1 xcr0=0x207 hidden=0xe0' $module/cpus && break
                 # It was preempted on its way, and saved after all.
                 kill $stop; stop=
             done
             [ \"$stop\" ] || fail no CPU stayed reduced
             set_cpu 1 0
             set_cpu 1 1
             # Whoever ran there since may have been hidden from again.
             cpus_are_consistent || fail \"inconsistent: $(cat /tmp/cpus)\"
             kill $stop; stop_forcing",
        ))
        .boot()?;
    outcome.all_succeeded()
}

/// QEMU has neither XSAVEC nor AVX-512 when it emulates. With its time counted it
/// always does.
fn nothing_is_hidden_where_the_cpu_does_not_qualify() -> Result<()> {
    let outcome = forcing_guest(Qemu::cpus(2).counted_time(8))?
        .command("dmesg | grep -o 'x86/fpu: AVX-512 .*hidden'")
        .command("rig force --set what=0xe0 -- true")
        .boot()?;
    ensure!(outcome.stdout(0)? == "x86/fpu: AVX-512 cannot be hidden\n", "{}", outcome.stdout(0)?);
    judge(&counts_of(&outcome, 1)?, &["refused"], &["hides", "wrongly_granted", "ud_traps"])
}

/// There XSETBV is an invalid opcode, and the kernel dies of it: also when it lets
/// go of all CPUs, for the end of a scheduler that hid nothing.
fn schedulers_come_and_go_where_the_cpu_has_no_xcr0() -> Result<()> {
    let outcome = forcing_guest(Qemu::cpus(2).counted_time(8).without_xsave())?
        .command("! grep -qw xsave /proc/cpuinfo")
        .command("rig force --set what=0xe0 -- true")
        .command("grep -q disabled /sys/kernel/sched_ext/state")
        .command("rig force --set what=0xe0 -- true")
        .boot()?;
    outcome.all_succeeded()?;
    judge(&counts_of(&outcome, 3)?, &["refused"], &["hides", "wrongly_granted", "ud_traps"])
}
