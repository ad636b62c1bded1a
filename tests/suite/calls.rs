// SPDX-License-Identifier: GPL-2.0-only
//! Which callbacks the kernel calls, and in which order: what the model of it has to do as well.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

use super::{scheduler_guest, script};
use crate::rig::machine::Machine;
use crate::rig::{Bochs, Flavour, Qemu, bpf, in_repository, program};

#[path = "../guest/calls/scenes.rs"]
mod scenes;
use scenes::{CPUS, Scene, Stage, Thread};

crate::tests! {
    calls:
    the_kernel_calls_what_its_model_calls(30),
    the_kernel_that_hides_calls_what_its_model_calls(40),
    few_interruptions_are_told_from_other_calls(1),
}

fn the_kernel_calls_what_its_model_calls() -> Result<()> {
    on(Qemu::cpus(CPUS as usize).counted_time(4).into(), Flavour::Stock, &STAGES)
}

fn the_kernel_that_hides_calls_what_its_model_calls() -> Result<()> {
    on(Bochs::cpus(CPUS as usize).into(), Flavour::Patched, &[Stage::Wide])
}

const STAGES: [Stage; 2] = [Stage::Plain, Stage::AvxCore];

/// Kernel threads come in between now and then, so that a scene has two tries; and if neither was
/// as it should be, four more.
const TRIES: [usize; 2] = [2, 4];

fn on(machine: Machine, flavour: Flavour, stages: &[Stage]) -> Result<()> {
    let mut scenes = scenes::all()?;
    scenes.retain(|scene| stages.contains(&scene.stage));
    let mut complaints = Vec::new();
    for tries in TRIES {
        (scenes, complaints) = wrong_of(scenes, tries, machine.clone(), flavour)?;
        if scenes.is_empty() {
            return Ok(());
        }
    }
    bail!("{} scenes:\n{}", scenes.len(), complaints.join("\n"));
}

/// Plays all of them. Left are those of which no try was as it should be, and why.
fn wrong_of(
    scenes: Vec<Scene>,
    tries: usize,
    machine: Machine,
    flavour: Flavour,
) -> Result<(Vec<Scene>, Vec<String>)> {
    let outcome = scheduler_guest(machine, flavour)?
        .program_as("rig", &std::env::current_exe()?)
        .program(&program::compile(&in_repository("tests/guest/calls/scenes.c"))?)
        .file("/calls.o", &bpf::compile(&in_repository("tests/guest/calls/calls.bpf.c"))?)
        .command(&script(&commands(&scenes, tries)))
        .limit(900)
        .boot()?;
    let played = played(outcome.stdout(0)?);
    let wrong = |scene: Scene| complaint(&scene, &played).map(|why| (scene, why));
    Ok(scenes.into_iter().filter_map(wrong).unzip())
}

/// The scheduler is started anew for each stage, and the callbacks are noted by one `rig calls`
/// for as long as that one is there: a scene that takes a CPU away ends it.
fn commands(scenes: &[Scene], tries: usize) -> String {
    let mut on_stages: BTreeMap<Stage, Vec<&Scene>> = BTreeMap::new();
    for scene in scenes {
        on_stages.entry(scene.stage).or_default().push(scene);
    }
    let group = |(stage, scenes): (&Stage, &Vec<&Scene>)| {
        let force = if *stage == Stage::AvxCore { " --force" } else { "" };
        let sets: String = stage.settings().iter().map(|set| format!(" --set {set}")).collect();
        let plays = plays(scenes, tries);
        format!("start_scheduler{force}{sets}\nsleep 0.5\n{plays}stop_scheduler\n")
    };
    on_stages.iter().map(group).collect()
}

fn plays(scenes: &[&Scene], tries: usize) -> String {
    let (ends_it, others): (Vec<&Scene>, Vec<&Scene>) = scenes
        .iter()
        .copied()
        .partition(|scene| scene.threads.iter().any(|it| it.script.contains('-')));
    let others: String = others.into_iter().map(|scene| play(scene).repeat(tries)).collect();
    let back = "sleep 1\nwait_until 60 is_enabled || fail the scheduler does not come back\n";
    let once = |scene| noting(&play(scene)) + back;
    let ends_it: String = ends_it.into_iter().map(|scene| once(scene).repeat(tries)).collect();
    noting(&others) + &ends_it
}

fn noting(commands: &str) -> String {
    format!("rig calls <<'END' || fail\n{commands}END\n")
}

fn play(scene: &Scene) -> String {
    let threads = scene.threads.iter().map(|it| {
        let nice = if it.realtime { "fifo".to_owned() } else { it.nice.to_string() };
        format!(" {} {nice} '{}'", it.cpus, it.script)
    });
    format!("scenes{} # {}\n", threads.collect::<String>(), scene.name)
}

type Calls<'a> = BTreeMap<usize, Vec<&'a str>>;

/// The tries of each scene, by its name.
fn played(output: &str) -> BTreeMap<&str, Vec<Calls<'_>>> {
    let mut all: BTreeMap<&str, Vec<Calls<'_>>> = BTreeMap::new();
    let mut scene = "";
    for line in output.lines() {
        if let Some((_, name)) = line.strip_prefix("= ").and_then(|it| it.split_once(" # ")) {
            scene = name;
            all.entry(scene).or_default().push(Calls::new());
        } else if let Some((thread, call)) =
            line.strip_prefix("scene").and_then(|it| it.split_once(' '))
            && let (Ok(thread), Some(calls)) =
                (thread.parse(), all.get_mut(scene).and_then(|it| it.last_mut()))
        {
            calls.entry(thread).or_default().push(call);
        }
    }
    all
}

