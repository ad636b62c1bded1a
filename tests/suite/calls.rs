// SPDX-License-Identifier: GPL-2.0-only
//! Which callbacks the kernel calls, and in which order: what the model of it has to do as well.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::{Test, scheduler_guest, script};
use crate::vm::{Flavour, Qemu, bpf, in_repository, program};

#[path = "../calls/scenes.rs"]
mod scenes;
use scenes::{CPUS, Scene, Thread};

pub const TESTS: &[Test] = &[Test {
    name: "calls::the_kernel_calls_what_its_model_calls",
    budget_s: 90,
    body: the_kernel_calls_what_its_model_calls,
}];

/// Kernel threads come in between now and then, so each scene has as many tries.
const TRIES: usize = 4;

fn the_kernel_calls_what_its_model_calls() -> Result<()> {
    let scenes = scenes::all()?.scene;
    ensure!(scenes.len() >= 30, "there are {} scenes", scenes.len());
    let outcome = scheduler_guest(Qemu::cpus(CPUS as usize).counted_time(4), Flavour::Stock)?
        .program_as("rig", &std::env::current_exe()?)
        .program(&program::compile(&in_repository("tests/calls/scenes.c"))?)
        .file("/calls.o", &bpf::compile(&in_repository("tests/calls/calls.bpf.c"))?)
        .command(&script(&commands(&scenes)))
        .limit(600)
        .boot()?;
    let played = played(outcome.stdout(0)?);
    let wrong: Vec<String> = scenes.iter().filter_map(|scene| complaint(scene, &played)).collect();
    ensure!(wrong.is_empty(), "{} of {} scenes:\n{}", wrong.len(), scenes.len(), wrong.join("\n"));
    Ok(())
}

/// The scheduler is started anew for each group of scenes that want the same of it.
fn commands(scenes: &[Scene]) -> String {
    let mut groups: BTreeMap<String, Vec<&Scene>> = BTreeMap::new();
    for scene in scenes {
        let force = if scene.classifies { " --force" } else { "" };
        let sets = scene.settings.iter().map(|set| format!(" --set {set}"));
        groups.entry(force.to_owned() + &sets.collect::<String>()).or_default().push(scene);
    }
    let group = |(options, scenes): (&String, &Vec<&Scene>)| {
        let plays = scenes.iter().map(|scene| play(scene)).collect::<String>();
        format!("start_scheduler{options}\nsleep 0.5\n{plays}stop_scheduler\n")
    };
    groups.iter().map(group).collect()
}

fn play(scene: &Scene) -> String {
    let threads = scene
        .thread
        .iter()
        .map(|it| format!(" {} {} '{}'", it.cpus, it.nice, it.words().join(" ")));
    let once =
        format!("echo '= {}'\nrig calls -- scenes{}\n", scene.name, threads.collect::<String>());
    once.repeat(TRIES)
}

type Calls<'a> = BTreeMap<usize, Vec<&'a str>>;

/// The tries of each scene, by its name.
fn played(output: &str) -> BTreeMap<&str, Vec<Calls<'_>>> {
    let mut all: BTreeMap<&str, Vec<Calls<'_>>> = BTreeMap::new();
    let mut scene = "";
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("= ") {
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

/// Unless one of the tries was as it should be.
fn complaint(scene: &Scene, played: &BTreeMap<&str, Vec<Calls<'_>>>) -> Option<String> {
    let complaints = |calls: &Calls<'_>| -> Vec<String> {
        let of = |(n, thread): (usize, &Thread)| {
            let calls = calls.get(&n).map_or(&[][..], |calls| calls);
            thread.complaint(calls).map(|it| format!("thread {n}: {it}"))
        };
        scene.thread.iter().enumerate().filter_map(of).collect()
    };
    let tries = played.get(scene.name.as_str()).map_or(&[][..], |tries| tries);
    let wrong: Vec<Vec<String>> = tries.iter().map(complaints).collect();
    let is_right = wrong.iter().any(Vec::is_empty);
    (!is_right).then(|| format!("{}: {wrong:#?}", scene.name))
}
