// SPDX-License-Identifier: GPL-2.0-only
//! What tasks owe each other.

use super::Task;
use super::engine::Engine;
use super::engine_test::{
    busy, confine, forever, longest_wait_of, machine, machine_with_caches, shares_of,
};
use super::program::Step;
use crate::bpf::intf::{AVX_TIER_OBSERVE, AVX_WAIT_MAX_S};
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn beside(engine: &mut Engine<Steady>, number: usize, weight: u32) -> Vec<Task> {
    (0..number).map(|_| engine.spawn(busy(), weight)).collect()
}

fn moves_in_the_second_second(engine: &mut Engine<Steady>) -> u64 {
    engine.run_for(SECOND).unwrap();
    let before = engine.moves();
    engine.run_for(SECOND).unwrap();
    engine.moves() - before
}

/// It took nothing from anyone.
#[test]
fn who_ran_alone_owes_nothing_to_who_comes() {
    for weight in [10, 100] {
        let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
        let mut tasks = beside(&mut engine, 1, weight);
        engine.run_for(10 * SECOND).unwrap();
        tasks.extend(beside(&mut engine, 1, weight));
        let shares = shares_of(&mut engine, &tasks, SECOND / 10);
        assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.05), "{shares:?}");
    }
}

/// Nor did who had to wait before.
#[test]
fn who_waited_and_then_ran_alone_owes_nothing_to_who_comes() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let once = [Step::Work(Kind::Scalar, 20e6), Step::Sleep(10 * SECOND)];
    engine.spawn(forever(&once), 10_000);
    let mut tasks = beside(&mut engine, 1, 100);
    engine.run_for(40 * MS).unwrap();
    tasks.extend(beside(&mut engine, 1, 100));
    let shares = shares_of(&mut engine, &tasks, 20 * MS);
    assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.05), "{shares:?}");
}

/// Nor who slept while others waited for each other.
#[test]
fn who_slept_is_owed_no_more_than_a_request() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let mut tasks = beside(&mut engine, 2, 100);
    let once = [Step::Sleep(10 * SECOND), Step::Work(Kind::Scalar, 1e12)];
    tasks.push(engine.spawn(forever(&once), 100));
    engine.run_for(10 * SECOND).unwrap();
    let shares = shares_of(&mut engine, &tasks, SECOND / 10);
    assert!(shares.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.06), "{shares:?}");
}

/// Weights say what each gets, whether it waits where all do or for one CPU alone, and whether
/// more than its share is there for it to have or not.
#[test]
fn weights_count_wherever_tasks_wait() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let mut tasks = beside(&mut engine, 4, 100);
    let confined = beside(&mut engine, 1, 300);
    confine(&mut engine, &confined, 1);
    tasks.extend(confined);
    engine.run_for(2 * AVX_WAIT_MAX_S as u64 * SECOND).unwrap();
    let shares = shares_of(&mut engine, &tasks, 10 * SECOND);
    for (share, weight) in shares.iter().zip([1.0, 1.0, 1.0, 1.0, 3.0]) {
        let fair = 2.0 * weight / 7.0;
        assert!((share / fair - 1.0).abs() < 0.05, "{shares:?}");
    }
}

/// The caches of other CPUs know nothing of it. Twelve that want more than four CPUs move 1740 times a
/// second if whoever is due first is taken.
#[test]
fn who_goes_on_is_most_often_where_it_was() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let steps = |n: u32| [Step::Work(Kind::Scalar, 1.3e6 + 1.3e5 * f64::from(n)), Step::Sleep(MS)];
    for n in 0..12 {
        engine.spawn(forever(&steps(n)), 100);
    }
    let moves = moves_in_the_second_second(&mut engine);
    assert!(moves < 800, "{moves} moves");
}

/// It makes room for one that wakes up, and then for nobody for a while; but not for 20 ms.
#[test]
fn who_was_interrupted_does_not_wait_for_a_long_turn() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let worker = engine.spawn(busy(), 100);
    engine.run_for(SECOND / 10).unwrap();
    let burst = [Step::Sleep(100 * MS), Step::Work(Kind::Scalar, 15e6)];
    engine.spawn(forever(&burst), 100);
    let longest = longest_wait_of(&mut engine, &[worker], 1000);
    assert!((MS..12 * MS).contains(&longest), "{longest} ns");
}

/// It slept while others waited, and ran while nobody did.
#[test]
fn who_ran_while_nobody_waited_owes_nothing_for_when_it_slept() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let pair = [Step::Work(Kind::Scalar, 10e6), Step::Sleep(30 * MS)];
    for _ in 0..2 {
        engine.spawn(forever(&pair), 100);
    }
    let steps = [
        Step::Sleep(25 * MS),
        Step::Work(Kind::Scalar, 20e6),
        Step::Sleep(10 * MS),
        Step::Work(Kind::Scalar, 1e5),
    ];
    let it = engine.spawn(forever(&steps), 100);
    let longest = longest_wait_of(&mut engine, &[it], 60);
    assert!(longest < 2 * MS, "{longest} ns");
}

/// Its data is where it ran. Four that sleep for about as long as they run, for two CPUs that share
/// no cache, move 11429 times a second if a CPU takes who waits at the other cache whenever that one
/// is first, and 2612 times if any CPU that idles is good enough.
#[test]
fn who_ran_a_moment_ago_goes_to_no_other_cache() {
    let mut engine = machine_with_caches(2, 1, AVX_TIER_OBSERVE, &[]);
    for us in [31, 37, 41, 43] {
        let steps = [Step::Work(Kind::Scalar, 30e3), Step::Sleep(us * 1000)];
        engine.spawn(forever(&steps), 100);
    }
    let moves = moves_in_the_second_second(&mut engine);
    assert!(moves < 100, "{moves} moves");
}

/// Ten that sleep most of the time weigh together as much as the one that never does.
#[test]
fn who_sleeps_earns_nothing_by_that() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let steady = beside(&mut engine, 1, 100);
    let steps = [Step::Work(Kind::Scalar, 5e5), Step::Sleep(5 * MS)];
    for _ in 0..10 {
        engine.spawn(forever(&steps), 10);
    }
    engine.run_for(SECOND).unwrap();
    let share = shares_of(&mut engine, &steady, 4 * SECOND)[0];
    assert!((share - 0.5).abs() < 0.03, "{share}");
}

/// Two that sleep for about half of the time begin on an idle CPU, and share with one that never
/// sleeps as soon as both are awake. It has nearly all of a CPU if they earn nothing meanwhile.
#[test]
fn who_wakes_up_where_a_cpu_idles_earns_from_then_on() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let steady = beside(&mut engine, 1, 100);
    for ms in [3, 4] {
        let steps = [Step::Work(Kind::Scalar, 4e6), Step::Sleep(ms * MS)];
        engine.spawn(forever(&steps), 100);
    }
    engine.run_for(SECOND).unwrap();
    let share = shares_of(&mut engine, &steady, 10 * SECOND)[0];
    assert!(share < 0.9, "{share}");
}
