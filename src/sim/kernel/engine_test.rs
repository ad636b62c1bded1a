// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler at work, on machines whose clock never changes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::engine::{COSTS, Engine};
use super::program::{Program, Step};
use super::{Class, Kernel, MASK_WORDS, Task};
use crate::agent::policy;
use crate::bpf::intf::{
    AVX_HINT_AVX512, AVX_TIER_OBSERVE, AVX_TIER_TRAP, AVX_TIER_XSTATE, BOUNDARY_SYSCALL,
    CAUSE_FAULT, EVENT_BEGAN, EVENT_ENDED, EVENT_SENT, ROLE_AVX, ROLE_SCALAR, avx_cpu_stats,
    avx_event, avx_policy_in_force, avx_tier, avx_topology,
};
use crate::processors::UNKNOWN_CLOCKS;
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const SECOND: u64 = 1000 * MS;

/// A program that does the same steps for ever.
struct Loop {
    steps: Vec<Step>,
    at: usize,
}

impl Program for Loop {
    fn next(&mut self, _now: u64) -> Step {
        self.at += 1;
        self.steps[(self.at - 1) % self.steps.len()]
    }
}

pub fn forever(steps: &[Step]) -> Box<dyn Program> {
    Box::new(Loop { steps: steps.to_vec(), at: 0 })
}

pub fn busy() -> Box<dyn Program> {
    forever(&[Step::Work(Kind::Scalar, 1e9)])
}

/// So many CPUs that share a cache.
pub fn machine(nr_cpus: u32, tier: avx_tier, settings: &[&str]) -> Engine<Steady> {
    machine_with_caches(nr_cpus, nr_cpus, tier, settings)
}

pub fn machine_with_caches(
    nr_cpus: u32,
    cpus_per_cache: u32,
    tier: avx_tier,
    settings: &[&str],
) -> Engine<Steady> {
    machine_of([nr_cpus, cpus_per_cache], 1, tier, settings)
}

/// So many cores, and so many for each cache, of one or two threads. CPUs are numbered as Linux
/// does: first one of each core, then their siblings.
pub fn machine_of(
    [nr_cores, cores_per_cache]: [u32; 2],
    core_cpus: u32,
    tier: avx_tier,
    settings: &[&str],
) -> Engine<Steady> {
    machine_of_class(Class::Ext, [nr_cores, cores_per_cache], core_cpus, tier, settings)
}

pub fn machine_of_class(
    class: Class,
    [nr_cores, cores_per_cache]: [u32; 2],
    core_cpus: u32,
    tier: avx_tier,
    settings: &[&str],
) -> Engine<Steady> {
    let nr_cpus = nr_cores * core_cpus;
    let llc_of = |core| core / cores_per_cache * cores_per_cache;
    let place = |cpu| avx_topology {
        core: cpu % nr_cores,
        llc: llc_of(cpu % nr_cores),
        node: 0,
        next_llc: (llc_of(cpu % nr_cores) + cores_per_cache) % nr_cores,
        core_cpus,
        sibling: (cpu + nr_cores) % nr_cpus,
        online: 1,
        usable: 1,
    };
    let places: Vec<_> = (0..nr_cpus).map(place).collect();
    let kernel = Kernel::boot(&places, &UNKNOWN_CLOCKS, tier, &in_force(settings), class);
    Engine::new(kernel.unwrap(), Steady, COSTS)
}

/// Each policy is another one to the scheduler by its generation.
pub fn in_force(settings: &[&str]) -> avx_policy_in_force {
    static GENERATIONS: AtomicU64 = AtomicU64::new(1);
    let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
    let settings: Vec<String> = settings.iter().map(|set| (*set).to_owned()).collect();
    let standard = policy::on_cpu(&policy::standard(), 256);
    let policy = policy::turned(standard, &settings).unwrap();
    avx_policy_in_force { generation, checksum: 0, policy }
}

#[test]
fn cpus_are_shared_fairly() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let tasks: Vec<Task> = (0..10).map(|_| engine.spawn(busy(), 100)).collect();
    engine.run_for(10 * SECOND).unwrap();
    for task in tasks {
        let share = engine.work_done(task, Kind::Scalar) / (10 * SECOND) as f64;
        assert!((share - 0.4).abs() < 0.02, "{share} of a CPU instead of 0.4");
    }
}

