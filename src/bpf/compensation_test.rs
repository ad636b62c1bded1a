// SPDX-License-Identifier: GPL-2.0-only
//! What a low clock costs those who did not ask for it.

use proptest::prelude::*;

use super::intf::{avx_clock_step, avx_clocks, avx_habit};
use crate::sim::model::{Model, UNKNOWN_CLOCKS};

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const HOLD: u64 = 670 * US;

/// As compensation.bpf.h has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    began: u64,
    until: u64,
    task: u64,
}

#[repr(C)]
#[derive(Debug, PartialEq)]
struct Needs {
    wide: u32,
    narrow: u32,
}

mod native {
    use super::{Hold, Needs, avx_clock_step, avx_clocks, avx_habit};

    // SAFETY: the signatures repeat those of native.c, which build.rs links in.
    unsafe extern "C" {
        pub safe fn avx_hold_goes_on(hold: &mut Hold, task: u64, now: u64);
        pub safe fn avx_hold_runs_out(hold: &mut Hold, now: u64, hold_ns: u64);
        pub safe fn avx_suffered(
            own: &Hold,
            beside: Option<&Hold>,
            task: u64,
            from: u64,
            to: u64,
        ) -> u64;
        pub safe fn avx_lost_to_clocks(
            step: &avx_clock_step,
            at_licence_1: u64,
            at_licence_2: u64,
            needs_licence_1: bool,
        ) -> u64;
        pub safe fn avx_given_back(
            step: &avx_clock_step,
            lost_ns: u64,
            seen_ns: u64,
            ran_ns: u64,
        ) -> u64;
        pub safe fn avx_clocks_step(
            clocks: &avx_clocks,
            active_cores: u64,
            licence_drop: u64,
        ) -> avx_clock_step;
        pub safe fn avx_learn_from_code(habit: &mut avx_habit, code: &[u8; 16]) -> Needs;
    }
}
use native::*;

/// All cores of a Gold 6130 are active: 2.8, 2.3 and 1.9 GHz.
fn all_active() -> avx_clock_step {
    avx_clocks_step(&Model::named("gold-6130").unwrap().known_clocks(), 16, 0)
}

fn step(lost: [u64; 3]) -> avx_clock_step {
    avx_clock_step { up_to_cores: 1, lost }
}

/// Goes on within these times, and runs out after the last one.
fn hold(task: u64, from: u64, to: u64) -> Hold {
    let mut hold = Hold::default();
    avx_hold_goes_on(&mut hold, task, from);
    avx_hold_runs_out(&mut hold, to, HOLD);
    hold
}

#[test]
fn who_comes_after_suffers_until_the_hold_ends_and_who_began_it_does_not() {
    let mut own = Hold::default();
    avx_hold_goes_on(&mut own, 1, 10 * MS);
    assert_eq!(avx_suffered(&own, None, 1, 10 * MS, 12 * MS), 0);
    avx_hold_runs_out(&mut own, 12 * MS, HOLD);
    let suffered = |task, from, to| avx_suffered(&own, None, task, from, to);
    assert_eq!(suffered(2, 12 * MS, 15 * MS), HOLD);
    assert_eq!(suffered(2, 12 * MS, 12 * MS + 100), 100);
    assert_eq!(suffered(1, 12 * MS, 15 * MS), 0, "it is its own");
    assert_eq!(suffered(2, 15 * MS, 16 * MS), 0, "it is over");
    assert_eq!(suffered(2, 12 * MS, 12 * MS), 0, "no time has passed");
    assert_eq!(suffered(2, 12 * MS, 11 * MS), 0, "clocks differ");
}

