// SPDX-License-Identifier: GPL-2.0-only
//! What comes from outside while programs run, and what the scheduler makes of it.

use super::engine::Engine;
use super::engine_test::{forever, in_force, machine, mask, shares_of};
use super::program::{Program, Step};
use super::{MASK_WORDS, Task};
use crate::bpf::intf::{AVX_TIER_OBSERVE, AVX_TIER_TRAP};
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

struct Busy(Kind);

impl Program for Busy {
    fn next(&mut self, _now: u64) -> Step {
        Step::Work(self.0, 1e9)
    }
}

/// Scalar work with system calls, and now and then wide work that is too short for most ticks.
struct Alternates(usize);

impl Program for Alternates {
    fn next(&mut self, _now: u64) -> Step {
        self.0 += 1;
        match self.0 % 6 {
            1 => Step::Work(Kind::Heavy512, 5e4),
            3 | 5 => Step::Work(Kind::Scalar, 1e6),
            _ => Step::Syscall,
        }
    }
}

/// It sleeps for so long, and wants a CPU for ever after.
struct Sleeper(u64);

impl Program for Sleeper {
    fn next(&mut self, _now: u64) -> Step {
        match std::mem::take(&mut self.0) {
            0 => Step::Work(Kind::Scalar, 1e9),
            ns => Step::Sleep(ns),
        }
    }

    fn name(&self) -> &str {
        "sleeper"
    }
}

fn busy(engine: &mut Engine<Steady>, nr: usize) -> Vec<Task> {
    (0..nr).map(|_| engine.spawn(Box::new(Busy(Kind::Scalar)), 100)).collect()
}

fn only(cpu: u32) -> [u64; MASK_WORDS] {
    mask(1 << cpu)
}

#[test]
fn the_tasks_of_a_cpu_that_goes_share_the_others() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["sizing=static", "avx-cpus=1"]);
    let tasks = busy(&mut engine, 6);
    engine.run_for(SECOND).unwrap();
    engine.allow(tasks[0], &only(2));
    engine.set_online(2, false);
    engine.run_for(MS).unwrap();
    assert!(!engine.kernel().is_attached(), "a scheduler that does not know its CPUs goes on");
    engine.run_for(SECOND).unwrap();
    assert!(engine.kernel().is_attached(), "it is not loaded again");

    let shares = shares_of(&mut engine, &tasks, 5 * SECOND);
    assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.03), "{shares:?}");
    assert!(tasks.iter().all(|task| engine.kernel().cpu_of(*task) != 2));
    assert_eq!(engine.kernel().nr_avx_cores(), 1);

    engine.set_online(2, true);
    engine.run_for(SECOND).unwrap();
    let shares = shares_of(&mut engine, &tasks, 5 * SECOND);
    assert!(shares.iter().all(|share| (share - 4.0 / 6.0).abs() < 0.03), "{shares:?}");
}

/// Of the two CPUs that are left the first one is busy.
#[test]
fn who_wakes_with_another_mask_finds_the_cpu_that_idles() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let sleeper = engine.spawn(Box::new(Sleeper(10 * MS)), 100);
    let other = engine.spawn(Box::new(Busy(Kind::Scalar)), 100);
    engine.run_for(5 * MS).unwrap();
    engine.allow(other, &only(2));
    let was_on = engine.kernel().cpu_of(sleeper);
    engine.allow(sleeper, &mask(0b1100));
    engine.run_for(6 * MS).unwrap();
    assert!(was_on < 2, "it slept on one of them: {was_on}");
    assert_eq!(engine.kernel().cpu_of(sleeper), 3);
    assert!(engine.work_done(sleeper, Kind::Scalar) > 0.5e6);
}

#[test]
fn nobody_waits_for_a_cpu_that_is_taken() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let tasks = busy(&mut engine, 2);
    engine.run_for(SECOND).unwrap();
    engine.take_cpu(1, SECOND);
    let shares = shares_of(&mut engine, &tasks, SECOND);
    assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.03), "{shares:?}");
    let shares = shares_of(&mut engine, &tasks, SECOND);
    assert!(shares.iter().all(|share| *share > 0.98), "{shares:?}");
}

