// SPDX-License-Identifier: GPL-2.0-only
//! Policies as somebody handles them who looks after a machine: under load, with files that are
//! none, and with company at the control socket.

use anyhow::{Result, ensure};

use super::counts::counts_of;
use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::{Flavour, Qemu, in_repository, program};

crate::tests! {
    policy:
    is_used_undone_tried_out_and_confirmed_while_the_scheduler_runs(56),
    the_control_socket_is_for_one_agent_and_for_whom_it_lets_in(18),
}

/// What both scripts begin with.
const HANDLING: &str = "
    policy() { scx_avxspec policy \"$@\"; }
    state() { echo $(policy show | sed -n '1,2s/^# //p'); }
    is_at() { [ \"$(state)\" = \"policy $*\" ]; }
    expect() { is_at $* || fail not policy $*: $(state); }
    refuses() {
        policy \"$@\" >/tmp/told 2>&1 && fail not refused: $*
        [ $(wc -l </tmp/told) = 1 ] || fail $*: no sentence: $(cat /tmp/told)
        cat /tmp/told >&2
    }
";

const BAD_FILES: &str = r#"
    bad() { printf "$1" >/tmp/bad.toml; refuses use /tmp/bad.toml; }
    bad 'windw = "1ms"'
    bad '# fine\nwindow = 20'
    bad 'window = "2s"'
    bad 'shrink-fill = 0.9'
    bad 'base = "statik"'
    bad 'window = "1ms"\n# \377\n'
    bad '['
    truncate -s 100M /tmp/large; refuses use /tmp/large
    mkfifo /tmp/pipe; refuses use /tmp/pipe
    for other in /tmp /dev/zero /nowhere nobody; do refuses use $other; done
    refuses set avx-cpu=2
    refuses set avx-cpus=1 sizing=lots
"#;

fn is_used_undone_tried_out_and_confirmed_while_the_scheduler_runs() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .command(&script(&format!(
            "{HANDLING}
             start_scheduler --policy fault-migrate
             busy_loops 2
             expect 1 fault-migrate
             refuses undo
             policy use static >&2; expect 2 static
             policy show >/tmp/shown.toml
             policy set avx-cpus=3 window=20ms >&2; expect 3 custom
             policy diff static
             policy use /tmp/shown.toml >&2; expect 4 static
             policy show --default >/tmp/default.toml
             policy use /tmp/default.toml >&2; expect 5 adaptive
             policy use fault-migrate --dry-run
             policy undo --dry-run >&2
             policy undo >&2; expect 6 static
             policy undo >&2; policy list | tail -n 1
             policy show >/tmp/before
             {BAD_FILES}
             policy show | cmp - /tmp/before || fail a refusal changed something

             policy use static --revert-after 1h >&2; expect 8 static
             refuses set avx-cpus=3
             policy show | grep 'on trial'
             policy confirm >&2; expect 8 static
             refuses confirm
             policy set avx-cpus=3 --revert-after 1h >&2; expect 9 custom
             scx_avxspec status | sed -n '2,3p'
             policy undo >&2; expect 10 static
             refuses confirm
             policy use fault-migrate --revert-after 1s >&2
             wait_until 30 is_at 12 static || fail it was not reverted

             policy use fault-migrate --revert-after 60s >&2
             before=$(loads)
             set_cpu 1 0
             wait_until 60 is_loaded_since $before || fail not loaded anew
             wait_until 10 is_at 13 fault-migrate || fail the reload ended the trial
             wait_until 90 is_at 14 static || fail the reload kept it from being reverted
             refuses undo
             policy set avx-cpus=3 >&2; expect 15 custom
             policy undo --revert-after 1s >&2
             wait_until 30 is_at 17 custom || fail an undo was not reverted
             all_progress $loops
             stop_scheduler
             echo status=$status
             cat /tmp/scheduler.err >&2"
        )))
        .limit(600)
        .boot()?;
    let said = &outcome.commands[0].stderr;
    let told = outcome.commands[0].stdout.as_str();
    ensure_eq!(outcome.commands[0].status, 0, "{told}\n{said}");
    for line in [
        "avx-cpus: 2 -> 3\nwindow: 50ms -> 20ms\n",
        "return: adaptive -> syscall\ntrials: on -> off\n",
        "policy 7 is in force: adaptive\n# on trial: the one before comes back in ",
        "policy 9: custom\non trial: the policy before comes back in ",
        "status=0\n",
    ] {
        ensure!(told.contains(line), "no {line:?} in {told}");
    }
    for sentence in REFUSALS.iter().chain(&LOGGED) {
        ensure!(said.contains(sentence), "no {sentence:?} in {said}");
    }
    Ok(())
}

const REFUSALS: [&str; 16] = [
    "nobody confirmed policy 13, so the one before it is back already",
    "there was no other policy before this one",
    "bad.toml: line 1: there is no knob \"windw\": did you mean \"window\"?",
    "bad.toml: line 2: window cannot be this integer: it takes 1ms to 1s",
    "bad.toml: line 1: window cannot be \"2s\"",
    "bad.toml: line 1: shrink-fill must be below grow-fill",
    "bad.toml: line 1: there is no policy \"statik\": did you mean \"static\"?",
    "bad.toml: line 2: this is not UTF-8",
    "bad.toml: line 1: this is no TOML: ",
    "/tmp/large: it is larger than 64 KiB",
    "/tmp/pipe: it is no regular file",
    "/dev/zero: it is no regular file",
    "there is neither a policy nor a file \"nobody\"",
    "there is no knob \"avx-cpu\": did you mean \"avx-cpus\"?",
    "policy 8 is on trial for another ",
    "policy 10 is not on trial",
];

const LOGGED: [&str; 4] = [
    "root (uid 0, process ",
    ": policy 3 in place of 2: avx-cpus: 2 -> 3, window: 50ms -> 20ms",
    ": policy 11 in place of 10, for 1s unless it is confirmed: ",
    "nobody confirmed: policy 12 in place of 11: ",
];

const ROUNDS: u64 = 10;
/// For what a first crowd left unused. A request of each client that stayed would be more.
const GROWTH_KB: u64 = 2048;

fn the_control_socket_is_for_one_agent_and_for_whom_it_lets_in() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(2), Flavour::Stock)?
        .package("util-linux")
        .program(&program::compile(&in_repository("tests/guest/pester.c"))?)
        .command(&script(&format!(
            "{HANDLING}
             resident() {{ awk '/^VmRSS/ {{ print $2 }}' /proc/$scheduler/status; }}
             pester() {{
                 rm -f /tmp/pestered
                 command pester /run/scx_avxspec/control $1 >/tmp/pestered & pester=$!
                 wait_until 60 grep -q without-answer /tmp/pestered || fail it hangs
             }}
             second() {{
                 unshare -m sh -c 'echo disabled >/tmp/state
                     mount --bind /tmp/state /sys/kernel/sched_ext/state
                     exec scx_avxspec'
             }}
             echo 'stranger:x:1234:1234::/:/bin/sh' >>/etc/passwd
             as() {{ su $1 -s /bin/sh -c \"scx_avxspec policy set avx-cpus=$2\"; }}

             start_scheduler --control-group nogroup
             busy_loops 2
             as nobody 3 >&2 || fail a member was refused
             as stranger 4 && fail a stranger was not refused
             given_group() {{ /usr/bin/setpriv --reuid 1234 --regid 1234 --groups $1 sh -c \"$2\"; }}
             given_group \"$(seq -s , 65500 65600)\" 'scx_avxspec status' >&2 ||
                 fail the groups of a process are not known
             second && fail two agents run

             pester {ROUNDS}
             before=$(resident); kill $pester
             pester {ROUNDS}
             cat /tmp/pestered
             expect 2 custom
             echo growth=$(($(resident) - before + 1048576))
             kill $pester
             all_progress $loops

             kill -KILL $scheduler
             wait_until 30 is_disabled || fail it is not gone
             cat /tmp/scheduler.err >&2
             start_scheduler
             expect 1 adaptive
             as nobody 3 && fail a member of no group was not refused
             stop_scheduler
             echo status=$status"
        )))
        .limit(600)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!(counts["status"], 0);
    ensure_eq!((counts["refused"], counts["without-answer"]), (ROUNDS, 0), "{counts:?}");
    ensure_eq!(counts["served"] + counts["turned-away"], 100 * ROUNDS);
    ensure!(counts["served"] >= 32 * ROUNDS, "{counts:?}");
    let growth = counts["growth"].saturating_sub(1 << 20);
    ensure!(growth < GROWTH_KB, "memory grew by {growth} KB");
    let said = &outcome.commands[0].stderr;
    for sentence in [
        "another scx_avxspec runs already, process ",
        "only root, or the group of --control-group, may ask the scheduler",
        "nobody (uid 65534, process ",
    ] {
        ensure!(said.contains(sentence), "no {sentence:?} in {said}");
    }
    Ok(())
}
