// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler says of what it does, against what the program did.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{phases_guest, status};
use crate::ensure_eq;
use crate::rig::{Bochs, Flavour};
use crate::suite::counts::counts_of;
use crate::suite::script;

crate::tests! {
    avx:
    books_tell_what_programs_did(32),
    turns_of_avx_tasks_are_as_long_as_the_policy_says(34),
}

/// Of the program in the cgroup.
const ROUNDS: u64 = 200;
const SCALAR: u64 = 4000;
const WIDE: u64 = 2000;

/// What all these hundreds of instructions take: the emulator executes one each 20 ns.
fn seconds(hundreds: u64) -> f64 {
    (ROUNDS * hundreds * 100 * 20) as f64 / 1e9
}

/// Which is the program's own file.
const MIXTURE: &str = "mixer does all its work on AVX cores, for mixer has light instructions of \
                       AVX-512 between its wide ones";

fn books_tell_what_programs_did() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(2), Flavour::Patched)?
        .command(&script(&format!(
            "start_scheduler --policy static --set avx-cpus=1 --set return=syscall
             mkdir /sys/fs/cgroup/books
             sh -c 'echo $$ >/sys/fs/cgroup/books/cgroup.procs
                    exec phases 1 {ROUNDS} {SCALAR} {WIDE}'
             scx_avxspec status --json >/tmp/status.json
             phases 1 1000000 20 {WIDE} & phases=$!
             sleep 0.5
             scx_avxspec explain $(ls /proc/$phases/task | sort -n | tail -n 1) >/tmp/explanation
             scx_avxspec explain 999999 2>/tmp/refusal && fail it explained what is not there
             scx_avxspec status
             kill $phases
             cp $(command -v phases) /tmp/mixer
             scx_avxspec policy set return=adaptive >&2
             /tmp/mixer 1 1000000 20 {WIDE} narrow & mixer=$!
             sleep 0.5
             scx_avxspec status | grep mixer
             kill $mixer
             stop_scheduler"
        )))
        .collect("/tmp/status.json")
        .collect("/tmp/explanation")
        .collect("/tmp/refusal")
        .limit(400)
        .boot()?;
    outcome.all_succeeded()?;
    let status = status(&outcome, "/tmp/status.json")?;
    for (rows, key, name) in [("cgroups", "path", "/books"), ("programs", "name", "phases")] {
        let rows = status[rows].as_array().context("no rows")?;
        ensure_book(&rows.iter().find(|it| it[key] == name).context(name)?["book"])?;
    }

    ensure_eq!(status["tier"], "trap");
    let cpus = status["cpus"].as_array().context("no CPUs")?;
    let avx_cores: Vec<bool> = cpus.iter().map(|cpu| cpu["is_avx_core"] == true).collect();
    ensure_eq!(avx_cores, [false, true]);
    let as_avx_core = number(&cpus[1]["as_avx_core_s"])?;
    ensure!(as_avx_core > seconds(SCALAR + WIDE), "{as_avx_core} s as an AVX core");

    let explanation = String::from_utf8(outcome.file("/tmp/explanation")?)?;
    ensure!(explanation.contains(" wide\nasked to go to an AVX core "), "{explanation}");
    let refusal = String::from_utf8(outcome.file("/tmp/refusal")?)?;
    ensure_eq!(refusal, "scx_avxspec: there is no thread 999999\n");
    let screen = outcome.stdout(0)?;
    for word in ["tier trap", "AVX cores: 1 of 2 CPUs (1)", "  /books", "  phases", MIXTURE] {
        ensure!(screen.contains(word), "no {word:?} in {screen}");
    }
    Ok(())
}

/// Two that do nothing but wide work take turns on one AVX core, and each turn is a phase.
fn turns_of_avx_tasks_are_as_long_as_the_policy_says() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(2), Flavour::Patched)?
        .command(&script(
            "start_scheduler --policy static --set avx-cpus=1 \
                 --set return=switch --set avx-slice=2ms
             turns() {
                 scx_avxspec status --json |
                     sed -n '/\"programs\"/q; s/.*\"switch\": \\([0-9]*\\).*/\\1/p' |
                     awk '{ all += $1 } END { print all + 0 }'
             }
             phases 2 1 0 1000000000 & phases=$!
             sleep 0.5
             short=$(turns)
             sleep 1
             echo short=$(($(turns) - short))
             scx_avxspec policy set avx-slice=20ms >&2
             long=$(turns)
             sleep 1
             echo long=$(($(turns) - long))
             kill $phases
             stop_scheduler",
        ))
        .limit(400)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    let (short, long) = (counts["short"], counts["long"]);
    ensure!(short > 150 && short < 600, "{short} turns of 2 ms in a second and a little more");
    ensure!(long > 20 && long < 120, "{long} turns of 20 ms in a second and a little more");
    Ok(())
}

/// The first bursts are seen in samples, and so are not all counted.
fn ensure_book(book: &Value) -> Result<()> {
    let sum = |counts: &Value| -> u64 {
        counts.as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum()
    };
    let (began, ended) = (sum(&book["phases"]), sum(&book["ends"]));
    ensure!((ROUNDS * 9 / 10..=ROUNDS).contains(&began), "{began} phases began: {book}");
    ensure!(ended == began || ended + 1 == began, "{ended} phases ended: {book}");
    let faults = book["faults"]["wide"].as_u64().context("no wide faults")?;
    ensure!((ROUNDS * 9 / 10..=ROUNDS).contains(&faults), "{faults} wide faults: {book}");

    for (name, hundreds) in [("avx_s", WIDE), ("scalar_s", SCALAR)] {
        let (booked, expected) = (number(&book[name])?, seconds(hundreds));
        ensure!(
            booked > 0.9 * expected && booked < 1.3 * expected,
            "{name} is {booked}, not {expected}: {book}"
        );
    }
    Ok(())
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().context("no number")
}
