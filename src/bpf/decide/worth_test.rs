// SPDX-License-Identifier: GPL-2.0-only
//! For which programs AVX cores pay.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::mem::transmute;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use super::native::{is_left_alone, judge_worth, spared_asleep, weigh_phase, weigh_wait};
use crate::agent::policy;
use crate::bpf::intf::{JUDGED_ANEW, JUDGED_AS_BEFORE, JUDGED_TOO_DEAR, avx_policy, avx_worth};

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const SECOND: u64 = 1000 * MS;
const LONGEST_PAUSE: u64 = 64 * SECOND;

/// A program that has a phase each `period`, of which it spends `gap` without wide vectors.
#[derive(Clone, Copy)]
struct Program {
    period: u64,
    gap: u64,
    /// What it waits beside idle CPUs, each time.
    waits: u64,
}

/// What part of the time it was left alone, and how often that was decided.
fn run(policy: &avx_policy, program: Program, ns: u64) -> (f64, u64) {
    let mut worth = avx_worth::default();
    let (mut alone, mut decisions) = (0, 0);
    for now in (SECOND..SECOND + ns).step_by(program.period as usize) {
        let was_alone = is_left_alone(&worth, now);
        if !was_alone {
            weigh_phase(&mut worth, policy, program.gap, true);
            weigh_wait(&mut worth, policy, program.waits, 0);
        }
        judge_worth(&mut worth, policy, now);
        let is_alone = is_left_alone(&worth, now);
        alone += if is_alone { program.period } else { 0 };
        decisions += u64::from(is_alone && !was_alone);
    }
    (alone as f64 / ns as f64, decisions)
}

const SERVER: Program = Program { period: 2 * MS, gap: 1900 * US, waits: 0 };
const THROUGH_AND_THROUGH: Program = Program { period: 100 * US, gap: 10 * US, waits: 0 };
const ALONE_ON_ITS_MACHINE: Program = Program { waits: 500 * US, ..SERVER };

#[test]
fn whoever_is_rescued_stays() {
    assert_eq!(run(&policy::on_cpu(&policy::standard(), 256), SERVER, 100 * SECOND), (0.0, 0));
}

#[test]
fn whoever_only_pays_is_left_alone_and_tried_again() {
    for program in [THROUGH_AND_THROUGH, ALONE_ON_ITS_MACHINE] {
        let (alone, decisions) =
            run(&policy::on_cpu(&policy::standard(), 256), program, 1000 * SECOND);
        // 2, 4, ... 64 seconds, each after one in which it is tried.
        assert!(alone > 0.96, "alone for {alone} of the time");
        let longest = 1000 * SECOND / (LONGEST_PAUSE + SECOND);
        assert!((longest..longest + 8).contains(&decisions), "{decisions} decisions");
    }
}

#[test]
fn where_nothing_is_lost_nothing_is_decided() {
    let seldom = Program { period: 50 * MS, gap: 0, waits: 0 };
    assert_eq!(run(&policy::on_cpu(&policy::standard(), 256), seldom, 100 * SECOND), (0.0, 0));
}

/// Half of what is worth a decision, second for second, is never so much.
#[test]
fn what_is_lost_is_compared_with_the_time_that_it_took() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    let mut worth = avx_worth::default();
    for now in (SECOND..60 * SECOND).step_by(50 * MS as usize) {
        weigh_wait(&mut worth, &policy, 50 * MS / 512, 0);
        assert_eq!(judge_worth(&mut worth, &policy, now), JUDGED_AS_BEFORE, "at {now}");
    }
}

