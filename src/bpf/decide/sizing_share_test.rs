// SPDX-License-Identifier: GPL-2.0-only
//! What AVX work may have where CPUs are too few for all.

use super::native::{fair_cpus, size_avx_set};
use crate::agent::policy;
use crate::bpf::intf::{SIZING_STATIC, avx_claim, avx_demand, avx_policy, avx_sizing, avx_waiting};

use super::sizing_machine_test::{LOOK, MS, Machine, SCALAR, SECOND, STEP, WIDE, policy_with};

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