#[test]
fn who_waits_is_known_to_have_waited() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let tasks: Vec<Task> = (0..10).map(|_| engine.spawn(busy(), 100)).collect();
    let pause = [Step::Work(Kind::Scalar, 1e5), Step::Sleep(300 * MS)];
    let sleeper = engine.spawn(forever(&pause), 100);
    engine.run_for(SECOND).unwrap();
    let awake = |task| engine.kernel().ran(task) + engine.kernel().waited(task);
    assert!(tasks.iter().all(|task| awake(*task).abs_diff(SECOND) < MS));
    assert!(awake(sleeper) < 100 * MS, "{} ns", awake(sleeper));
}

#[test]
fn shares_follow_weights() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let (light, heavy) = (engine.spawn(busy(), 100), engine.spawn(busy(), 300));
    engine.run_for(10 * SECOND).unwrap();
    let ratio = engine.work_done(heavy, Kind::Scalar) / engine.work_done(light, Kind::Scalar);
    assert!((ratio - 3.0).abs() < 0.1, "{ratio} instead of 3");
}

#[test]
fn nobody_waits_beside_an_idle_cpu() {
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Sleep(MS)];
    let tasks: Vec<Task> = (0..4).map(|_| engine.spawn(forever(&steps), 100)).collect();
    engine.run_for(SECOND).unwrap();
    for task in tasks {
        let share = engine.work_done(task, Kind::Scalar) / SECOND as f64;
        assert!(share > 0.49, "{share} of a CPU instead of half of one");
    }
}

/// Three threads that sleep for a while, for two CPUs that share no cache: now and then two do at
/// the same time.
#[test]
fn no_cpu_idles_while_somebody_waits_at_another_cache() {
    let mut engine = machine_with_caches(2, 1, AVX_TIER_OBSERVE, &[]);
    let steps = [Step::Work(Kind::Scalar, 3e6), Step::Sleep(MS)];
    let tasks: Vec<Task> = (0..3).map(|_| engine.spawn(forever(&steps), 100)).collect();
    engine.run_for(SECOND).unwrap();
    let done: f64 = tasks.iter().map(|task| engine.work_done(*task, Kind::Scalar)).sum();
    let busy = done / SECOND as f64;
    assert!(busy > 1.9, "{busy} of 2 CPUs were busy");
}

/// These of the first 64 CPUs.
pub fn mask(cpus: u64) -> [u64; MASK_WORDS] {
    let mut words = [0; MASK_WORDS];
    words[0] = cpus;
    words
}

pub fn confine(engine: &mut Engine<Steady>, tasks: &[Task], cpus: u64) {
    tasks.iter().for_each(|task| engine.kernel_mut().allow(*task, &mask(cpus), false));
}

/// What each has done so far.
fn done(engine: &Engine<Steady>, tasks: &[Task]) -> Vec<f64> {
    tasks.iter().map(|task| engine.work_done(*task, Kind::Scalar)).collect()
}

/// What each does of the time from now on.
pub fn shares_of(engine: &mut Engine<Steady>, tasks: &[Task], ns: u64) -> Vec<f64> {
    let before = done(engine, tasks);
    engine.run_for(ns).unwrap();
    engine.kernel().audit().unwrap();
    let after = done(engine, tasks);
    before.iter().zip(after).map(|(before, after)| (after - before) / ns as f64).collect()
}

/// How long one of them waits at most, in the next so many milliseconds.
pub fn longest_wait_of(engine: &mut Engine<Steady>, tasks: &[Task], ms: u64) -> u64 {
    let mut longest = 0;
    for _ in 0..ms {
        engine.run_for(MS).unwrap();
        let waiting = tasks.iter().filter_map(|task| engine.kernel().waits_since(*task));
        longest = waiting.map(|since| engine.now() - since).fold(longest, u64::max);
    }
    longest
}

