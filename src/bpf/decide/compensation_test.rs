// SPDX-License-Identifier: GPL-2.0-only
//! What a low clock costs those who did not ask for it.

use proptest::prelude::*;

use super::native::{
    clock_step, decode_insn, evidence_of, given_back, hold_goes_on, hold_runs_out, ideal_clock,
    learn_from_clock, learn_from_code, learn_from_cycles, licence_needed, lost_to_clocks,
    relative_clock, step_number, suffered, suffered_by_count,
};
use crate::bpf::intf::{
    AVX_WHOLE, EVIDENCE_NONE, EVIDENCE_OPEN, EVIDENCE_WIDE, INSN_MAX, LICENCE_1, LICENCE_2,
    LICENCE_NONE, avx_clock_step, avx_clocks, avx_counted, avx_habit, avx_hold,
};
use crate::processors::{UNKNOWN_CLOCKS, known_clocks};
use crate::sim::model::Model;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const HOLD: u64 = 670 * US;

fn step_of(clocks: &avx_clocks, active_cores: u64, licence_drop: u64) -> avx_clock_step {
    clock_step(clocks, step_number(clocks, active_cores), licence_drop)
}

/// All cores of a Gold 6130 are active: 2.8, 2.3 and 1.9 GHz.
fn all_active() -> avx_clock_step {
    step_of(&known_clocks(&Model::named("gold-6130").unwrap().steps), 16, 0)
}

fn step(lost: [u64; 3]) -> avx_clock_step {
    avx_clock_step { up_to_cores: 1, lost }
}

/// Goes on within these times, and runs out after the last one.
fn hold(task: u64, from: u64, to: u64) -> avx_hold {
    let mut hold = avx_hold::default();
    hold_goes_on(&mut hold, task, from);
    hold_runs_out(&mut hold, to, HOLD);
    hold
}

#[test]
fn who_comes_after_suffers_until_the_hold_ends_and_who_began_it_does_not() {
    let mut own = avx_hold::default();
    hold_goes_on(&mut own, 1, 10 * MS);
    assert_eq!(suffered(&own, None, 1, 10 * MS, 12 * MS), 0);
    hold_runs_out(&mut own, 12 * MS, HOLD);
    let suffered = |task, from, to| suffered(&own, None, task, from, to);
    assert_eq!(suffered(2, 12 * MS, 15 * MS), HOLD);
    assert_eq!(suffered(2, 12 * MS, 12 * MS + 100), 100);
    assert_eq!(suffered(1, 12 * MS, 15 * MS), 0, "it is its own");
    assert_eq!(suffered(2, 15 * MS, 16 * MS), 0, "it is over");
    assert_eq!(suffered(2, 12 * MS, 12 * MS), 0, "no time has passed");
    assert_eq!(suffered(2, 12 * MS, 11 * MS), 0, "clocks differ");
}

#[test]
fn whoever_ran_while_the_clock_was_low_did_it_unless_others_may_have() {
    const NONE: u32 = EVIDENCE_NONE;
    const WIDE: u32 = EVIDENCE_WIDE;
    const OPEN: u32 = EVIDENCE_OPEN;
    let nobody = avx_hold::default();
    const WHOLE: u64 = AVX_WHOLE as u64;
    // Between 10 and 14 ms.
    let found = |share: u64, own: &avx_hold, beside: Option<&avx_hold>| {
        evidence_of(share, own, beside, 2, 10 * MS, 14 * MS)
    };
    assert_eq!(found(0, &nobody, None), NONE);
    assert_eq!(found(20, &nobody, None), NONE, "that may be chance");
    assert_eq!(found(64, &nobody, None), WIDE);
    assert_eq!(found(WHOLE, &nobody, Some(&nobody)), WIDE);
    // Another task left at 9.8 ms, which makes the clock low for 470 us.
    let before = hold(1, 8 * MS, 9 * MS + 800 * US);
    assert_eq!(found(100, &before, None), OPEN);
    assert_eq!(found(WHOLE / 2, &before, None), WIDE);
    assert_eq!(found(0, &before, None), NONE, "and is not low in spite of it");
    // What it did itself before does not excuse it.
    let own = hold(2, 8 * MS, 9 * MS + 800 * US);
    assert_eq!(found(100, &own, None), WIDE);
    let beside = hold(3, 8 * MS, 20 * MS);
    assert_eq!(found(WHOLE, &own, Some(&beside)), OPEN);
    assert_eq!(found(WHOLE, &nobody, Some(&beside)), OPEN);
}

