// SPDX-License-Identifier: GPL-2.0-only
//! The number of AVX cores, against programs that want them.

use super::native::{fair_cpus, first_need, role_cause, size_avx_set};
use crate::agent::policy;
use crate::bpf::intf::{
    ROLE_AVX, ROLE_FIRST_NEED, ROLE_FOR_LIST, ROLE_FOR_NUMBER, ROLE_GROWTH, ROLE_SCALAR,
    ROLE_SHRINKING, SERVED_NOBODY, SIZING_CONTROLLER, SIZING_LIST, SIZING_SHARE, SIZING_STATIC,
    avx_claim, avx_demand, avx_policy, avx_sizing, avx_waiting,
};

const MS: u64 = 1_000_000;
const STEP: u64 = MS / 10;
const LOOK: u64 = 10 * MS;
const SECOND: u64 = 1000 * MS;

/// A thread that alternates: so much scalar work, then so much with wide vectors.
#[derive(Debug, Clone, Copy)]
struct Thread {
    scalar_ns: u64,
    wide_ns: u64,
    /// What is left of the present phase, and which one that is.
    left: u64,
    is_wide: bool,
    waits: bool,
}

/// What came of it.
#[derive(Debug, Default, Clone, Copy)]
struct Result {
    /// The sum over time of the AVX cores, and of the time that wide work ran.
    avx_cpu_ns: u64,
    wide_ns: u64,
    wait_ns: u64,
    bursts: u64,
    changes: u32,
    largest: u32,
}

impl Result {
    fn mean_size(&self, ns: u64) -> f64 {
        self.avx_cpu_ns as f64 / ns as f64
    }

    fn mean_wait_us(&self) -> f64 {
        self.wait_ns as f64 / 1000.0 / self.bursts.max(1) as f64
    }
}

/// A machine on which wide work runs on AVX cores, first come, first served, and
/// all else finds a place, unless others wait; but nobody sees more CPUs busy than there are.
struct Machine {
    policy: avx_policy,
    sizing: avx_sizing,
    shape: avx_demand,
    since_look: avx_demand,
    threads: Vec<Thread>,
    now: u64,
    result: Result,
}

impl Machine {
    fn new(policy: avx_policy, nr_cpus: u32, granule: u32) -> Self {
        let shape = avx_demand { nr_cpus, granule, ..avx_demand::default() };
        let (sizing, threads) = (avx_sizing::default(), Vec::new());
        let (since_look, result) = (shape, Result::default());
        Self { policy, sizing, shape, since_look, threads, now: 0, result }
    }

    /// So many threads from now on, out of step with each other.
    fn threads(&mut self, count: usize, scalar_ns: u64, wide_ns: u64) {
        self.threads.truncate(count);
        for n in self.threads.len()..count {
            let left = (n as u64 * 7 * STEP) % scalar_ns + STEP;
            self.threads.push(Thread { scalar_ns, wide_ns, left, is_wide: false, waits: false });
        }
    }

    fn resize(&mut self, size: impl FnOnce(&mut avx_sizing, &avx_policy, &avx_demand) -> u32) {
        let before = self.sizing.nr_avx;
        let after = size(&mut self.sizing, &self.policy, &self.since_look);
        assert!(after <= self.shape.nr_cpus);
        self.result.changes += u32::from(after != before);
        self.result.largest = self.result.largest.max(after);
    }

    fn step(&mut self) {
        if self.threads.iter().any(|thread| thread.is_wide) {
            self.resize(|sizing, policy, demand| first_need(sizing, policy, demand));
        }
        let mut free = self.sizing.nr_avx;
        let full = (self.since_look.elapsed_ns + STEP) * u64::from(self.shape.nr_cpus);
        for thread in &mut self.threads {
            thread.waits = thread.is_wide && free == 0;
            free -= u32::from(thread.is_wide && !thread.waits);
            if thread.waits {
                self.since_look.wait_ns += STEP;
                self.result.wait_ns += STEP;
                continue;
            }
            self.since_look.total_ns = full.min(self.since_look.total_ns + STEP);
            if thread.is_wide {
                self.since_look.avx_ns += STEP;
                self.result.wide_ns += STEP;
            }
            thread.left = thread.left.saturating_sub(STEP);
            if thread.left == 0 {
                self.since_look.nr_waits += u64::from(thread.is_wide);
                self.result.bursts += u64::from(thread.is_wide);
                thread.is_wide = !thread.is_wide;
                thread.left = if thread.is_wide { thread.wide_ns } else { thread.scalar_ns };
            }
        }
        // Who waited is first the next time.
        let mut running: Vec<Thread> = Vec::new();
        self.threads.retain(|thread| {
            thread.waits || {
                running.push(*thread);
                false
            }
        });
        self.threads.append(&mut running);

        self.now += STEP;
        self.since_look.elapsed_ns += STEP;
        self.result.avx_cpu_ns += u64::from(self.sizing.nr_avx) * STEP;
        if self.since_look.elapsed_ns == LOOK {
            let nr = self.threads.iter().filter(|thread| thread.waits).count() as u64;
            self.since_look.avx = avx_waiting { nr, weight: 100 * nr };
            if self.shape.other.nr > 0 {
                self.since_look.total_ns = full;
            }
            self.resize(|sizing, policy, demand| size_avx_set(sizing, policy, demand));
            self.since_look = self.shape;
        }
    }

