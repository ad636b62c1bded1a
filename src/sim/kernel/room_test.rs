// SPDX-License-Identifier: GPL-2.0-only
//! A task that wakes up, and the one that makes room for it.

use super::Task;
use super::engine_test::{busy, forever, machine, mask};
use super::program::Step;
use crate::bpf::intf::{AVX_TIER_OBSERVE, AVX_TIER_XSTATE};
use crate::sim::machine::model::Kind;

const US: u64 = 1000;
const MS: u64 = 1000 * US;

const NICE_0: u32 = 100;
const NICE_10: u32 = 11;

/// Wakes up far more often than there are ticks.
const WAKES: [Step; 2] = [Step::Sleep(200 * US), Step::Work(Kind::Scalar, 1e4)];

/// How often a task was queued after it had run, and nobody was asked who is next.
fn times_displaced(calls: &[&str]) -> usize {
    calls.windows(2).filter(|two| *two == ["running", "enqueue"]).count()
}

#[test]
fn who_wakes_up_takes_its_cpu_past_the_queue() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let worker = engine.spawn(busy(), NICE_10);
    engine.spawn(forever(&WAKES), NICE_0);
    engine.run_for(20 * MS).unwrap();
    engine.kernel_mut().note_calls();
    engine.run_for(20 * MS).unwrap();
    let noted = engine.kernel().noted_calls();
    let calls: Vec<&str> =
        noted.iter().filter(|(task, _)| *task == worker).map(|(_, call)| *call).collect();
    assert!(times_displaced(&calls) > 80, "{calls:?}");
}

/// No CPU was to choose, but what it left in its registers is looked at when it goes on.
#[test]
fn who_makes_room_with_wide_vectors_is_seen() {
    let wide = [Step::Work(Kind::Light512, 1e6)];
    let samples = |steps: &[Step]| {
        let mut engine = machine(1, AVX_TIER_XSTATE, &["sizing=static", "avx-cpus=0"]);
        engine.spawn(forever(&wide), NICE_10);
        engine.spawn(forever(steps), NICE_0);
        engine.run_for(100 * MS).unwrap();
        engine.kernel().stats(0).samples
    };
    let (by_ticks, with_room) = (samples(&[Step::Sleep(1000 * MS)]), samples(&WAKES));
    assert!(with_room > 3 * by_ticks, "{by_ticks} and {with_room}");
}

/// Where it was something runs that has as much claim, and elsewhere something with less.
#[test]
fn who_wakes_up_takes_the_cpu_of_whoever_has_less_claim() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let sleeper = engine
        .spawn(forever(&[Step::Sleep(50 * MS + 600 * US), Step::Work(Kind::Scalar, 1e6)]), NICE_0);
    for (weight, cpu) in [(NICE_0, 1), (NICE_10, 2)] {
        let other = engine.spawn(busy(), weight);
        engine.kernel_mut().allow(other, &mask(cpu), false);
    }
    // It sleeps where the heavier one is, and wakes up in the middle of a turn, between two ticks.
    engine.kernel_mut().allow(sleeper, &mask(1), false);
    engine.run_for(45 * MS).unwrap();
    engine.kernel_mut().allow(sleeper, &mask(3), false);
    engine.run_for(6 * MS + 700 * US).unwrap();
    assert_eq!(engine.work_done(sleeper, Kind::Scalar), 1e6);
}

/// Each says that it is about to sleep when it wakes the other one up, and is.
#[test]
fn who_answers_stays_with_who_asks() {
    const NR_PAIRS: u32 = 4;
    let mut engine = machine(NR_PAIRS, AVX_TIER_OBSERVE, &[]);
    let tasks: Vec<Task> = (0..NR_PAIRS)
        .flat_map(|n| {
            let [question, answer] = [(); 2].map(|()| engine.open_channel());
            let work = |ns| Step::Work(Kind::Scalar, ns);
            let asks = [Step::Send(question, 0), work(1e3 * f64::from(n)), Step::Wait(answer)];
            let answers = [Step::Wait(question), work(1e4), Step::Send(answer, 0)];
            [asks, answers].map(|steps| engine.spawn(forever(&steps), NICE_0))
        })
        .collect();
    engine.run_for(100 * MS).unwrap();
    let moves: u64 = tasks.iter().map(|task| engine.kernel().moves(*task)).sum();
    assert!(moves < 1000, "{moves} moves");
}

/// Its waker says so as well, and goes on.
#[test]
fn who_follows_a_waker_that_goes_on_waits_for_a_tick_at_most() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let question = engine.open_channel();
    let answers = [Step::Wait(question), Step::Work(Kind::Scalar, 1e5)];
    let answering = engine.spawn(forever(&answers), NICE_10);
    engine.run_for(MS).unwrap();
    let asks =
        [Step::Sleep(9 * MS), Step::Send(question, 0), Step::Work(Kind::Scalar, 15.0 * MS as f64)];
    let asking = engine.spawn(forever(&asks), NICE_0);
    let busy = engine.spawn(busy(), NICE_0);
    engine.kernel_mut().allow(asking, &mask(1), false);
    engine.kernel_mut().allow(busy, &mask(2), false);
    engine.run_for(9 * MS).unwrap();
    assert_eq!(engine.work_done(answering, Kind::Scalar), 0.0);
    engine.run_for(MS + 200 * US).unwrap();
    assert_eq!(engine.work_done(answering, Kind::Scalar), 1e5);
}