/// The many tasks of one of these caches, which have two CPUs each, may go nowhere else. Others
/// are one more than the other CPUs: how long one of these waits at most, and how many CPUs they
/// keep busy.
fn beside_those_who_may_not_come(nr_caches: u32, nr_crowd: usize, steps: &[Step]) -> (u64, f64) {
    let nr_cpus = 2 * nr_caches;
    let mut engine = machine_with_caches(nr_cpus, 2, AVX_TIER_OBSERVE, &[]);
    let crowd: Vec<Task> = (0..nr_crowd).map(|_| engine.spawn(busy(), 100)).collect();
    let tasks: Vec<Task> = (0..nr_cpus - 1).map(|_| engine.spawn(forever(steps), 100)).collect();
    confine(&mut engine, &crowd, 0b1100);
    confine(&mut engine, &tasks, !0b1100 & ((1 << nr_cpus) - 1));
    let longest = longest_wait_of(&mut engine, &tasks, 1000);
    let done: f64 = tasks.iter().map(|task| engine.work_done(*task, Kind::Scalar)).sum();
    (longest, done / SECOND as f64)
}

#[test]
fn nobody_waits_for_those_who_may_not_come() {
    let steps = [Step::Work(Kind::Scalar, 1e9)];
    let (alone, _) = beside_those_who_may_not_come(2, 0, &steps);
    for nr_crowd in [40, 100] {
        let (longest, _) = beside_those_who_may_not_come(2, nr_crowd, &steps);
        assert!(longest <= alone + MS, "{longest} ns instead of {alone} ns");
    }
}

#[test]
fn no_cpu_idles_for_those_who_may_not_come() {
    let steps = [Step::Work(Kind::Scalar, 3e5), Step::Sleep(10_000)];
    for nr_caches in [2, 3, 4] {
        let (_, busy) = beside_those_who_may_not_come(nr_caches, 40, &steps);
        let nr_cpus = f64::from(2 * (nr_caches - 1));
        assert!(busy > 0.99 * nr_cpus, "{busy} of {nr_cpus} CPUs were busy");
    }
}

/// Tasks that share two CPUs of a cache, beside a crowd that has the other two.
#[test]
fn weights_count_beside_those_who_may_not_come() {
    let shares = |nr_crowd| {
        let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
        let crowd: Vec<Task> = (0..nr_crowd).map(|_| engine.spawn(busy(), 100)).collect();
        let tasks = [1000, 1000, 100, 100].map(|weight| engine.spawn(busy(), weight));
        confine(&mut engine, &crowd, 0b1100);
        confine(&mut engine, &tasks, 0b0011);
        engine.run_for(10 * SECOND).unwrap();
        tasks.map(|task| engine.work_done(task, Kind::Scalar) / (10 * SECOND) as f64)
    };
    for nr_crowd in [0, 16, 40] {
        let shares = shares(nr_crowd);
        assert!(shares[..2].iter().all(|share| (share - 0.9).abs() < 0.03), "{shares:?}");
    }
}

/// Roles change while an AVX task and another one wait, each of which may from then on use CPUs of
/// the other kind alone: neither waits for the other.
#[test]
fn two_who_may_not_come_do_not_wait_for_each_other() {
    let in_force = |list: &str| {
        let list = format!("avx-cpu-list={list}");
        in_force(&["sizing=list", &list, "scalar-penalty=300ms"])
    };
    let mut engine = machine(4, AVX_TIER_TRAP, &[]);
    let wide = || forever(&[Step::Work(Kind::Heavy512, 1e9)]);
    let confined = [engine.spawn(wide(), 100), engine.spawn(busy(), 100)];
    confine(&mut engine, &confined[..1], 0b0011);
    confine(&mut engine, &confined[1..], 0b1100);
    for _ in 0..10 {
        engine.spawn(wide(), 100);
        engine.spawn(busy(), 100);
    }
    let mut longest = 0;
    for round in 0..10 {
        engine.kernel_mut().set_policy(&in_force(["0,1", "2,3"][round % 2]));
        longest = longest.max(longest_wait_of(&mut engine, &confined, 2000));
    }
    assert!(longest < 400 * MS, "one waited for {longest} ns");
}

