// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler tells whoever follows, against what others say of the same.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::avx::{WIDE, phases_guest, user_rows};
use super::counts::counts_of;
use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::guest::Outcome;
use crate::rig::{Bochs, Flavour, Qemu, in_repository, program};

crate::tests! {
    events:
    they_are_what_the_program_did_and_the_kernel_saw(43),
    they_go_on_when_a_cpu_goes_and_comes(18),
}

/// One of each line.
#[derive(Debug, Deserialize)]
struct Event {
    at_s: f64,
    kind: String,
    why: String,
    cpu: Option<u32>,
    thread: Option<i64>,
    comm: Option<String>,
    role: Option<String>,
    for_s: Option<f64>,
    policy: Option<u64>,
}

fn events_in(outcome: &Outcome, file: &str) -> Result<Vec<Event>> {
    let text = String::from_utf8(outcome.file(file)?)?;
    // The last line may be half of one, for whoever wrote it was killed.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// Iterations of scalar and of wide work in each round of the program.
const SCALAR_ITERATIONS: u64 = 2000;
const WIDE_ITERATIONS: u64 = 1000;
/// As tests/guest/avx/phases.c has it.
const WIDE_INSTRUCTIONS: u64 = 2 + 98 * WIDE_ITERATIONS;

/// The program stands still where anything is begun to be counted, and where it is no longer.
/// The emulator knows what was executed, and the kernel how often the program was moved. Whoever
/// follows stands still in between: each time that it printed, it would take the CPU from the
/// program, which would go to the AVX core and come back without any event.
fn they_are_what_the_program_did_and_the_kernel_saw() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(2), Flavour::Patched)?
        .command(&script(&format!(
            "moves() {{ sed -n 's/^se.nr_migrations *: *//p' /proc/$phases/task/$thread/sched; }}
             start_scheduler --policy static --set avx-cpus=1 --set return=syscall
             phases 1 1000000 {SCALAR_ITERATIONS} {WIDE_ITERATIONS} & phases=$!
             sleep 0.3
             thread=$(ls /proc/$phases/task | sort -n | tail -n 1)
             kill -STOP $phases
             sleep 0.1

             scx_avxspec events --follow --json >/tmp/events & follower=$!
             wait_until 30 test -s /tmp/events || fail nothing is told
             kill -STOP $follower
             echo before=$(moves)
             oraclectl reset
             kill -CONT $phases
             sleep 1
             kill -STOP $phases
             sleep 0.2
             oraclectl report >/tmp/census
             echo after=$(moves)
             kill -CONT $follower
             scx_avxspec policy set avx-cpus=2 >&2
             wait_until 30 grep -q '\"kind\":\"role\"' /tmp/events || fail no change of a role is told
             kill $follower

             scx_avxspec policy set avx-cpus=1 >&2
             kill -CONT $phases
             scx_avxspec explain $thread --watch 500ms >/tmp/explanation
             scx_avxspec events --kind began --pid $thread >/tmp/began
             scx_avxspec events --follow | head -n 3 >&2
             echo thread=$thread
             kill $phases
             stop_scheduler"
        )))
        .collect("/tmp/events")
        .collect("/tmp/census")
        .collect("/tmp/explanation")
        .collect("/tmp/began")
        .limit(400)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    let events = events_in(&outcome, "/tmp/events")?;
    let first = events.first().context("no events")?;
    ensure_eq!((first.kind.as_str(), first.policy), ("policy", Some(1)));
    ensure!(events.iter().all(|it| it.kind != "lost"), "lost events: {events:?}");

    let of_thread: Vec<&Event> =
        events.iter().filter(|it| it.thread == Some(counts["thread"] as i64)).collect();
    let rows = user_rows(&String::from_utf8(outcome.file("/tmp/census")?)?)?;
    let wide: u64 = rows.iter().map(|row| row.sum(&WIDE)).sum();
    ensure_rounds(&of_thread, wide)?;
    ensure_order(&of_thread)?;
    ensure_moves(&of_thread, counts["after"] - counts["before"])?;
    ensure_policy_and_role(&events)?;
    ensure_others(&outcome)
}

/// As many phases as the program had bursts of wide work.
fn ensure_rounds(events: &[&Event], wide: u64) -> Result<()> {
    let bursts = wide / WIDE_INSTRUCTIONS;
    ensure!(bursts > 50, "{bursts} bursts in a second");
    let of_kind = |kind: &'static str| events.iter().filter(move |it| it.kind == kind);
    for kind in ["began", "ended"] {
        let told = of_kind(kind).count() as u64;
        ensure!(told.abs_diff(bursts) <= 1 + bursts / 50, "{told} {kind}, {bursts} bursts");
    }
    let faults = of_kind("began").filter(|it| it.why == "fault").count() as u64;
    ensure!(faults * 10 >= bursts * 9, "{faults} faults, {bursts} bursts");
    ensure_lengths(events)
}

/// The program has an AVX core of its own, so that it runs for nearly all of a phase.
fn ensure_lengths(events: &[&Event]) -> Result<()> {
    let (mut began_s, mut lasted, mut ran) = (None, 0.0, 0.0);
    for it in events {
        if it.kind == "began" {
            began_s = Some(it.at_s);
        } else if let (Some(began_s), Some(for_s)) = (began_s, it.for_s) {
            lasted += it.at_s - began_s;
            ran += for_s;
        }
    }
    ensure!(ran > 0.5 * lasted && ran < 1.1 * lasted, "ran {ran} s in {lasted} s of phases");
    Ok(())
}

