// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own class, for which no scheduler is loaded: how much of a CPU each task gets, and when.

use std::cell::RefCell;
use std::rc::Rc;

use super::engine::{COSTS, Engine};
use super::engine_test::{busy, confine, forever, machine_of_class, mask, shares_of};
use super::program::{Program, Step};
use super::{Class, Task};
use crate::bpf::intf::AVX_TIER_OBSERVE;
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const SECOND: u64 = 1000 * MS;

const NICE_0: u32 = 100;
const NICE_10: u32 = 11;

/// Of a CPU alone.
const SLICE_NS: u64 = 700 * US;

/// A CPU hears that it is to schedule, and the switch.
const AT_ONCE_NS: u64 = COSTS.kick + COSTS.switch as u64 + US;

fn machine(nr_cpus: u32) -> Engine<Steady> {
    machine_of_class(Class::Fair, [nr_cpus, nr_cpus], 1, AVX_TIER_OBSERVE, &[])
}

fn run(engine: &mut Engine<Steady>, ns: u64) {
    engine.run_for(ns).unwrap();
    engine.kernel().audit().unwrap();
}

fn are_near(shares: &[f64], expected: &[f64], tolerance: f64) {
    let is_near = |(share, expected): (&f64, &f64)| (share / expected - 1.0).abs() < tolerance;
    assert!(shares.iter().zip(expected).all(is_near), "{shares:?}, not {expected:?}");
}

/// Sleeps and works in turns, and notes how long it waits each time before it works.
struct Waker {
    sleeps_ns: u64,
    works_ns: u64,
    rounds: u64,
    due_at: Option<u64>,
    waits: Rc<RefCell<Vec<u64>>>,
}

impl Program for Waker {
    fn next(&mut self, now: u64) -> Step {
        if let Some(due_at) = self.due_at.take() {
            self.waits.borrow_mut().push(now - due_at);
            return Step::Work(Kind::Scalar, self.works_ns as f64);
        }
        // Not always at the same time after a tick.
        self.rounds += 1;
        let sleeps_ns = self.sleeps_ns + self.rounds % 7 * self.sleeps_ns / 11;
        self.due_at = Some(now + sleeps_ns);
        Step::Sleep(sleeps_ns)
    }
}

/// It works for so long after each sleep.
fn waker(
    engine: &mut Engine<Steady>,
    [sleeps_ns, works_ns]: [u64; 2],
    weight: u32,
) -> (Task, Rc<RefCell<Vec<u64>>>) {
    let waits = Rc::new(RefCell::new(Vec::new()));
    let program = Waker { sleeps_ns, works_ns, rounds: 0, due_at: None, waits: waits.clone() };
    (engine.spawn(Box::new(program), weight), waits)
}

/// That so many of a hundred waits do not exceed.
fn percentile(waits: &RefCell<Vec<u64>>, percent: usize) -> u64 {
    let mut waits = waits.borrow().clone();
    waits.sort_unstable();
    waits[(waits.len() * percent / 100).min(waits.len() - 1)]
}

#[test]
fn shares_follow_weights() {
    let weights = [50, 100, 200];
    let expected = weights.map(|weight| f64::from(weight) / 350.0);
    for nr_cpus in [1, 3] {
        let mut engine = machine(nr_cpus);
        let groups: Vec<Vec<Task>> = (0..nr_cpus)
            .map(|cpu| {
                let tasks = weights.map(|weight| engine.spawn(busy(), weight)).to_vec();
                confine(&mut engine, &tasks, 1 << cpu);
                tasks
            })
            .collect();
        run(&mut engine, SECOND);
        for tasks in groups {
            are_near(&shares_of(&mut engine, &tasks, 3 * SECOND), &expected, 0.02);
        }
    }
}

#[test]
fn as_many_as_there_are_for_each_cpu_share_all_of_them() {
    let mut engine = machine(4);
    let tasks: Vec<Task> = (0..8).map(|_| engine.spawn(busy(), NICE_0)).collect();
    run(&mut engine, SECOND);
    are_near(&shares_of(&mut engine, &tasks, 3 * SECOND), &[0.5; 8], 0.02);
}

/// By deadlines alone it would have ten slices in a row, and then each of the others would have one.
#[test]
fn a_task_that_weighs_as_much_as_ten_takes_turns_with_each_of_them() {
    let mut engine = machine(1);
    for _ in 0..10 {
        engine.spawn(busy(), NICE_0);
    }
    let heavy = engine.spawn(busy(), 10 * NICE_0);
    run(&mut engine, SECOND);
    for _ in 0..200 {
        let share = shares_of(&mut engine, &[heavy], 6 * MS)[0];
        assert!((0.3..0.7).contains(&share), "{share}");
    }
}