/// Each cache has an AVX core and a task, which moves there and back a thousand times.
#[test]
fn whoever_moves_stays_with_its_cache_if_it_can() {
    let settings = ["sizing=list", "avx-cpu-list=3,7"];
    let mut engine = machine_with_caches(8, 4, AVX_TIER_TRAP, &settings);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Work(Kind::Heavy512, 5e4), Step::Syscall];
    let tasks: Vec<Task> = (0..2).map(|_| engine.spawn(forever(&steps), 100)).collect();
    for (n, task) in tasks.iter().enumerate() {
        confine(&mut engine, &[*task], 0b1111 << (4 * n));
    }
    engine.run_for(10 * MS).unwrap();
    for task in &tasks {
        engine.kernel_mut().allow(*task, &[u64::MAX; MASK_WORDS], false);
    }
    for _ in 0..1000 {
        engine.run_for(MS).unwrap();
        let caches: Vec<u32> = tasks.iter().map(|it| engine.kernel().cpu_of(*it) / 4).collect();
        assert_eq!(caches, [0, 1]);
    }
    assert!(tasks.iter().all(|task| engine.kernel().moves(*task) > 1000));
}

/// A server's threads: wide work of 50 us after 1 ms of scalar work, with a system call.
#[test]
fn wide_work_goes_to_avx_cores() {
    let settings = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(4, AVX_TIER_TRAP, &settings);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Work(Kind::Heavy512, 5e4), Step::Syscall];
    let tasks: Vec<Task> = (0..4).map(|_| engine.spawn(forever(&steps), 100)).collect();
    engine.run_for(SECOND).unwrap();
    let stats = |engine: &Engine<Steady>, cpu| engine.kernel().stats(cpu);
    let before: Vec<u64> = (0..4).map(|cpu| stats(&engine, cpu).avx_ns).collect();
    engine.run_for(SECOND).unwrap();

    assert_eq!(
        (0..4).map(|cpu| engine.kernel().is_avx_core(cpu)).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let wide: Vec<u64> =
        (0..4).map(|cpu| stats(&engine, cpu).avx_ns - before[cpu as usize]).collect();
    assert!(wide[3] > 100 * MS && wide[..3].iter().sum::<u64>() < 20 * MS, "{wide:?}");
    let faults: u64 = (0..4).map(|cpu| stats(&engine, cpu).wide_faults).sum();
    assert!(faults > 3000, "{faults} faults in two seconds");
    assert!(tasks.iter().all(|task| engine.kernel().moves(*task) > 100));
}

/// As published: an AVX core is where AVX work begins, until there is none.
#[test]
fn avx_cores_follow_their_use() {
    let settings = ["sizing=static", "avx-cpus=1", "placement=first-use", "return=syscall"];
    let mut engine = machine(4, AVX_TIER_TRAP, &settings);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Work(Kind::Heavy512, 5e4), Step::Syscall];
    let tasks: Vec<Task> = (0..4).map(|_| engine.spawn(forever(&steps), 100)).collect();
    let mut were_avx_cores = [false; 4];
    for _ in 0..1000 {
        engine.run_for(MS).unwrap();
        assert!(engine.kernel().nr_avx_cores() <= 1);
        for (cpu, was) in were_avx_cores.iter_mut().enumerate() {
            *was |= engine.kernel().is_avx_core(cpu as u32);
        }
    }
    assert_eq!(were_avx_cores, [true; 4]);
    assert!(tasks.iter().all(|task| engine.kernel().moves(*task) > 100));
    assert!((0..4).map(|cpu| engine.kernel().stats(cpu).role_changes).sum::<u64>() > 500);

    engine.kernel_mut().set_policy(&in_force(&["avx-cores-for=nobody", "placement=first-use"]));
    engine.run_for(100 * MS).unwrap();
    assert_eq!(engine.kernel().nr_avx_cores(), 0);
}

/// Its phase goes on while it sleeps, and its AVX core does not wait for it.
#[test]
fn who_goes_on_gets_an_avx_core_again() {
    let settings = ["sizing=static", "avx-cpus=1", "placement=first-use", "return=timeout"];
    let mut engine = machine(4, AVX_TIER_TRAP, &settings);
    engine.spawn(forever(&[Step::Work(Kind::Heavy512, 15e6), Step::Sleep(15 * MS)]), 100);
    engine.run_for(SECOND).unwrap();
    let mut with_avx_core = 0;
    for _ in 0..1000 {
        engine.run_for(MS).unwrap();
        with_avx_core += engine.kernel().nr_avx_cores();
    }
    assert!(with_avx_core > 200, "{with_avx_core} ms of a second");
}