    /// Runs for so long; what came of it.
    fn run(&mut self, ns: u64) -> Result {
        self.result = Result::default();
        let end = self.now + ns;
        while self.now < end {
            self.step();
        }
        self.result
    }
}

fn policy_with(change: impl FnOnce(&mut avx_policy)) -> avx_policy {
    let mut policy = policy::standard();
    change(&mut policy);
    policy
}

fn by_share(alpha: u32) -> avx_policy {
    policy_with(|policy| {
        policy.sizing = SIZING_SHARE.into();
        policy.share_alpha = alpha.into();
    })
}

/// Twenty threads with a tenth of wide work each need two CPUs.
const SCALAR: u64 = 18 * STEP;
const WIDE: u64 = 2 * STEP;

#[test]
fn a_step_is_met_at_once_and_kept() {
    let mut machine = Machine::new(policy::standard(), 16, 1);
    machine.threads(20, SCALAR, WIDE);
    let rise = machine.run(200 * MS);
    assert!(rise.largest <= 4, "{rise:?}");

    let settled = machine.run(SECOND);
    assert!((2.0..=4.0).contains(&settled.mean_size(SECOND)), "{settled:?}");
    assert!(settled.mean_wait_us() < 200.0 && settled.changes <= 1, "{settled:?}");

    machine.threads(0, SCALAR, WIDE);
    let fall = machine.run(SECOND);
    assert_eq!(machine.sizing.nr_avx, 0, "{fall:?}");
    assert!(fall.changes <= 4);
}

/// From nothing to 30 % of the machine, and back, however large it is.
#[test]
fn a_step_is_settled_within_fifty_milliseconds() {
    for nr_cpus in [20, 64, 128, 512] {
        let mut machine = Machine::new(policy::standard(), nr_cpus, 2);
        machine.threads(3 * nr_cpus as usize, SCALAR, WIDE);
        let rise = machine.run(50 * MS);
        let early = machine.sizing.nr_avx;
        machine.run(SECOND);
        let late = machine.sizing.nr_avx;
        assert!(early.abs_diff(late) <= nr_cpus / 10, "{early}, and then {late} of {nr_cpus}");
        assert!(rise.largest <= 2 * late, "{rise:?}, and then {late} of {nr_cpus}");
        machine.threads(0, SCALAR, WIDE);
        machine.run(50 * MS);
        assert_eq!(machine.sizing.nr_avx, 0);
    }
}

#[test]
fn who_gives_back_without_delay_keeps_what_is_needed() {
    let mut machine = Machine::new(policy_with(|policy| policy.shrink_dwell_ns = 0), 16, 1);
    machine.threads(3, STEP, 90 * STEP);
    machine.run(SECOND);
    for _ in 0..100 {
        machine.run(LOOK);
        assert!((3..=6).contains(&machine.sizing.nr_avx), "{:?}", machine.sizing);
    }
    machine.threads(0, SCALAR, WIDE);
    machine.run(2 * LOOK);
    assert_eq!(machine.sizing.nr_avx, 0);
}

/// Who waited is a CPU each already.
#[test]
fn the_set_does_not_double_after_a_step_by_idle_cpus() {
    let policy = policy::standard();
    let looks = |busy: u64, avx: u64| avx_demand {
        elapsed_ns: LOOK,
        total_ns: busy * LOOK,
        avx_ns: avx * LOOK,
        wait_ns: 30 * LOOK,
        nr_waits: 1,
        avx: avx_waiting { nr: 12, weight: 1200 },
        nr_cpus: 32,
        granule: 2,
        ..avx_demand::default()
    };
    let (now, all) = (SECOND, 32 << 20);
    let mut sizing = avx_sizing {
        now,
        nr_avx: 4,
        demand: all,
        fair: all,
        recent: all,
        fair_for: 2 * now,
        ..avx_sizing::default()
    };
    let mut size = |busy, avx| size_avx_set(&mut sizing, &policy, &looks(busy, avx));
    // A quarter of 22 idle CPUs, then a quarter of the set, and then as much again.
    assert_eq!([size(10, 4), size(32, 10), size(32, 12)], [10, 12, 24]);
}