#[test]
fn another_weight_counts_at_once() {
    let mut engine = machine(1);
    let tasks = [NICE_0; 2].map(|weight| engine.spawn(busy(), weight));
    run(&mut engine, SECOND);
    for weights in [[300, 100], [100, 300], [100, 100]] {
        for (task, weight) in tasks.iter().zip(weights) {
            engine.weigh(*task, weight);
        }
        let sum: u32 = weights.iter().sum();
        let expected = weights.map(|weight| f64::from(weight) / f64::from(sum));
        are_near(&shares_of(&mut engine, &tasks, SECOND), &expected, 0.02);
    }
}

/// Each of the others may have a slice, and the tick finds out that it is over.
#[test]
fn a_task_that_wakes_up_waits_for_no_more_than_a_slice_of_each_other_one() {
    for nr_others in [1, 3] {
        let mut engine = machine(1);
        for _ in 0..nr_others {
            engine.spawn(busy(), NICE_0);
        }
        let (_, waits) = waker(&mut engine, [7 * MS, 100 * US], NICE_0);
        run(&mut engine, 10 * SECOND);
        let longest = percentile(&waits, 100);
        assert!(waits.borrow().len() > 500, "{}", waits.borrow().len());
        assert!(longest < nr_others * (SLICE_NS + COSTS.tick_every) + AT_ONCE_NS, "{longest}");
    }
}

/// It has to wait when it is owed nothing, and is owed much for that.
#[test]
fn a_task_that_is_owed_something_preempts_one_with_less_weight_at_once() {
    let mut engine = machine(1);
    let other = engine.spawn(busy(), NICE_10);
    let (_, waits) = waker(&mut engine, [MS, 50 * US], NICE_0);
    run(&mut engine, 10 * SECOND);
    let (most, longest) = (percentile(&waits, 95), percentile(&waits, 100));
    assert!(most < AT_ONCE_NS, "{most}");
    assert!(longest < SLICE_NS + COSTS.tick_every + AT_ONCE_NS, "{longest}");
    // It does not need what it could have.
    let share = engine.work_done(other, Kind::Scalar) / (10 * SECOND) as f64;
    assert!(share > 0.93, "{share}");
}

/// It is owed two slices at most, though it slept for long.
#[test]
fn sleep_is_no_reason_to_be_owed_much() {
    let mut engine = machine(1);
    let other = engine.spawn(busy(), NICE_0);
    let sleeper =
        engine.spawn(forever(&[Step::Sleep(SECOND), Step::Work(Kind::Scalar, 1e9)]), NICE_0);
    run(&mut engine, SECOND);
    let shares = shares_of(&mut engine, &[sleeper, other], 100 * MS);
    let ahead = (shares[0] - shares[1]) * (100 * MS) as f64;
    assert!(ahead.abs() < (3 * SLICE_NS + COSTS.tick_every) as f64, "{ahead}");
}

/// A task that runs for longer than it should owes that, and cannot sleep to get rid of it.
#[test]
fn short_sleeps_are_no_way_to_get_more() {
    let mut engine = machine(1);
    let other = engine.spawn(busy(), NICE_0);
    let work = Step::Work(Kind::Scalar, (10 * MS) as f64);
    let sleeper = engine.spawn(forever(&[work, Step::Sleep(10 * US)]), NICE_0);
    run(&mut engine, SECOND);
    are_near(&shares_of(&mut engine, &[sleeper, other], 3 * SECOND), &[0.5, 0.5], 0.03);
}

#[test]
fn a_task_that_yields_lets_others_run() {
    let mut engine = machine(1);
    let steps = [Step::Work(Kind::Scalar, (100 * US) as f64), Step::Yield];
    let polite = engine.spawn(forever(&steps), NICE_0);
    run(&mut engine, SECOND);
    are_near(&shares_of(&mut engine, &[polite], SECOND), &[1.0], 0.02);
    let other = engine.spawn(busy(), NICE_0);
    run(&mut engine, SECOND);
    let shares = shares_of(&mut engine, &[polite, other], SECOND);
    assert!(shares[0] > 0.02 && shares[1] > 3.0 * shares[0], "{shares:?}");
}