pub fn events_of(engine: &mut Engine<Steady>) -> Vec<avx_event> {
    std::iter::from_fn(|| engine.kernel_mut().take_event()).collect()
}

/// A thread alternates: it is told each time what it does, where it goes, and why.
#[test]
fn events_are_what_a_program_does() {
    let settings = ["sizing=static", "avx-cpus=1", "return=syscall"];
    let mut engine = machine(2, AVX_TIER_TRAP, &settings);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Work(Kind::Heavy512, 5e4), Step::Syscall];
    engine.spawn(forever(&steps), 100);
    engine.run_for(SECOND / 2).unwrap();
    assert!(events_of(&mut engine).is_empty(), "nobody followed");

    engine.kernel_mut().follow();
    engine.run_for(SECOND / 2).unwrap();
    let events = events_of(&mut engine);
    let said: Vec<_> = events.iter().map(|it| (it.kind, it.why, it.cpu, it.detail)).collect();
    let began = said.iter().position(|it| it.0 == EVENT_BEGAN).unwrap();
    let rounds: Vec<_> = said[began..].chunks_exact(4).collect();
    // Half a second of rounds of little more than a millisecond.
    assert!((400..500).contains(&rounds.len()), "{} rounds", rounds.len());
    for round in rounds {
        let [a, b, c, d] = round else { panic!("a round has four events") };
        assert_eq!(*a, (EVENT_BEGAN, CAUSE_FAULT, 0, 0));
        assert_eq!(*b, (EVENT_SENT, ROLE_AVX, 0, 1));
        assert_eq!((c.0, c.1, c.2), (EVENT_ENDED, BOUNDARY_SYSCALL, 1));
        assert!((50_000..60_000).contains(&c.3), "{} ns of wide work", c.3);
        assert_eq!(*d, (EVENT_SENT, ROLE_SCALAR, 1, 0));
    }
    assert!(events.iter().all(|it| it.missed == 0 && it.thread == it.process));
    assert!(events.is_sorted_by_key(|it| it.at));
}

/// Nobody reads: what finds no room is counted, and the next that finds some tells.
#[test]
fn lost_events_are_counted_and_told() {
    let mut engine = machine(2, AVX_TIER_TRAP, &["sizing=static", "return=syscall"]);
    let steps = [Step::Work(Kind::Heavy512, 5e4), Step::Syscall];
    for _ in 0..2 {
        engine.spawn(forever(&steps), 100);
    }
    engine.kernel_mut().follow();
    engine.run_for(SECOND / 2).unwrap();
    let lost = |engine: &Engine<Steady>| -> u64 {
        (0..2).map(|cpu| engine.kernel().stats(cpu).events_lost).sum()
    };
    let lost_before = lost(&engine);
    assert!(lost_before > 0, "there is room for everything");
    assert!(events_of(&mut engine).iter().all(|it| it.missed == 0));

    engine.run_for(MS).unwrap();
    let missed: Vec<u64> =
        events_of(&mut engine).iter().map(|it| u64::from(it.missed)).filter(|n| *n > 0).collect();
    assert_eq!(missed, [lost_before]);
    assert_eq!(lost(&engine), lost_before);
}

/// Each begins where the one before it ended, which is no move.
#[test]
fn who_takes_the_place_of_another_has_not_moved() {
    struct OfManyTasks(u64);
    impl Program for OfManyTasks {
        fn next(&mut self, _now: u64) -> Step {
            self.0 += 1;
            [Step::Work(Kind::Scalar, 1e6), Step::Sleep(MS), Step::Succeed][self.0 as usize % 3]
        }
    }
    let mut engine = machine(4, AVX_TIER_OBSERVE, &[]);
    for _ in 0..3 {
        engine.spawn(Box::new(OfManyTasks(0)), 100);
    }
    engine.run_for(SECOND).unwrap();
    assert_eq!((engine.nr_threads(), engine.moves()), (3, 0));
}

