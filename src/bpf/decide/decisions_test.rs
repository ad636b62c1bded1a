// SPDX-License-Identifier: GPL-2.0-only
//! In which order tasks run, and for how long.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::native::{
    choose_next, due_again, due_of, due_since, evens_out, makes_room, only_choice, queue_of,
    queue_of_tag, request_on, slice_for, stranded, tag_of, tag_woke_up, tagged, vtime_after_sleep,
    vtime_before, vtime_bound, vtime_cost, vtime_gained, vtime_rebase, yielding,
};
use crate::bpf::intf::{
    AVX_REQUEST_STEP_NS, AVX_SLICE_MAX_NS, AVX_WAIT_MAX_S, AVX_WEIGHT_NORMAL, CHOOSE_AVX,
    CHOOSE_PREV, CHOOSE_PRIVATE, CHOOSE_SHARED, NOBODY_DUE, NR_QUEUE_KINDS, TAG_MASK, avx_due,
    avx_load, avx_runner,
};

const MS: u64 = 1_000_000;
const SLICE_MAX: u64 = AVX_SLICE_MAX_NS as u64;
const REQUEST_MAX: u64 = 4 * AVX_REQUEST_STEP_NS as u64;
const WAIT_MAX: u64 = AVX_WAIT_MAX_S as u64 * 1000 * MS;
const NORMAL: u64 = AVX_WEIGHT_NORMAL as u64;

const NOBODY: i64 = NOBODY_DUE as i64;

const KINDS: u32 = NR_QUEUE_KINDS;

/// Loads from an empty queue to a million tasks on the largest machine.
fn loads() -> impl Strategy<Value = avx_load> {
    (0u64..1_000_000, 1u64..10_000, 1u64..=8192).prop_map(|(nr_waiting, weight, nr_cpus)| {
        avx_load { weight: (nr_waiting + nr_cpus) * weight, nr_cpus }
    })
}

fn ahead(of: u64, vtime: u64) -> i64 {
    vtime.wrapping_sub(of) as i64
}

