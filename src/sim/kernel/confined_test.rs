// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that may not use all CPUs, where AVX work has cores of its own.

use super::Task;
use super::engine::Engine;
use super::engine_test::{busy, forever, machine, machine_of, mask};
use super::program::{Program, Step, sample_of};
use crate::bpf::intf::{AVX_HINT_AVX512, AVX_TIER_HINTS, AVX_TIER_TRAP};
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const US: u64 = 1000;
const SECOND: u64 = 1_000_000 * US;

fn spawn_on(engine: &mut Engine<Steady>, cpus: u64, program: Box<dyn Program>) -> Task {
    let task = engine.spawn(program, 100);
    engine.allow(task, &mask(cpus));
    task
}

fn the_avx_core(engine: &Engine<Steady>) -> u32 {
    (0..4).find(|cpu| engine.kernel().is_avx_core(*cpu)).unwrap()
}

/// Other work may go from the AVX core to one CPU, which is busy, while two more idle all the time.
#[test]
fn who_may_not_go_where_cpus_idle_is_left_in_peace() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["sizing=static", "avx-cpus=1"]);
    engine.run_for(SECOND / 10).unwrap();
    let avx = the_avx_core(&engine);
    let [theirs, others @ ..] = [1, 2, 3].map(|n| (avx + n) % 4);
    spawn_on(&mut engine, 1 << theirs, busy());
    for cpu in others {
        let often = [Step::Work(Kind::Scalar, 50e3), Step::Sleep(50 * US)];
        spawn_on(&mut engine, 1 << cpu, forever(&often));
    }
    let confined = spawn_on(&mut engine, 1 << avx | 1 << theirs, busy());
    engine.run_for(SECOND / 10).unwrap();
    let asked = |engine: &Engine<Steady>| engine.kernel().stats(avx).kept;
    let before = asked(&engine);
    engine.run_for(SECOND).unwrap();
    assert_eq!(engine.kernel().cpu_of(confined), avx);
    let asked = asked(&engine) - before;
    assert!(asked < 100, "asked {asked} times in a second");
}

/// What a server does: now and then a moment of AVX work.
fn server(wide: f64) -> Box<dyn Program> {
    forever(&[
        Step::Work(Kind::Scalar, 150e3),
        Step::Work(Kind::Light512, wide),
        Step::Syscall,
        Step::Sleep(20 * US),
    ])
}

fn avx_cores(engine: &Engine<Steady>, cpus: u64) -> usize {
    (0..64).filter(|cpu| cpus >> cpu & 1 == 1 && engine.kernel().is_avx_core(*cpu)).count()
}

fn role_changes(engine: &Engine<Steady>, nr_cpus: u32) -> u64 {
    (0..nr_cpus).map(|cpu| engine.kernel().stats(cpu).role_changes).sum()
}

fn in_place(engine: &Engine<Steady>, nr_cpus: u32) -> u64 {
    (0..nr_cpus).map(|cpu| engine.kernel().stats(cpu).in_place).sum()
}

/// Of which the CPUs `n` and `n + 8` are one.
fn eight_cores_with_siblings() -> Engine<Steady> {
    machine_of([8, 8], 2, AVX_TIER_TRAP, &[])
}

/// So many for each core; `cpus` are those that they may use of the first one.
fn servers_on_each(engine: &mut Engine<Steady>, cpus: u64, nr: usize) {
    for core in 0..8 {
        for _ in 0..nr {
            spawn_on(engine, cpus << core, server(30e3));
        }
    }
}

/// AVX work on all CPUs for a second.
fn burst(engine: &mut Engine<Steady>) -> Vec<Task> {
    let wide = [Step::Work(Kind::Light512, 50e3), Step::Syscall];
    let tasks = (0..8).map(|_| spawn_on(engine, 0xffff, forever(&wide))).collect();
    engine.run_for(SECOND).unwrap();
    tasks
}

/// They have a single CPU from now on, and are no demand.
fn end_burst(engine: &mut Engine<Steady>, tasks: Vec<Task>) {
    for task in tasks {
        engine.allow(task, &mask(1 << 15));
    }
}