#[test]
fn time_beside_a_sibling_is_suffered_once() {
    let nothing = Hold::default();
    let beside = hold(3, 5 * MS + 200 * US, 5 * MS + 300 * US);
    let suffered = |own, task| avx_suffered(own, Some(&beside), task, 5 * MS, 6 * MS);
    assert_eq!(suffered(&nothing, 2), 100 * US + HOLD);
    // It is low up to 5.47 ms anyway, and then because of the sibling.
    let own = hold(1, 4 * MS, 4 * MS + 800 * US);
    assert_eq!(suffered(&own, 2), 970 * US);
    assert_eq!(suffered(&own, 1), 500 * US, "and not before its own hold ends");
    let for_all_of_it = hold(1, 4 * MS, 7 * MS);
    assert_eq!(suffered(&for_all_of_it, 2), MS);
    assert_eq!(suffered(&for_all_of_it, 1), 0);
    let later = hold(3, 7 * MS, 8 * MS);
    assert_eq!(avx_suffered(&nothing, Some(&later), 2, 5 * MS, 6 * MS), 0);
}

#[test]
fn a_hold_that_did_not_end_goes_on() {
    let mut it = hold(1, 5 * MS, 6 * MS);
    avx_hold_goes_on(&mut it, 2, 6 * MS + HOLD / 2);
    assert_eq!((it.began, it.until, it.task), (5 * MS, u64::MAX, 2));
    avx_hold_runs_out(&mut it, 8 * MS, HOLD);
    avx_hold_runs_out(&mut it, 9 * MS, HOLD);
    assert_eq!(it.until, 8 * MS + HOLD);
    avx_hold_goes_on(&mut it, 1, 9 * MS);
    assert_eq!((it.began, it.until, it.task), (9 * MS, u64::MAX, 1));
}

#[test]
fn what_is_lost_is_what_the_clock_is_lower() {
    let step = all_active();
    let lost = |one, two, needs| avx_lost_to_clocks(&step, one, two, needs) as f64 / MS as f64;
    let about = |found: f64, expected: f64| assert!((found - expected).abs() < 0.01, "{found}");
    about(lost(10 * MS, 0, false), 10.0 * (1.0 - 2.3 / 2.8));
    about(lost(10 * MS, 10 * MS, false), 10.0 * (1.0 - 1.9 / 2.8));
    // The level changes within the time.
    about(lost(10 * MS, 4 * MS, false), 10.0 * (1.0 - 2.3 / 2.8) + 4.0 * (2.3 - 1.9) / 2.8);
    about(lost(0, 10 * MS, true), 10.0 * (1.0 - 1.9 / 2.3));
    about(lost(10 * MS, 10 * MS, true), 10.0 * (1.0 - 1.9 / 2.3));
}

#[test]
fn odd_clocks_do_no_harm() {
    let day = 86_400_000 * MS;
    assert_eq!(avx_lost_to_clocks(&step([0, 1024, 1024]), day, day, false), day);
    assert_eq!(avx_lost_to_clocks(&step([0, 1024, 1024]), day, day, true), 0);
    assert_eq!(avx_lost_to_clocks(&step([0, 500, 300]), day, day, false), day * 500 / 1024);
    assert_eq!(avx_given_back(&step([0, 0, 5000]), MS, MS, day), day);
    assert_eq!(avx_given_back(&step([0, 0, 0]), MS, MS, day), 0);
    assert_eq!(avx_given_back(&step([0, 512, 512]), 0, 0, day), 0);
}

#[test]
fn the_step_is_that_of_the_active_cores() {
    let known = Model::named("gold-6130").unwrap().known_clocks();
    let two = |cores| avx_clocks_step(&known, cores, 0).lost[2];
    assert_eq!([two(0), two(2)], [1024 - 1024 * 3500 / 3700; 2]);
    assert_eq!([two(13), two(99)], [1024 - 1024 * 1900 / 2800; 2]);
    assert_eq!(avx_clocks_step(&UNKNOWN_CLOCKS, 5, 256).lost, [0, 128, 256]);
    let odd = avx_clocks { nr_steps: 1000, ..known };
    assert_eq!(avx_clocks_step(&odd, u64::MAX, 0).up_to_cores, odd.steps[7].up_to_cores);
}