/// Bursts that come back after 99 ms keep their core; two minutes later that is not so sure any
/// more, and after some of them it is forgotten.
#[test]
fn what_was_needed_again_is_given_back_later() {
    let mut machine = Machine::new(policy::standard(), 16, 1);
    machine.threads(1, 99 * MS, MS);
    machine.run(2 * SECOND + 2 * MS);
    let size_after = |machine: &mut Machine, pause| {
        machine.threads(0, SCALAR, WIDE);
        machine.run(pause);
        machine.sizing.nr_avx
    };
    assert_eq!(size_after(&mut machine, 90 * MS), 1);

    machine.threads(1, STEP, 90 * STEP);
    machine.run(600 * SECOND);
    assert_eq!(size_after(&mut machine, 50 * MS), 0);
}

/// Of ten AVX cores so many were enough, for so many looks each time: how many are left.
fn left_of_ten(policy: &avx_policy, enough: &[(u64, u64)]) -> u32 {
    let now = 100 * SECOND;
    let mut sizing = avx_sizing { now, needed_at: now, nr_avx: 10, ..avx_sizing::default() };
    for &(enough, looks) in enough {
        let avx_ns = LOOK * enough * policy.shrink_fill / 1024;
        let (elapsed_ns, total_ns) = (LOOK, avx_ns);
        let shape = avx_demand { nr_cpus: 40, granule: 1, ..avx_demand::default() };
        let demand = avx_demand { elapsed_ns, total_ns, avx_ns, ..shape };
        for _ in 0..looks {
            size_avx_set(&mut sizing, policy, &demand);
        }
    }
    sizing.nr_avx
}

/// All after 20 ms, half of them after 40 and a tenth of them after 200, if they were not needed
/// meanwhile.
#[test]
fn what_is_a_little_too_much_is_kept_for_longer() {
    let standard = policy::standard();
    let left = |enough: &[(u64, u64)]| left_of_ten(&standard, enough);
    assert_eq!([left(&[(0, 1)]), left(&[(0, 2)])], [10, 0]);
    assert_eq!([left(&[(5, 3)]), left(&[(5, 4)])], [10, 5]);
    assert_eq!([left(&[(9, 19)]), left(&[(9, 20)])], [10, 9]);
    assert_eq!(left(&[(9, 19), (10, 1), (9, 19)]), 10);
    // And if less is enough later, what is left of the time is short.
    assert_eq!(left(&[(9, 10), (0, 1)]), 9);
    assert_eq!(left(&[(9, 10), (0, 3)]), 0);
}

/// The look in which work ends tells nothing of what is needed then, if there is one after it.
#[test]
fn what_ends_within_a_look_is_given_back_at_once() {
    let standard = policy::standard();
    assert_eq!(left_of_ten(&standard, &[(5, 1), (0, 1)]), 10);
    assert_eq!(left_of_ten(&standard, &[(5, 1), (0, 2)]), 0);
    assert_eq!(left_of_ten(&standard, &[(5, 1), (3, 3)]), 3);
    assert_eq!(left_of_ten(&standard, &[(5, 1), (7, 1), (3, 2)]), 7);
    let hasty = policy_with(|policy| policy.shrink_dwell_ns = 0);
    assert_eq!(left_of_ten(&hasty, &[(5, 1)]), 5);
}

#[test]
fn nothing_is_kept_for_longer_than_the_policy_says() {
    for (dwell, dwell_max, kept) in [(2, 6, 6), (8, 6, 8)] {
        let policy = policy_with(|policy| {
            policy.shrink_dwell_ns = dwell * LOOK;
            policy.shrink_dwell_max_ns = dwell_max * LOOK;
        });
        let left = |looks| left_of_ten(&policy, &[(9, looks)]);
        assert_eq!([left(kept - 1), left(kept)], [10, 9], "{dwell} {dwell_max}");
    }
}

/// AVX tasks and others: so many that wait, what each counts for, and how many run.
fn fair(avx: (u64, u64, u64), other: (u64, u64, u64), avx_weight: u64, nr_cpus: u64) -> f64 {
    let claim = |(nr, weight, running)| avx_claim {
        waiting: avx_waiting { nr, weight: nr * weight },
        running: running << 20,
    };
    fair_cpus(&claim(avx), &claim(other), avx_weight, nr_cpus) as f64 / f64::from(1 << 20)
}

#[test]
fn a_share_goes_by_weights_where_cpus_are_few() {
    // There are CPUs for all, or there is no AVX work.
    assert_eq!(fair((9, 100, 1), (0, 0, 10), 100, 20), 20.0);
    assert_eq!(fair((0, 0, 0), (9, 100, 20), 100, 20), 20.0);
    // Nobody else waits, since others have CPUs for which AVX work waits.
    assert!((fair((13, 100, 7), (0, 0, 13), 100, 20) - 20.0 * 20.0 / 33.0).abs() < 0.05);
    // What others do not want.
    assert_eq!(fair((9, 1, 16), (0, 0, 3), 1, 20), 17.0);
    // 10 of 30, whether they run or wait; by what waited before, where none does.
    assert!((fair((0, 0, 10), (10, 100, 10), 100, 20) - 20.0 / 3.0).abs() < 0.05);
    assert!((fair((8, 100, 2), (2, 100, 18), 100, 20) - 20.0 / 3.0).abs() < 0.05);
    assert_eq!(fair((0, 0, 10), (10, 100, 10), 200, 20), 10.0);
    assert_eq!(fair((5, 200, 5), (10, 100, 10), 100, 20), 10.0);
    // Odd ones: nothing counts for nothing, and nothing is too much.
    assert_eq!(fair((4, 0, 0), (4, 0, 0), 0, 4), 2.0);
    let many = (1 << 20, 10_000, 8192);
    assert_eq!(fair(many, many, 10_000, 8192), 4096.0);
    assert_eq!(fair((1 << 40, 10_000, 0), (1 << 40, 10_000, 0), 1, 8192), 4096.0);
}