proptest! {
    #[test]
    fn order_holds_across_the_wrap(start: u64, distance in 1..1u64 << 63) {
        let later = start.wrapping_add(distance);
        prop_assert!(vtime_before(start, later));
        prop_assert!(!vtime_before(later, start));
        prop_assert!(!vtime_before(start, start));
    }

    #[test]
    fn cost_is_the_share_of_the_weight(ran in 0..1u64 << 50, weight in 1u64..=10_000) {
        prop_assert_eq!(vtime_cost(ran, weight), ran * NORMAL / weight);
    }

    #[test]
    fn weight_zero_counts_as_one(ran in 0..1u64 << 50) {
        prop_assert_eq!(vtime_cost(ran, 0), vtime_cost(ran, 1));
    }

    #[test]
    fn heavier_tasks_never_pay_more(ran in 0..1u64 << 50, weight in 1u64..10_000) {
        prop_assert!(vtime_cost(ran, weight + 1) <= vtime_cost(ran, weight));
    }

    #[test]
    fn nobody_hoards_more_than_a_request_by_its_weight(
        vtime: u64, clock: u64, weight in 1u64..=10_000, request in 1..=REQUEST_MAX,
    ) {
        let credit = vtime_cost(request, weight) as i64;
        let bounded = ahead(clock, vtime_bound(vtime, clock, weight, request));
        let lag = ahead(clock, vtime);
        prop_assume!(lag.unsigned_abs() < 1 << 62);
        prop_assert_eq!(bounded, lag.clamp(-credit, WAIT_MAX as i64));
    }

    #[test]
    fn who_sleeps_keeps_what_it_is_owed_and_pays_off_what_it_owes(
        slept_at: u64, owed in -(WAIT_MAX as i64)..WAIT_MAX as i64, gained in 0..WAIT_MAX,
    ) {
        let (vtime, clock) = (slept_at.wrapping_add_signed(-owed), slept_at.wrapping_add(gained));
        let after = ahead(clock, vtime_after_sleep(vtime, slept_at, clock));
        prop_assert_eq!(after, if owed > 0 { -owed } else { (-owed - gained as i64).max(0) });
    }

    #[test]
    fn a_new_clock_keeps_the_lag(vtime: u64, from: u64, to: u64) {
        prop_assert_eq!(ahead(to, vtime_rebase(vtime, from, to)), ahead(from, vtime));
    }

    /// What is owed in an interval is what is charged in it, but for less than a nanosecond each.
    #[test]
    fn the_clock_owes_what_tasks_are_charged(
        ns in 0..WAIT_MAX, runs in prop::collection::vec(1u64..=10_000, 1..50),
        waits in prop::collection::vec(1u64..=10_000, 1..50),
    ) {
        let weight: u64 = runs.iter().chain(&waits).sum();
        let owed = vtime_gained(ns, runs.len() as u64, weight) * weight;
        let charged: u64 = runs.iter().map(|&weight| vtime_cost(ns, weight) * weight).sum();
        prop_assert!(owed.abs_diff(charged) <= weight, "{} and {}", owed, charged);
    }

    #[test]
    fn who_goes_to_a_cache_with_less_competition_is_not_drawn_back(
        from in loads(), to in loads(), weight in 1u64..=10_000, other in 1u64..=10_000,
    ) {
        let left = avx_load { weight: from.weight.saturating_sub(weight), ..from };
        let joined = avx_load { weight: to.weight + weight, ..to };
        if from.weight >= weight && evens_out(&from, &to, weight) {
            prop_assert!(!evens_out(&joined, &left, weight));
            prop_assert!(!evens_out(&joined, &left, other) || other < weight);
        }
    }

    #[test]
    fn who_comes_waits_for_no_lighter_one(
        now in 1 << 61..1u64 << 62, ran in 1..SLICE_MAX,
        weight in NORMAL + 1..=10_000, lighter in 1..=NORMAL,
    ) {
        let due_at = now - vtime_cost(ran, lighter);
        let runs = avx_runner { since: now - ran, due_at, weight: lighter };
        prop_assert!(makes_room(&runs, now, now - 1, weight, REQUEST_MAX));
    }

    #[test]
    fn nobody_is_interrupted_before_a_request_is_over_by_who_weighs_no_more(
        now in 1 << 61..1u64 << 62, ran in 0..SLICE_MAX, credit in 1..SLICE_MAX,
        owed in -(SLICE_MAX as i64)..SLICE_MAX as i64,
        weight in 1u64..=10_000, lighter in 1u64..=10_000, request in 1..=REQUEST_MAX,
    ) {
        let due_again = now.wrapping_add_signed(-owed);
        let runs = avx_runner { since: now - ran, due_at: due_again - vtime_cost(ran, weight), weight };
        // Who has had more than it is owed is interrupted by anybody who is due before.
        let is_over = ran >= request || owed < 0;
        for other in [weight, lighter.min(weight)] {
            let room = makes_room(&runs, now, due_again - credit, other, request);
            prop_assert_eq!(room, is_over);
        }
    }

    #[test]
    fn nobody_makes_room_for_who_is_due_later(
        now in SLICE_MAX..1 << 62, ran in 0..SLICE_MAX, later in 0..SLICE_MAX,
        weight in 1u64..=10_000, other in 1u64..=10_000,
    ) {
        let runs = avx_runner { since: now - ran, due_at: now - ran, weight };
        prop_assert!(!makes_room(&runs, now, due_again(&runs, now) + later, other, REQUEST_MAX));
    }

    #[test]
    fn nobody_is_due_later_than_the_longest_wait(
        clock: u64, now: u64, lag in -(SLICE_MAX as i64)..=WAIT_MAX as i64,
        weight in 0u64..=10_000, load in loads(),
    ) {
        let due = due_of(clock.wrapping_add_signed(lag), clock, now, weight, &load);
        let wait = ahead(now, due.at);
        prop_assert!(wait >= -(SLICE_MAX as i64) && wait <= WAIT_MAX as i64, "wait {}", wait);
        prop_assert!(!due.overdue || wait == WAIT_MAX as i64);
    }

    #[test]
    fn who_is_queued_anew_is_not_due_later_than_the_longest_wait(
        since: u64, waited in 0..2 * WAIT_MAX, wait in -(SLICE_MAX as i64)..=WAIT_MAX as i64,
    ) {
        let at = since.wrapping_add(waited).wrapping_add_signed(wait);
        let due = due_since(avx_due { at, overdue: false }, since);
        let longest = WAIT_MAX as i64;
        prop_assert_eq!(ahead(since, due.at), ahead(since, at).min(longest));
        prop_assert_eq!(due.overdue, ahead(since, at) > longest);
    }

    #[test]
    fn whoever_got_more_is_due_later(
        clock: u64, now: u64, lag in -(SLICE_MAX as i64)..WAIT_MAX as i64,
        more in 0..WAIT_MAX, weight in 1u64..=10_000, load in loads(),
    ) {
        let less = clock.wrapping_add_signed(lag);
        let more = less.wrapping_add(more);
        let first = due_of(less, clock, now, weight, &load).at;
        let second = due_of(more, clock, now, weight, &load).at;
        prop_assert!(!vtime_before(second, first));
    }

    #[test]
    fn each_cpu_has_its_own_queues(cpus in prop::collection::btree_set(0u32..8192, 2..50)) {
        let of = |&cpu| (0..KINDS).map(move |kind| queue_of(cpu, kind));
        let queues: BTreeSet<u64> = cpus.iter().flat_map(of).collect();
        prop_assert_eq!(queues.len(), cpus.len() * KINDS as usize);
        prop_assert!(queues.last().is_some_and(|&last| last < 8192 * u64::from(KINDS)));
    }

    #[test]
    fn whoever_is_due_first_is_next(
        all in prop::array::uniform4(prop_oneof![Just(NOBODY), -1000i64..1000]),
    ) {
        let [prev, shared, avx, private] = all;
        let chosen = match choose_next(prev, shared, avx, private) {
            CHOOSE_PREV => prev,
            CHOOSE_SHARED => shared,
            CHOOSE_AVX => avx,
            _ => private,
        };
        prop_assert_eq!(Some(&chosen), all.iter().min());
    }

    #[test]
    fn a_due_time_says_where_its_task_counts(at: u64, id in 0u64..8192 * u64::from(KINDS), woke_up: bool) {
        let tagged = tagged(at, tag_of(id, woke_up));
        let tag = tagged & u64::from(TAG_MASK);
        prop_assert!(tag != 0, "it is counted");
        prop_assert_eq!((queue_of_tag(tag), tag_woke_up(tag)), (id, woke_up));
        // Early or late by less than a tenth of the shortest slice.
        prop_assert!(ahead(at, tagged).unsigned_abs() < u64::from(AVX_REQUEST_STEP_NS) / 10);
    }
}