const ADD: [u8; 16] = *b"\x48\x01\xd8\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VMULPD_YMM: [u8; 16] = *b"\xc5\xf5\x59\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VPADDQ_YMM: [u8; 16] = *b"\xc5\xf5\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VMULPD_ZMM: [u8; 16] = *b"\x62\xf1\xf5\x48\x59\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VPADDQ_ZMM: [u8; 16] = *b"\x62\xf1\xf5\x48\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";

#[test]
fn samples_tell_which_licence_code_needs() {
    // SAFETY: the type consists of integers and flags, for which all zeroes is valid.
    let mut habit: avx_habit = unsafe { std::mem::zeroed() };
    let mut sample =
        |code, times| (0..times).map(|_| avx_learn_from_code(&mut habit, code)).last().unwrap();
    assert_eq!(sample(&ADD, 100), Needs { wide: 2, narrow: 0 });
    // What every program does now and then with 256 bits costs nothing, however often.
    assert_eq!(sample(&VPADDQ_YMM, 1000), Needs { wide: 2, narrow: 0 });
    assert_eq!(sample(&VMULPD_YMM, 1), Needs { wide: 2, narrow: 1 });
    assert_eq!(sample(&ADD, 100), Needs { wide: 2, narrow: 0 });
    assert_eq!(sample(&VPADDQ_ZMM, 100), Needs { wide: 1, narrow: 0 });
    assert_eq!(sample(&VMULPD_ZMM, 1), Needs { wide: 2, narrow: 0 });
    assert_eq!(sample(&ADD, 1000), Needs { wide: 2, narrow: 0 }, "that tells nothing of 512 bits");
}

proptest! {
    /// A core on the CPUs of which tasks do wide work or do not, in turns: what each look back says
    /// is what one finds who looks at each microsecond.
    #[test]
    fn looks_back_say_what_each_moment_was(
        turns in prop::collection::vec((1..4u64, any::<bool>(), any::<bool>(), 1..2000u64), 1..40),
    ) {
        let (mut own, mut beside) = (Hold::default(), Hold::default());
        let (mut now, mut until, mut by, mut beside_until) = (10 * MS, 0, 0, 0);
        for (task, is_wide, is_wide_beside, length) in turns {
            let end = now + length * US;
            for (hold, wide, task) in [(&mut own, is_wide, task), (&mut beside, is_wide_beside, 9)] {
                if wide {
                    avx_hold_goes_on(hold, task, now);
                } else {
                    avx_hold_runs_out(hold, now, HOLD);
                }
            }
            if is_wide {
                (by, until) = (task, u64::MAX);
            } else if until == u64::MAX {
                until = now + HOLD;
            }
            if is_wide_beside {
                beside_until = u64::MAX;
            } else if beside_until == u64::MAX {
                beside_until = now + HOLD;
            }
            let suffers = |at: u64| {
                if at < until { by != task } else { at < beside_until }
            };
            let moments = (0..length).filter(|us| suffers(now + us * US)).count() as u64;
            prop_assert_eq!(avx_suffered(&own, Some(&beside), task, now, end), moments * US);
            now = end;
        }
    }

    /// What is charged for is never more than the time on the wall, nor below what it would be at
    /// the lowest clock.
    #[test]
    fn charged_time_has_a_ceiling_and_a_floor(
        one in 0..=1024u64,
        two in 0..=1024u64,
        at in [0..1u64 << 40, 0..1u64 << 40],
        seen in 0..1u64 << 40,
        ran in 0..1u64 << 40,
        needs in any::<bool>(),
    ) {
        let step = step([0, one, two]);
        let lost = avx_lost_to_clocks(&step, at[0], at[1], needs);
        let given = avx_given_back(&step, lost, seen, ran);
        prop_assert!(given <= ran);
        prop_assert!(ran - given >= ran - ran * two / 1024);
        // What a sibling writes meanwhile may look like anything.
        let torn = Hold { began: at[0], until: at[1], task: 1 };
        prop_assert!(avx_suffered(&torn, Some(&torn), 2, ran, ran + seen) <= seen);
    }
}