#[test]
fn who_waits_for_the_longest_is_told_by_its_name() {
    let complaint = |nth_is_first: fn(u64) -> u64| {
        let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
        for n in 0..8 {
            engine.spawn(Box::new(Sleeper((10 + nth_is_first(n)) * MS)), 100);
        }
        engine.run_for(5 * MS).unwrap();
        engine.take_cpu(0, 100 * SECOND);
        engine.run_for(29 * SECOND).unwrap();
        let complaint = engine.run_for(40 * SECOND).unwrap_err().to_string();
        // At once, and not when it was to stop.
        assert!(engine.now() < 32 * SECOND, "{}", engine.now());
        complaint
    };
    let of = |thread| format!(": thread {thread} of sleeper waits for more than 30000 ms, since ");
    let (first, last) = (complaint(|n| n), complaint(|n| 8 - n));
    assert!(first.contains(&of(1)) && last.contains(&of(8)), "{first}, {last}");
    let begun = "in the watchdog: thread 1 of sleeper waits for more than 30000 ms, since ";
    let (noticed, since) = first.split_once(&format!(", {begun}")).unwrap();
    let ms = |text: &str| text.strip_suffix(" ms").unwrap().parse::<f64>().unwrap();
    let waited = ms(noticed) - ms(since);
    assert!((waited - 30_000.000_001).abs() < 1e-7, "{first}");
}

/// However often it is queued anew meanwhile, for its weight and its mask change all the time.
#[test]
fn who_is_queued_anew_all_the_time_waits_on() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let task = busy(&mut engine, 1)[0];
    engine.run_for(SECOND).unwrap();
    let begun = engine.now();
    engine.take_cpu(0, 100 * SECOND);
    engine.take_cpu(1, 100 * SECOND);
    for n in 0..300 {
        engine.weigh(task, [300, 100][n % 2]);
        engine.allow(task, &only(n as u32 % 2));
        engine.run_for(SECOND / 10).unwrap();
        assert_eq!(engine.kernel().waits_since(task), Some(begun), "{n}");
    }
    let complaint = engine.run_for(SECOND / 10).unwrap_err().to_string();
    assert!(complaint.starts_with("31000.000001 ms, in the watchdog: thread 1"), "{complaint}");
}

/// Weights alone may keep it waiting for so long, and what is changed of it meanwhile does not add
/// to that.
#[test]
fn who_is_changed_while_it_waits_is_not_due_later() {
    let longest_wait = |changes: fn(&mut Engine<Steady>, Task, u32)| {
        let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
        let light = engine.spawn(Box::new(Busy(Kind::Scalar)), 1);
        let _heavy = [(); 2].map(|()| engine.spawn(Box::new(Busy(Kind::Scalar)), 10_000));
        let mut longest = 0;
        for n in 0..20 {
            engine.run_for(SECOND).unwrap();
            let since = engine.kernel().waits_since(light);
            longest = longest.max(since.map_or(0, |since| engine.now() - since));
            changes(&mut engine, light, n);
        }
        longest / SECOND
    };
    assert_eq!(longest_wait(|_, _, _| {}), 4);
    assert_eq!(longest_wait(|engine, light, n| engine.weigh(light, 1 + n % 2)), 4);
    assert_eq!(longest_wait(|engine, light, _| engine.allow(light, &only(0))), 4);
}

/// The kernel counts anew with each scheduler, which has everybody queue anew.
#[test]
fn nobody_waits_for_a_scheduler_that_is_gone() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let task = busy(&mut engine, 1)[0];
    engine.run_for(SECOND).unwrap();
    engine.allow(task, &only(0));
    engine.take_cpu(0, 100 * SECOND);
    engine.run_for(20 * SECOND).unwrap();
    engine.set_online(1, false);
    engine.run_for(29 * SECOND).unwrap();
    let since = engine.kernel().waits_since(task).unwrap();
    assert!(engine.now() - since > 28 * SECOND && engine.now() - since < 29 * SECOND);
    engine.run_for(2 * SECOND).unwrap_err();
}

