// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel would eject a scheduler for, the model refuses, and says why.

use super::engine::Engine;
use super::engine_test::{forever, machine};
use super::native::{self, SIM_DISPATCH, SIM_ENQUEUE};
use super::program::{Program, Step};
use super::{BEGIN_NS, Task};
use crate::bpf::intf::{AVX_TIER_OBSERVE, AVX_TIER_TRAP};
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const MS: u64 = 1_000_000;

const LOCAL: u64 = native::SCX_DSQ_LOCAL as u64;
const LOCAL_ON: u64 = native::SCX_DSQ_LOCAL_ON as u64;
const ENQ_HEAD: u64 = native::SCX_ENQ_HEAD as u64;
const ENQ_PREEMPT: u64 = native::SCX_ENQ_PREEMPT;
const KICK_IDLE: u64 = native::SCX_KICK_IDLE as u64;
const KICK_PREEMPT: u64 = native::SCX_KICK_PREEMPT as u64;

/// One that there may be, and no other scheduler's.
const QUEUE: u64 = 3000;

/// A machine with one CPU, and tasks that sleep now and wake soon, so that the scheduler is not
/// asked where.
fn sleepers<const N: usize>() -> (Engine<Steady>, [Task; N]) {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let tasks = [(); N].map(|()| engine.spawn(forever(&[Step::Sleep(MS)]), 100));
    engine.run_for(MS / 2).unwrap();
    (engine, tasks)
}

/// Does something as if in a callback of the scheduler for the task.
fn within(callback: u32, task: Task, act: impl FnOnce()) {
    // SAFETY: the task is one of the present kernel, which only this thread has.
    unsafe {
        let before = native::sim_begin_call(callback, task.0);
        act();
        native::sim_end_call(before);
    }
}

fn insert(task: Task, queue: u64) {
    // SAFETY: as above.
    within(SIM_ENQUEUE, task, || unsafe {
        native::scx_bpf_dsq_insert(task.0.cast(), queue, MS, 0)
    });
}

fn insert_by_vtime(task: Task, queue: u64) {
    // SAFETY: as above.
    within(SIM_ENQUEUE, task, || unsafe {
        native::scx_bpf_dsq_insert_vtime(task.0.cast(), queue, MS, 7, 0)
    });
}

fn create_queue() {
    // SAFETY: as above.
    assert_eq!(unsafe { native::scx_bpf_create_dsq(QUEUE, -1) }, 0);
}

/// All that is said of what a scheduler does.
fn whole_complaint(act: impl FnOnce(Task, Task)) -> String {
    let (mut engine, [task, other]) = sleepers();
    act(task, other);
    engine.run_for(2 * MS).unwrap_err().to_string()
}

/// Without when that was.
fn complaint(act: impl FnOnce(Task, Task)) -> String {
    let whole = whole_complaint(act);
    let (when, what) = whole.split_once(": ").unwrap();
    assert!(["0.5", "1.0"].iter().any(|ms| when.starts_with(ms)), "{when}");
    what.to_owned()
}

#[test]
fn a_broken_rule_is_told_with_the_callback() {
    let whole = whole_complaint(|task, other| {
        insert(task, LOCAL);
        insert(task, LOCAL);
        // Only the first one counts.
        insert(other, QUEUE);
    });
    let expected =
        "0.500000 ms, between two events, in enqueue() of task 1: task 1 is inserted twice";
    assert_eq!(whole, expected);
}

/// A program that breaks a rule when it goes on.
struct Breaks(u32);

impl Program for Breaks {
    fn next(&mut self, _now: u64) -> Step {
        self.0 += 1;
        if self.0 == 3 {
            // SAFETY: there is no such CPU, of which a note is made.
            unsafe { native::scx_bpf_kick_cpu(9, 0) }
        }
        Step::Work(Kind::Scalar, 2e5)
    }

    fn name(&self) -> &str {
        "vandal"
    }
}

/// To the nanosecond, even if that is long before the run was to stop.
#[test]
fn a_broken_rule_is_told_with_its_event() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    engine.spawn(forever(&[Step::Sleep(100 * MS)]), 100);
    engine.spawn(Box::new(Breaks(0)), 100);
    let complaint = engine.run_for(50 * MS).unwrap_err().to_string();
    let expected = format!(
        "{:.6} ms, at the end of work of thread 2 of vandal on CPU 0: \
         CPU 9, which there is not, is kicked",
        (engine.now() - BEGIN_NS) as f64 / 1e6
    );
    assert_eq!(complaint, expected);
    assert!(engine.now() < BEGIN_NS + MS, "{complaint}");
}

/// ... or with what was done between two events, whatever was done after it.
#[test]
fn a_broken_rule_is_told_with_the_change() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let task = engine.spawn(Box::new(Breaks(9)), 100);
    engine.run_for(MS).unwrap();
    engine.set_online(1, false);
    // SAFETY: as above.
    unsafe { native::scx_bpf_kick_cpu(9, 0) };
    engine.weigh(task, 300);
    let complaint = engine.run_for(MS).unwrap_err().to_string();
    let expected = "1.000000 ms, as CPU 1 goes offline: CPU 9, which there is not, is kicked";
    assert_eq!(complaint, expected);
}

#[test]
fn who_is_not_to_be_queued_is_not_inserted() {
    // SAFETY: as above.
    let insert_now =
        |task: Task| unsafe { native::scx_bpf_dsq_insert(task.0.cast(), LOCAL, MS, 0) };
    let refused = "task 1 is inserted when it is not to be queued";
    assert_eq!(complaint(|task, _| insert_now(task)), refused);
    assert_eq!(complaint(|task, other| within(SIM_ENQUEUE, other, || insert_now(task))), refused);
    assert_eq!(complaint(|task, _| within(SIM_DISPATCH, task, || insert_now(task))), refused);
}

