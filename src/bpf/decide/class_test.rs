// SPDX-License-Identifier: GPL-2.0-only
//! What a task is taken for, and when it is scalar again.

use proptest::prelude::*;

use super::native::{
    becomes_scalar, is_hint_of_avx, is_kept, is_named, is_to_be_hidden, learn_from_fault,
    phase_begins, phase_ends, phase_goes_on, phase_is_over, verdict_of, was_seen_at,
    wide_vectors_seen,
};
use crate::agent::policy;
use crate::bpf::intf::{
    AVX_HINT_AVX2_HEAVY, AVX_HINT_AVX512, AVX_HINT_NONE, BOUNDARY_SWITCH, BOUNDARY_SYSCALL,
    BOUNDARY_TICK, BOUNDARY_UNUSED, CLASS_AVX, CLASS_DEFAULT, CLASS_SCALAR,
    CLASSES_AVX512_AVX2_HEAVY, NR_CLASSES, RETURN_ADAPTIVE, RETURN_SWITCH, RETURN_SYSCALL,
    RETURN_TIMEOUT, SERVED_HINTED, SERVED_NOBODY, TRAP_GP, TRAP_UD, VERDICT_DETECTION,
    VERDICT_LIGHT, VERDICT_OTHER, VERDICT_RESTORE, VERDICT_WIDE, avx_habit, avx_moment, avx_name,
    avx_phase, avx_policy, avx_process,
};

const US: u64 = 1000;
const MS: u64 = 1000 * US;

fn verdict(trapnr: u32, code: &[u8]) -> u32 {
    let mut bytes = [0; 16];
    bytes[..code.len()].copy_from_slice(code);
    verdict_of(trapnr as i32, &bytes, code.len() as u32)
}

#[test]
fn faults_are_told_apart() {
    // vpaddd %zmm0,%zmm1,%zmm2; vmovdqu64 (%rsi),%ymm16; kmovd %k0,%eax
    assert_eq!(verdict(TRAP_UD, &[0x62, 0xf1, 0x75, 0x48, 0xfe, 0xd0]), VERDICT_WIDE);
    assert_eq!(verdict(TRAP_UD, &[0x62, 0xe1, 0xfe, 0x28, 0x6f, 0x06]), VERDICT_LIGHT);
    assert_eq!(verdict(TRAP_UD, &[0xc5, 0xfb, 0x93, 0xc0]), VERDICT_LIGHT);
    // ud2; vpaddd %ymm0,%ymm1,%ymm2, which needs AVX only
    assert_eq!(verdict(TRAP_UD, &[0x0f, 0x0b]), VERDICT_OTHER);
    assert_eq!(verdict(TRAP_UD, &[0xc5, 0xf5, 0xfe, 0xd0]), VERDICT_OTHER);
    // cpuid; xrstor (%rsp)
    assert_eq!(verdict(TRAP_GP, &[0x0f, 0xa2]), VERDICT_DETECTION);
    assert_eq!(verdict(TRAP_GP, &[0x0f, 0xae, 0x2c, 0x24]), VERDICT_RESTORE);
}

/// A task of a process, and the time that it ran, which is all the time that passes.
#[derive(Debug, Default)]
struct Task {
    process: avx_process,
    habit: avx_habit,
    phase: avx_phase,
    ran: u64,
    moves: u32,
    faults: u32,
    wide_on_scalar: u64,
    scalar_on_avx: u64,
    /// Whether it runs with AVX-512 hidden, which is decided when it begins to run.
    hidden: bool,
}

impl Task {
    fn moment(&self) -> avx_moment {
        avx_moment { ran: self.ran, now: self.ran }
    }

    fn look(&mut self) {
        self.hidden = is_to_be_hidden(&self.process, &self.habit, &self.moment());
    }

    fn becomes_avx(&mut self, policy: &avx_policy) {
        phase_begins(&mut self.phase, policy, self.ran);
        self.moves += 1;
        self.hidden = false;
    }

