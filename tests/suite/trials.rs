// SPDX-License-Identifier: GPL-2.0-only
//! A policy tried against the one in force, of which it is known what it does to whom.

use anyhow::{Context, Result, ensure};
use regex::Regex;

use super::avx::fairness::with_fake_counters;
use super::counts::counts_of;
use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::{Flavour, Qemu, in_repository, program};

crate::tests! {
    trials:
    a_trial_tells_who_gets_less_done_and_changes_nothing(20),
    where_trials_find_that_they_do_not_pay_there_are_no_avx_cores(14),
    a_trial_ends_with_who_asked_for_it_and_with_another_policy(20),
}

/// Two loops share the AVX core, and get half done, until trials say so.
fn where_trials_find_that_they_do_not_pay_there_are_no_avx_cores() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/avx/hinted_loop.c"))?)
        .command(&script(
            "start_scheduler --force --set sizing=static --set avx-cpus=1
             hinted_loop & first=$!
             hinted_loop & second=$!
             awk 'BEGIN { while (1); }' & spin=$!
             share() {
                 now; begun=$now before=$(($(cpu_ns $first) + $(cpu_ns $second)))
                 sleep 2
                 now; echo $1_ran=$(($(cpu_ns $first) + $(cpu_ns $second) - before))
                 echo $1_passed=$(((now - begun) * 10000000))
             }
             is_found() { scx_avxspec status | grep 'AVX cores do not pay, and there are none: ' >&2; }
             wait_until 60 is_found || fail nothing is found
             share tried
             scx_avxspec policy set trials=off >&2
             is_found && fail it is known of another policy
             sleep 1
             share off
             kill $first $second $spin
             stop_scheduler",
        ))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    let share = |when: &str| {
        counts[format!("{when}_ran").as_str()] as f64
            / counts[format!("{when}_passed").as_str()] as f64
            / 2.0
    };
    let shares = [share("tried"), share("off")];
    let is_as_known = shares[0] > 0.8 && (0.35..0.65).contains(&shares[1]);
    ensure!(is_as_known, "the loops had {shares:?} of two CPUs, with trials and without");
    Ok(())
}

