// SPDX-License-Identifier: GPL-2.0-only
//! The model calls the scheduler as the kernel does: the same scenes, with the same callbacks.

use std::collections::BTreeMap;

use super::engine_test::machine;
use super::kernel::Task;
use super::model::Kind;
use super::program::{Program, Step};
use crate::bpf::intf::{avx_tier_AVX_TIER_HINTS, avx_tier_AVX_TIER_OBSERVE};

#[path = "../../tests/calls/scenes.rs"]
mod scenes;
use scenes::{CPUS, Scene, Thread};

struct Script(Vec<Step>);

impl Program for Script {
    fn next(&mut self, _now: u64) -> Step {
        self.0.pop().unwrap_or(Step::Exit)
    }
}

fn script(thread: &Thread) -> Box<Script> {
    let step = |word: &&str| {
        let ns = || word[1..].parse::<f64>().unwrap() * 1e6;
        match &word[..1] {
            "w" => Step::Work(Kind::Scalar, ns()),
            "s" => Step::Sleep(ns() as u64),
            "y" => Step::Yield,
            _ => panic!("there is no step {word}"),
        }
    };
    Box::new(Script(thread.words().iter().rev().map(step).collect()))
}

/// The kernel's, of 1024 at nice 0, to the hundredth part.
fn weight(nice: i32) -> u32 {
    match nice {
        0 => 100,
        5 => 33,
        _ => panic!("what nice {nice} weighs is not known here"),
    }
}

/// What is wrong with what the model calls for a scene.
fn complaints(scene: &Scene) -> Vec<String> {
    let tier = if scene.classifies { avx_tier_AVX_TIER_HINTS } else { avx_tier_AVX_TIER_OBSERVE };
    let settings: Vec<&str> = scene.settings.iter().map(String::as_str).collect();
    let mut engine = machine(CPUS, tier, &settings);
    engine.run_for(500_000_000).unwrap();
    engine.kernel_mut().note_calls();
    let tasks: Vec<Task> = scene
        .thread
        .iter()
        .map(|thread| {
            let task = engine.spawn(script(thread), weight(thread.nice));
            if thread.cpus != 0 {
                let mut words = [0; super::kernel::MASK_WORDS];
                words[0] = thread.cpus;
                engine.kernel_mut().allow(task, &words);
            }
            task
        })
        .collect();
    engine.run_for(3_000_000_000).unwrap();
    assert_eq!(engine.nr_threads(), 0, "{}: somebody did not come to an end", scene.name);

    let mut calls: BTreeMap<Task, Vec<&str>> = BTreeMap::new();
    for (task, call) in engine.kernel().noted_calls() {
        calls.entry(task).or_default().push(call);
    }
    // What comes before the first step is the other side's way to begin.
    let complaint = |(thread, task): (&Thread, &Task)| {
        let calls = &calls[task];
        let first = calls.iter().position(|call| *call == "running").unwrap();
        let complaint = thread.complaint(&calls[first + 1..])?;
        Some(format!("{}: {complaint}", scene.name))
    };
    scene.thread.iter().zip(&tasks).filter_map(complaint).collect()
}

#[test]
fn the_model_calls_what_the_kernel_calls() {
    let wrong: Vec<String> = scenes::all().unwrap().scene.iter().flat_map(complaints).collect();
    assert!(wrong.is_empty(), "{} threads:\n{}", wrong.len(), wrong.join("\n"));
}