/// A phase begins where the program is a scalar task, and takes it to the AVX core, which is
/// CPU 1; it ends there, and the program goes back.
fn ensure_order(events: &[&Event]) -> Result<()> {
    let mut is_avx = None;
    let (mut begun_elsewhere, mut phases) = (0, 0);
    let mut last_s = 0.0;
    for it in events {
        ensure_eq!(it.comm.as_deref(), Some("phases"));
        ensure!(it.at_s >= last_s, "{it:?} comes after one at {last_s}");
        last_s = it.at_s;
        match it.kind.as_str() {
            "began" => {
                ensure!(is_avx != Some(true), "{it:?} while there is a phase");
                is_avx = Some(true);
                phases += 1;
                begun_elsewhere += u64::from(it.cpu == Some(0));
            }
            "ended" => {
                ensure!(is_avx != Some(false), "{it:?} without a phase");
                is_avx = Some(false);
                ensure_eq!(it.why, "syscall");
            }
            "sent" => {
                let role = if it.cpu == Some(0) { "AVX core" } else { "scalar CPU" };
                ensure_eq!(it.role.as_deref(), Some(role), "{it:?}");
                let expected = it.cpu == Some(0);
                ensure!(is_avx.is_none_or(|is_avx| is_avx == expected), "{it:?}: not now");
            }
            other => ensure!(other == "fault", "{it:?}"),
        }
    }
    ensure!(begun_elsewhere * 10 > phases * 9, "{begun_elsewhere} of {phases} on the scalar CPU");
    Ok(())
}

/// Where each event was says how often the program was moved, unless it was moved and came back
/// between two of them.
fn ensure_moves(events: &[&Event], moved: u64) -> Result<()> {
    let pairs = || events.iter().zip(events.iter().skip(1));
    let seen = pairs().filter(|(it, next)| it.cpu != next.cpu).count() as u64;
    // To be stopped and to go on may move it as well.
    let is_close = seen <= moved + 4 && moved <= seen + 4 + seen / 20;
    ensure!(is_close, "{seen} moves are seen, the kernel counts {moved}");
    let is_sent = |it: &&&Event| it.kind == "sent";
    let sent = events.iter().filter(is_sent).count() as u64;
    let there = events.iter().filter(is_sent).filter(|it| it.cpu == Some(0)).count() as u64;
    ensure!(sent <= seen + 1, "sent {sent} times, moved {seen} times");
    ensure!(there * 20 > seen * 9, "sent to the AVX core {there} times, moved {seen} times");
    Ok(())
}

/// The policy was changed at the end, and so was the other CPU.
fn ensure_policy_and_role(events: &[Event]) -> Result<()> {
    let at = |kind: &str, n: usize| events.iter().filter(|it| it.kind == kind).nth(n);
    let policy = at("policy", 1).context("no second policy")?;
    ensure_eq!((policy.policy, policy.why.as_str()), (Some(2), "avx-cpus=2"));
    let role = at("role", 0).context("no role")?;
    ensure_eq!(
        (role.cpu, role.role.as_deref(), role.why.as_str()),
        (Some(0), Some("AVX core"), "number of the policy")
    );
    Ok(())
}

/// What people read.
fn ensure_others(outcome: &Outcome) -> Result<()> {
    let text = |file| -> Result<String> { Ok(String::from_utf8(outcome.file(file)?)?) };
    let explanation = text("/tmp/explanation")?;
    for words in ["in 500ms:\n  phases began: ", " fault\n  phases ended: ", "\nAVX-512 is "] {
        ensure!(explanation.contains(words), "no {words:?} in {explanation}");
    }
    let began = text("/tmp/began")?;
    ensure!(began.lines().count() > 50, "{began}");
    let is_alike =
        |line: &str| line.contains(" phases[") && line.contains("] began a phase of AVX work: ");
    ensure!(began.lines().all(is_alike), "{began}");
    Ok(())
}

/// The scheduler is loaded anew under who follows, and what happens is told afterwards.
fn they_go_on_when_a_cpu_goes_and_comes() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/avx/hinted.c"))?)
        .command(&script(
            "start_scheduler --force --policy static --set avx-cpus=1
             chmod o+w /sys/fs/bpf/scx_avxspec_hints
             scx_avxspec events --follow --json >/tmp/events & follower=$!
             wait_until 30 grep -q '\"policy\"' /tmp/events || fail nothing is told
             # told_of_loads N: of at least so many.
             told_of_loads() { [ $(grep -c '\"loaded\"' /tmp/events) -ge $1 ]; }
             set_cpu 1 0
             wait_until 60 told_of_loads 1 || fail not loaded anew when it goes
             set_cpu 1 1
             wait_until 60 told_of_loads 2 || fail not loaded anew when it comes back
             hinted 3 >&2
             wait_until 30 grep -q '\"ended\"' /tmp/events || fail nothing is told any more
             kill $follower
             stop_scheduler
             scx_avxspec events 2>&1 | sed -n 's/.*start it first$/refused=1/p'
             echo status=$status",
        ))
        .collect("/tmp/events")
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!((counts["refused"], counts["status"]), (1, 0));
    let events = events_in(&outcome, "/tmp/events")?;
    let loaded = events.iter().rposition(|it| it.kind == "loaded").context("not loaded anew")?;
    let after = &events[loaded..];
    let began = after.iter().find(|it| it.kind == "began").context("nothing began")?;
    ensure_eq!((began.why.as_str(), began.comm.as_deref()), ("hint", Some("hinted")));
    Ok(())
}