    fn fault(&mut self, policy: &avx_policy, verdict: u32) {
        self.faults += 1;
        self.hidden = false;
        learn_from_fault(
            &mut self.process,
            &mut self.habit,
            policy,
            verdict,
            &avx_moment { ran: self.ran, now: self.ran },
        );
        if self.habit.class == CLASS_AVX {
            self.becomes_avx(policy);
        }
    }

    /// What is seen of the registers in the middle of something.
    fn sample(&mut self, policy: &avx_policy) {
        if self.habit.class == CLASS_AVX {
            phase_goes_on(&mut self.phase, self.ran);
        }
        let was = self.habit.class;
        wide_vectors_seen(&mut self.process, &mut self.habit, self.ran);
        if was != CLASS_AVX {
            self.becomes_avx(policy);
        }
    }

    fn runs(&mut self, ns: u64, is_wide: bool) {
        let on_avx = self.habit.class == CLASS_AVX;
        self.ran += ns;
        self.wide_on_scalar += if is_wide && !on_avx { ns } else { 0 };
        self.scalar_on_avx += if !is_wide && on_avx { ns } else { 0 };
    }

    fn wide(&mut self, policy: &avx_policy, ns: u64) {
        if self.hidden {
            self.fault(policy, VERDICT_WIDE);
        }
        self.runs(ns, true);
    }

    fn light(&mut self, policy: &avx_policy) {
        if self.hidden {
            self.fault(policy, VERDICT_LIGHT);
        }
    }

    fn boundary(&mut self, policy: &avx_policy, boundary: u32) {
        if self.habit.class == CLASS_AVX
            && phase_is_over(&self.phase, policy, boundary, self.ran)
            && !is_kept(&self.habit, policy, self.ran)
        {
            phase_ends(&mut self.phase, self.ran);
            assert!(becomes_scalar(&mut self.habit));
            assert!(!becomes_scalar(&mut self.habit), "it ends once");
            self.moves += 1;
        }
        self.look();
    }
}

#[test]
fn nothing_is_hidden_from_a_process_that_never_used_it() {
    let mut task = Task::default();
    task.look();
    assert!(!task.hidden && task.habit.class == CLASS_DEFAULT);
    task.sample(&policy::standard());
    task.boundary(&policy::standard(), BOUNDARY_SYSCALL);
    assert!(task.hidden && task.habit.class == CLASS_SCALAR);
}

proptest! {
    #[test]
    fn nothing_is_hidden_but_from_the_convicted(
        convicted: bool, exempt: bool, class in 0..NR_CLASSES,
        grace_end in 0u64..3, visible_until in 0u64..3,
    ) {
        let process = avx_process { convicted, exempt, grace_end, ..avx_process::default() };
        let habit = avx_habit { class, visible_until, ..avx_habit::default() };
        let hidden = is_to_be_hidden(&process, &habit, &avx_moment { ran: 1, now: 1 });
        let expected = convicted && !exempt && class != CLASS_AVX
            && grace_end <= 1 && visible_until <= 1;
        prop_assert_eq!(hidden, expected);
    }
}

#[test]
fn programs_are_left_alone_by_their_whole_names() {
    let name = |text: &str| {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        avx_name { words: [0, 8].map(|at| u64::from_ne_bytes(*bytes[at..].first_chunk().unwrap())) }
    };
    let settings = ["never-hide=this,a-longer-name15".to_owned()];
    let policy = policy::turned(policy::standard(), &settings).unwrap();
    let is_named = |text| is_named(&policy, &name(text));
    assert!(is_named("this") && is_named("a-longer-name15"));
    assert!(!is_named("thi") && !is_named("this1") && !is_named("a-longer-name1"));
    assert!(!is_named("a-longer") && !is_named("") && !is_named("ld-linux-x86-64"));
}

#[test]
fn string_functions_cost_a_fault_per_back_off_and_no_move() {
    let policy = policy::standard();
    let mut task = Task {
        process: avx_process { convicted: true, ..avx_process::default() },
        ..Task::default()
    };
    for _ in 0..100_000 {
        task.look();
        task.light(&policy);
        task.runs(100 * US, false);
    }
    // 10 s at 100 ms, and the shorter ones before.
    assert!((100..=110).contains(&task.faults), "{}", task.faults);
    assert_eq!(task.moves, 0);
}

