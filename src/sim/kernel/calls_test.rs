// SPDX-License-Identifier: GPL-2.0-only
//! The model calls the scheduler as the kernel does: the same scenes, with the same callbacks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::Task;
use super::engine::Engine;
use super::engine_test::{machine, mask};
use super::program::{Program, Step};
use crate::bpf::intf::{AVX_TIER_HINTS, AVX_TIER_OBSERVE, AVX_TIER_TRAP, avx_tier};
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

#[path = "../../../tests/guest/calls/scenes.rs"]
mod scenes;
use scenes::{CPUS, Scene, Stage, Thread};

/// What the kernel is asked for in a system call that takes so long: of the nth thread.
#[derive(Clone)]
struct Order {
    of: usize,
    by: usize,
    word: String,
}
const CALL_NS: f64 = 20e3;
/// How often orders are looked for, so that they come in the middle of the call.
const LOOK_NS: u64 = 10_000;
/// Between the beginnings of two threads.
const APART_NS: u64 = 1_000_000;
const MOMENT: &str = "w0.01";

type Orders = Rc<RefCell<VecDeque<Order>>>;

#[derive(Clone)]
enum Part {
    Step(Step),
    Order(Order),
}

struct Script {
    parts: VecDeque<Part>,
    orders: Orders,
}

impl Program for Script {
    fn next(&mut self, _now: u64) -> Step {
        match self.parts.pop_front() {
            Some(Part::Step(step)) => step,
            Some(Part::Order(order)) => {
                self.orders.borrow_mut().push_back(order);
                Step::Work(Kind::Scalar, CALL_NS)
            }
            None => Step::Exit,
        }
    }
}

fn ns(word: &str) -> f64 {
    word[1..].parse::<f64>().unwrap() * 1e6
}

/// What a word of the nth thread is to the model: all but wide work are system calls.
fn parts(n: usize, word: &str) -> Vec<Part> {
    let steps = match &word[..1] {
        "w" => vec![Step::Syscall, Step::Work(Kind::Scalar, ns(word))],
        "v" => vec![Step::Work(Kind::Light512, ns(word))],
        "s" => vec![Step::Sleep(ns(word) as u64), Step::Syscall],
        "y" => vec![Step::Yield, Step::Syscall],
        _ => {
            let (of, word) = word.split_once(':').unwrap_or(("", word));
            let order = Order { of: of.parse().unwrap_or(n), by: n, word: word.to_owned() };
            return vec![Part::Order(order), Part::Step(Step::Syscall)];
        }
    };
    steps.into_iter().map(Part::Step).collect()
}

/// The kernel's, of 1024 at nice 0, to the hundredth part.
fn weight(nice: i32) -> u32 {
    match nice {
        0 => 100,
        5 => 33,
        _ => panic!("what nice {nice} weighs is not known here"),
    }
}

/// How long the nth thread sleeps before its first step, as there: each wakes up after the others.
fn begins_after(n: usize) -> u64 {
    10_000_000 + n as u64 * APART_NS
}

/// What a realtime thread does from `now` on, and when: it takes its CPU, or asks for something.
fn timed(n: usize, thread: &Thread, now: u64) -> Vec<(u64, Order)> {
    let mut at = now + begins_after(n);
    let order = |word: &str| Order { of: n, by: n, word: word.to_owned() };
    // Whoever wakes has its CPU, if only for a moment.
    let mut timed = vec![(at, order(MOMENT))];
    for word in thread.script.split(' ') {
        match &word[..1] {
            "s" => {
                at += ns(word) as u64;
                timed.push((at, order(MOMENT)));
            }
            "w" => {
                timed.pop_if(|(_, order)| order.word == MOMENT);
                timed.push((at, order(word)));
                at += ns(word) as u64;
            }
            _ => timed.push((at, order(word))),
        }
    }
    timed
}

fn tier(stage: Stage) -> avx_tier {
    match stage {
        Stage::Plain => AVX_TIER_OBSERVE,
        Stage::AvxCore => AVX_TIER_HINTS,
        Stage::Wide => AVX_TIER_TRAP,
    }
}

/// A scene under way.
struct Play<'a> {
    scene: &'a Scene,
    engine: Engine<Steady>,
    /// One for each thread that is the scheduler's.
    tasks: Vec<Option<Task>>,
    orders: Orders,
    /// Of the other threads, in their order.
    timed: VecDeque<(u64, Order)>,
}