#[test]
fn two_runs_are_alike() {
    let run = || {
        let mut engine = machine(8, AVX_TIER_TRAP, &[]);
        let steps =
            [Step::Work(Kind::Scalar, 3e5), Step::Work(Kind::Heavy512, 7e4), Step::Sleep(90 * US)];
        let tasks: Vec<Task> = (0..20).map(|_| engine.spawn(forever(&steps), 100)).collect();
        engine.run_for(SECOND).unwrap();
        let done: Vec<u64> =
            tasks.iter().map(|it| engine.work_done(*it, Kind::Scalar) as u64).collect();
        (done, engine.nr_events(), engine.kernel().nr_avx_cores())
    };
    let first = run();
    assert!(first.2 > 0, "no AVX core");
    assert_eq!(first, run());
}

/// The kernel would eject a scheduler that sends a task where it may not be, and so would this.
#[test]
fn tasks_stay_where_they_may_be() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["sizing=static", "avx-cpus=2"]);
    let steps = [Step::Work(Kind::Scalar, 2e5), Step::Work(Kind::Heavy512, 5e4), Step::Sleep(US)];
    let masks = [0b0001, 0b0011, 0b0111, 0b1000, 0b1010, 0b1111];
    let tasks: Vec<Task> = masks.iter().map(|_| engine.spawn(forever(&steps), 100)).collect();
    for round in 0..100 {
        for (n, task) in tasks.iter().enumerate() {
            if engine.kernel().waits_since(*task).is_some() || round == 0 {
                confine(&mut engine, &[*task], masks[(n + round) % masks.len()]);
            }
        }
        engine.run_for(10 * MS).unwrap();
    }
    assert!(tasks.iter().all(|task| engine.work_done(*task, Kind::Scalar) > 0.0));
}

#[test]
fn a_policy_takes_effect_while_it_runs() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["sizing=static", "avx-cpus=1"]);
    engine.spawn(busy(), 100);
    engine.run_for(100 * MS).unwrap();
    assert_eq!(engine.kernel().nr_avx_cores(), 1);
    engine.kernel_mut().set_policy(&in_force(&["sizing=list", "avx-cpu-list=0-2"]));
    engine.run_for(100 * MS).unwrap();
    let is_avx_core: Vec<bool> = (0..4).map(|cpu| engine.kernel().is_avx_core(cpu)).collect();
    assert_eq!(is_avx_core, [true, true, true, false]);
}

/// By its number CPU 3 would be the first AVX core. It runs other work, and two idle.
#[test]
fn an_idle_cpu_becomes_an_avx_core_before_a_busy_one() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["sizing=static", "avx-cpus=0"]);
    let other = engine.spawn(busy(), 100);
    confine(&mut engine, &[other], 0b1000);
    engine.run_for(10 * MS).unwrap();
    engine.kernel_mut().set_policy(&in_force(&["sizing=static", "avx-cpus=1"]));
    engine.run_for(100 * MS).unwrap();
    let is_avx_core = |cpu: u32| engine.kernel().is_avx_core(cpu);
    assert_eq!([0, 1, 2, 3].map(is_avx_core), [false, false, true, false]);
}

/// Of what the CPUs of a machine with four have counted.
fn sum(engine: &Engine<Steady>, of: fn(avx_cpu_stats) -> u64) -> u64 {
    (0..4).map(|cpu| of(engine.kernel().stats(cpu))).sum()
}

/// First it is only watched, then served, then watched again.
#[test]
fn who_is_only_watched_goes_on_as_if_nobody_watched() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["avx-cores-for=nobody"]);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Work(Kind::Heavy512, 5e4), Step::Syscall];
    for _ in 0..4 {
        engine.spawn(forever(&steps), 100);
    }
    let faults = |engine: &Engine<Steady>| sum(engine, |cpu| cpu.wide_faults);
    engine.run_for(SECOND).unwrap();
    assert_eq!((engine.kernel().nr_avx_cores(), faults(&engine)), (0, 0));
    assert!(sum(&engine, |cpu| cpu.lowered_ns) > 0, "wide work was not seen");

    engine.kernel_mut().set_policy(&in_force(&[]));
    engine.run_for(SECOND).unwrap();
    assert!(engine.kernel().nr_avx_cores() > 0 && faults(&engine) > 1000);

    engine.kernel_mut().set_policy(&in_force(&["avx-cores-for=nobody"]));
    engine.run_for(100 * MS).unwrap();
    let before = faults(&engine);
    engine.run_for(SECOND).unwrap();
    assert_eq!((engine.kernel().nr_avx_cores(), faults(&engine)), (0, before));
}

