// SPDX-License-Identifier: GPL-2.0-only
//! The number of AVX cores, against programs that want them.

use super::native::{role_cause, size_avx_set};
use crate::agent::policy;
use crate::bpf::intf::{
    ROLE_AVX, ROLE_FIRST_NEED, ROLE_FOR_LIST, ROLE_FOR_NUMBER, ROLE_GROWTH, ROLE_SCALAR,
    ROLE_SHRINKING, SERVED_NOBODY, SIZING_CONTROLLER, SIZING_LIST, SIZING_SHARE, SIZING_STATIC,
    avx_demand, avx_policy, avx_sizing, avx_waiting,
};

use super::sizing_machine_test::{
    LOOK, MS, Machine, Result, SCALAR, SECOND, STEP, WIDE, by_share, policy_with,
};

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

#[test]
fn where_nobody_is_served_there_are_no_avx_cores() {
    for sizing in [SIZING_STATIC, SIZING_SHARE, SIZING_CONTROLLER] {
        let nobody = SERVED_NOBODY.into();
        let policy = policy_with(|it| (it.sizing, it.avx_cores_for) = (sizing.into(), nobody));
        let mut machine = Machine::new(policy, 40, 1);
        machine.threads(40, STEP, STEP);
        assert_eq!(machine.run(SECOND).largest, 0);
    }
}

/// As when two policies are tried by turns.
#[test]
fn who_is_served_again_has_as_many_avx_cores_as_before() {
    let mut machine = Machine::new(policy::standard(), 40, 1);
    machine.threads(40, STEP, STEP);
    machine.run(SECOND);
    let before = machine.size;
    assert!(before > 2, "{before}");
    machine.policy.avx_cores_for = SERVED_NOBODY.into();
    machine.run(SECOND / 10);
    assert_eq!(machine.size, 0);
    machine.policy = policy::standard();
    machine.run(LOOK);
    assert!(machine.size.abs_diff(before) <= 1, "{} and {before}", machine.size);
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