impl<'a> Play<'a> {
    fn begin(scene: &'a Scene) -> Self {
        let mut engine = machine(CPUS, tier(scene.stage), scene.stage.settings());
        engine.run_for(500_000_000).unwrap();
        engine.kernel_mut().note_calls();
        let threads = scene.threads.iter().enumerate();
        let of_others = threads.filter(|(_, thread)| thread.realtime);
        let mut timed: Vec<_> =
            of_others.flat_map(|(n, thread)| timed(n, thread, engine.now())).collect();
        timed.sort_by_key(|(at, _)| *at);
        let (tasks, orders) = (Vec::new(), Orders::default());
        let mut play = Self { scene, engine, tasks, orders, timed: timed.into() };
        for (n, thread) in scene.threads.iter().enumerate() {
            let task = (!thread.realtime).then(|| play.spawn(n, thread));
            play.tasks.push(task);
        }
        play
    }

    fn spawn(&mut self, n: usize, thread: &Thread) -> Task {
        let until_it_begins = Part::Step(Step::Sleep(begins_after(n)));
        let words = thread.script.split(' ').flat_map(|word| parts(n, word));
        let parts = std::iter::once(until_it_begins).chain(words).collect();
        let script = Box::new(Script { parts, orders: self.orders.clone() });
        let task = self.engine.spawn(script, weight(thread.nice));
        if thread.cpus != 0 {
            self.engine.kernel_mut().allow(task, &mask(thread.cpus), false);
        }
        task
    }

    fn go_on(&mut self) {
        self.engine.run_for(LOOK_NS).unwrap();
        let now = self.engine.now();
        while self.timed.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, order)) = self.timed.pop_front() {
                self.obey(&order);
            }
        }
        while let Some(order) = self.next_order() {
            self.obey(&order);
        }
    }

    fn next_order(&self) -> Option<Order> {
        self.orders.borrow_mut().pop_front()
    }

    fn obey(&mut self, order: &Order) {
        let Order { of, by, word } = order;
        let (kind, itself) = (&word[..1], of == by);
        let number = || word[1..].parse::<i32>().unwrap();
        match kind {
            "w" => {
                let cpu = self.scene.threads[*of].cpus.trailing_zeros();
                self.engine.take_cpu(cpu, ns(word) as u64);
            }
            "-" | "+" => self.engine.set_online(number() as u32, kind == "+"),
            _ => {
                let task = self.tasks[*of].unwrap();
                assert!(self.engine.threads.contains_key(&task), "{}: too late", self.scene.name);
                self.engine.change_task(task, "is changed", |engine| {
                    let kernel = engine.kernel_mut();
                    match kind {
                        "m" => kernel.allow(task, &mask(number() as u64), itself),
                        "n" => kernel.weigh(task, weight(number()), itself),
                        "f" => kernel.be_realtime(task, true, itself),
                        "o" => kernel.be_realtime(task, false, itself),
                        _ => panic!("there is no step {word}"),
                    }
                });
            }
        }
    }

    /// Of each thread, from its first step on: what comes before is the other side's way to begin.
    fn calls(&self) -> Vec<Vec<&'static str>> {
        let noted = self.engine.kernel().noted_calls();
        let of = |task: &Option<Task>| {
            let all = noted.iter().filter(|(noted, _)| Some(*noted) == *task);
            let mut calls = all.map(|(_, call)| *call);
            // It ran to sleep until it begins.
            (0..2)
                .for_each(|_| calls.by_ref().take_while(|call| *call != "running").for_each(drop));
            calls.collect()
        };
        self.tasks.iter().map(of).collect()
    }
}

/// The callbacks for each thread of a scene.
fn play(scene: &Scene) -> Vec<Vec<&'static str>> {
    let mut play = Play::begin(scene);
    let end = play.engine.now() + 3_000_000_000;
    while play.engine.nr_threads() > 0 {
        assert!(play.engine.now() < end, "{}: somebody did not come to an end", scene.name);
        play.go_on();
    }
    play.engine.kernel().audit().unwrap();
    play.calls()
}

/// What is wrong with what the model calls for a scene.
fn complaints(scene: &Scene) -> Vec<String> {
    let complaint = |(thread, calls): (&Thread, Vec<&str>)| {
        let complaint = thread.complaint(&calls)?;
        Some(format!("{}: {complaint}", scene.name))
    };
    scene.threads.iter().zip(play(scene)).filter_map(complaint).collect()
}

#[test]
fn the_model_calls_what_the_kernel_calls() {
    let wrong: Vec<String> = scenes::all().unwrap().iter().flat_map(complaints).collect();
    assert!(wrong.is_empty(), "{} threads:\n{}", wrong.len(), wrong.join("\n"));
}