#[test]
fn who_waits_alone_need_not_be_compared() {
    assert_eq!(only_choice(7, 0, 0), CHOOSE_SHARED);
    assert_eq!(only_choice(0, 2, 0), CHOOSE_AVX);
    assert_eq!(only_choice(0, 0, 1), CHOOSE_PRIVATE);
    for several in [[1, 1, 0], [1, 0, 2], [0, 1, 1], [1; 3]] {
        assert_eq!(only_choice(several[0], several[1], several[2]), CHOOSE_PREV);
    }
}

#[test]
fn ties_save_a_switch_and_spare_the_shared_queue() {
    assert_eq!(choose_next(7, 7, 7, 7), CHOOSE_PREV);
    assert_eq!(choose_next(NOBODY, 7, 7, 7), CHOOSE_PRIVATE);
    assert_eq!(choose_next(NOBODY, 7, 7, NOBODY), CHOOSE_AVX);
    assert_eq!(choose_next(NOBODY, 7, NOBODY, NOBODY), CHOOSE_SHARED);
    assert_ne!(choose_next(NOBODY, NOBODY, NOBODY, NOBODY), CHOOSE_PREV);
}

#[test]
fn who_belongs_elsewhere_waits_longer() {
    assert_eq!(choose_next(NOBODY, yielding(7, 2), 9, NOBODY), CHOOSE_AVX);
    assert_eq!(choose_next(NOBODY, yielding(7, 1), 9, NOBODY), CHOOSE_SHARED);
    assert!(yielding(NOBODY, 1_000_000_000) >= NOBODY);
    assert_eq!((stranded(-2, 2), stranded(-3, 2)), (NOBODY, -3));
    assert_eq!(stranded(NOBODY, 2), NOBODY);
}

#[test]
fn a_turn_is_a_request_where_others_wait() {
    for request in [1, REQUEST_MAX] {
        assert_eq!(slice_for(0, request), SLICE_MAX);
        assert_eq!((slice_for(1, request), slice_for(1_000_000, request)), (request, request));
    }
}

#[test]
fn requests_are_as_long_as_those_of_eevdf() {
    // 0.7 ms, by one more than the logarithm of the CPUs, which stops at eight.
    for (nr_cpus, us) in [(1, 700), (2, 1400), (3, 1400), (4, 2100), (7, 2100), (8, 2800)] {
        assert_eq!(request_on(nr_cpus), us * 1000, "{nr_cpus}");
    }
    assert_eq!((request_on(0), request_on(8192)), (request_on(1), REQUEST_MAX));
}

#[test]
fn a_cpu_of_others_makes_room_for_nobody() {
    let others = avx_runner { since: 0, due_at: 0, weight: 1 };
    assert!(!makes_room(&others, WAIT_MAX, 0, 10_000, REQUEST_MAX));
}