/// It waits as a rule for a part of what it earns, but in some seconds for twice as long as that.
#[test]
fn a_bad_second_or_two_are_not_enough() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    for (bad_seconds, is_alone) in [(1, false), (2, false), (8, true)] {
        let mut worth = avx_worth::default();
        for now in (SECOND..20 * SECOND).step_by(2 * MS as usize) {
            let is_bad = (10..10 + bad_seconds).contains(&(now / SECOND));
            weigh_phase(&mut worth, &policy, SERVER.gap, false);
            let earned = 670 * US / 4;
            weigh_wait(&mut worth, &policy, if is_bad { 2 * earned } else { earned / 4 }, 0);
            judge_worth(&mut worth, &policy, now);
            if is_left_alone(&worth, now) {
                break;
            }
        }
        assert_eq!(worth.alone_until > 0, is_alone, "{bad_seconds}");
    }
}

#[test]
fn it_can_be_switched_off_at_once() {
    let on = policy::on_cpu(&policy::standard(), 256);
    let off = avx_policy { only_where_it_pays: 0, ..on };
    assert_eq!(run(&off, THROUGH_AND_THROUGH, 100 * SECOND), (0.0, 0));

    let mut worth = avx_worth { alone_until: 9 * SECOND, ..avx_worth::default() };
    judge_worth(&mut worth, &off, SECOND);
    assert!(!is_left_alone(&worth, SECOND));
}

/// A program that has AVX cores whole, and no phases: it pays for itself while others run
/// elsewhere when it takes turns.
#[test]
fn whoever_takes_turns_with_others_stays() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    for (spared, is_alone) in [(0, true), (670 * US, false)] {
        let mut worth = avx_worth::default();
        for now in (SECOND..3 * SECOND).step_by(3 * MS as usize) {
            weigh_wait(&mut worth, &policy, 50 * US, spared);
            judge_worth(&mut worth, &policy, now);
        }
        assert_eq!(is_left_alone(&worth, 3 * SECOND), is_alone, "{spared}");
    }
}

/// Up to the hold time, and as far as there is anybody to run at the low clock.
#[test]
fn who_sleeps_spares_others_if_there_are_any() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    let spared = |slept, share, cpus| spared_asleep(&policy, slept, share, cpus) / US;
    assert_eq!(spared(10 * MS, 1024, 1), 670);
    assert_eq!(spared(10 * MS, 256, 2), 335);
    assert_eq!(spared(100 * US, 1024, 2), 200);
    assert_eq!(spared(10 * MS, 0, 2), 0);
}

/// One that changes its ways is found out with the next try.
#[test]
fn changed_ways_are_found_out() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    let mut worth = avx_worth { window_at: SECOND, spent_ns: SECOND, ..avx_worth::default() };
    judge_worth(&mut worth, &policy, 2 * SECOND);
    assert!(is_left_alone(&worth, 3 * SECOND) && !is_left_alone(&worth, 4 * SECOND));

    for now in (4 * SECOND..10 * SECOND).step_by(2 * MS as usize) {
        weigh_phase(&mut worth, &policy, SERVER.gap, true);
        judge_worth(&mut worth, &policy, now);
        assert!(!is_left_alone(&worth, now), "at {now}");
    }
    assert_eq!(worth.pause_ns, 0);
}

/// With the first try it may take a second to get there, and a little is no hurry.
#[test]
fn who_still_costs_twice_what_it_earns_is_soon_left_alone() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    for (pause_ns, waits, until) in [
        (2 * SECOND, 400 * US, 1325 * MS),
        (2 * SECOND, 250 * US, 2200 * MS),
        (0, 400 * US, 2200 * MS),
    ] {
        let mut worth = avx_worth { alone_until: SECOND, pause_ns, ..avx_worth::default() };
        let is_alone = |now: &u64| {
            weigh_phase(&mut worth, &policy, SERVER.gap, true);
            weigh_wait(&mut worth, &policy, waits, 0);
            judge_worth(&mut worth, &policy, *now);
            is_left_alone(&worth, *now)
        };
        let found = (SECOND..4 * SECOND).step_by(5 * MS as usize).find(is_alone);
        assert_eq!(found, Some(until), "{pause_ns} {waits}");
    }
}

