// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler on a real kernel: it loads, runs the tasks, shares the CPUs
//! as it should, and goes when asked.

use anyhow::{Context, Result, ensure};

use super::avx::fairness::{LICENCES, with_fake_counters};
use super::counts::counts_of;
use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::guest::Outcome;
use crate::rig::machine::Machine;
use crate::rig::{Bochs, Flavour, Qemu};

pub const CHECK: &str = "scheduler::check_tells_without_rights_and_changes_nothing";

crate::tests! {
    scheduler:
    loads_and_passes_the_verifier_on_the_stock_kernel_in_qemu(8),
    loads_and_passes_the_verifier_on_the_patched_kernel_in_qemu(8),
    loads_and_passes_the_verifier_on_the_patched_kernel_in_bochs(38),
    check_tells_without_rights_and_changes_nothing(5),
    loads_in_each_tier_where_there_are_caches_and_siblings(14),
    loads_in_the_tier_trap_where_there_are_siblings(40),
    reports_statistics_to_itself_and_to_a_monitor(16),
    shares_follow_weights(12),
    no_cpu_idles_beside_waiting_work(14),
    who_shares_a_core_goes_to_one_that_idles(14),
    no_cache_is_slower_than_another(16),
    a_pinned_task_gets_its_share_of_a_crowded_cpu(12),
    says_whose_weights_it_does_not_regard(22),
}

fn loads_and_passes_the_verifier_on_the_stock_kernel_in_qemu() -> Result<()> {
    loads(Qemu::cpus(4).into(), Flavour::Stock)
}

fn loads_and_passes_the_verifier_on_the_patched_kernel_in_qemu() -> Result<()> {
    loads(Qemu::cpus(4).into(), Flavour::Patched)
}

fn loads_and_passes_the_verifier_on_the_patched_kernel_in_bochs() -> Result<()> {
    loads(Bochs::cpus(2).into(), Flavour::Patched)
}

fn loads(machine: Machine, flavour: Flavour) -> Result<()> {
    let outcome = scheduler_guest(machine, flavour)?
        .command(&script(
            "start_scheduler
             cat $sched_ext/root/ops
             busy_loops 3
             all_progress $loops
             grep ext.enabled /proc/$$/sched | tr -d ' '
             stop_scheduler
             echo status $status
             all_progress $loops
             cat /tmp/scheduler.err /tmp/scheduler.out >&2",
        ))
        .limit(400)
        .boot()?;
    let output = outcome.stdout(0)?;
    let lines: Vec<&str> = output.lines().collect();
    ensure_eq!(lines.len(), 3, "{output}");
    ensure!(lines[0].starts_with("avxspec"), "{}", lines[0]);
    ensure_eq!(lines[1], "ext.enabled:1");
    ensure_eq!(lines[2], "status 0");
    let said = &outcome.commands[0].stderr;
    ensure!(said.contains("stopped, the kernel's default scheduler is back"), "{said}");
    Ok(())
}

/// The verifier goes through what a machine with one cache or with a thread for each core never
/// needs, and through what a tier or a policy adds.
fn loads_in_each_tier_where_there_are_caches_and_siblings() -> Result<()> {
    let guest = scheduler_guest(Qemu::topology(2, 2, 2), Flavour::Stock)?;
    let outcome = with_fake_counters(guest, Flavour::Stock)?
        .command(&script(&format!(
            "insmod /fake_clocks.ko
             for tier in observe hints counters; do
                 start_scheduler --tier $tier --policy fair --clock-counters {LICENCES}
                 scx_avxspec explain $$ >&2 || fail nothing is known of a thread in $tier
                 echo $tier=$(most_verified)
                 stop_scheduler
             done"
        )))
        .boot()?;
    are_verified_at_ease(&outcome, &["observe", "hints", "counters"])
}