/// One queue, its CPUs and busy tasks, stepped from slice to slice.
struct Machine {
    weights: Vec<u64>,
    vtimes: Vec<u64>,
    ran: Vec<u64>,
    queued_at: Vec<u64>,
    waiting: BTreeSet<(u64, usize)>,
    clock: u64,
    clock_at: u64,
    nr_cpus: u64,
    longest_wait: u64,
}

impl Machine {
    fn new(weights: &[u64], nr_cpus: u64) -> Self {
        let n = weights.len();
        Self {
            weights: weights.to_vec(),
            vtimes: vec![0; n],
            ran: vec![0; n],
            queued_at: vec![0; n],
            waiting: (0..n).map(|task| (0, task)).collect(),
            clock: 0,
            clock_at: 0,
            nr_cpus,
            longest_wait: 0,
        }
    }

    fn load(&self) -> avx_load {
        avx_load { weight: self.weights.iter().sum(), nr_cpus: self.nr_cpus }
    }

    /// When a task that just ran is due again; times are kept above zero.
    fn due(&mut self, task: usize, now: u64) -> u64 {
        let weight = self.weights[task];
        self.vtimes[task] =
            vtime_bound(self.vtimes[task], self.clock, weight, request_on(self.nr_cpus));
        due_of(self.vtimes[task], self.clock, now + SLICE_MAX, weight, &self.load()).at
    }

    /// The task that follows `task` on its CPU.
    fn next(&mut self, task: usize, now: u64) -> usize {
        let due = self.due(task, now);
        let head = self.waiting.first().copied();
        let head_due = head.map_or(NOBODY, |(head_due, _)| head_due as i64);
        match (choose_next(due as i64, head_due, NOBODY, NOBODY), head) {
            (CHOOSE_SHARED, Some(head)) => {
                self.waiting.insert((due, task));
                self.queued_at[task] = now;
                self.waiting.remove(&head);
                self.longest_wait = self.longest_wait.max(now - self.queued_at[head.1]);
                head.1
            }
            _ => task,
        }
    }

    fn run(&mut self, until: u64) {
        let mut cpus = BTreeSet::new();
        for cpu in 0..self.nr_cpus {
            if let Some(head) = self.waiting.pop_first() {
                cpus.insert((SLICE_MAX + cpu, cpu, head.1, SLICE_MAX));
            }
        }
        while let Some((now, cpu, task, slice)) = cpus.pop_first() {
            if now > until {
                break;
            }
            self.ran[task] += slice;
            self.clock += vtime_gained(now - self.clock_at, self.nr_cpus, self.load().weight);
            self.clock_at = now;
            self.vtimes[task] += vtime_cost(slice, self.weights[task]);
            let next = self.next(task, now);
            let slice = slice_for(self.waiting.len() as u64, request_on(self.nr_cpus));
            cpus.insert((now + slice, cpu, next, slice));
        }
    }

    fn share(&self, task: usize) -> f64 {
        self.ran[task] as f64 / self.ran.iter().sum::<u64>() as f64
    }
}

#[test]
fn busy_tasks_share_by_weight() {
    let two_groups = [[100; 50], [200; 50]].concat();
    let cases: [(&[u64], u64); 9] = [
        (&[100, 100], 1),
        (&[100, 200], 1),
        (&[100, 1000], 1),
        (&[1, 100], 1),
        (&[335, 100, 33], 1),
        (&[100, 100, 100, 100, 300, 300, 300, 300], 4),
        (&[100, 100, 100, 100, 10, 10, 10, 10], 4),
        (&[100, 100, 100, 100, 100, 100, 1, 1, 1, 1], 4),
        (&two_groups, 4),
    ];
    for (weights, nr_cpus) in cases {
        let mut machine = Machine::new(weights, nr_cpus);
        machine.run(40_000 * MS);
        let total: u64 = weights.iter().sum();
        for (task, &weight) in weights.iter().enumerate() {
            let fair = weight as f64 / total as f64;
            let error = (machine.share(task) - fair).abs() / fair;
            assert!(error < 0.05, "{weights:?} on {nr_cpus}: task {task} is {error:.3} off");
        }
    }
}

#[test]
fn the_lightest_task_survives_the_heaviest_crowd() {
    for crowd in [1, 300, 2000] {
        let mut weights = vec![10_000; crowd];
        weights.push(1);
        let mut machine = Machine::new(&weights, 1);
        machine.run(30_000 * MS);
        // The longest wait, and once through the crowd at the shortest slice.
        let bound = WAIT_MAX + (crowd as u64 + 1) * request_on(1) + 2 * SLICE_MAX;
        assert!(machine.longest_wait <= bound, "{crowd}: {} ms", machine.longest_wait / MS);
        assert!(machine.ran[crowd] > 0);
    }
}