/// A program that waits beside idle CPUs only until there are AVX cores enough.
#[test]
fn what_it_takes_to_get_there_is_not_the_price() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    for (until, is_alone) in [(100 * MS, false), (900 * MS, true)] {
        let mut worth = avx_worth::default();
        for now in (SECOND..3 * SECOND).step_by(10 * MS as usize) {
            let wait = if now < SECOND + until { 9 * MS } else { 0 };
            weigh_wait(&mut worth, &policy, wait, 0);
            judge_worth(&mut worth, &policy, now);
        }
        assert_eq!(is_left_alone(&worth, 3 * SECOND), is_alone, "{until}");
    }
}

/// Each decision is told once: what was decided before is none.
#[test]
fn a_pause_begins_once_and_ends_once() {
    let policy = policy::on_cpu(&policy::standard(), 256);
    let mut worth = avx_worth { window_at: SECOND, spent_ns: SECOND, ..avx_worth::default() };
    let mut judged: Vec<u32> = Vec::new();
    for now in (2 * SECOND..5 * SECOND).step_by(100 * MS as usize) {
        judged.push(judge_worth(&mut worth, &policy, now));
    }
    judged.retain(|it| *it != JUDGED_AS_BEFORE);
    assert_eq!(judged, [JUDGED_TOO_DEAR, JUDGED_ANEW]);

    // The first look at a program ends no pause, nor does one after it has slept.
    let mut worth = avx_worth::default();
    let judged = [SECOND, 2 * SECOND, 9 * SECOND].map(|now| judge_worth(&mut worth, &policy, now));
    assert_eq!(judged, [JUDGED_AS_BEFORE; 3]);

    let off = avx_policy { only_where_it_pays: 0, ..policy };
    let mut worth = avx_worth { alone_until: 9 * SECOND, ..avx_worth::default() };
    let judged = [0, 1].map(|n| judge_worth(&mut worth, &off, SECOND + n));
    assert_eq!(judged, [JUDGED_ANEW, JUDGED_AS_BEFORE]);
}

/// Two threads of a program are looked at by one tick, each time on two CPUs.
#[test]
fn a_program_is_judged_by_one_of_its_threads() {
    struct Shared(UnsafeCell<avx_worth>);
    // SAFETY: only functions get at it that expect others to do so.
    unsafe impl Sync for Shared {}

    // SAFETY: C takes a reference for what it is to others, a pointer.
    let judge: unsafe extern "C" fn(*mut avx_worth, *const avx_policy, u64) -> u32 =
        unsafe { transmute(judge_worth as extern "C" fn(&mut avx_worth, &avx_policy, u64) -> u32) };
    let policy = policy::on_cpu(&policy::standard(), 256);
    let (shared, arrived, begun) =
        (Shared(UnsafeCell::default()), AtomicU64::new(0), AtomicU64::new(0));
    let (shared, policy) = (&shared, &policy);
    // Always too dear, and always over when it is looked at the next time.
    let round = |n: u64| -> u64 {
        let worth = shared.0.get();
        if arrived.fetch_add(1, SeqCst).is_multiple_of(2) {
            while begun.load(SeqCst) < n {
                spin_loop();
            }
        } else {
            // SAFETY: the other thread waits for this one.
            unsafe {
                *worth = avx_worth { window_at: SECOND, spent_ns: SECOND, ..avx_worth::default() }
            };
            begun.store(n, SeqCst);
        }
        // SAFETY: see above.
        u64::from(unsafe { judge(worth, policy, 2 * SECOND) } == JUDGED_TOO_DEAR)
    };
    const ROUNDS: u64 = 2_000;
    let rounds = || (1..=ROUNDS).map(round).sum::<u64>();
    let decisions = thread::scope(|scope| {
        let other = scope.spawn(rounds);
        rounds() + other.join().unwrap()
    });
    assert_eq!(decisions, ROUNDS);
}