/// How often in a scene a thread may be asked for because of others of the guest, and go on.
const MOST_ASKED: usize = 3;

/// Without what others of the guest did to it, which is none of its scene: whoever they interrupt
/// is queued, or leaves its CPU to another class, and runs again. Whoever was about to make room
/// may have done so for a thread of the scene as well, which ran later.
fn without_interruptions<'a>(calls: &[&'a str]) -> BTreeSet<Vec<&'a str>> {
    let Some(at) = calls.iter().position(|it| it.starts_with('<')) else {
        return BTreeSet::from([calls.to_vec()]);
    };
    let (before, rests) = (&calls[..at], without_interruptions(&calls[at + 1..]));
    let is_clear = before.ends_with(&["enqueue"])
        && !before.ends_with(&["dispatch", "enqueue"])
        && !before.ends_with(&["cpu_release", "enqueue"]);
    let undisturbed = before.strip_suffix(&["enqueue"]).unwrap_or(before);
    let undisturbed = undisturbed.strip_suffix(&["cpu_release"]).unwrap_or(undisturbed);
    let mut all = BTreeSet::new();
    for rest in &rests {
        let went_on = rest.strip_prefix(&["running"]);
        all.extend(went_on.map(|rest| [undisturbed, rest].concat()));
        all.extend((!is_clear || went_on.is_none()).then(|| [before, rest].concat()));
    }
    all
}

/// The same calls but for one time that it was asked for, in each way in which that is possible.
fn asked_once_less<'a>(calls: &[&'a str]) -> BTreeSet<Vec<&'a str>> {
    let dispatched = (0..calls.len()).filter(|at| calls[*at] == "dispatch");
    dispatched.map(|at| [&calls[..at], &calls[at + 1..]].concat()).collect()
}

/// Whose turn is over in the moment in which its CPU is taken is queued before that is told of.
fn as_in_a_turn<'a>(calls: &[&'a str]) -> Vec<&'a str> {
    let mut calls = calls.to_vec();
    for at in 1..calls.len() {
        if calls[at - 1..=at] == ["enqueue", "cpu_release"] {
            calls.swap(at - 1, at);
        }
    }
    calls
}

/// Why the thread did not as it should, whatever others of the guest did.
fn complaint_of(thread: &Thread, calls: &[&str]) -> Option<String> {
    let mut ways = without_interruptions(&as_in_a_turn(calls));
    for _ in 0..=MOST_ASKED {
        if ways.iter().any(|calls| thread.complaint(calls).is_none()) {
            return None;
        }
        ways = ways.iter().flat_map(|calls| asked_once_less(calls)).collect();
    }
    thread.complaint(calls)
}

fn few_interruptions_are_told_from_other_calls() -> Result<()> {
    let scenes = scenes::all()?;
    let yielding = scenes.iter().find(|it| it.name.starts_with("two who yield, confined"));
    let thread = &yielding.context("the scene is gone")?.threads[0];
    let is_right = |turns: usize, others: &[&str], end: &[&str]| {
        let turns = ["yield", "dispatch", "enqueue", "running"].repeat(turns);
        complaint_of(thread, &[turns.as_slice(), others, end].concat()).is_none()
    };
    let interruptions = ["enqueue", "<kworker/0:1", "running"].repeat(9);
    let late = ["dispatch", "enqueue", "<kworker/0:1", "running"].repeat(3);
    let by_another_class = ["cpu_release", "enqueue", "<migration/0", "running"];
    let at_its_end = ["enqueue", "cpu_release", "<migration/0", "running"];
    let unasked = ["enqueue", "running"];
    let end = ["dispatch", "disable"];
    let others: [&[&str]; 6] =
        [&[], &interruptions, &late, &by_another_class, &at_its_end, &["dispatch"]];
    for others in others {
        ensure!(is_right(20, others, &end), "{others:?} are not told from the scene");
        ensure!(!is_right(18, others, &end), "{others:?} stand in for the scene");
    }
    let others: [&[&str]; 3] = [&unasked, &["cpu_release", "enqueue", "running"], &["dispatch"; 4]];
    for others in others {
        ensure!(!is_right(20, others, &end), "{others:?} are taken for others of the guest");
    }
    // Room was made for the other thread, which ran after a kernel thread.
    ensure!(is_right(19, &["yield", "dispatch", "enqueue", "<kworker/0:1", "running"], &end));
    ensure!(!is_right(20, &[], &["select_cpu", "dispatch", "disable"]));
    Ok(())
}

/// Unless one of the tries was as it should be.
fn complaint(scene: &Scene, played: &BTreeMap<&str, Vec<Calls<'_>>>) -> Option<String> {
    let complaints = |calls: &Calls<'_>| -> Vec<String> {
        let of = |(n, thread): (usize, &Thread)| {
            let calls = calls.get(&n).map_or(&[][..], |calls| calls);
            complaint_of(thread, calls).map(|it| format!("thread {n}: {it}"))
        };
        scene.threads.iter().enumerate().filter_map(of).collect()
    };
    let tries = played.get(scene.name.as_str()).map_or(&[][..], |tries| tries);
    let wrong: Vec<Vec<String>> = tries.iter().map(complaints).collect();
    let is_right = wrong.iter().any(Vec::is_empty);
    (!is_right).then(|| format!("{}: {wrong:#?}", scene.name))
}