#[test]
fn time_beside_a_sibling_is_suffered_once() {
    let nothing = avx_hold::default();
    let beside = hold(3, 5 * MS + 200 * US, 5 * MS + 300 * US);
    let beside_it = |own, task| suffered(own, Some(&beside), task, 5 * MS, 6 * MS);
    assert_eq!(beside_it(&nothing, 2), 100 * US + HOLD);
    // It is low up to 5.47 ms anyway, and then because of the sibling.
    let own = hold(1, 4 * MS, 4 * MS + 800 * US);
    assert_eq!(beside_it(&own, 2), 970 * US);
    assert_eq!(beside_it(&own, 1), 500 * US, "and not before its own hold ends");
    let for_all_of_it = hold(1, 4 * MS, 7 * MS);
    assert_eq!(beside_it(&for_all_of_it, 2), MS);
    assert_eq!(beside_it(&for_all_of_it, 1), 0);
    let later = hold(3, 7 * MS, 8 * MS);
    assert_eq!(suffered(&nothing, Some(&later), 2, 5 * MS, 6 * MS), 0);
}

#[test]
fn a_hold_that_did_not_end_goes_on() {
    let mut it = hold(1, 5 * MS, 6 * MS);
    hold_goes_on(&mut it, 2, 6 * MS + HOLD / 2);
    assert_eq!((it.began, it.until, it.task), (5 * MS, u64::MAX, 2));
    hold_runs_out(&mut it, 8 * MS, HOLD);
    hold_runs_out(&mut it, 9 * MS, HOLD);
    assert_eq!(it.until, 8 * MS + HOLD);
    hold_goes_on(&mut it, 1, 9 * MS);
    assert_eq!((it.began, it.until, it.task), (9 * MS, u64::MAX, 1));
}

#[test]
fn what_is_lost_is_what_the_clock_is_lower() {
    let step = all_active();
    let lost = |one, two, needs| lost_to_clocks(&step, one, two, needs) as f64 / MS as f64;
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
    assert_eq!(lost_to_clocks(&step([0, 1024, 1024]), day, day, false), day);
    assert_eq!(lost_to_clocks(&step([0, 1024, 1024]), day, day, true), 0);
    assert_eq!(lost_to_clocks(&step([0, 500, 300]), day, day, false), day * 500 / 1024);
    assert_eq!(given_back(&step([0, 0, 5000]), MS, MS, day), day);
    assert_eq!(given_back(&step([0, 0, 0]), MS, MS, day), 0);
    assert_eq!(given_back(&step([0, 512, 512]), 0, 0, day), 0);
}

#[test]
fn the_step_is_that_of_the_active_cores() {
    let known = known_clocks(&Model::named("gold-6130").unwrap().steps);
    let two = |cores| step_of(&known, cores, 0).lost[2];
    assert_eq!([two(0), two(2)], [1024 - 1024 * 3500 / 3700; 2]);
    assert_eq!([two(13), two(99)], [1024 - 1024 * 1900 / 2800; 2]);
    assert_eq!(step_of(&UNKNOWN_CLOCKS, 5, 256).lost, [0, 128, 256]);
    let odd = avx_clocks { nr_steps: 1000, ..known };
    assert_eq!(step_of(&odd, u64::MAX, 0).up_to_cores, odd.steps[7].up_to_cores);
}

#[test]
fn cycles_at_each_licence_tell_for_how_long_it_was_held() {
    let of = |cycles| {
        let mut counted = avx_counted::default();
        learn_from_cycles(&mut counted, &all_active(), &cycles);
        (counted.low, counted.is_known)
    };
    // A third of the time at each, in which cycles get longer.
    let (low, _) = of([2_800_000, 2_300_000, 1_900_000]);
    assert!(low[1].abs_diff(1024 * 2 / 3) < 3 && low[2].abs_diff(1024 / 3) < 3, "{low:?}");
    assert_eq!(of([2_800_000, 0, 0]), ([0, 0, 0], true));
    assert_eq!(of([0, 0, 1]), ([0, 1024, 1024], true));
    assert_eq!(of([0; 3]), ([0; 3], false), "nothing was counted");
}

#[test]
fn what_is_missing_to_the_ideal_clock_is_lost() {
    let of = |aperf, mperf| {
        let mut counted = avx_counted::default();
        let now = relative_clock(aperf, mperf);
        learn_from_clock(&mut counted, &all_active(), now, relative_clock(2800, 2100));
        (counted.low, counted.is_known)
    };
    let all = |share: u64| {
        move |(low, known): ([u64; 3], bool)| {
            known && low[1] == low[2] && low[1].abs_diff(share) < 5
        }
    };
    assert!(all(0)(of(2_800_000, 2_100_000)));
    assert!(all(1024)(of(1_900_000, 2_100_000)));
    assert!(all(512)(of(2_350_000, 2_100_000)));
    assert!(all(0)(of(3_000_000, 2_100_000)), "better than ideal");
    assert!(all(1024)(of(100, 2_100_000)), "no licence is that low");
    for (aperf, mperf) in [(0, 0), (0, 5)] {
        assert!(!of(aperf, mperf).1, "the CPU slept");
    }
}