/// Whether a task that ran lately stays with its caches takes half a millisecond to be over.
#[test]
fn no_task_waits_for_long_beside_an_idle_cpu() {
    let mut engine = machine(4);
    let tasks: Vec<Task> =
        (0..7).map(|n| waker(&mut engine, [MS + n * 100 * US, 3 * MS], NICE_0).0).collect();
    let (mut longest, mut idle_ns) = (0, 0);
    for _ in 0..20_000 {
        run(&mut engine, 100 * US);
        let idles = (0..4).any(|cpu| engine.kernel().current(cpu).is_none());
        idle_ns = if idles { idle_ns + 100 * US } else { 0 };
        let since = tasks.iter().filter_map(|task| engine.kernel().waits_since(*task)).min();
        let waits = since.map_or(0, |since| (engine.now() - since).min(idle_ns));
        longest = longest.max(waits);
    }
    assert!(longest > 0, "no CPU ever idled beside a task");
    assert!(longest <= 2 * COSTS.tick_every, "{longest}");
}

#[test]
fn a_task_that_begins_has_a_core_of_its_own_if_there_is_one() {
    let mut engine = machine_of_class(Class::Fair, [4, 2], 2, AVX_TIER_OBSERVE, &[]);
    let mut cores = Vec::new();
    for _ in 0..4 {
        let task = engine.spawn(busy(), NICE_0);
        run(&mut engine, 10 * MS);
        cores.push(engine.kernel().cpu_of(task) % 4);
    }
    cores.sort_unstable();
    assert_eq!(cores, [0, 1, 2, 3]);
}

#[test]
fn load_is_shared_by_all_that_may_have_it() {
    let mut engine = machine_of_class(Class::Fair, [4, 2], 1, AVX_TIER_OBSERVE, &[]);
    let tasks: Vec<Task> = (0..8).map(|_| engine.spawn(busy(), NICE_0)).collect();
    confine(&mut engine, &tasks, 1);
    run(&mut engine, SECOND);
    are_near(&shares_of(&mut engine, &tasks, SECOND), &[0.125; 8], 0.03);
    confine(&mut engine, &tasks, 0b1111);
    run(&mut engine, 10 * SECOND);
    are_near(&shares_of(&mut engine, &tasks, SECOND), &[0.5; 8], 0.02);
}

/// What is heavy is not all on one CPU, and what is light not on another one.
#[test]
fn load_is_balanced_by_weight() {
    let mut engine = machine(2);
    let heavy = [NICE_0; 2].map(|weight| engine.spawn(busy(), weight));
    let light = [NICE_10; 2].map(|weight| engine.spawn(busy(), weight));
    confine(&mut engine, &heavy, 1);
    confine(&mut engine, &light, 2);
    run(&mut engine, SECOND);
    confine(&mut engine, &heavy, 3);
    confine(&mut engine, &light, 3);
    run(&mut engine, SECOND);
    let shares = shares_of(&mut engine, &heavy, 3 * SECOND);
    assert!(shares.iter().all(|share| *share > 0.8), "{shares:?}");
}

#[test]
fn tasks_stay_where_they_may_be() {
    let mut engine = machine(4);
    let tasks: Vec<Task> = (0..8).map(|_| waker(&mut engine, [MS, MS], NICE_0).0).collect();
    for round in 0..100 {
        for (task, n) in tasks.iter().zip(0..) {
            engine.allow(*task, &mask(1 << ((n + round) % 4) | 1 << ((n + round / 3) % 4)));
        }
        run(&mut engine, 5 * MS);
    }
}

#[test]
fn cpus_may_be_taken_and_come_and_go() {
    let mut engine = machine(3);
    let tasks: Vec<Task> = (0..6).map(|_| engine.spawn(busy(), NICE_0)).collect();
    run(&mut engine, SECOND);
    engine.take_cpu(1, 10 * SECOND);
    engine.set_online(2, false);
    run(&mut engine, SECOND);
    let left = shares_of(&mut engine, &tasks, SECOND);
    are_near(&[left.iter().sum()], &[1.0], 0.02);
    engine.set_online(2, true);
    run(&mut engine, SECOND);
    let left = shares_of(&mut engine, &tasks, SECOND);
    are_near(&[left.iter().sum()], &[2.0], 0.02);
}

#[test]
fn two_runs_are_alike() {
    let run = || {
        let mut engine = machine(3);
        let tasks: Vec<Task> =
            (1..10).map(|n| waker(&mut engine, [n * MS, n * 300 * US], NICE_0).0).collect();
        run(&mut engine, SECOND);
        let kernel = engine.kernel();
        tasks.iter().map(|task| (kernel.ran(*task), kernel.moves(*task))).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
