// SPDX-License-Identifier: GPL-2.0-only
//! The agent, as badly treated as it may be, and on machines as large as they come.

use std::io::Write;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::counts::counts_of;
use super::hiding::lifetime::guest_with_module;
use super::{scheduler_guest, scheduler_program, script};
use crate::ensure_eq;
use crate::rig::{Flavour, Guest, Qemu, in_repository, program};

crate::tests! {
    agent:
    rude_crowds_at_both_doors_and_no_room_for_a_log_change_nothing(38),
    killed_at_any_moment_it_leaves_nothing_in_the_way(88),
    top_shows_64_cpus_in_40_columns(6),
}

fn killed_at_any_moment_it_leaves_nothing_in_the_way() -> Result<()> {
    killed_at_any_moment(32)
}

const ROUNDS: u64 = 10;
/// What a second crowd may add to what a first one, as large, has left: the height of its waves is
/// chance. It is a kilobyte for each of its guests.
const GROWTH_KB: u64 = 2048;

/// A hundred at once at the control socket and as many for metrics, some of them silent, some in
/// the middle of a word, some with a megabyte of nonsense; and no room for the log, or nobody who
/// reads it.
fn rude_crowds_at_both_doors_and_no_room_for_a_log_change_nothing() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/pester.c"))?)
        .command(&script(&format!(
            "resident() {{ awk '/^RssAnon/ {{ print $2 }}' /proc/$scheduler/status; }}
             crowd() {{
                 pesters=
                 for place in /run/scx_avxspec/control 9829; do
                     rm -f /tmp/crowd-${{place##*/}}
                     pester $place $1 >/tmp/crowd-${{place##*/}} & pesters=\"$pesters $!\"
                 done
                 for place in control 9829; do
                     wait_until 120 grep -q without-answer /tmp/crowd-$place || fail it hangs
                 done
             }}
             ip link set lo up
             scx_avxspec --stats 0.2 >/dev/full 2>/dev/full & scheduler=$!
             await_start is_enabled || fail it does not start
             busy_loops 2
             crowd {ROUNDS}
             before=$(resident); kill $pesters
             crowd {ROUNDS}
             sed 's/^/control-/' /tmp/crowd-control
             sed 's/^/metrics-/' /tmp/crowd-9829
             echo growth=$(($(resident) - before + 1048576))
             kill $pesters
             scx_avxspec policy set avx-cpus=3 >&2 || fail no policy without a log
             all_progress $loops
             is_enabled || fail the scheduler was ejected
             stop_scheduler
             echo status=$status
             unread
             scx_avxspec --force 2>&9 & scheduler=$!
             await_start is_enabled || fail it does not start unread
             timeout 20 scx_avxspec policy set avx-cpus=3 --revert-after 1s >&2 ||
                 fail no policy with a log that nobody reads
             is_back() {{ timeout 20 scx_avxspec policy show | grep -q '^# policy 3$'; }}
             wait_until 20 is_back || fail it was not reverted
             all_progress $loops
             # A job of a script in the background is not meant.
             kill -INT $scheduler
             sleep 1
             is_enabled || fail it ends by what it is to ignore
             (sleep 20; kill -KILL $scheduler) 2>/dev/null &
             kill -TERM $scheduler
             wait $scheduler; echo unread=$?"
        )))
        .limit(600)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!((counts["status"], counts["unread"]), (0, 0));
    for (door, most) in [("control", 32), ("metrics", 64)] {
        let of = |what: &str| counts[&format!("{door}-{what}")];
        ensure_eq!((of("refused"), of("without-answer")), (ROUNDS, 0), "{counts:?}");
        ensure_eq!(of("served") + of("turned-away"), 100 * ROUNDS);
        ensure!(of("served") >= most * ROUNDS, "{counts:?}");
    }
    let growth = counts["growth"].saturating_sub(1 << 20);
    ensure!(growth < GROWTH_KB, "memory grew by {growth} KB");
    Ok(())
}

/// `ends CHECK...`: an agent is started for each line of /tmp/points, and ends at that moment: while
/// it starts, or has begun (`is_at_work`) and runs, changes its policy or stops. After each of them
/// the check has to succeed.
const ENDS: &str = "
    change_policies() {
        while scx_avxspec policy use static && scx_avxspec policy use adaptive; do :; done
    }
    end_by_chance() {
        scx_avxspec $arguments >/dev/null 2>/tmp/agent.err & agent=$!
        [ $2 = start ] || await_start is_at_work || fail \"$*: $(cat /tmp/agent.err)\"
        changing=
        [ $2 = change ] && { change_policies >/dev/null 2>&1 & changing=$!; }
        [ $2 = stop ] && kill -TERM $agent
        sleep $3
        kill -$1 $agent 2>/dev/null
        wait $agent $changing 2>/dev/null
        wait_until 30 is_disabled || fail \"$*: the kernel still has the scheduler\"
    }
    ends() {
        while read -r point; do
            end_by_chance $point </dev/null
            \"$@\" || fail \"$point: $* failed\"
            points=$((points + 1))
        done </tmp/points
        echo points=$points
    }
    goes_on() {
        start_scheduler $arguments
        scx_avxspec status >&2 || fail it does not answer
        stop_scheduler
        echo status=$status
    }
";

const SIGNALS: [&str; 2] = ["KILL", "TERM"];
const STAGES: [&str; 4] = ["start", "run", "change", "stop"];

/// By chance, and the same each time: signals, and up to half a second of each stage.
fn points(count: usize, seed: u64) -> String {
    let mut state = seed;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let stages = STAGES.iter().cycle().take(count);
    stages
        .map(|stage| format!("{} {stage} 0.{:03}\n", SIGNALS[below(2) as usize], below(500)))
        .collect()
}

/// Ends so many agents by chance, in a guest that is ready for it.
fn ended_by_chance(guest: Guest, count: usize, body: &str) -> Result<()> {
    let points = points(count, 1);
    let outcome = guest
        .command(&script(&format!("cat >/tmp/points <<'END'\n{points}END\n{ENDS}\n{body}")))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!((counts["points"], counts["status"]), (count as u64, 0));
    Ok(())
}

/// `make soak` ends more of them.
pub fn killed_at_any_moment(count: usize) -> Result<()> {
    let guest = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?.limit(100 + 8 * count as u64);
    let body = "
        arguments=--force
        is_at_work() { is_enabled; }
        while :; do sleep 0.05; done & sleeper=$!
        ends all_progress $sleeper
        goes_on";
    ended_by_chance(guest, count, body)
}

/// The same beside a program from which AVX-512 is hidden between its phases; and each CPU is made to
/// look as if it were hidden there when the scheduler ends. It is visible everywhere afterwards.
pub fn killed_while_hidden(count: usize) -> Result<()> {
    let guest = guest_with_module()?
        .program(&scheduler_program()?)
        .program(&program::compile(&in_repository("tests/guest/avx/phases.c"))?)
        .limit(300 + 120 * count as u64);
    let body = "
        . /hiding.sh
        insmod /hiding_test.ko || fail no module
        arguments='--policy static --set avx-cpus=1 --set return=syscall'
        is_at_work() { is_enabled && look_at_cpus && grep -qv hidden=0x0$ /tmp/cpus; }
        is_visible() {
            cpus_are_full && [ $(cat $module/reduced_after_stop) -eq 0 ] && all_progress $thread
        }
        phases 1 1000000000 2000 1000 & phases=$!
        sleep 0.3
        thread=$(ls /proc/$phases/task | sort -n | tail -n 1)
        ends is_visible
        [ $(cat $module/reduced_at_stop) -gt 0 ] || fail no CPU was reduced
        goes_on
        kill $phases";
    ended_by_chance(guest, count, body)
}

/// 64 CPUs of four nodes, of which the last core is an AVX core. A guest with so many would be busy
/// with itself.
fn status_of_64_cpus() -> Value {
    let cpu = |cpu: u32| {
        json!({
            "cpu": cpu, "core": cpu / 2 * 2, "llc": cpu / 16 * 16, "node": cpu / 16,
            "is_avx_core": cpu >= 62, "as_avx_core_s": 0.0, "role_changes": 0, "busy_s": 1.0,
        })
    };
    let waits = json!({ "below_ns": [1024, 2048], "counts": [3, 1] });
    json!({ "status": {
        "version": "1", "tier": "trap", "why": "the kernel tells of each first wide instruction",
        "generation": 1, "policy": "adaptive", "compensates": false, "clocks": "",
        "runs_for_s": 10.0, "busy_s": 5.0, "avx_s": 1.0, "scalar_s": 1.0,
        "low_clock_on_scalar_cpus_s": 0.0, "low_clock_on_avx_cores_s": 0.0,
        "cpus": (0..64).map(cpu).collect::<Vec<_>>(), "offline": [],
        "queued": { "avx": 0, "shared": 0 }, "waits": { "avx": waits }, "cgroups": [],
    } })
}

/// In a terminal that is made narrow, and without colours.
fn top_shows_64_cpus_in_40_columns() -> Result<()> {
    let mut status = tempfile::NamedTempFile::new()?;
    writeln!(status, "{}", status_of_64_cpus())?;
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .package("tmux")
        // Which has the locale that tmux asks for.
        .package("libc-bin")
        .program(&program::compile(&in_repository("tests/guest/control_actor.c"))?)
        .file("/status.json", status.path())
        .command(&script(
            "export LC_ALL=C.UTF-8 NO_COLOR=1
             screen() { tmux capture-pane -p -t it; }
             shows() { screen | grep -q -- \"$1\"; }
             await() { wait_until 60 shows \"$1\" || { screen >&2; fail \"no $1\"; }; }
             mkdir -p /run/scx_avxspec
             control_actor /run/scx_avxspec/control /status.json &
             tmux -f /dev/null new-session -d -s it -x 80 -y 24 'scx_avxspec top; sleep 1000' ||
                 fail no terminal
             await 'AVX cores: 2 of 64'
             await '^node 3 cache 48 '
             tmux resize-window -t it -x 40 -y 12
             await 'the kernel tells$'
             await '^waits '
             screen >/tmp/narrow
             tmux capture-pane -e -p -t it >/tmp/raw
             tmux resize-window -t it -x 1 -y 1
             sleep 1
             tmux resize-window -t it -x 200 -y 3
             await 'AVX cores: 2 of 64'",
        ))
        .collect("/tmp/narrow")
        .collect("/tmp/raw")
        .boot()?;
    outcome.all_succeeded()?;
    let narrow = String::from_utf8(outcome.file("/tmp/narrow")?)?;
    ensure_eq!(narrow.lines().count(), 12, "{narrow}");
    let letters = |of: &str| -> usize {
        let map = narrow.lines().filter(|line| line.chars().all(|c| "AaSsx ".contains(c)));
        map.flat_map(str::chars).filter(|c| of.contains(*c)).count()
    };
    ensure_eq!((letters("AaSs"), letters("Aa")), (64, 2), "{narrow}");
    let raw = String::from_utf8(outcome.file("/tmp/raw")?)?;
    let mut attributes = raw.split("\u{1b}[").skip(1).filter_map(|it| it.split('m').next());
    let is_colour = |it: &str| it.len() == 2 && it.starts_with(['3', '4']) && !it.ends_with('9');
    ensure!(!attributes.any(|it| it.split(';').any(is_colour)), "colours: {raw:?}");
    Ok(())
}