/// In force nobody is moved. Under the other policy two loops share one CPU and get half done, which
/// for half of the time is three quarters of what they would get, and say so themselves. Those that
/// sleep do not notice, and nobody notices what another one says of all of them, nor that the number
/// of yet another one is behind a URL that hangs.
fn a_trial_tells_who_gets_less_done_and_changes_nothing() -> Result<()> {
    let guest = scheduler_guest(Qemu::cpus(4).counted_time(4), Flavour::Stock)?;
    let outcome = with_fake_counters(guest, Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/avx/hinted_loop.c"))?)
        .program(&program::compile(&in_repository("tests/guest/avx/liar.c"))?)
        .command(&script(
            "insmod /fake_clocks.ko pmu=cpu culprit=hinted_loop
             ip link set lo up
             sleep 1000 | nc -l -p 9999 >/dev/null &
             start_scheduler --force --policy observe --progress sh=/tmp/naps \
                 --progress awk=http://127.0.0.1:9999/metrics
             mkdir /sys/fs/cgroup/naps
             sh -c 'echo 0 >/sys/fs/cgroup/naps/cgroup.procs
                    while :; do sleep 0.01; naps=$((naps + 1)); echo $naps >/tmp/naps; done' & naps=$!
             hinted_loop & first=$!
             hinted_loop & second=$!
             awk 'BEGIN { while (1); }' & spin=$!
             liar $first & liar=$!
             is_tried() { scx_avxspec status | grep -q 'by turns with policy 2 (custom)'; }
             ran() { echo $(($(cpu_ns $first) + $(cpu_ns $second))); }
             printf \"base = 'static'\\navx-cpus = 1\\n\" >/tmp/one.toml
             scx_avxspec policy trial /tmp/one.toml --for 10s >/tmp/report & trial=$!
             wait_until 10 is_tried || fail status says nothing of it
             now; begun=$now before=$(ran)
             wait $trial || fail it failed
             now; echo ran=$(($(ran) - before)) passed=$(((now - begun) * 10000000)) | tr ' ' '\\n'
             cat /tmp/report >&2
             now; begun=$now before=$(ran)
             sleep 2
             now; echo ran_after=$(($(ran) - before)) passed_after=$(((now - begun) * 10000000)) |
                 tr ' ' '\\n'
             scx_avxspec policy show | head -n 2 >&2
             is_tried && fail it is tried for ever
             kill $liar $naps $first $second $spin
             stop_scheduler
             rmmod fake_clocks || fail instructions are counted for ever",
        ))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    let share = |ran: &str, passed: &str| counts[ran] as f64 / counts[passed] as f64 / 2.0;
    let share_of = [share("ran", "passed"), share("ran_after", "passed_after")];
    let is_as_known = (0.55..0.9).contains(&share_of[0]) && share_of[1] > 0.8;
    ensure!(is_as_known, "the loops had {share_of:?} of two CPUs, while it ran and afterwards");
    let said = &outcome.commands[0].stderr;
    let row = |name: &str, by: &str, cgroup: &str| -> Result<f64> {
        let row = format!(r"(?m)^{name} +([+-][0-9.]+) % \(.*\) +{by} +{cgroup}$");
        let found = Regex::new(&row)?.captures(said);
        let found = found.with_context(|| format!("no {row} in {said}"))?;
        Ok(found[1].parse()?)
    };
    // The emulator's CPUs take turns: each does more while fewer are busy.
    for (by, known) in [("instructions", -60.0..-40.0), ("its metric", -45.0..-10.0)] {
        let loops = row("hinted_loop", by, "/")?;
        ensure!(known.contains(&loops), "the loops get {loops} % more done by {by}: {said}");
    }
    row("awk", "CPU time", "/")?;
    row("sleep", "activities", "/naps")?;
    row("sh", "its metric", r"\(all\)")?;
    for sentence in ["policy 1 is better for hinted_loop", "# policy 1\n# observe\n"] {
        ensure!(said.contains(sentence), "no {sentence:?} in {said}");
    }
    Ok(())
}

fn a_trial_ends_with_who_asked_for_it_and_with_another_policy() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(&script(
            "is_tried() { scx_avxspec status | grep -q 'by turns with policy'; }
             is_not_tried() { ! is_tried; }
             refuses() { \"$@\" >&2 && fail not refused: $*; }
             start_scheduler
             busy_loops 3
             refuses scx_avxspec policy trial adaptive
             refuses scx_avxspec policy trial statik
             refuses scx_avxspec policy trial static --for 1s
             scx_avxspec policy trial static --for 1h & trial=$!
             wait_until 10 is_tried || fail it is not tried
             refuses scx_avxspec policy trial observe
             kill -KILL $trial
             wait_until 60 is_not_tried || fail it goes on without who asked

             scx_avxspec policy trial static --for 1h >/tmp/report & trial=$!
             wait_until 10 is_tried || fail it is not tried again
             scx_avxspec policy set window=20ms --dry-run >&2
             is_tried || fail it ended for nothing
             scx_avxspec policy set window=20ms >&2
             is_tried && fail it goes on with another policy
             refuses wait $trial
             scx_avxspec policy show | head -n 1
             scx_avxspec policy show | grep window

             scx_avxspec policy trial static --for 1h & trial=$!
             wait_until 10 is_tried || fail it is not tried a third time
             before=$(loads)
             set_cpu 1 0
             wait_until 60 is_loaded_since $before || fail not loaded anew
             refuses wait $trial
             scx_avxspec policy show | head -n 1
             all_progress $loops
             stop_scheduler
             cat /tmp/scheduler.err >&2",
        ))
        .boot()?;
    let shown: Vec<&str> = outcome.stdout(0)?.lines().map(str::trim).collect();
    ensure_eq!(shown, ["# policy 4", "window = \"20ms\"", "# policy 4"]);
    let said = &outcome.commands[0].stderr;
    for sentence in [
        "this is the policy in force: there is nothing to compare it with",
        "did you mean \"static\"?",
        "it takes 2s to 1day",
        "policy 2 is tried for another 3",
        "the trial ended before its time: policy 4 came into force",
        "the trial is lost: ",
        ": policy 3 (static) is tried against 1 for 1h",
        "policy 2 is tried no more",
    ] {
        ensure!(said.contains(sentence), "no {sentence:?} in {said}");
    }
    Ok(())
}
