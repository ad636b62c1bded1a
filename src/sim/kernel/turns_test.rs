// SPDX-License-Identifier: GPL-2.0-only
//! What tasks owe each other.

use super::Task;
use super::engine::Engine;
use super::engine_test::{busy, confine, forever, longest_wait_of, machine, shares_of};
use super::program::Step;
use crate::bpf::intf::{AVX_TIER_OBSERVE, AVX_WAIT_MAX_S};
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn beside(engine: &mut Engine<Steady>, number: usize, weight: u32) -> Vec<Task> {
    (0..number).map(|_| engine.spawn(busy(), weight)).collect()
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

/// The caches of other CPUs know nothing of it. Twelve that want more than four CPUs move 1703 times a
/// second if whoever is due first is taken.
#[test]
fn who_goes_on_is_most_often_where_it_was() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let steps = |n: u32| [Step::Work(Kind::Scalar, 1.3e6 + 1.3e5 * f64::from(n)), Step::Sleep(MS)];
    for n in 0..12 {
        engine.spawn(forever(&steps(n)), 100);
    }
    engine.run_for(SECOND).unwrap();
    let before = engine.moves();
    engine.run_for(SECOND).unwrap();
    let moves = engine.moves() - before;
    assert!(moves < 700, "{moves} moves");
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