/// All that CPUs were busy is in somebody's account.
#[test]
fn no_time_is_lost() {
    let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
    let tasks: Vec<Task> = (0..5).map(|_| engine.spawn(busy(), 100)).collect();
    engine.run_for(SECOND).unwrap();
    let ran: u64 = tasks.iter().map(|task| engine.kernel().ran(*task)).sum();
    // What ran since the last tick is not accounted for yet.
    assert!((2 * SECOND - 2 * MS..2 * SECOND).contains(&ran), "{ran}");
}

/// A program that does this and exits.
struct Once(Vec<Step>);

impl Program for Once {
    fn next(&mut self, _now: u64) -> Step {
        self.0.pop().unwrap_or(Step::Exit)
    }
}

#[test]
fn who_exits_is_gone() {
    let mut engine = machine(2, AVX_TIER_TRAP, &[]);
    for _ in 0..100 {
        engine.spawn(Box::new(Once(vec![Step::Work(Kind::Heavy512, 1e5), Step::Syscall])), 100);
        engine.run_for(MS).unwrap();
    }
    assert_eq!(engine.nr_threads(), 0);
}

/// Of a program that was wide once, and goes on with string functions for 9 seconds.
#[test]
fn light_work_costs_a_fault_per_back_off() {
    let mut engine = machine(2, AVX_TIER_TRAP, &[]);
    let mut steps = [Step::Syscall, Step::Work(Kind::Light256, 1e4), Step::Work(Kind::Scalar, 9e4)]
        .repeat(90_000);
    steps.push(Step::Work(Kind::Heavy512, 3e6));
    engine.spawn(Box::new(Once(steps)), 100);
    engine.run_for(9 * SECOND).unwrap();
    let light: u64 = (0..2).map(|cpu| engine.kernel().stats(cpu).light_faults).sum();
    // 1, 2, 4 ... 64 and then each 100 ms.
    assert!((80..110).contains(&light), "{light} faults");
}

/// They leave registers in use that only AVX-512 has, and no wide ones.
#[test]
fn string_functions_alone_are_no_avx_work() {
    for tier in [AVX_TIER_TRAP, AVX_TIER_XSTATE] {
        let mut engine = machine(2, tier, &[]);
        let steps = [Step::Work(Kind::Scalar, 9e5), Step::Work(Kind::Light256, 2e5), Step::Syscall];
        for _ in 0..4 {
            engine.spawn(forever(&steps), 100);
        }
        engine.run_for(SECOND).unwrap();
        let found: u64 = (0..2).map(|cpu| engine.kernel().stats(cpu).samples).sum();
        assert_eq!((found, engine.kernel().nr_avx_cores()), (0, 0), "tier {tier}");
    }
}

/// Both get on, though neither has used up its turn.
#[test]
fn who_yields_lets_others_run() {
    let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
    let round = 10.0 * US as f64;
    let steps = [Step::Work(Kind::Scalar, round), Step::Yield, Step::Syscall];
    let tasks = [(); 2].map(|()| engine.spawn(forever(&steps), 100));
    engine.run_for(5 * MS).unwrap();
    let [one, other] = tasks.map(|task| engine.work_done(task, Kind::Scalar));
    assert!(one > 100.0 * round && (one - other).abs() <= 2.0 * round, "{one} and {other}");
}

/// It faults there, and has gone before the instruction is executed.
#[test]
fn who_goes_to_an_avx_core_lowers_no_clock_where_it_was() {
    let settings = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(4, AVX_TIER_TRAP, &settings);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Work(Kind::Heavy512, 1e4), Step::Syscall];
    for _ in 0..3 {
        engine.spawn(forever(&steps), 100);
    }
    engine.run_for(SECOND).unwrap();
    assert!(sum(&engine, |cpu| cpu.wide_faults) > 2000);
    assert!(sum(&engine, |cpu| cpu.lowered_avx_ns) > SECOND / 2);
    assert_eq!(sum(&engine, |cpu| cpu.lowered_ns), 0);
}

