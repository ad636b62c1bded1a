// SPDX-License-Identifier: GPL-2.0-only
//! Where the kernel does not hide AVX-512: AVX work is found out about in other ways.

use anyhow::{Result, ensure};

use super::fairness::{LICENCES, with_fake_counters};
use super::{CPUS, phases_guest, user_rows, wide_work};
use crate::ensure_eq;
use crate::rig::guest::Outcome;
use crate::rig::{Bochs, Flavour, Kernel, Qemu, in_repository, program};
use crate::suite::counts::{Counts, counts_of};
use crate::suite::{scheduler_guest, script, with_refusals};

crate::tests! {
    avx:
    long_wide_work_goes_to_avx_cores_on_a_stock_kernel(48),
    who_says_what_its_work_is_runs_where_it_belongs(16),
    who_says_what_its_work_is_waits_for_no_tick(16),
    a_kernel_that_refuses_to_hide_leaves_the_next_best_tier(66),
    nothing_is_hidden_where_openzfs_is_loaded(98),
    low_clocks_tell_of_avx_work(18),
    listed_cpus_are_avx_cores(8),
}

/// One CPU that is not listed, one that does not exist, and back to another method.
fn listed_cpus_are_avx_cores() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?
        .command(&script(
            "avx_cores() {
                 scx_avxspec status | sed -n 's/^AVX cores: [0-9]* of 4 CPUs (\\(.*\\)).*/\\1/p'
             }
             avx_cores_are() { [ \"$(avx_cores)\" = $1 ]; }
             two_are() { [ $(avx_cores | tr -s ,- '\\n' | wc -l) = 2 ]; }
             await() { wait_until 30 \"$@\" || fail \"$*: $(avx_cores)\"; }
             start_scheduler --force --policy static --set sizing=list --set avx-cpu-list=1,3
             await avx_cores_are 1,3
             scx_avxspec policy set avx-cpu-list=0-2,7 >&2
             await avx_cores_are 0-2
             scx_avxspec policy set avx-cpu-list= >&2
             await avx_cores_are none
             scx_avxspec policy set sizing=static avx-cpus=2 >&2
             await two_are
             scx_avxspec policy set avx-cpu-list=0-9999999999 && fail a list without end is taken
             stop_scheduler",
        ))
        .boot()?;
    outcome.all_succeeded()
}

/// Threads that do nothing but wide work and threads that do none, more than CPUs: each is
/// switched out now and then, and what it has in its registers then is saved.
fn long_wide_work_goes_to_avx_cores_on_a_stock_kernel() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(CPUS), Flavour::Stock)?
        .command(&script(
            "start_scheduler --policy static --set avx-cpus=2
             phases 2 1 0 1000000000 & wide=$!
             phases 4 1000000 200 0 & scalar=$!
             sleep 0.5
             oraclectl run -- sleep 1
             kill $wide $scalar
             stop_scheduler
             cat /tmp/scheduler.err >&2",
        ))
        .limit(400)
        .boot()?;
    ensure_tier(&outcome, "xstate")?;
    let (on_scalar, all) = wide_work(&user_rows(outcome.stdout(0)?)?, &[2, 3]);
    ensure!(all > 20_000_000, "{all} wide instructions in a second");
    ensure!(on_scalar * 20 <= all, "{on_scalar} of {all} wide instructions on scalar CPUs");
    Ok(())
}

/// Built to hide, the kernel does not, as on a CPU that its test at boot has found wanting. Who
/// insists is told so.
fn a_kernel_that_refuses_to_hide_leaves_the_next_best_tier() -> Result<()> {
    let guest = phases_guest(Bochs::cpus(2), Flavour::Patched)?;
    let outcome = with_refusals(guest, Flavour::Patched)?
        .command(&script(
            "insmod /second_argument.ko of=bpf_task_hide_xfeatures is=0
             start_scheduler --set trials=off
             before=$(loads)
             busy_loops 1
             # It is found out by the first tick, and the kernel verifies faster without it.
             sleep 1; kill -STOP $loops
             wait_until 60 is_loaded_since $before || fail nobody finds out
             wait_until 30 has_tier xstate || fail \"$(scx_avxspec status)\"
             stop_scheduler
             cat /tmp/scheduler.err >&2
             scx_avxspec --tier trap 2>/tmp/refused; echo status=$?
             is_disabled || fail the kernel still has it
             grep -c 'cannot be hidden on this CPU: leave out --tier' /tmp/refused | sed s/^/told=/
             kill -KILL $loops",
        ))
        .limit(400)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_tier(&outcome, "trap")?;
    ensure_tier(&outcome, "xstate")?;
    ensure_eq!((counts["status"], counts["told"]), (1, 1));
    Ok(())
}

/// It comes while the scheduler hides.
fn nothing_is_hidden_where_openzfs_is_loaded() -> Result<()> {
    let module = Kernel::get(Flavour::Patched)?.module(
        &in_repository("tests/guest"),
        "openzfs_module",
        "zfs",
    )?;
    let outcome = phases_guest(Bochs::cpus(2), Flavour::Patched)?
        .file("/zfs.ko", &module)
        .command(&script(
            "start_scheduler --tier trap --set trials=off
             before=$(loads)
             wait_until 30 has_tier trap || fail \"$(scx_avxspec status)\"
             insmod /zfs.ko
             wait_until 60 is_loaded_since $before || fail it goes on hiding
             wait_until 30 has_tier xstate || fail \"$(scx_avxspec status)\"
             stop_scheduler
             grep -q 'OpenZFS was loaded' /tmp/scheduler.err || fail_with_its_words it does not say why
             rmmod zfs

             # It comes while another thing asks for another load as well.
             start_scheduler --tier trap --set trials=off
             before=$(loads)
             wait_until 30 has_tier trap || fail \"$(scx_avxspec status)\"
             kill -STOP $scheduler
             set_cpu 1 0
             insmod /zfs.ko
             kill -CONT $scheduler
             wait_until 60 is_loaded_since $before || fail it is not loaded anew
             wait_until 30 has_tier xstate || fail \"$(scx_avxspec status)\"
             [ $(loads) = $((before + 1)) ] || fail it hid once more: $(loads) loads, $before before
             stop_scheduler",
        ))
        .limit(800)
        .boot()?;
    outcome.all_succeeded()
}