/// The others idle, and are the first that come to mind otherwise.
#[test]
fn avx_cores_are_where_avx_work_may_go() {
    let mut engine = machine(12, AVX_TIER_TRAP, &[]);
    for _ in 0..6 {
        spawn_on(&mut engine, 0xf, server(30e3));
    }
    engine.run_for(SECOND / 2).unwrap();
    let before = in_place(&engine, 12);
    for _ in 0..20 {
        engine.run_for(SECOND / 10).unwrap();
        assert!(avx_cores(&engine, 0xf) > 0);
        assert_eq!(avx_cores(&engine, 0xff0), 0);
    }
    let stayed = in_place(&engine, 12) - before;
    assert!(stayed < 100, "{stayed} times AVX work was done on scalar CPUs");
    engine.kernel().audit().unwrap();
}

/// They are more than one core can take.
#[test]
fn more_avx_cores_are_where_avx_work_may_go_too() {
    let mut engine = machine(16, AVX_TIER_TRAP, &[]);
    let wide = [Step::Work(Kind::Scalar, 30e3), Step::Work(Kind::Light512, 60e3), Step::Syscall];
    for _ in 0..8 {
        spawn_on(&mut engine, 0xff, forever(&wide));
    }
    engine.run_for(SECOND / 2).unwrap();
    for _ in 0..20 {
        engine.run_for(SECOND / 10).unwrap();
        assert!(avx_cores(&engine, 0xff) > 2);
        assert_eq!(avx_cores(&engine, 0xff00), 0);
    }
}

/// As containers with CPUs of their own are, also where one core were enough for all of them.
#[test]
fn each_set_of_cpus_with_avx_work_has_an_avx_core_of_its_own() {
    let sets = [0x00f, 0x0f0, 0xf00];
    for (spare, wide) in [(0, 30e3), (4, 30e3), (0, 3e3), (4, 3e3)] {
        let nr_cpus = 12 + spare;
        let mut engine = machine(nr_cpus, AVX_TIER_TRAP, &[]);
        for cpus in sets {
            for _ in 0..8 {
                spawn_on(&mut engine, cpus, server(wide));
            }
        }
        engine.run_for(5 * SECOND).unwrap();
        let (before, changed) = (in_place(&engine, nr_cpus), role_changes(&engine, nr_cpus));
        for _ in 0..50 {
            engine.run_for(SECOND / 10).unwrap();
            let cores = sets.map(|cpus| avx_cores(&engine, cpus));
            assert!(cores.iter().all(|nr| *nr > 0), "{cores:?}");
        }
        let stayed = in_place(&engine, nr_cpus) - before;
        assert!(stayed < 1000, "{stayed} times AVX work was done on scalar CPUs");
        let changed = role_changes(&engine, nr_cpus) - changed;
        assert!(changed <= 4, "{changed} changes of roles in five seconds");
        engine.kernel().audit().unwrap();
    }
}

/// Where cores have siblings, also when what others needed is given back, or they begin at once.
#[test]
fn each_set_of_cpus_has_an_avx_core_of_its_own_where_cores_have_siblings() {
    let sets: [u64; 3] = [0x0303, 0x0c0c, 0x3030];
    let mut engine = eight_cores_with_siblings();
    for cpus in sets {
        for _ in 0..4 {
            spawn_on(&mut engine, cpus, server(3e3));
        }
    }
    let wide = burst(&mut engine);
    end_burst(&mut engine, wide);
    let (before, changed) = (in_place(&engine, 15), role_changes(&engine, 16));
    for _ in 0..500 {
        engine.run_for(SECOND / 100).unwrap();
        let cores = sets.map(|cpus| avx_cores(&engine, cpus));
        assert!(cores.iter().all(|nr| *nr > 0), "{cores:?}");
    }
    assert_eq!(avx_cores(&engine, 0xffff), 6);
    let stayed = in_place(&engine, 15) - before;
    assert!(stayed < 100, "{stayed} times AVX work was done on scalar CPUs");
    let changed = role_changes(&engine, 16) - changed;
    assert!(changed <= 10, "{changed} changes of roles in five seconds");
    engine.kernel().audit().unwrap();
}