#[test]
fn a_task_has_one_place() {
    let twice = |task, _| {
        insert(task, LOCAL);
        insert(task, LOCAL);
    };
    assert_eq!(complaint(twice), "task 1 is inserted twice");
    let nowhere = "task 1 is inserted into queue 3000, which there is not";
    assert_eq!(complaint(|task, _| insert(task, QUEUE)), nowhere);
    let elsewhere = "task 1 is sent to CPU 5, which it may not use";
    assert_eq!(complaint(|task, _| insert(task, LOCAL_ON | 5)), elsewhere);
}

#[test]
fn a_queue_has_one_order() {
    let both = |task, other| {
        create_queue();
        insert(task, QUEUE);
        insert_by_vtime(other, QUEUE);
    };
    let complaint_of_both = "task 2 is inserted by its time into queue 3000, where others are not";
    assert_eq!(complaint(both), complaint_of_both);
    let of_a_cpu = "task 1 is inserted into the queue of a CPU by its time";
    assert_eq!(complaint(|task, _| insert_by_vtime(task, LOCAL)), of_a_cpu);
}

/// Or before all others, if that is asked for.
#[test]
fn who_comes_first_is_first() {
    let first_of = |flags| {
        let (mut engine, [task, other]) = sleepers();
        create_queue();
        insert(task, QUEUE);
        // SAFETY: as above.
        let last = || unsafe { native::scx_bpf_dsq_insert(other.0.cast(), QUEUE, MS, flags) };
        within(SIM_ENQUEUE, other, last);
        engine.run_for(MS).unwrap();
        // SAFETY: as above.
        (unsafe { native::__COMPAT_scx_bpf_dsq_peek(QUEUE) }, [task, other])
    };
    let (first, [task, _]) = first_of(0);
    assert_eq!(first, task.0.cast());
    let (first, [_, other]) = first_of(ENQ_HEAD);
    assert_eq!(first, other.0.cast());
}

/// Or at once, before all others, if that is asked for.
#[test]
fn who_comes_waits_for_the_end_of_a_turn() {
    let works = [Step::Sleep(MS), Step::Work(Kind::Scalar, 1e5), Step::Sleep(9 * MS)];
    let work_done_with = |flags| {
        let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
        let task = engine.spawn(forever(&works), 1);
        engine.run_for(MS / 4).unwrap();
        engine.spawn(forever(&[Step::Work(Kind::Scalar, 1e9)]), 100);
        engine.run_for(MS / 4).unwrap();
        // SAFETY: as above.
        let come = || unsafe { native::scx_bpf_dsq_insert(task.0.cast(), LOCAL, MS, flags) };
        within(SIM_ENQUEUE, task, come);
        engine.run_for(MS).unwrap();
        engine.work_done(task, Kind::Scalar)
    };
    assert_eq!(work_done_with(0), 0.0);
    assert_eq!(work_done_with(ENQ_HEAD), 0.0);
    assert!(work_done_with(ENQ_PREEMPT) > 9e4);
}

#[test]
fn who_asks_for_a_task_was_asked_for_one() {
    // SAFETY: as above.
    let take = || assert!(!unsafe { native::scx_bpf_dsq_move_to_local(QUEUE, 0) });
    let unasked = "a task of queue 3000 is taken by who was not asked for one";
    assert_eq!(complaint(|_, _| take()), unasked);
    let nowhere = "queue 3000, which there is not, is looked into";
    assert_eq!(complaint(|task, _| within(SIM_DISPATCH, task, take)), nowhere);
    // SAFETY: as above.
    let anew = || unsafe { native::scx_bpf_reenqueue_local() };
    assert_eq!(complaint(|_, _| anew()), "CPU 0 is to queue its tasks anew, and keeps them");
}

#[test]
fn a_cpu_that_is_kicked_is_there_and_idles_or_does_not() {
    // SAFETY: as above.
    let kick = |cpu, flags| complaint(|_, _| unsafe { native::scx_bpf_kick_cpu(cpu, flags) });
    assert_eq!(kick(1, 0), "CPU 1, which there is not, is kicked");
    assert_eq!(kick(-1, 0), "CPU -1, which there is not, is kicked");
    let both = "CPU 0 is kicked as if it both idled and did not";
    assert_eq!(kick(0, KICK_IDLE | KICK_PREEMPT), both);
}

#[test]
fn what_is_held_is_let_go_of() {
    // SAFETY: as above, and the name is there for good.
    let hold = || unsafe { native::sim_hold(c"look".as_ptr()) };
    // SAFETY: as above.
    let let_loose = || unsafe { native::sim_let_loose(c"look".as_ptr()) };
    assert_eq!(complaint(|_, _| hold()), "look() does not let go of what it holds");
    assert_eq!(complaint(|_, _| let_loose()), "look() lets go of what it does not hold");
}

/// Where two programs make the first thing for a task at once the kernel gives up for one of them.
#[test]
fn who_is_slower_to_make_storage_for_a_task_finds_that_there() {
    let mut engine = machine(1, AVX_TIER_TRAP, &[]);
    // SAFETY: a number is stored.
    unsafe { native::sim_let_others_make_storage() };
    let task = engine.spawn(forever(&[Step::Work(Kind::Scalar, 1e6)]), 100);
    engine.run_for(MS).unwrap();
    assert!(engine.work_done(task, Kind::Scalar) > 0.9e6);
}