#[test]
fn another_weight_counts_at_once() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let tasks = busy(&mut engine, 2);
    engine.run_for(SECOND).unwrap();
    engine.weigh(tasks[0], 300);
    let shares = shares_of(&mut engine, &tasks, 5 * SECOND);
    assert!((shares[0] - 0.75).abs() < 0.03, "{shares:?}");
    engine.weigh(tasks[0], 100);
    let shares = shares_of(&mut engine, &tasks, 5 * SECOND);
    assert!((shares[0] - 0.5).abs() < 0.03, "{shares:?}");
}

/// Whoever changes it does so on another CPU, whose books are about what runs there.
#[test]
fn what_runs_is_changed_without_a_trace_on_the_cpu_of_who_does_it() {
    let turns = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(2, AVX_TIER_TRAP, &turns);
    let wide = engine.spawn(Box::new(Busy(Kind::Heavy512)), 100);
    engine.run_for(SECOND).unwrap();
    // It is younger by far, so that the audit would see whose time is kept.
    let scalar = engine.spawn(Box::new(Busy(Kind::Scalar)), 100);
    engine.run_for(10 * MS).unwrap();
    assert_eq!([scalar, wide].map(|task| engine.kernel().cpu_of(task)), [0, 1]);

    let before = engine.kernel().stats(0);
    for round in 0..20 {
        for task in [wide, scalar] {
            engine.weigh(task, [300, 100][round % 2]);
            let its_own = only(engine.kernel().cpu_of(task));
            engine.allow(task, &[its_own, [u64::MAX; MASK_WORDS]][round % 2]);
            engine.run_for(3 * MS + MS / 3).unwrap();
            engine.kernel().audit().unwrap();
        }
    }
    let after = engine.kernel().stats(0);
    assert_eq!(after.avx_ns, before.avx_ns, "AVX work is booked where there is none");
    assert_eq!(after.avx_waits, before.avx_waits);
}

/// Of two that share an AVX core, one goes to sleep when that is none any more. The other one is not
/// yet for any CPU, and once it is there are no ticks in which a busy CPU would look.
#[test]
fn avx_work_is_not_left_beside_idle_cpus() {
    struct Once(bool);
    impl Program for Once {
        fn next(&mut self, _now: u64) -> Step {
            match std::mem::replace(&mut self.0, true) {
                false => Step::Work(Kind::Heavy512, 8e6),
                true => Step::Sleep(100 * SECOND),
            }
        }
    }
    let turns = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(2, AVX_TIER_TRAP, &turns);
    let tasks = [(); 2].map(|()| engine.spawn(Box::new(Once(false)), 100));
    // Just before a look, so that no tick finds the one that runs while there is an AVX core that
    // the other one could take.
    engine.run_for(10 * MS - MS / 5).unwrap();
    engine.kernel_mut().set_policy(&in_force(&["avx-cores-for=nobody"]));
    engine.run_for(10 * MS).unwrap();
    let waiting = tasks.iter().filter(|task| engine.kernel().waits_since(**task).is_some());
    assert_eq!((waiting.count(), engine.kernel().nr_avx_cores()), (1, 0));
    assert!((0..2).all(|cpu| engine.kernel().current(cpu).is_none()));

    engine.run_for(200 * MS).unwrap();
    let done = tasks.map(|task| engine.work_done(task, Kind::Heavy512));
    assert!(done.iter().all(|done| *done > 7.9e6), "{done:?}");
    engine.kernel().audit().unwrap();
}

/// A realtime task has the one AVX core that an AVX task may use. Another AVX core idles, and so does
/// a CPU that it may use: there it has a turn whenever it has waited for long.
#[test]
fn avx_work_is_not_left_beside_an_avx_core_that_is_not_for_it() {
    let turns = ["sizing=static", "avx-cpus=2"];
    let mut engine = machine(4, AVX_TIER_TRAP, &turns);
    let task = engine.spawn(Box::new(Busy(Kind::Heavy512)), 100);
    engine.allow(task, &mask(0b1001));
    engine.run_for(100 * MS).unwrap();
    engine.take_cpu(3, 10 * SECOND);
    let before = engine.work_done(task, Kind::Heavy512);
    engine.run_for(SECOND).unwrap();
    let done = engine.work_done(task, Kind::Heavy512) - before;
    assert!(done > 10.0 * MS as f64, "{done} ns of work");
    engine.kernel().audit().unwrap();
}

