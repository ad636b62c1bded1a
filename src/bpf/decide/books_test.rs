// SPDX-License-Identifier: GPL-2.0-only
//! What is kept of the past.

use crate::bpf::intf::{self, task_ctx};

const MS: u64 = 1_000_000;
const LAST: u32 = intf::avx_limits_AVX_WAIT_BUCKETS - 1;

mod native {
    use super::task_ctx;

    // SAFETY: the signatures repeat those of native.c, which build.rs links in.
    unsafe extern "C" {
        pub safe fn avx_wait_bucket(wait_ns: u64) -> u32;
        pub safe fn avx_held_low(last_avx: u64, now: u64, hold_ns: u64) -> u64;
        pub safe fn avx_is_sampled(ran: u64, pid: u32) -> bool;
        pub safe fn avx_judge_look(beside: &mut u32, is_wide: bool) -> u32;
        pub safe fn avx_book_time(tctx: &mut task_ctx, as_avx: bool, ran: u64);
        pub safe fn avx_book_beginning(tctx: &mut task_ctx, cause: u32, generation: u64, ran: u64);
        pub safe fn avx_book_end(tctx: &mut task_ctx, boundary: u32, generation: u64, ran: u64);
        pub safe fn avx_book_fault(tctx: &mut task_ctx, verdict: u32);
    }
}
use native::*;

fn new_task() -> task_ctx {
    // SAFETY: the type consists of integers and flags, for which all zeroes is valid.
    unsafe { std::mem::zeroed() }
}

#[test]
fn each_bucket_is_for_waits_twice_as_long() {
    assert_eq!(avx_wait_bucket(0), 0);
    for bucket in 0..LAST {
        let end = 1024 << bucket;
        assert_eq!((avx_wait_bucket(end - 1), avx_wait_bucket(end)), (bucket, bucket + 1));
    }
    assert_eq!(avx_wait_bucket(u64::MAX), LAST);
}

#[test]
fn one_wait_in_so_many_is_counted() {
    let in_so_many = intf::avx_limits_AVX_WAITS_SAMPLED as usize;
    let sampled = (1024..641 * 1024).step_by(16).filter(|ran| avx_is_sampled(*ran, 7)).count();
    assert_eq!(sampled, 640 * 1024 / 16 / in_so_many);
    let of_new_tasks = (1000..7400).filter(|pid| avx_is_sampled(0, *pid)).count();
    assert_eq!(of_new_tasks, 6400 / in_so_many);
}

#[test]
fn the_clock_is_low_for_as_long_as_it_is_held() {
    assert_eq!(avx_held_low(0, 5 * MS, MS), 0, "never an AVX task");
    assert_eq!(avx_held_low(4 * MS, 5 * MS, 2 * MS), MS);
    assert_eq!(avx_held_low(4 * MS, 9 * MS, 2 * MS), 2 * MS);
    assert_eq!(avx_held_low(4 * MS, 4 * MS - 1, 2 * MS), 0);
}

/// In the order of enum avx_look.
#[test]
fn a_look_is_beside_avx_work_for_a_while() {
    let mut beside = 0;
    let mut look = |is_wide| avx_judge_look(&mut beside, is_wide);
    assert_eq!((look(false), look(true), look(true)), (0, 1, 1));
    let after: Vec<u32> = (0..200).map(|_| look(false)).collect();
    assert!(after[..100].iter().all(|it| *it == 2) && after[100..].iter().all(|it| *it == 0));
    assert_eq!((look(true), look(false)), (1, 2));
}

/// 3 ms as nothing, 1 as an AVX task, 5 as a scalar one and 2 as an AVX task, of which a tick
/// sees a part.
#[test]
fn all_time_is_booked_once() {
    let mut task = new_task();
    avx_book_beginning(&mut task, intf::avx_cause_CAUSE_FAULT, 1, 3 * MS);
    task.phase.ended = 4 * MS;
    avx_book_end(&mut task, intf::avx_boundary_BOUNDARY_SYSCALL, 1, 4 * MS);
    avx_book_beginning(&mut task, intf::avx_cause_CAUSE_SAMPLE, 2, 9 * MS);
    avx_book_time(&mut task, true, 10 * MS);
    avx_book_end(&mut task, intf::avx_boundary_BOUNDARY_TICK, 3, 11 * MS);

    assert_eq!((task.book.avx_ns, task.book.scalar_ns), (3 * MS, 5 * MS));
    assert_eq!(task.book.phases, [1, 0, 1, 0]);
    assert_eq!(task.book.ends, [1, 0, 0, 1, 0, 0]);
    assert_eq!(task.generation, 3);
    assert!(task.has_news);
}

#[test]
fn faults_are_counted_by_what_they_were() {
    let mut task = new_task();
    for verdict in [0, 1, 1, 4, 99] {
        avx_book_fault(&mut task, verdict);
    }
    assert_eq!(task.book.faults, [1, 2, 0, 0, 1]);
}