#[test]
fn whoever_asks_for_features_sees_them() {
    let policy = policy::standard();
    let mut task = Task {
        process: avx_process { convicted: true, ..avx_process::default() },
        ..Task::default()
    };
    task.look();
    assert!(task.hidden);
    task.fault(&policy, VERDICT_DETECTION);
    task.look();
    assert!(!task.hidden && task.habit == avx_habit::default());
    task.runs(policy.detection_grace_ns, false);
    task.look();
    assert!(task.hidden);
}

/// Scalar work with string functions, a burst, a system call, which is sampled
/// every millisecond.
fn alternate(
    policy: &avx_policy,
    scalar_ns: u64,
    wide_ns: u64,
    strings: bool,
    rounds: u64,
) -> Task {
    let mut task = Task::default();
    let mut sampled_at = 0;
    for _ in 0..rounds {
        if strings {
            task.light(policy);
        }
        task.runs(scalar_ns, false);
        task.wide(policy, wide_ns);
        if task.ran - sampled_at >= MS {
            sampled_at = task.ran;
            task.sample(policy);
        }
        task.boundary(policy, BOUNDARY_SYSCALL);
    }
    task
}

#[test]
fn bursts_between_scalar_work_go_to_avx_cores_alone() {
    let policy = policy::standard();
    let task = alternate(&policy, 900 * US, 100 * US, false, 1000);
    assert!(task.wide_on_scalar <= MS, "{task:?}");
    assert!(task.scalar_on_avx <= MS, "{task:?}");
    assert_eq!(task.moves, 2000);
}

#[test]
fn string_functions_between_bursts_hide_no_burst() {
    let policy = policy::standard();
    let task = alternate(&policy, 900 * US, 100 * US, true, 1000);
    let wide = 1000 * 100 * US;
    assert!(task.wide_on_scalar * 20 <= wide, "{task:?}");
    assert!(task.habit.mixed && task.moves < 20, "{task:?}");
}

#[test]
fn a_mixed_task_that_stops_to_be_one_is_let_go() {
    let policy = policy::standard();
    let mut task = alternate(&policy, 900 * US, 100 * US, true, 100);
    for _ in 0..1000 {
        task.light(&policy);
        task.runs(MS, false);
        task.boundary(&policy, BOUNDARY_SYSCALL);
    }
    assert_eq!(task.habit.class, CLASS_SCALAR);
    assert!(!task.habit.mixed && task.scalar_on_avx <= 400 * MS, "{task:?}");
}

/// For how long a task ran is estimated; a little less than before is no time at all.
#[test]
fn a_phase_is_not_over_before_it_began() {
    let policy = policy::standard();
    let mut phase = avx_phase::default();
    phase_begins(&mut phase, &policy, MS);
    for boundary in [BOUNDARY_SWITCH, BOUNDARY_TICK] {
        assert!(!phase_is_over(&phase, &policy, boundary, MS - 1));
    }
    let mut habit = avx_habit::default();
    wide_vectors_seen(&mut avx_process::default(), &mut habit, MS);
    habit.mixed = true;
    assert!(is_kept(&habit, &policy, MS - 1));
}

/// Quick alternation is worth no moves: they are bounded by the retries.
#[test]
fn nobody_plays_ping_pong() {
    let policy = policy::standard();
    let rounds = 10_000_000_000 / (20 * US);
    let task = alternate(&policy, 10 * US, 10 * US, false, rounds);
    // 10 s: some pairs of moves a second, and for each of the shorter times before.
    assert!(task.moves <= 2 * (9 + 2 * (10 + 8)), "{}", task.moves);
    assert!(task.wide_on_scalar <= MS, "{task:?}");
}

/// The first phases tell it, without what is taken to be so before anything is known.
#[test]
fn quick_alternation_is_found_out_after_some_phases() {
    let policy = policy::standard();
    let mut task = alternate(&policy, MS, 10 * US, false, 1);
    let moves = [7, 1, 1, 3].map(|rounds| {
        for _ in 0..rounds {
            task.runs(10 * US, false);
            task.wide(&policy, 10 * US);
            task.boundary(&policy, BOUNDARY_SYSCALL);
        }
        task.moves
    });
    // It goes to an AVX core and back in each of them, and in the last one it stays.
    assert_eq!(moves, [16, 17, 17, 17]);
}