/// Twenty threads, on as many CPUs.
fn nothing_but_avx_work() -> Machine {
    let mut machine = Machine::new(policy::standard(), 20, 2);
    machine.threads(20, STEP, SECOND);
    machine
}

/// Who does nothing but AVX work has the machine, until others want their share.
#[test]
fn avx_work_has_no_more_than_its_share_while_others_wait() {
    let mut machine = nothing_but_avx_work();
    machine.run(2 * SECOND);
    assert_eq!(machine.sizing.nr_avx, 20);
    for (weight, size) in [(100, 8), (300, 4), (1, 20), (10_000, 2)] {
        machine.shape.other = avx_waiting { nr: 20, weight: 20 * weight };
        machine.run(60 * SECOND);
        let later = machine.run(10 * SECOND);
        assert_eq!(machine.sizing.nr_avx, size, "{weight}: {:?}", machine.sizing);
        assert_eq!(later.changes, 0, "{weight}");
    }
    machine.shape.other = avx_waiting::default();
    machine.run(SECOND);
    assert!(machine.sizing.nr_avx >= 18);
    machine.run(5 * SECOND);
    assert_eq!(machine.sizing.nr_avx, 20);
}

/// Between two sizes, it stays with one of them.
#[test]
fn a_share_that_wavers_does_not_move_the_set() {
    let mut machine = nothing_but_avx_work();
    machine.shape.other = avx_waiting { nr: 25, weight: 2500 };
    machine.run(60 * SECOND);
    assert_eq!(machine.sizing.nr_avx, 8);
    let mut shares = Vec::new();
    for n in 0..200 {
        let nr = if n % 20 < 10 { 22 } else { 28 };
        machine.shape.other = avx_waiting { nr, weight: 100 * nr };
        assert_eq!(machine.run(SECOND).changes, 0);
        shares.push(machine.sizing.fair);
    }
    // With cores of two CPUs, 7 is as near to 6 as to 8.
    let seven = 7 << 20;
    assert!(shares.iter().any(|it| *it < seven) && shares.iter().any(|it| *it > seven));
}

/// For so many tenths of a second others wait: so many at least, and more in busy moments of a fifth
/// of a second, in some of three seconds, and in a rush every now and then.
fn beside_a_server(machine: &mut Machine, tenths: u64, at_least: u64) -> u32 {
    let mut changes = 0;
    for n in 0..tenths {
        let moment = if n % 5 < 2 { 8 } else { 0 };
        let longer = if n % 97 < 29 { 6 } else { 0 };
        let rush = if n % 41 < 4 { 30 } else { 0 };
        let nr = at_least + moment + longer + rush;
        machine.shape.other = avx_waiting { nr, weight: 100 * nr };
        changes += machine.run(100 * MS).changes;
    }
    changes
}

/// But for who comes it moves within a second, as if there were no such moments.
#[test]
fn busy_moments_of_others_do_not_move_the_set() {
    for at_least in 1..8 {
        let mut machine = nothing_but_avx_work();
        beside_a_server(&mut machine, 300, at_least);
        assert_eq!(beside_a_server(&mut machine, 1200, at_least), 0, "{at_least}");
        assert!((8..=10).contains(&machine.sizing.nr_avx), "{:?}", machine.sizing);
        beside_a_server(&mut machine, 10, 60);
        assert!(machine.sizing.nr_avx <= 6, "{at_least}: {:?}", machine.sizing);
    }
}

/// Four seconds with work and four without take turns: after six rounds the set stays.
#[test]
fn what_comes_back_within_ten_seconds_keeps_its_cores() {
    let mut machine = Machine::new(policy::standard(), 16, 1);
    let mut changes = Vec::new();
    for _ in 0..10 {
        machine.threads(4, STEP, 90 * STEP);
        changes.push(machine.run(4 * SECOND).changes);
        machine.threads(0, SCALAR, WIDE);
        changes.push(machine.run(4 * SECOND).changes);
    }
    assert_eq!(changes[12..], [0; 8]);
}