/// It may not use the AVX core, and does its wide work where it is, for 0.2 of each 1.9 ms: and then
/// the clock stays low for another 0.67. Ticks come too seldom to see all of that.
#[test]
fn who_has_to_stay_lowers_the_clock_for_as_long_as_it_does_wide_work() {
    let settings = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(4, AVX_TIER_TRAP, &settings);
    let steps = [Step::Work(Kind::Scalar, 1.7e6), Step::Work(Kind::Heavy512, 2e5), Step::Syscall];
    let task = engine.spawn(forever(&steps), 100);
    confine(&mut engine, &[task], 0b0011);
    engine.run_for(SECOND).unwrap();
    let share = |of| sum(&engine, of) as f64 / SECOND as f64;
    let (lowered, wide) = (share(|cpu| cpu.lowered_ns), share(|cpu| cpu.avx_ns));
    assert!((0.10..0.11).contains(&wide), "{wide}");
    assert!((0.44..0.47).contains(&lowered), "{lowered}");
}

/// Who comes meanwhile, and leaves for an AVX core before it begins, changes nothing of that.
#[test]
fn who_leaves_before_it_begins_ends_no_hold_of_others() {
    let settings = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(4, AVX_TIER_TRAP, &settings);
    let wide = [Step::Sleep(1_700_000), Step::Work(Kind::Heavy512, 2e5), Step::Syscall];
    let task = engine.spawn(forever(&wide), 100);
    confine(&mut engine, &[task], 0b0001);
    let short = [Step::Work(Kind::Scalar, 1e5), Step::Work(Kind::Heavy512, 1e4), Step::Syscall];
    for _ in 0..4 {
        engine.spawn(forever(&short), 100);
    }
    engine.run_for(SECOND).unwrap();
    let lowered = sum(&engine, |cpu| cpu.lowered_ns) as f64 / SECOND as f64;
    // It does for 0.2 ms of each 1.9 ms and more, and for 0.67 ms after it.
    assert!((0.42..0.46).contains(&lowered), "{lowered}");
}

/// Two do the same, and one says that it gets less done with AVX cores. What it says in hints does not
/// count then.
#[test]
fn who_says_that_avx_cores_harm_it_is_left_alone_and_nobody_else() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["sizing=static", "avx-cpus=1"]);
    let steps = [Step::Work(Kind::Scalar, 1e6), Step::Work(Kind::Heavy512, 5e4), Step::Syscall];
    let hinted = [Step::Hint(AVX_HINT_AVX512.into()), Step::Work(Kind::Scalar, 1e6), Step::Syscall];
    let served = engine.spawn(forever(&steps), 100);
    let alone = [&steps, &hinted].map(|steps| engine.spawn(forever(steps), 100));
    let moves = |engine: &mut Engine<Steady>| {
        let all = [served, alone[0], alone[1]];
        let before = all.map(|task| engine.kernel().moves(task));
        engine.run_for(SECOND).unwrap();
        let mut moves = all.map(|task| engine.kernel().moves(task));
        moves.iter_mut().zip(before).for_each(|(moves, before)| *moves -= before);
        moves
    };
    let before = moves(&mut engine);
    assert!(before[..2].iter().all(|moves| *moves > 500), "{before:?}");
    let hints = sum(&engine, |cpu| cpu.hints);
    alone.iter().for_each(|task| engine.kernel_mut().leave_alone(*task));
    let after = moves(&mut engine);
    assert!(after[0] > 500 && after[1] < 20, "{after:?}");
    let ended = sum(&engine, |cpu| cpu.hints) - hints;
    assert_eq!(ended, 1, "what it says is heard");
    let is_hidden = |task| engine.kernel().is_hidden_from(task);
    assert!(!is_hidden(alone[0]) && sum(&engine, |cpu| cpu.wide_faults) > 1500);
}
