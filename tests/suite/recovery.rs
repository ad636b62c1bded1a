// SPDX-License-Identifier: GPL-2.0-only
//! Whatever becomes of the scheduler, the machine goes on under the default
//! one, and no task is lost.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::kernel::Variant;
use crate::rig::{Flavour, Qemu, bpf, in_repository};

crate::tests! {
    recovery:
    a_stalled_task_ejects_the_scheduler_and_everything_runs_on(40),
    a_killed_scheduler_leaves_everything_running(7),
    an_error_ejects_the_scheduler_and_everything_runs_on(36),
    the_administrator_can_eject_the_scheduler(9),
    who_a_realtime_task_preempts_goes_on_elsewhere(8),
    who_a_realtime_task_wakes_does_not_wait_behind_it(20),
    realtime_tasks_that_come_and_go_keep_nobody_waiting(34),
}

/// What the kernel says when it ejects a scheduler for an error.
pub const ERROR: &str = "disabled (scx_bpf_error)";
/// The same where a task waited for too long.
pub const STALL: &str = "disabled (runnable task stall)";

/// Both a free and a pinned task run on under the default scheduler.
const AFTERWARDS: &str = "
    wait_until 30 is_disabled || fail 'the kernel still has the scheduler'
    all_progress $loops $pinned
    grep ext.enabled /proc/$pinned/sched | tr -d ' '";

fn a_killed_scheduler_leaves_everything_running() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(&script(&format!(
            "start_scheduler
             busy_loops 4
             taskset 2 sh -c 'while :; do :; done' & pinned=$!
             all_progress $loops $pinned
             kill -KILL $scheduler
             {AFTERWARDS}"
        )))
        .boot()?;
    ensure!(outcome.stdout(0)?.contains("ext.enabled:0"));
    Ok(())
}

fn an_error_ejects_the_scheduler_and_everything_runs_on() -> Result<()> {
    let object = ejector()?;
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .release("trixie")
        .package("bpftool")
        .file("/eject.o", &object)
        .command(&script(&format!(
            "bpftool prog loadall /eject.o /sys/fs/bpf/eject autoattach || fail cannot load
             start_scheduler
             busy_loops 4
             # The kernel's dump tells of it, by a name that is no text.
             taskset 2 sh -c 'printf \"\\377\\033named\" >/proc/$$/comm; while :; do :; done' &
             pinned=$!
             all_progress $loops $pinned
             hostname other
             wait $scheduler; echo status $?
             {AFTERWARDS}
             cat /tmp/scheduler.err /tmp/scheduler.out
             # And where there is no room for a report.
             scx_avxspec >/dev/full 2>/dev/full & scheduler=$!
             await_start is_enabled || fail it does not start again
             hostname another
             wait $scheduler; echo without a report status $?
             {AFTERWARDS}
             # And where nobody reads it.
             unread
             scx_avxspec 2>&9 & scheduler=$!
             await_start is_enabled || fail it does not start unread
             hostname one-more
             wait $scheduler; echo unread status $?
             {AFTERWARDS}"
        )))
        .tolerates(ERROR)
        .boot()?;
    let output = outcome.stdout(0)?;
    ensure!(output.starts_with("status 1\n"), "{output}");
    ensure!(output.contains("ext.enabled:0"), "{output}");
    ensure!(output.contains("an error made to order"), "{output}");
    ensure!(output.contains(" ??named["), "{output}");
    ensure!(output.contains("without a report status 1\n"), "{output}");
    ensure!(output.contains("unread status 1\n"), "{output}");
    Ok(())
}

/// An error of a scheduler, to order.
pub fn ejector() -> Result<PathBuf> {
    bpf::compile(&in_repository("tests/guest/eject.bpf.c"))
}

fn the_administrator_can_eject_the_scheduler() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(&script(&format!(
            "start_scheduler
             busy_loops 4
             taskset 2 sh -c 'while :; do :; done' & pinned=$!
             echo S >/proc/sysrq-trigger
             wait $scheduler; echo status $?
             {AFTERWARDS}
             cat /tmp/scheduler.err /tmp/scheduler.out"
        )))
        .boot()?;
    let output = outcome.stdout(0)?;
    ensure!(output.contains("ext.enabled:0"), "{output}");
    ensure!(output.contains("disabled by sysrq-S"), "{output}");
    ensure!(output.contains("status 0"), "an order is no failure: {output}");
    Ok(())
}