/// Else it would be given back, and taken, each time that the average is a little off.
#[test]
fn the_set_follows_its_share_by_three_quarters_of_a_core() {
    let size = |nr_avx, granule, fair: f64| {
        let now = 100 * SECOND;
        let fair = (fair * f64::from(1 << 20)) as u64;
        let (recent, fair_for, demand) = (fair, now, 20 << 20);
        let mut sizing =
            avx_sizing { now, nr_avx, fair, recent, fair_for, demand, ..avx_sizing::default() };
        // Everybody wants to run, for so short a time that no average moves.
        let (elapsed_ns, all) = (1000, 20 * 1000);
        let demand = avx_demand {
            elapsed_ns,
            total_ns: all,
            avx_ns: all,
            wait_ns: all,
            nr_cpus: 20,
            granule,
            ..avx_demand::default()
        };
        size_avx_set(&mut sizing, &policy::standard(), &demand)
    };
    assert_eq!([size(12, 2, 10.6), size(12, 2, 10.4)], [12, 10]);
    assert_eq!([size(12, 2, 13.4), size(12, 2, 13.6)], [12, 14]);
    assert_eq!([size(6, 1, 5.3), size(6, 1, 5.2)], [6, 5]);
    assert_eq!([size(6, 1, 6.7), size(6, 1, 6.8)], [6, 7]);
}

/// That there was no AVX work before, which might have had all CPUs, says nothing.
#[test]
fn the_first_avx_cores_are_no_more_than_a_share_of_a_full_machine() {
    for (nr_cpus, others, threads, share) in [(20, 18, 20, 8), (512, 500, 200, 88)] {
        let mut machine = Machine::new(policy::standard(), nr_cpus, 2);
        machine.shape.other = avx_waiting { nr: others, weight: 100 * others };
        machine.run(SECOND);
        machine.threads(threads, STEP, SECOND);
        let largest = machine.run(SECOND).largest;
        let nr_avx = machine.sizing.nr_avx;
        assert!((share..=share + 2).contains(&nr_avx), "{nr_avx} of {nr_cpus}");
        assert!(largest <= share + 2, "{largest} of {nr_cpus}");
    }
}

/// What AVX work may have on average, after `looks` that are so long, at 20 CPUs of which it uses 8
/// and others 12, while 12 of its tasks and `others` of theirs wait.
fn share_after(
    sizing: &mut avx_sizing,
    policy: &avx_policy,
    (looks, look): (u64, u64),
    others: u64,
) -> f64 {
    let demand = avx_demand {
        elapsed_ns: look,
        total_ns: 20 * look,
        avx_ns: 8 * look,
        wait_ns: 12 * look,
        nr_waits: 1,
        avx: avx_waiting { nr: 12, weight: 1200 },
        other: avx_waiting { nr: others, weight: 100 * others },
        nr_cpus: 20,
        granule: 2,
        ..avx_demand::default()
    };
    for _ in 0..looks {
        size_avx_set(sizing, policy, &demand);
    }
    sizing.fair as f64 / f64::from(1 << 20)
}

/// Eight of twenty CPUs are more than a share if others wait, but not by much if only one does.
#[test]
fn avx_work_has_more_than_its_share_where_only_others_wait() {
    let has_more = |policy: &avx_policy, avx, others| {
        let mut sizing = avx_sizing { nr_avx: 8, has_more: 1, ..avx_sizing::default() };
        let demand = avx_demand {
            elapsed_ns: LOOK,
            total_ns: 20 * LOOK,
            avx_ns: 8 * LOOK,
            avx: avx_waiting { nr: avx, weight: 100 * avx },
            other: avx_waiting { nr: others, weight: 100 * others },
            nr_cpus: 20,
            granule: 2,
            ..avx_demand::default()
        };
        for _ in 0..50 {
            size_avx_set(&mut sizing, policy, &demand);
        }
        sizing.has_more
    };
    let standard = policy::standard();
    let waiting = [(0, 0, 0), (0, 1, 0), (0, 3, 1), (2, 3, 0), (4, 0, 0), (6, 24, 1)];
    for (avx, others, expected) in waiting {
        assert_eq!(has_more(&standard, avx, others), expected, "{avx} {others}");
    }
    // How many there are is for the operator to know, and what for.
    let fixed = policy_with(|policy| policy.sizing = SIZING_STATIC.into());
    assert_eq!(has_more(&fixed, 0, 3), 0);
}

/// In the first half second some AVX tasks count for others.
#[test]
fn how_it_began_does_not_count_for_long() {
    let policy = policy::standard();
    let mut sizing = avx_sizing { nr_avx: 8, ..avx_sizing::default() };
    let mut share = |looks, others| share_after(&mut sizing, &policy, (looks, LOOK), others);
    // 20 of 60, and then of 52, on 20 CPUs.
    let (first, then) = (share(50, 28), share(150, 20));
    assert!((first - 6.67).abs() < 0.02 && (then - 7.69).abs() < 0.1, "{first} {then}");
}