/// The emulator has all CPUs share a cache.
fn loads_in_the_tier_trap_where_there_are_siblings() -> Result<()> {
    let outcome = scheduler_guest(Bochs::cpus(2).siblings(), Flavour::Patched)?
        .command(&script(
            "start_scheduler --tier trap --policy fair
             echo trap=$(most_verified)
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    are_verified_at_ease(&outcome, &["trap"])
}

/// The verifier gives up after a million instructions. How many they are differs from kernel to
/// kernel and from one compiler to the next, and a few choices more may be ten times as many.
const VERIFIED_AT_MOST: u64 = 100_000;

fn are_verified_at_ease(outcome: &Outcome, tiers: &[&str]) -> Result<()> {
    let verified = counts_of(outcome, 0)?;
    for tier in tiers {
        let is_at_ease = (1..=VERIFIED_AT_MOST).contains(&verified[tier]);
        ensure!(is_at_ease, "too many instructions are verified: {verified:?}");
    }
    ensure_eq!(outcome.stdout(0)?.lines().count(), tiers.len());
    Ok(())
}

/// Where the scheduler would run, and where it would not.
fn check_tells_without_rights_and_changes_nothing() -> Result<()> {
    const SEEN: &str = "grep -r . /sys/kernel/sched_ext; ls /sys/fs/bpf /run; cat /proc/mounts";
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(SEEN)
        .command("su nobody -s /bin/sh -c 'scx_avxspec check'")
        .command(SEEN)
        .command(
            "unshare -m sh -c 'mount -t tmpfs none /sys/kernel; su nobody -s /bin/sh -c \"scx_avxspec check\"'",
        )
        .boot()?;
    ensure!(outcome.stdout(0)?.contains("disabled"));
    ensure_eq!(outcome.stdout(0)?, outcome.stdout(2)?, "it changed something");
    let told = outcome.stdout(1)?;
    for line in ["ok       sched_ext ", "note     rights    you are not root", "ok       tier "] {
        ensure!(told.contains(line), "no {line:?} in:\n{told}");
    }
    ensure!(!told.contains("\nproblem "), "{told}");
    let refused = &outcome.commands[3];
    ensure_eq!(refused.status, 1);
    ensure!(refused.stdout.contains("problem  sched_ext "), "{}", refused.stdout);
    Ok(())
}

fn reports_statistics_to_itself_and_to_a_monitor() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(&script(
            "umask 0
             start_scheduler --stats 1
             for it in / /stats; do
                 case $(stat -c %A /var/run/scx/root$it) in
                 ?????-??-?) ;;
                 *) fail \"others may write to $it: $(ls -ld /var/run/scx/root$it)\" ;;
                 esac
             done
             busy_loops 4
             scx_avxspec --monitor 1 >/tmp/monitor.out 2>&1 & monitor=$!
             reported() { [ $(grep -c '% of 2 CPUs busy' /tmp/$1.out) -ge 3 ]; }
             wait_until 60 reported scheduler || fail \"too little: $(cat /tmp/scheduler.out)\"
             wait_until 60 reported monitor || fail \"too little: $(cat /tmp/monitor.out)\"
             kill -TERM $monitor
             wait $monitor; ended=$?
             [ $ended = 143 ] || fail the monitor did not end at once but with $ended
             stop_scheduler
             echo both report",
        ))
        .command("scx_avxspec --help-stats")
        .boot()?;
    ensure_eq!(outcome.stdout(0)?, "both report\n");
    ensure!(outcome.stdout(1)?.contains("run_ns"));
    Ok(())
}

/// Weights of the kernel's own table: 1024 at nice 0, 335 at nice 5.
const NICE_5_RATIO: f64 = 1024.0 / 335.0;