/// It says that it goes to sleep, as whoever writes to a pipe does, and goes on for a while. Each
/// of the two notes for itself when it was there: anybody else, and the script as well, may have
/// come to that CPU in the wrong moment, and wait there until then.
fn who_a_realtime_task_wakes_does_not_wait_behind_it() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(3), Flavour::Stock)?
        .package("util-linux")
        .command(&script(
            "start_scheduler
             mkfifo /tmp/pipe
             (read line </tmp/pipe; now; echo $now >/tmp/read) & reader=$!
             (exec 3>/tmp/pipe
              sleep 2; now; end=$((now + 1000))
              echo line >&3
              until now; [ $now -ge $end ]; do :; done
              echo $end >/tmp/ended) & waker=$!
             chrt -f -p 50 $waker || fail cannot give it realtime priority
             wait $reader $waker
             stop_scheduler
             cat /tmp/read /tmp/ended",
        ))
        .boot()?;
    let output = outcome.stdout(0)?;
    let at: Vec<u64> = output.lines().map(str::parse).collect::<Result<_, _>>()?;
    ensure!(at.len() == 2 && at[0] < at[1], "who was woken ran at {at:?}");
    Ok(())
}

/// A realtime task often wakes up on a CPU that idled, and to which somebody else was just sent.
/// Since Linux 7.1 that one is sent on, which the kernel counts.
fn realtime_tasks_that_come_and_go_keep_nobody_waiting() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(3), Flavour::Stock)?
        .package("util-linux")
        .command(&script(
            "start_scheduler
             taskset 4 chrt -f 50 sh -c 'while :; do sleep 0.005; done' & hog=$!
             for pause in 0.002 0.003 0.005; do
                 sh -c \"while :; do sleep $pause; done\" & sleepers=\"$sleepers $!\"
             done
             sleep 20
             all_progress $hog $sleepers
             if grep -q SCX_ENQ_IMMED /sys/kernel/btf/vmlinux; then
                 awk '/REENQ_IMMED/ { print $2 }' $sched_ext/root/events
             else
                 echo by nobody
             fi
             kill $hog $sleepers
             stop_scheduler",
        ))
        .boot()?;
    let sent_on = outcome.stdout(0)?.trim();
    if Variant::chosen()?.has_usual_source() {
        ensure_eq!(sent_on, "by nobody", "this kernel could, and does not");
    } else {
        ensure!(sent_on.parse::<u64>()? > 0, "sent on: {sent_on}");
    }
    Ok(())
}

/// A realtime task wakes on the CPU of another one, which may leave it as soon as there is no more
/// to see of its being confined. The shell is confined to the other CPU: if it took this one, the
/// loop could be on its way back to it, past the queues, when the realtime task wakes up, and before
/// Linux 7.1 it would wait for that one.
fn who_a_realtime_task_preempts_goes_on_elsewhere() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .package("util-linux")
        .command(&script(
            "start_scheduler
             taskset -p 1 $$
             busy_loops 1
             taskset -p 2 $loops
             mkfifo /tmp/go
             taskset 2 chrt -f 1 sh -c 'read go </tmp/go; while :; do :; done' & hog=$!
             sleep 1
             all_progress $loops
             taskset -p 3 $loops
             before=$(cpu_ns $hog)
             echo go >/tmp/go
             wait_until 20 ran_since $hog $((before + 500000000)) || fail the hog does not run
             all_progress $loops
             kill -KILL $hog
             stop_scheduler
             echo status $status",
        ))
        .boot()?;
    let output = outcome.stdout(0)?;
    ensure!(output.ends_with("status 0\n"), "{output}");
    Ok(())
}

/// A realtime task that takes all of a CPU starves a task confined to it. The scheduler can do
/// nothing about it and is blamed by the kernel's watchdog, which must end in the default
/// scheduler, whose fair server then serves the starving task. Newer kernels serve it at once.
fn a_stalled_task_ejects_the_scheduler_and_everything_runs_on() -> Result<()> {
    let has_server = !Variant::chosen()?.has_usual_source();
    let end = if has_server {
        "all_progress $hog $pinned
         stop_scheduler"
    } else {
        "wait $scheduler; echo status $?"
    };
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .package("util-linux")
        .command(&script(&format!(
            "start_scheduler
             busy_loops 1
             taskset 2 sh -c 'while :; do :; done' & pinned=$!
             all_progress $loops $pinned
             taskset 2 chrt -f 1 sh -c 'while :; do :; done' & hog=$!
             all_progress $hog
             {end}
             {AFTERWARDS}
             cat /tmp/scheduler.err /tmp/scheduler.out"
        )))
        .tolerates(STALL)
        .limit(300)
        .boot()?;
    let output = outcome.stdout(0)?;
    ensure!(output.contains("ext.enabled:0"), "{output}");
    if !has_server {
        ensure!(!output.contains("status 0"), "{output}");
        ensure!(output.contains("runnable task stall"), "{output}");
    }
    Ok(())
}