/// A server encrypts, and soon decrypts what it is asked next, and then computes for long.
#[test]
fn some_short_times_hide_no_long_ones() {
    let policy = policy::standard();
    let mut task = alternate(&policy, MS, 2 * US, false, 1);
    task.moves = 0;
    task.scalar_on_avx = 0;
    for _ in 0..1000 {
        for scalar in [30 * US, 30 * US, 30 * US, 1200 * US] {
            task.wide(&policy, 2 * US);
            task.boundary(&policy, BOUNDARY_SYSCALL);
            task.runs(scalar, false);
        }
    }
    assert_eq!((task.moves, task.scalar_on_avx), (2 * 4 * 1000, 0), "{task:?}");
}

/// What is saved is looked at when a task wakes up and when it begins to run: it is one sample.
#[test]
fn one_switch_is_seen_once() {
    let mut habit = avx_habit::default();
    assert!(!was_seen_at(&habit, 0));
    wide_vectors_seen(&mut avx_process::default(), &mut habit, MS);
    assert!(was_seen_at(&habit, MS) && !was_seen_at(&habit, MS + 1));
}

#[test]
fn heavy_avx2_is_avx_work_if_the_policy_says_so() {
    let both = CLASSES_AVX512_AVX2_HEAVY.into();
    let none = AVX_HINT_NONE.into();
    let avx512 = AVX_HINT_AVX512.into();
    let avx2_heavy = AVX_HINT_AVX2_HEAVY.into();
    let standard = policy::standard();
    let larger = avx_policy { classes: both, ..standard };
    let heard = |policy: &avx_policy| {
        [none, avx512, avx2_heavy, 7].map(|hint| is_hint_of_avx(policy, hint))
    };
    assert_eq!(heard(&standard), [false, true, false, false]);
    assert_eq!(heard(&larger), [false, true, true, false]);
    let served = |by: u32| avx_policy { avx_cores_for: by.into(), ..larger };
    assert_eq!(heard(&served(SERVED_NOBODY)), [false; 4]);
    assert_eq!(heard(&served(SERVED_HINTED)), [false, true, true, false]);
}

#[test]
fn changed_ways_are_found_out() {
    let policy = policy::standard();
    let mut task = alternate(&policy, 10 * US, 10 * US, false, 100_000);
    let before = task.scalar_on_avx;
    for _ in 0..5000 {
        task.runs(900 * US, false);
        task.wide(&policy, 100 * US);
        task.boundary(&policy, BOUNDARY_SYSCALL);
    }
    // A second until it is tried again, and little after.
    assert!(task.scalar_on_avx - before <= 1100 * MS, "{task:?}");
}

#[test]
fn each_method_ends_a_phase_at_its_own_boundary() {
    let methods = [
        (RETURN_SYSCALL, vec![BOUNDARY_SYSCALL, BOUNDARY_UNUSED]),
        (RETURN_SWITCH, vec![BOUNDARY_SWITCH, BOUNDARY_UNUSED]),
        (RETURN_TIMEOUT, vec![]),
        (RETURN_ADAPTIVE, vec![BOUNDARY_SYSCALL, BOUNDARY_UNUSED]),
    ];
    for (return_method, ending) in methods {
        let policy = avx_policy { return_method: return_method.into(), ..policy::standard() };
        let mut phase = avx_phase::default();
        phase_begins(&mut phase, &policy, 7);
        phase_goes_on(&mut phase, 9);
        for boundary in [BOUNDARY_SYSCALL, BOUNDARY_SWITCH, BOUNDARY_UNUSED, BOUNDARY_TICK] {
            let just_before = 9 + policy.return_timeout_ns - 1;
            let ends = ending.contains(&boundary);
            assert_eq!(phase_is_over(&phase, &policy, boundary, just_before), ends);
            assert!(phase_is_over(&phase, &policy, boundary, just_before + 1));
        }
    }
}