/// Its phase does not end while it sleeps, and meanwhile others get what it had.
#[test]
fn who_is_still_at_avx_work_gets_an_avx_core_again() {
    let mut engine = machine(12, AVX_TIER_HINTS, &[]);
    let hinted = |rest| {
        let mut steps = vec![Step::Hint(AVX_HINT_AVX512.into())];
        for _ in 0..50 {
            steps.extend([Step::Work(Kind::Scalar, 2e6), Step::Sleep(18_000 * US)]);
        }
        steps.push(Step::Sleep(rest));
        forever(&steps)
    };
    spawn_on(&mut engine, 0x00f, hinted(US));
    let pauses = spawn_on(&mut engine, 0xf00, hinted(4 * SECOND));
    engine.run_for(4 * SECOND).unwrap();
    assert_eq!(avx_cores(&engine, 0xf00), 0, "it pauses");
    engine.run_for(2 * SECOND).unwrap();
    let cpu = engine.kernel().cpu_of(pauses);
    assert!(engine.kernel().is_avx_core(cpu), "CPU {cpu}");
}

/// They have nothing to choose either, as pods with CPUs of their own have.
#[test]
fn who_may_use_one_core_alone_asks_for_no_avx_core() {
    let mut engine = eight_cores_with_siblings();
    servers_on_each(&mut engine, 0x101, 2);
    engine.run_for(SECOND).unwrap();
    assert_eq!(avx_cores(&engine, 0xffff), 0);
}

/// However many wait where an AVX core is, others would be of no use to them.
#[test]
fn who_may_use_one_core_alone_is_no_reason_for_others() {
    let mut engine = eight_cores_with_siblings();
    spawn_on(&mut engine, 0xffff, server(30e3));
    engine.run_for(SECOND).unwrap();
    let core = (0..8).find(|core| engine.kernel().is_avx_core(*core)).unwrap();
    for _ in 0..16 {
        spawn_on(&mut engine, 0x101 << core, forever(&[Step::Work(Kind::Light512, 1e9)]));
    }
    engine.run_for(2 * SECOND).unwrap();
    let nr = avx_cores(&engine, 0xffff);
    assert!(nr <= 4, "{nr} AVX cores");
}

/// With as many CPUs of two cores they have.
#[test]
fn who_may_use_two_cores_has_an_avx_core_there() {
    let mut engine = eight_cores_with_siblings();
    for _ in 0..2 {
        spawn_on(&mut engine, 0x3, server(30e3));
    }
    engine.run_for(SECOND).unwrap();
    assert_eq!(avx_cores(&engine, 0x3), 1);
    assert_eq!(avx_cores(&engine, 0xffff), 2, "with its sibling");
}

/// Nor do they keep what others needed for a while.
#[test]
fn who_may_use_one_cpu_alone_keeps_no_avx_core() {
    let mut engine = eight_cores_with_siblings();
    servers_on_each(&mut engine, 0x1, 1);
    let wide = burst(&mut engine);
    assert!(avx_cores(&engine, 0xffff) > 4);
    end_burst(&mut engine, wide);
    engine.run_for(10 * SECOND).unwrap();
    assert_eq!(avx_cores(&engine, 0xffff), 0);
    spawn_on(&mut engine, 0xffff, server(30e3));
    engine.run_for(SECOND).unwrap();
    assert_eq!(avx_cores(&engine, 0xffff), 2, "for the one that may use any");
}

/// There is nothing to choose for it, however much it does.
#[test]
fn who_may_use_one_cpu_alone_asks_for_no_avx_core() {
    let mut engine = eight_cores_with_siblings();
    servers_on_each(&mut engine, 0x1, 1);
    engine.run_for(SECOND).unwrap();
    assert_eq!(avx_cores(&engine, 0xffff), 0);
}

/// It knows nothing of who runs there.
#[test]
fn who_ticks_for_another_cpu_says_nothing_of_its_own() {
    let mut engine = machine(4, AVX_TIER_TRAP, &["sizing=static", "avx-cpus=1"]);
    let wide = spawn_on(&mut engine, 0xf, forever(&[Step::Work(Kind::Light512, 1e6)]));
    engine.run_for(SECOND / 10).unwrap();
    let cpu = engine.kernel().cpu_of(wide);
    for by in (0..4).filter(|by| *by != cpu) {
        engine.kernel_mut().tick_by(by, cpu, sample_of(Some(Kind::Light512), 0));
        engine.kernel().audit().unwrap();
    }
}