/// A realtime task has the AVX core for longer than cores are kept that nobody needs. Who waits for
/// it needs it.
#[test]
fn an_avx_core_that_is_waited_for_is_not_given_back() {
    let mut engine = machine(3, AVX_TIER_TRAP, &[]);
    engine.spawn(Box::new(Busy(Kind::Heavy512)), 100);
    busy(&mut engine, 4);
    engine.run_for(5 * SECOND).unwrap();
    let avx_core = (0..3).find(|cpu| engine.kernel().is_avx_core(*cpu)).unwrap();
    for _ in 0..3 {
        engine.take_cpu(avx_core, 500 * MS);
        for _ in 0..100 {
            engine.run_for(5 * MS).unwrap();
            assert!(engine.kernel().is_avx_core(avx_core), "at {} ns", engine.now());
        }
        engine.run_for(SECOND).unwrap();
        engine.kernel().audit().unwrap();
    }
}

/// The kernel has let go of what was asked of it: nothing is hidden, and no system call ends a
/// phase. It is asked again, or else the next wide work would not be noticed.
#[test]
fn who_had_realtime_priority_begins_anew() {
    let turns = ["sizing=static", "avx-cpus=1", "return=syscall"];
    let mut engine = machine(2, AVX_TIER_TRAP, &turns);
    let task = engine.spawn(Box::new(Alternates(0)), 100);
    let faults = |engine: &Engine<Steady>| -> u64 {
        (0..2).map(|cpu| engine.kernel().stats(cpu).wide_faults).sum()
    };
    for round in 0..20 {
        let in_phase = round % 2 == 1;
        let is_found = (0..100_000).any(|_| {
            engine.run_for(MS / 50).unwrap();
            engine.kernel().is_hidden_from(task) != in_phase
        });
        assert!(is_found, "in a phase: {in_phase} at no time");
        let before = faults(&engine);
        engine.boost(task);
        assert!(!engine.kernel().is_hidden_from(task));
        engine.run_for(10 * MS).unwrap();
        let new = faults(&engine) - before;
        assert!(new >= 3, "{new} faults, in a phase: {in_phase}");
        engine.kernel().audit().unwrap();
    }
}

/// As when two policies are tried by turns. Each task is a process of its own, and few of them use
/// wide vectors for so long that a tick would see that.
#[test]
fn who_is_served_again_is_served_at_once() {
    let turns = ["return=syscall"];
    let mut engine = machine(8, AVX_TIER_TRAP, &turns);
    let tasks: Vec<Task> = (0..8).map(|n| engine.spawn(Box::new(Alternates(n)), 100)).collect();
    engine.run_for(SECOND).unwrap();
    let hidden = |engine: &Engine<Steady>| {
        tasks.iter().filter(|task| engine.kernel().is_hidden_from(**task)).count()
    };
    assert!(engine.kernel().nr_avx_cores() > 0 && hidden(&engine) > 4, "{}", hidden(&engine));
    for round in 0..8 {
        let serves = round % 2 == 1;
        let turns = if serves { &turns[..] } else { &["avx-cores-for=nobody"] };
        engine.kernel_mut().set_policy(&in_force(turns));
        engine.run_for(20 * MS).unwrap();
        let are = (engine.kernel().nr_avx_cores() > 0, hidden(&engine) > 4);
        assert_eq!(are, (serves, serves), "{round}: {} hidden", hidden(&engine));
        engine.run_for(60 * MS).unwrap();
    }
    engine.kernel().audit().unwrap();
}