fn shares_follow_weights() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(1).counted_time(4), Flavour::Stock)?
        .package("coreutils")
        .command(&script(
            "start_scheduler
             busy_loops 1; normal=$loops
             nice -n 5 sh -c 'while :; do :; done' & lesser=$!
             sleep 1
             n=$(cpu_ns $normal); l=$(cpu_ns $lesser)
             sleep 4
             echo $(($(cpu_ns $normal) - n)) $(($(cpu_ns $lesser) - l))
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    let times = numbers(outcome.stdout(0)?)?;
    let ratio = times[0] / times[1];
    ensure!(
        (ratio / NICE_5_RATIO - 1.0).abs() < 0.1,
        "shares are {ratio:.2} to 1, weights {NICE_5_RATIO:.2} to 1"
    );
    Ok(())
}

/// Eight loops on four CPUs, half of them confined to two: by the kernel's own
/// accounts nothing is idle, and everybody gets the same.
fn no_cpu_idles_beside_waiting_work() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(4).counted_time(4), Flavour::Stock)?
        .command(&script(
            "idle() { awk '/^cpu /{print $5 + $6}' /proc/stat; }
             total() { awk '/^cpu /{for (n = 2; n <= 9; n++) sum += $n; print sum}' /proc/stat; }
             start_scheduler
             busy_loops 4; confined=$loops
             for pid in $loops; do taskset -p 3 $pid >/dev/null; done
             busy_loops 4
             sleep 1
             i=$(idle); t=$(total)
             before=$(for pid in $confined $loops; do cpu_ns $pid; done)
             sleep 4
             after=$(for pid in $confined $loops; do cpu_ns $pid; done)
             echo $(($(idle) - i)) $(($(total) - t))
             echo $before; echo $after
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    let mut lines = outcome.stdout(0)?.lines();
    let mut next = || numbers(lines.next().unwrap_or_default());
    let (ticks, before, after) = (next()?, next()?, next()?);
    let idle = ticks[0] / ticks[1];
    ensure!(idle < 0.02, "{:.1} % of the time was idle", idle * 100.0);
    let ran: Vec<f64> = before.iter().zip(&after).map(|(b, a)| a - b).collect();
    ensure_eq!(ran.len(), 8);
    let mean = ran.iter().sum::<f64>() / 8.0;
    for time in &ran {
        ensure!((time / mean - 1.0).abs() < 0.2, "unequal shares: {ran:?}");
    }
    Ok(())
}

/// Two loops on the threads of one of two cores, and then wherever they like: nobody wakes up, who
/// would look for an idle core. A thread of the kernel may come to one of their CPUs first, and
/// then who waits for it is taken by a CPU that idles; so they have to leave until one did so
/// without that.
fn who_shares_a_core_goes_to_one_that_idles() -> Result<()> {
    let outcome = scheduler_guest(Qemu::topology(1, 2, 2).counted_time(4), Flavour::Stock)?
        .package("curl")
        .command(&script(
            "ip link set lo up
             start_scheduler
             busy_loops 2
             may_run_on() { for pid in $loops; do taskset -p $1 $pid >/dev/null; done; }
             cores() { for pid in $loops; do echo $(($(cut -d ' ' -f 39 /proc/$pid/stat) / 2)); done; }
             share() { [ \"$(cores)\" = \"$(printf '0\\n0')\" ]; }
             are_apart() { [ $(cores | sort -u | wc -l) = 2 ]; }
             unshared() { curl --silent http://127.0.0.1:9829/metrics | sed -n 's/^avxspec_unshared_total //p'; }
             for _ in 1 2 3 4 5 6 7 8 9 10; do
                 may_run_on 3
                 wait_until 10 share || fail they do not share a core: $(cores)
                 may_run_on f
                 # Whoever looks takes a part of the other core.
                 sleep 0.3
                 wait_until 10 are_apart || fail they share core $(cores)
                 [ $(unshared) = 0 ] || break
             done
             [ $(unshared) -gt 0 ] || fail somebody had to wait first, each time
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    outcome.all_succeeded()
}

/// Six loops, on two of the CPUs of one cache at first, and then wherever there is room:
/// four CPUs, of two caches.
fn no_cache_is_slower_than_another() -> Result<()> {
    let outcome = scheduler_guest(Qemu::topology(2, 2, 1).counted_time(4), Flavour::Stock)?
        .command(&script(
            "start_scheduler
             busy_loops 6
             for pid in $loops; do taskset -p 3 $pid >/dev/null; done
             sleep 1
             for pid in $loops; do taskset -p f $pid >/dev/null; done
             sleep 1
             echo $(for pid in $loops; do cpu_ns $pid; done)
             sleep 4
             echo $(for pid in $loops; do cpu_ns $pid; done)
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    let mut lines = outcome.stdout(0)?.lines().map(numbers);
    let mut next = || lines.next().context("a line of times")?;
    let (before, after) = (next()?, next()?);
    let shares: Vec<f64> = before.iter().zip(&after).map(|(b, a)| (a - b) / 4e9).collect();
    for share in &shares {
        // Two thirds of a CPU each; where caches are not evened out, two have a whole one. How much
        // a loop lacks for a second says little: the emulator runs its CPUs by turns.
        ensure!((0.4..0.85).contains(share), "unequal shares: {shares:?}");
    }
    Ok(())
}

fn a_pinned_task_gets_its_share_of_a_crowded_cpu() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2).counted_time(4), Flavour::Stock)?
        .command(&script(
            "start_scheduler
             busy_loops 5
             taskset 2 sh -c 'while :; do :; done' & pinned=$!
             sleep 1
             p=$(cpu_ns $pinned)
             sleep 4
             echo $(($(cpu_ns $pinned) - p))
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    let share = numbers(outcome.stdout(0)?)?[0] / 4e9;
    // Six equal tasks on two CPUs: a third of a CPU each.
    ensure!((0.25..0.55).contains(&share), "it got {share:.2} of a CPU");
    Ok(())
}

fn numbers(line: &str) -> Result<Vec<f64>> {
    line.split_whitespace()
        .map(|word| word.parse().with_context(|| format!("{word:?} is no number")))
        .collect()
}

/// And it is so: the default scheduler gives the one hundreds of times as much as the other.
fn says_whose_weights_it_does_not_regard() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(&script(
            "echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
             in_group() {
                 mkdir /sys/fs/cgroup/$1
                 echo $2 >/sys/fs/cgroup/$1/cpu.weight
                 busy_loops 1
                 taskset -p 1 $loops >/dev/null
                 echo $loops >/sys/fs/cgroup/$1/cgroup.procs
             }
             used() { sed -n 's/^usage_usec //p' /sys/fs/cgroup/$1/cpu.stat; }
             report() {
                 heavy=$(used heavy) light=$(used light)
                 sleep 4
                 echo $1-heavy=$(($(used heavy) - heavy))
                 echo $1-light=$(($(used light) - light))
             }
             in_group heavy 10000
             in_group light 10
             report default
             start_scheduler
             report ours
             stop_scheduler
             cat /tmp/scheduler.err >&2
             scx_avxspec check | grep -A 1 ' groups ' >&2",
        ))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure!(counts["default-heavy"] > 100 * counts["default-light"], "{counts:?}");
    let (heavy, light) = (counts["ours-heavy"], counts["ours-light"]);
    ensure!(heavy < 2 * light && light < 2 * heavy, "{counts:?}");
    let said = &outcome.commands[0].stderr;
    let sentence = "this scheduler does not regard cpu.weight of /heavy and 1 more";
    ensure_eq!(said.matches(sentence).count(), 2, "{said}");
    Ok(())
}