/// Ten CPUs were its share; three are after a second, six are not so sure yet, and nine are not
/// after three seconds.
#[test]
fn a_share_is_followed_the_sooner_the_farther_it_is() {
    let policy = policy::standard();
    let after = |looks, others| {
        let mut sizing = avx_sizing { nr_avx: 8, ..avx_sizing::default() };
        let before = share_after(&mut sizing, &policy, (6000, LOOK), 8);
        assert!((before - 10.0).abs() < 0.01, "{before}");
        share_after(&mut sizing, &policy, (looks, LOOK), others)
    };
    let (far, near, as_before) = (after(115, 100), after(115, 30), after(300, 13));
    assert!(far < 4.0 && near > 9.0 && as_before > 9.5, "{far} {near} {as_before}");
}

/// However long it was otherwise before.
#[test]
fn who_comes_has_a_share_within_a_second() {
    let mut machine = nothing_but_avx_work();
    machine.run(60 * SECOND);
    assert_eq!(machine.sizing.nr_avx, 20);
    machine.shape.other = avx_waiting { nr: 40, weight: 4000 };
    machine.run(900 * MS);
    assert!(machine.sizing.nr_avx <= 8, "{:?}", machine.sizing);
}

/// Nobody is to wait until an average has come there, nor has it to be asked for again.
#[test]
fn what_others_leave_is_taken_at_once_and_kept() {
    let mut machine = nothing_but_avx_work();
    machine.shape.other = avx_waiting { nr: 40, weight: 4000 };
    machine.run(60 * SECOND);
    let patience = machine.sizing.patience;
    machine.shape.other = avx_waiting::default();
    let mut before = machine.sizing.nr_avx;
    for look in 0..500 {
        machine.run(LOOK);
        assert!(machine.sizing.nr_avx >= before, "{look}: {:?}", machine.sizing);
        before = machine.sizing.nr_avx;
        assert!(look < 30 || before == 20, "{:?}", machine.sizing);
    }
    assert_eq!(machine.sizing.patience, patience);
}

/// However long it takes to give back what nobody else wants.
#[test]
fn who_comes_does_not_wait_for_patience() {
    let mut machine = nothing_but_avx_work();
    machine.run(SECOND);
    machine.sizing.patience = 30 * SECOND;
    machine.sizing.learnt_at = machine.sizing.now;
    machine.shape.other = avx_waiting { nr: 40, weight: 4000 };
    machine.run(2 * SECOND);
    assert!(machine.sizing.nr_avx <= 8, "{:?}", machine.sizing);
    assert!(machine.sizing.patience >= 15 * SECOND, "{:?}", machine.sizing);
}

#[test]
fn what_others_have_for_a_while_is_no_regret() {
    let mut machine = nothing_but_avx_work();
    machine.run(2 * SECOND);
    let patience = machine.sizing.patience;
    for _ in 0..8 {
        machine.shape.other = avx_waiting { nr: 40, weight: 4000 };
        machine.run(1500 * MS);
        assert!(machine.sizing.nr_avx <= 8, "{:?}", machine.sizing);
        machine.shape.other = avx_waiting::default();
        machine.run(SECOND);
        assert_eq!((machine.sizing.nr_avx, machine.sizing.patience), (20, patience));
    }
}

/// Of so many looks each counts for less than can be told.
#[test]
fn a_share_is_followed_over_any_window() {
    for (window_ns, look) in [(50 * MS, LOOK), (SECOND, LOOK), (50 * MS, MS)] {
        let policy = policy_with(|policy| policy.window_ns = window_ns);
        let mut sizing = avx_sizing { nr_avx: 8, ..avx_sizing::default() };
        let mut share = |seconds, others| {
            let looks = seconds * SECOND / look;
            share_after(&mut sizing, &policy, (looks, look), others)
        };
        // 20 of 60, and then of 52, on 20 CPUs.
        let shares = [share(100, 28), share(200, 20)];
        assert!((shares[0] - 6.67).abs() < 0.1 && (shares[1] - 7.69).abs() < 0.1, "{shares:?}");
    }
}

#[test]
fn nobody_is_an_avx_core_where_there_is_no_such_work() {
    let mut machine = Machine::new(policy::standard(), 16, 2);
    machine.threads(40, SCALAR, 0);
    machine.threads.iter_mut().for_each(|thread| thread.left = u64::MAX);
    assert_eq!(machine.run(SECOND).avx_cpu_ns, 0);
}

#[test]
fn the_first_need_is_met_before_the_next_look() {
    let mut machine = Machine::new(policy::standard(), 16, 2);
    machine.threads(1, STEP, STEP);
    machine.run(3 * STEP);
    assert_eq!(machine.sizing.nr_avx, 2);
    assert_eq!(machine.result.wait_ns, 0);
}