/// The kernel has let go of it as well, and need not tell of another program.
#[test]
fn who_began_another_program_begins_anew() {
    let turns = ["sizing=static", "avx-cpus=1", "return=syscall"];
    for told in [true, false] {
        let mut engine = machine(1, AVX_TIER_TRAP, &turns);
        let task = engine.spawn(Box::new(Alternates(0)), 100);
        for round in 0..20 {
            let in_phase = round % 2 == 1;
            let is_found = (0..100_000).any(|_| {
                engine.run_for(MS / 50).unwrap();
                engine.kernel().is_hidden_from(task) != in_phase
            });
            assert!(is_found, "in a phase: {in_phase} at no time, told before: {told}");
            engine.kernel_mut().exec(0, told);
            assert!(!engine.kernel().is_hidden_from(task));
            engine.kernel().audit().unwrap();
        }
    }
}

/// It is AVX work that no longer is the scheduler's, and then nothing at all.
#[test]
fn who_sleeps_with_realtime_priority_runs_no_avx_work() {
    let steps = [
        Step::Hint(1),
        Step::Work(Kind::Heavy512, 4e6),
        Step::Hint(0),
        Step::Work(Kind::Scalar, 4e6),
        Step::Hint(1),
        Step::Sleep(SECOND),
    ];
    for after_ms in [2, 6] {
        let turns = ["sizing=static", "avx-cpus=1"];
        let mut engine = machine(2, AVX_TIER_TRAP, &turns);
        let task = engine.spawn(forever(&steps), 100);
        engine.run_for(after_ms * MS).unwrap();
        engine.be_realtime(task, true);
        engine.run_for(500 * MS).unwrap();
        assert!((0..2).all(|cpu| engine.kernel().current(cpu).is_none()), "it does not sleep");
        engine.kernel().audit().unwrap();
        engine.be_realtime(task, false);
        busy(&mut engine, 2);
        engine.run_for(10 * MS).unwrap();
        let avx_ns: u64 = (0..2).map(|cpu| engine.kernel().stats(cpu).avx_ns).sum();
        assert!(avx_ns < 12 * MS, "{avx_ns}");
    }
}

/// Nor what it does after a hint.
#[test]
fn who_asks_for_realtime_priority_runs_no_avx_work_from_then_on() {
    let steps = [
        Step::Work(Kind::Heavy512, 4e6),
        Step::Work(Kind::Scalar, 4e6),
        Step::Hint(1),
        Step::Work(Kind::Scalar, 4e7),
        Step::Sleep(SECOND),
    ];
    let turns = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(2, AVX_TIER_TRAP, &turns);
    let task = engine.spawn(forever(&steps), 100);
    engine.run_for(2 * MS).unwrap();
    engine.ask_for_realtime(task);
    engine.run_for(500 * MS).unwrap();
    let avx_ns: u64 = (0..2).map(|cpu| engine.kernel().stats(cpu).avx_ns).sum();
    assert!((MS / 2..3 * MS).contains(&avx_ns), "{avx_ns}");
    engine.kernel().audit().unwrap();
}

/// They could help nobody who is confined to CPUs that are none.
#[test]
fn who_may_use_no_avx_core_asks_for_none() {
    let mut engine = machine(8, AVX_TIER_TRAP, &[]);
    for _ in 0..4 {
        let task = engine.spawn(Box::new(Busy(Kind::Heavy512)), 100);
        engine.allow(task, &only(0));
    }
    let roaming = engine.spawn(Box::new(Busy(Kind::Heavy512)), 100);
    engine.run_for(3 * SECOND).unwrap();
    assert!(engine.kernel().nr_avx_cores() <= 2, "{}", engine.kernel().nr_avx_cores());
    assert!(engine.work_done(roaming, Kind::Heavy512) > 2.9e9);
    engine.kernel().audit().unwrap();
}

/// It does AVX work for so long, and nothing from then on.
struct Worker(u64);

impl Program for Worker {
    fn next(&mut self, _now: u64) -> Step {
        match self.0.checked_sub(MS) {
            Some(left) => {
                self.0 = left;
                Step::Work(Kind::Heavy512, MS as f64)
            }
            None => Step::Sleep(100 * SECOND),
        }
    }
}

/// The limits are those of the audit.
fn go_on_within_limits(engine: &mut Engine<Steady>, ns: u64) {
    for _ in 0..ns / (10 * MS) {
        engine.run_for(10 * MS).unwrap();
        engine.kernel().audit().unwrap();
    }
}