#[test]
fn one_clock_that_is_too_high_is_no_ideal() {
    let often = |ideal, clock| (0..200).fold(ideal, |ideal, _| ideal_clock(ideal, clock));
    let ideal = often(0, 1_000_000);
    assert!(ideal > 999_000, "{ideal}");
    assert!(ideal_clock(ideal, 1_100_000) < 1_010_000);
    assert_eq!(often(ideal, 800_000), ideal, "a low one is none");
    assert!(often(ideal, 1_100_000) > 1_099_000);
}

#[test]
fn of_what_was_counted_the_own_work_is_paid_for() {
    let suffered = |own: &avx_hold, share| suffered_by_count(share, own, 1, 5 * MS, 6 * MS);
    let others = hold(2, 4 * MS, 7 * MS);
    assert_eq!(suffered(&others, 512), 500 * US);
    assert_eq!(suffered(&hold(1, 4 * MS, 7 * MS), 1024), 0);
    // Low for three quarters of it, and for half of it because of its own work.
    let own = avx_hold { began: 5 * MS + 250 * US, until: 5 * MS + 750 * US, task: 1 };
    assert_eq!(suffered(&own, 768), 250 * US);
    assert_eq!(suffered(&own, 256), 0);
    assert_eq!(suffered_by_count(1024, &others, 1, 6 * MS, 5 * MS), 0, "clocks differ");
}

const ADD: [u8; 16] = *b"\x48\x01\xd8\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VMULPD_YMM: [u8; 16] = *b"\xc5\xf5\x59\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VPADDQ_YMM: [u8; 16] = *b"\xc5\xf5\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VMULPD_ZMM: [u8; 16] = *b"\x62\xf1\xf5\x48\x59\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
const VPADDQ_ZMM: [u8; 16] = *b"\x62\xf1\xf5\x48\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";

#[test]
fn samples_tell_which_licence_code_needs() {
    let mut habit = avx_habit::default();
    // The licences that it needs as an AVX task and as none.
    let mut sample = |code, times| {
        let insn = decode_insn(code, INSN_MAX);
        (0..times).for_each(|_| learn_from_code(&mut habit, &insn));
        [true, false].map(|is_wide| licence_needed(&habit, is_wide))
    };
    assert_eq!(sample(&ADD, 100), [LICENCE_2, LICENCE_NONE]);
    // What every program does now and then with 256 bits costs nothing, however often.
    assert_eq!(sample(&VPADDQ_YMM, 1000), [LICENCE_2, LICENCE_NONE]);
    assert_eq!(sample(&VMULPD_YMM, 1), [LICENCE_2, LICENCE_1]);
    assert_eq!(sample(&ADD, 100), [LICENCE_2, LICENCE_NONE]);
    assert_eq!(sample(&VPADDQ_ZMM, 100), [LICENCE_1, LICENCE_NONE]);
    assert_eq!(sample(&VMULPD_ZMM, 1), [LICENCE_2, LICENCE_NONE]);
    assert_eq!(sample(&ADD, 1000), [LICENCE_2, LICENCE_NONE], "that tells nothing of 512 bits");
}

proptest! {
    /// A core on the CPUs of which tasks do wide work or do not, in turns: what each look back says
    /// is what one finds who looks at each microsecond.
    #[test]
    fn looks_back_say_what_each_moment_was(
        turns in prop::collection::vec((1..4u64, any::<bool>(), any::<bool>(), 1..2000u64), 1..40),
    ) {
        let (mut own, mut beside) = (avx_hold::default(), avx_hold::default());
        let (mut now, mut until, mut by, mut beside_until) = (10 * MS, 0, 0, 0);
        for (task, is_wide, is_wide_beside, length) in turns {
            let end = now + length * US;
            for (hold, wide, task) in [(&mut own, is_wide, task), (&mut beside, is_wide_beside, 9)] {
                if wide {
                    hold_goes_on(hold, task, now);
                } else {
                    hold_runs_out(hold, now, HOLD);
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
            prop_assert_eq!(suffered(&own, Some(&beside), task, now, end), moments * US);
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
        let lost = lost_to_clocks(&step, at[0], at[1], needs);
        let given = given_back(&step, lost, seen, ran);
        prop_assert!(given <= ran);
        prop_assert!(ran - given >= ran - ran * two / 1024);
        // What a sibling writes meanwhile may look like anything.
        let torn = avx_hold { began: at[0], until: at[1], task: 1 };
        prop_assert!(suffered(&torn, Some(&torn), 2, ran, ran + seen) <= seen);
    }
}