#[test]
fn a_ramp_is_followed_up_and_down() {
    let mut machine = Machine::new(policy::standard(), 16, 1);
    let up = 0..=80;
    let down = (0..80).rev();
    let mut changes = 0;
    for count in up.chain(down) {
        machine.threads(count, SCALAR, WIDE);
        changes += machine.run(50 * MS).changes;
        let needed = count as f64 / 10.0;
        let size = f64::from(machine.sizing.nr_avx);
        // Half used at least, but for what the dwell time holds back.
        assert!(size >= needed.floor() && size <= 2.0 * needed + 5.0, "{size} for {needed}");
    }
    assert!(changes <= 30, "{changes} changes");
}

#[test]
fn full_cores_are_enough_while_nobody_waits() {
    let mut machine = Machine::new(policy::standard(), 16, 1);
    machine.threads(3, STEP, 30 * STEP);
    machine.run(SECOND);
    let later = machine.run(SECOND);
    assert!(later.changes == 0 && machine.sizing.nr_avx == 3, "{later:?}");
}

#[test]
fn rare_bursts_do_not_move_the_set() {
    let mut machine = Machine::new(policy::standard(), 16, 1);
    machine.threads(8, 99 * MS, MS);
    machine.threads.iter_mut().for_each(|thread| thread.left = 10 * MS);
    machine.run(SECOND);
    let later = machine.run(5 * SECOND);
    assert!(later.changes == 0 && later.largest == 1, "{later:?}");
}

/// Another number of threads every 30 ms.
fn noise(policy: avx_policy, granule: u32) -> Result {
    let mut machine = Machine::new(policy, 16, granule);
    let mut random = 1u64;
    let mut total = Result::default();
    for _ in 0..300 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        machine.threads(10 + random as usize % 30, SCALAR, WIDE);
        let part = machine.run(30 * MS);
        total.avx_cpu_ns += part.avx_cpu_ns;
        total.wait_ns += part.wait_ns;
        total.bursts += part.bursts;
        total.changes += part.changes;
    }
    total
}

#[test]
fn noise_changes_little() {
    for granule in [1, 2] {
        let found = noise(policy::standard(), granule);
        assert!(found.changes <= 2 * 9, "{granule}: {found:?}");
        assert!(found.mean_wait_us() < 200.0, "{granule}: {found:?}");
    }
}

/// Whatever the weight of the newest value.
#[test]
fn the_published_method_changes_more_or_makes_work_wait() {
    let ours = noise(policy::standard(), 1);
    for alpha in [2, 8, 32, 128, 512] {
        let theirs = noise(by_share(alpha), 1);
        assert!(
            theirs.changes > 5 * ours.changes || theirs.mean_wait_us() > 5.0 * ours.mean_wait_us(),
            "{alpha}: {theirs:?}, ours {ours:?}"
        );
    }
}

/// Where CPUs idle, the share of the time is not the share of the machine.
#[test]
fn the_published_method_takes_more_cores_of_a_machine_that_is_not_full() {
    let run = |policy| {
        let mut machine = Machine::new(policy, 64, 1);
        machine.threads(8, 10 * STEP, 10 * STEP);
        machine.run(SECOND);
        machine.run(SECOND)
    };
    let (ours, theirs) = (run(policy::standard()), run(by_share(32)));
    assert!(ours.avx_cpu_ns * 3 < theirs.avx_cpu_ns, "{ours:?} {theirs:?}");
    assert!(ours.mean_wait_us() < 200.0, "{ours:?}");
}

/// So many threads with nothing but wide work and so many without any, on so many cores of this
/// kind: how large the set is after two seconds, and how often it changes in the next ten.
fn beside(policy: avx_policy, granule: u32, wide: usize, scalar: usize) -> (u32, u32) {
    const FOREVER: u64 = 100 * SECOND;
    let mut machine = Machine::new(policy, 20, granule);
    machine.threads(scalar, FOREVER, STEP);
    machine.threads(scalar + wide, STEP, FOREVER);
    machine.run(2 * SECOND);
    let size = machine.sizing.nr_avx;
    (size, machine.run(10 * SECOND).changes)
}

#[test]
fn avx_work_has_cores_to_itself_while_there_are_some() {
    let standard = || policy::standard();
    let sizes = [1, 2, 3, 5, 9, 10, 15, 20].map(|wide| beside(standard(), 2, wide, 0));
    assert_eq!(sizes, [2, 4, 6, 10, 18, 20, 20, 20].map(|size| (size, 0)));
    // While there is a core for everybody that does not depend on others, and then it is less.
    let sizes = [0, 6, 10, 14, 16].map(|scalar| beside(standard(), 2, 4, scalar));
    assert_eq!(sizes, [8, 8, 6, 4, 4].map(|size| (size, 0)));
    let without_siblings = [1, 3, 8].map(|wide| beside(standard(), 1, wide, 0));
    assert_eq!(without_siblings, [1, 3, 8].map(|size| (size, 0)));
}

