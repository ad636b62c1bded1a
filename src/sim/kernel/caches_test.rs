// SPDX-License-Identifier: GPL-2.0-only
//! Caches that more compete for than for others.

use super::Task;
use super::engine::Engine;
use super::engine_test::{busy, confine, machine_of, shares_of};
use crate::bpf::intf::AVX_TIER_OBSERVE;
use crate::sim::machine::hardware::Steady;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// Tasks of these weights that all begin at the first of so many caches of two CPUs, and then may go
/// anywhere; a second later.
fn begun_at_one_cache(nr_caches: u32, weights: &[u32]) -> (Engine<Steady>, Vec<Task>) {
    let mut engine = machine_of([2 * nr_caches, 2], 1, AVX_TIER_OBSERVE, &[]);
    let tasks: Vec<Task> = weights.iter().map(|weight| engine.spawn(busy(), *weight)).collect();
    confine(&mut engine, &tasks, 3);
    engine.run_for(SECOND).unwrap();
    confine(&mut engine, &tasks, (1 << (2 * nr_caches)) - 1);
    engine.run_for(SECOND).unwrap();
    (engine, tasks)
}

/// Or as little as whole tasks allow.
#[test]
fn no_cache_is_slower_than_another() {
    for (nr_caches, nr_tasks) in [(2, 6), (3, 10), (4, 12), (8, 24)] {
        let (mut engine, tasks) = begun_at_one_cache(nr_caches, &vec![100; nr_tasks]);
        let at_each = nr_tasks as f64 / f64::from(nr_caches);
        let fair = 2.0 / at_each.ceil()..=2.0 / at_each.floor();
        let shares = shares_of(&mut engine, &tasks, 4 * SECOND);
        let is_fair = |share: &f64| (0.9 * fair.start()..=1.1 * fair.end()).contains(share);
        assert!(shares.iter().all(is_fair), "{shares:?} of {fair:?}");
    }
}

/// One that weighs as much as three is not left beside them.
#[test]
fn caches_are_evened_out_by_weight() {
    let (mut engine, tasks) = begun_at_one_cache(2, &[300, 300, 100, 100, 100, 100, 100, 100]);
    let shares = shares_of(&mut engine, &tasks, 4 * SECOND);
    for (share, fair) in shares.iter().zip([1.0, 1.0, 1.0 / 3.0]) {
        assert!((share / fair - 1.0).abs() < 0.15, "{shares:?}");
    }
}

/// Who goes back and forth loses its cache's contents each time.
#[test]
fn where_caches_are_even_nobody_goes_to_another() {
    for nr_tasks in [5, 6] {
        let (mut engine, tasks) = begun_at_one_cache(2, &vec![100; nr_tasks]);
        let caches = |engine: &Engine<Steady>| -> Vec<u32> {
            tasks.iter().map(|task| engine.kernel().cpu_of(*task) / 2).collect()
        };
        let (mut last, mut moves) = (caches(&engine), 0);
        for _ in 0..2000 {
            engine.run_for(MS).unwrap();
            let now = caches(&engine);
            moves += last.iter().zip(&now).filter(|(last, now)| last != now).count();
            last = now;
        }
        assert!(moves < 10, "{moves} times of {nr_tasks} tasks");
    }
}
