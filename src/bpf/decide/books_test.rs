// SPDX-License-Identifier: GPL-2.0-only
//! What is kept of the past.

use super::native::{
    book_beginning, book_end, book_fault, book_time, held_low, is_sampled, judge_look, wait_bucket,
};
use crate::bpf::intf::{
    AVX_WAIT_BUCKETS, AVX_WAITS_SAMPLED, BOUNDARY_SYSCALL, BOUNDARY_TICK, CAUSE_FAULT,
    CAUSE_SAMPLE, LOOK_BESIDE, LOOK_OTHER, LOOK_WIDE, VERDICT_LIGHT, VERDICT_OTHER, VERDICT_WIDE,
    task_ctx,
};

const MS: u64 = 1_000_000;
const LAST: u32 = AVX_WAIT_BUCKETS - 1;

/// So many of these, and none of the others.
fn counts<const N: usize>(some: &[(u32, u64)]) -> [u64; N] {
    let mut all = [0; N];
    some.iter().for_each(|(kind, count)| all[*kind as usize] = *count);
    all
}

#[test]
fn each_bucket_is_for_waits_twice_as_long() {
    assert_eq!(wait_bucket(0), 0);
    for bucket in 0..LAST {
        let end = 1024 << bucket;
        assert_eq!((wait_bucket(end - 1), wait_bucket(end)), (bucket, bucket + 1));
    }
    assert_eq!(wait_bucket(u64::MAX), LAST);
}

#[test]
fn one_wait_in_so_many_is_counted() {
    let in_so_many = AVX_WAITS_SAMPLED as usize;
    let sampled = (1024..641 * 1024).step_by(16).filter(|ran| is_sampled(*ran, 7)).count();
    assert_eq!(sampled, 640 * 1024 / 16 / in_so_many);
    let of_new_tasks = (1000..7400).filter(|pid| is_sampled(0, *pid)).count();
    assert_eq!(of_new_tasks, 6400 / in_so_many);
}

#[test]
fn the_clock_is_low_for_as_long_as_it_is_held() {
    assert_eq!(held_low(0, 5 * MS, MS), 0, "never an AVX task");
    assert_eq!(held_low(4 * MS, 5 * MS, 2 * MS), MS);
    assert_eq!(held_low(4 * MS, 9 * MS, 2 * MS), 2 * MS);
    assert_eq!(held_low(4 * MS, 4 * MS - 1, 2 * MS), 0);
}

#[test]
fn a_look_is_beside_avx_work_for_a_while() {
    let mut beside = 0;
    let mut look = |is_wide| judge_look(&mut beside, is_wide);
    assert_eq!([look(false), look(true), look(true)], [LOOK_OTHER, LOOK_WIDE, LOOK_WIDE]);
    let after: Vec<u32> = (0..200).map(|_| look(false)).collect();
    assert_eq!(after, [[LOOK_BESIDE; 100], [LOOK_OTHER; 100]].concat());
    assert_eq!([look(true), look(false)], [LOOK_WIDE, LOOK_BESIDE]);
}

/// 3 ms as nothing, 1 as an AVX task, 5 as a scalar one and 2 as an AVX task, of which a tick
/// sees a part.
#[test]
fn all_time_is_booked_once() {
    let mut task = task_ctx::default();
    book_beginning(&mut task, CAUSE_FAULT, 1, 3 * MS);
    task.phase.ended = 4 * MS;
    book_end(&mut task, BOUNDARY_SYSCALL, 1, 4 * MS);
    book_beginning(&mut task, CAUSE_SAMPLE, 2, 9 * MS);
    book_time(&mut task, true, 10 * MS);
    book_end(&mut task, BOUNDARY_TICK, 3, 11 * MS);

    assert_eq!((task.book.avx_ns, task.book.scalar_ns), (3 * MS, 5 * MS));
    assert_eq!(task.book.phases, counts(&[(CAUSE_FAULT, 1), (CAUSE_SAMPLE, 1)]));
    assert_eq!(task.book.ends, counts(&[(BOUNDARY_SYSCALL, 1), (BOUNDARY_TICK, 1)]));
    assert_eq!(task.generation, 3);
    assert!(task.has_news);
}

#[test]
fn faults_are_counted_by_what_they_were() {
    let mut task = task_ctx::default();
    for verdict in [VERDICT_WIDE, VERDICT_LIGHT, VERDICT_LIGHT, VERDICT_OTHER, 99] {
        book_fault(&mut task, verdict);
    }
    let faults = [(VERDICT_WIDE, 1), (VERDICT_LIGHT, 2), (VERDICT_OTHER, 1)];
    assert_eq!(task.book.faults, counts(&faults));
}