#[test]
fn avx_work_waits_for_cores_of_its_own_as_for_others() {
    let patient = policy_with(|policy| policy.grow_dwell_ns = 10 * SECOND);
    assert_eq!(beside(patient, 2, 4, 0).0, 4);
}

#[test]
fn cores_that_avx_work_has_to_itself_are_not_given_back() {
    let fuller = policy_with(|policy| {
        policy.grow_fill = 1000;
        policy.shrink_fill = 900;
    });
    assert_eq!(beside(fuller, 2, 3, 2), (6, 0));
}

/// Five CPUs of AVX work were too few to be apart while others took the rest, and others are gone.
#[test]
fn whoever_needs_less_is_given_no_more() {
    let policy = policy_with(|policy| policy.shrink_fill = 900);
    let busy = |cpus: u64| cpus << 20;
    let mut sizing = avx_sizing {
        now: 100 * SECOND,
        nr_avx: 8,
        peak: busy(5),
        spare_ns: SECOND,
        avx: busy(1),
        total: busy(6),
        fair: busy(20),
        recent: busy(20),
        fair_for: 100 * SECOND,
        ..avx_sizing::default()
    };
    let demand = avx_demand {
        elapsed_ns: LOOK,
        total_ns: 6 * LOOK,
        avx_ns: LOOK,
        nr_cpus: 20,
        granule: 2,
        ..avx_demand::default()
    };
    assert_eq!(size_avx_set(&mut sizing, &policy, &demand), 8);
    assert_eq!(sizing.spare_ns, 0, "it was not decided");
}

#[test]
fn where_nobody_is_served_there_are_no_avx_cores() {
    for sizing in [SIZING_STATIC, SIZING_SHARE, SIZING_CONTROLLER] {
        let nobody = SERVED_NOBODY.into();
        let policy = policy_with(|it| (it.sizing, it.avx_cores_for) = (sizing.into(), nobody));
        let mut machine = Machine::new(policy, 40, 1);
        machine.threads(40, STEP, STEP);
        machine.run(SECOND);
        assert_eq!(machine.sizing.nr_avx, 0);
    }
}

#[test]
fn a_fixed_number_stays_that() {
    let policy = policy_with(|policy| {
        policy.sizing = SIZING_STATIC.into();
        policy.avx_cpus = 3;
    });
    let mut machine = Machine::new(policy, 2, 1);
    machine.run(LOOK);
    assert_eq!(machine.sizing.nr_avx, 2);

    let mut machine = Machine::new(policy, 16, 1);
    machine.threads(40, SCALAR, WIDE);
    machine.run(SECOND);
    assert_eq!((machine.sizing.nr_avx, machine.result.largest), (3, 3));
}

#[test]
fn the_published_method_gives_the_share_of_the_time() {
    let policy = by_share(1);
    let demand = avx_demand {
        elapsed_ns: LOOK,
        total_ns: 10 * LOOK,
        avx_ns: LOOK,
        nr_cpus: 40,
        granule: 1,
        ..avx_demand::default()
    };
    let mut sizing = avx_sizing::default();
    for _ in 0..20_000 {
        size_avx_set(&mut sizing, &policy, &demand);
    }
    assert_eq!(sizing.nr_avx, 4);
    assert_eq!(
        size_avx_set(
            &mut avx_sizing::default(),
            &policy,
            &avx_demand { total_ns: 0, avx_ns: 0, ..demand }
        ),
        0
    );
}

#[test]
fn whole_cores_are_taken_and_no_more_cpus_than_there_are() {
    let mut machine = Machine::new(policy::standard(), 7, 2);
    machine.threads(100, STEP, 100 * STEP);
    for _ in 0..100 {
        machine.run(LOOK);
        let size = machine.sizing.nr_avx;
        assert!(size.is_multiple_of(2) || size == 7, "{size}");
    }
    assert_eq!(machine.sizing.nr_avx, 7, "{:?}", machine.sizing);
}

#[test]
fn each_change_of_a_role_has_its_reason() {
    let (avx, scalar) = (ROLE_AVX, ROLE_SCALAR);
    let by = |sizing: u32| avx_policy { sizing: sizing.into(), ..policy::standard() };
    let list = by(SIZING_LIST);
    let number = by(SIZING_STATIC);
    assert_eq!(role_cause(&list, avx, 0, 2), ROLE_FOR_LIST);
    assert_eq!(role_cause(&number, scalar, 3, 2), ROLE_FOR_NUMBER);
    for sizing in [SIZING_SHARE, SIZING_CONTROLLER] {
        let cause = |role, nr_avx| role_cause(&by(sizing), role, nr_avx, 2);
        assert_eq!(
            [cause(avx, 0), cause(avx, 1)],
            [ROLE_FIRST_NEED; 2],
            "both CPUs of the first core"
        );
        assert_eq!(cause(avx, 2), ROLE_GROWTH);
        assert_eq!(cause(scalar, 1), ROLE_SHRINKING);
    }
}
