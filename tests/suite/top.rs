// SPDX-License-Identifier: GPL-2.0-only
//! `scx_avxspec top` in a real terminal.

use anyhow::{Result, ensure};

use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::{Flavour, Qemu};

crate::tests! {
    top:
    it_shows_what_is_so_and_leaves_the_terminal_as_it_was(32),
}

/// The size changes under it, a CPU goes, and the scheduler itself goes and comes back.
fn it_shows_what_is_so_and_leaves_the_terminal_as_it_was() -> Result<()> {
    let outcome = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?
        .package("tmux")
        // Which has the locale that tmux asks for.
        .package("libc-bin")
        .command(&script(
            "export LC_ALL=C.UTF-8
             screen() { tmux capture-pane -p -t it; }
             shows() { screen | grep -q -- \"$1\"; }
             await() { wait_until 60 shows \"$1\" || { screen >&2; fail \"no $1\"; }; }
             press() { tmux send-keys -t it \"$@\"; }
             # What is typed before the shell asks for it may be lost.
             is_asked() { screen | sed '/^$/d' | tail -n 1 | grep -qx '~ #'; }
             await_prompt() { wait_until 60 is_asked || { screen >&2; fail no prompt; }; }
             escape=$(printf '\\033')
             is_coloured() {
                 tmux capture-pane -e -p -t it | grep -q \"$escape\\[[0-9;]*[34][0-8]\"
             }
             has_cores() {
                 screen | sed -n 's/^node 0 cache 0 //p' | tr -cd aA | grep -qx \"[aA]\\{$1\\}\"
             }
             # Which CPUs they are depends on what ran where.
             await_cores() { wait_until 60 has_cores $1 || { screen >&2; fail no $1 cores; }; }
             start() { start_scheduler --force --policy static --set avx-cpus=1; }

             start
             tmux -f /dev/null new-session -d -s it -x 80 -y 24 || fail no terminal
             await_prompt
             press 'stty -g >/tmp/before; scx_avxspec top; echo status=$?; stty -g >/tmp/after' Enter
             await 'AVX cores: 1 of 4'
             await_cores 1
             is_coloured || fail no colours
             scx_avxspec policy set avx-cpus=2 >&2
             await 'policy 2 is in force: avx-cpus=2'
             await_cores 2
             screen >/tmp/wide

             tmux resize-window -t it -x 40 -y 10
             await 'the CPU has no$'
             screen >/tmp/narrow
             set_cpu 1 0
             await '^offline x$'
             await 'AVX cores: 2 of 3'
             press p
             await '^6  observe'
             press 6
             await 'AVX cores: 0 of 3  policy 3'
             press p u
             await 'AVX cores: 2 of 3  policy 4'
             stop_scheduler
             await '^trying again: no scheduler'
             press h
             await 'this help'
             press h
             start
             await 'AVX cores: 1 of 3'
             press q
             await '^status=0$'
             await_prompt
             cmp /tmp/before /tmp/after || fail the terminal is not as it was

             press 'clear; NO_COLOR=1 sh -c \"echo \\$\\$ >/tmp/top; exec scx_avxspec top\"; ' \
                   'echo ended=$?; stty -g >/tmp/later' Enter
             await 'AVX cores: 1 of 3'
             is_coloured && fail colours where none are wanted
             # The first half of a key, of which the other never comes.
             tmux send-keys -t it -H 1b 5b
             scx_avxspec policy set avx-cpus=2 >&2
             await 'AVX cores: 2 of 3'
             kill -TERM $(cat /tmp/top)
             await '^ended=0$'
             await_prompt
             cmp /tmp/before /tmp/later || fail the terminal is not as it was after a signal
             press 'echo still $((40 + 2))' Enter
             await '^still 42$'
             scx_avxspec top </dev/null 2>&1 | sed 's/^/refused: /'

             # Whoever closes the window is rid of it, also where that is no signal.
             for ignored in '' HUP; do
                 rm -f /tmp/top
                 press \"sh -c 'trap \\\"\\\" $ignored; echo \\$\\$ >/tmp/top; exec scx_avxspec top'\" Enter
                 await 'AVX cores: 2 of 3'
                 pid=$(cat /tmp/top)
                 tmux kill-server
                 is_gone() { ! [ -e /proc/$pid ]; }
                 wait_until 30 is_gone || fail \"it stays, ignoring $ignored\"
                 tmux -f /dev/null new-session -d -s it -x 80 -y 24 || fail no other terminal
                 await_prompt
             done
             stop_scheduler",
        ))
        .collect("/tmp/wide")
        .collect("/tmp/narrow")
        .boot()?;
    ensure_eq!(
        outcome.stdout(0)?,
        "refused: scx_avxspec: this is no terminal: scx_avxspec status prints the same once\n"
    );
    let text = |file| -> Result<String> { Ok(String::from_utf8(outcome.file(file)?)?) };
    let wide = text("/tmp/wide")?;
    for words in ["scx_avxspec  tier hints: ", "waits ", "(modelled)", "q quit  h help"] {
        ensure!(wide.contains(words), "no {words:?} in {wide}");
    }
    let narrow = text("/tmp/narrow")?;
    ensure_eq!(narrow.lines().count(), 10, "{narrow}");
    for words in ["scx_avxspec  tier hints", "AVX cores: 2 of 4", "cache 0 ", "q quit"] {
        ensure!(narrow.contains(words), "no {words:?} in {narrow}");
    }
    Ok(())
}