#[test]
fn there_are_avx_cores_while_there_is_avx_work_and_none_long_after_it() {
    for (sizing, forgets) in [("sizing=controller", SECOND), ("sizing=share", 6 * SECOND)] {
        let turns = [sizing];
        let mut engine = machine(8, AVX_TIER_TRAP, &turns);
        busy(&mut engine, 3);
        for _ in 0..2 {
            engine.spawn(Box::new(Worker(2 * SECOND)), 100);
        }
        go_on_within_limits(&mut engine, SECOND);
        assert!((1..=4).contains(&engine.kernel().nr_avx_cores()), "{sizing}");
        go_on_within_limits(&mut engine, 3 * SECOND + forgets);
        assert_eq!(engine.kernel().nr_avx_cores(), 0, "{sizing}");
    }
}

#[test]
fn a_set_that_is_too_large_for_its_tasks_shrinks() {
    let static_set = ["sizing=static", "avx-cpus=6"];
    let mut engine = machine(8, AVX_TIER_TRAP, &static_set);
    engine.spawn(Box::new(Busy(Kind::Heavy512)), 100);
    go_on_within_limits(&mut engine, SECOND);
    assert_eq!(engine.kernel().nr_avx_cores(), 6);
    engine.kernel_mut().set_policy(&in_force(&[]));
    go_on_within_limits(&mut engine, SECOND);
    assert!((1..=2).contains(&engine.kernel().nr_avx_cores()));
}

/// Whoever waits is queued anew where it is, and then elsewhere: twice an idle CPU is found for it.
#[test]
fn no_idle_cpu_is_lost_to_a_change_of_masks() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let tasks = busy(&mut engine, 2);
    for _ in 0..10 {
        for task in &tasks {
            engine.allow(*task, &only(0));
        }
        engine.run_for(30 * MS).unwrap();
        let waiting = tasks.iter().find(|task| engine.kernel().waits_since(**task).is_some());
        let mut others = only(1);
        others[0] |= 0b1100;
        engine.allow(*waiting.unwrap(), &others);
        engine.run_for(30 * MS).unwrap();
        engine.kernel().audit().unwrap();
    }
}

/// Whether it runs or waits.
#[test]
fn who_may_no_longer_be_where_it_is_leaves_at_once() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let tasks = busy(&mut engine, 8);
    for round in 0..40 {
        engine.run_for(7 * MS).unwrap();
        let (task, cpu) = (tasks[round % 8], round as u32 % 4);
        engine.allow(task, &only(cpu));
        engine.kernel().audit().unwrap();
        assert_eq!(engine.kernel().cpu_of(task), cpu);
        engine.run_for(7 * MS).unwrap();
        engine.allow(task, &[u64::MAX; MASK_WORDS]);
    }
    let shares = shares_of(&mut engine, &tasks, 5 * SECOND);
    assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.03), "{shares:?}");
}

/// Of what runs when the scheduler goes, and of what sleeps.
#[test]
fn programs_go_on_while_there_is_no_scheduler() {
    struct Sleeper(bool);
    impl Program for Sleeper {
        fn next(&mut self, _now: u64) -> Step {
            self.0 = !self.0;
            if self.0 { Step::Work(Kind::Scalar, 1e5) } else { Step::Sleep(MS / 10) }
        }
    }
    let mut engine = machine(2, AVX_TIER_TRAP, &[]);
    let mut tasks = busy(&mut engine, 2);
    tasks.push(engine.spawn(Box::new(Sleeper(false)), 100));
    engine.run_for(SECOND).unwrap();
    engine.kernel_mut().detach();
    let shares = shares_of(&mut engine, &tasks, SECOND);
    assert!(shares.iter().sum::<f64>() > 1.9 && shares.iter().all(|it| *it > 0.0), "{shares:?}");
    engine.kernel_mut().attach_again().unwrap();
    let shares = shares_of(&mut engine, &tasks, SECOND);
    assert!(shares.iter().sum::<f64>() > 1.9 && shares.iter().all(|it| *it > 0.0), "{shares:?}");
}