fn ensure_tier(outcome: &Outcome, tier: &str) -> Result<()> {
    let said = &outcome.commands[0].stderr;
    ensure!(said.contains(&format!("tier {tier}: ")), "{said}");
    Ok(())
}

/// Counters say that the clock is low while one loop of four runs, and then that it is not.
fn low_clocks_tell_of_avx_work() -> Result<()> {
    let guest = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?;
    let outcome = with_fake_counters(guest, Flavour::Stock)?
        .command(&script(&format!(
            "insmod /fake_clocks.ko cycles=0,0,750,750 culprit=culprit
             start_scheduler --tier counters --clock-counters {LICENCES} \
                 --policy static --set avx-cpus=1
             busy_loops 3
             sh -c 'printf culprit >/proc/$$/comm; while :; do :; done' & culprit=$!
             avx_core=$(scx_avxspec status |
                 sed -n 's/^AVX cores: 1 of 4 CPUs (\\([0-9]\\)).*/\\1/p')
             # look NAME PID: how often it is there, and what it is
             look() {{
                 there=0
                 for n in $(seq 40); do
                     [ $(awk '{{ print $39 }}' /proc/$2/stat) = $avx_core ] && there=$((there + 1))
                     sleep 0.05
                 done
                 echo $1_there=$there
             }}
             is_innocent() {{ ! is_avx $culprit; }}
             wait_until 30 is_avx $culprit || fail the culprit is not found
             look culprit $culprit
             look other ${{loops##* }}
             is_avx ${{loops##* }} && fail another one is taken for it
             echo 1000,0,0,1000 >/sys/module/fake_clocks/parameters/cycles
             # Where nobody waits it may stay where it is.
             wait_until 30 is_innocent || fail the culprit is never acquitted
             kill $culprit $loops
             stop_scheduler
             cat /tmp/scheduler.err >&2
             scx_avxspec --tier counters 2>&1 | grep -c 'three such events' | sed s/^/refused=/"
        )))
        .boot()?;
    ensure_tier(&outcome, "counters")?;
    let counts = counts_of(&outcome, 0)?;
    ensure!(counts["culprit_there"] > 35, "{counts:?}");
    ensure!(counts["other_there"] < 10, "{counts:?}");
    ensure_eq!(counts["refused"], 1);
    Ok(())
}

/// Between two ticks of 1 ms there are 62,500 instructions, and some thousand looks.
fn who_says_what_its_work_is_waits_for_no_tick() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2).counted_time(4), Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/avx/hinted.c"))?)
        .command(&script(
            "start_scheduler --force --policy static --set avx-cpus=1
             chmod o+w /sys/fs/bpf/scx_avxspec_hints
             hinted 1
             stop_scheduler",
        ))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    let looks = &outcome.commands[0].stderr;
    ensure!(counts["soon"] > 10 * counts["late"], "{counts:?}:\n{looks}");
    Ok(())
}

/// The last of four CPUs is the AVX core. QEMU has no AVX-512, so that the scheduler knows
/// of nothing else. What a program says is not true of the one that it becomes.
fn who_says_what_its_work_is_runs_where_it_belongs() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/avx/hinted.c"))?)
        .program(&program::compile(&in_repository("tests/guest/avx/hinted_loop.c"))?)
        .package("curl")
        .command(&script(
            "ip link set lo up
             start_scheduler --force --policy static --set avx-cpus=1
             chmod o+w /sys/fs/bpf/scx_avxspec_hints
             hinted 3
             scx_avxspec policy set classes=avx512+avx2-heavy >&2
             hinted 3 | sed -n 's/^avx2/heavy/p'
             curl --silent http://127.0.0.1:9829/metrics |
                 sed -n 's/^avxspec_hints_total /hints=/p'
             hinted_loop & loop=$!
             wait_until 30 is_avx $loop || fail it is not what it says
             hinted_loop sh -c 'echo begun >/tmp/begun; while :; do :; done' & other=$!
             wait_until 30 test -s /tmp/begun || fail it does not become another program
             is_avx $other && fail another program is what the one before said
             kill $loop $other
             stop_scheduler
             cat /tmp/scheduler.err >&2",
        ))
        .boot()?;
    ensure_tier(&outcome, "hints")?;
    let counts = counts_of(&outcome, 0)?;
    ensure!(counts["hints"] >= 800, "{} hints were followed", counts["hints"]);
    let mostly = |counts: &Counts, many: &str, few: &str| counts[many] > 10 * counts[few];
    for (many, few) in [
        ("avx_there", "avx_elsewhere"),
        ("scalar_elsewhere", "scalar_there"),
        ("avx2_elsewhere", "avx2_there"),
        ("heavy_there", "heavy_elsewhere"),
        ("told_there", "told_elsewhere"),
    ] {
        ensure!(mostly(&counts, many, few), "{many} is not far more than {few}: {counts:?}");
    }
    Ok(())
}
