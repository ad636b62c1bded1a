// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that may not use all CPUs, where AVX work has cores of its own.

use super::engine::Engine;
use super::engine_test::{busy, events_of, forever, machine, mask};
use super::hardware::Steady;
use super::kernel::Task;
use super::model::Kind;
use super::program::{Program, Step};
use crate::bpf::intf::{avx_event_kind_EVENT_ALONE, avx_tier_AVX_TIER_TRAP};

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
    let mut engine = machine(4, avx_tier_AVX_TIER_TRAP, &["sizing=static", "avx-cpus=1"]);
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

/// It uses AVX-512 where it is, again and again, which is no move.
#[test]
fn who_may_use_no_avx_core_pays_for_no_moves() {
    let settings = ["sizing=static", "avx-cpus=1", "return=syscall"];
    let mut engine = machine(4, avx_tier_AVX_TIER_TRAP, &settings);
    engine.run_for(SECOND / 10).unwrap();
    let cpu = (the_avx_core(&engine) + 1) % 4;
    let short = [Step::Work(Kind::Light512, 10e3), Step::Work(Kind::Scalar, 20e3), Step::Syscall];
    spawn_on(&mut engine, 1 << cpu, forever(&short));
    engine.kernel_mut().follow();
    let mut is_alone = false;
    for _ in 0..30 {
        engine.run_for(SECOND / 10).unwrap();
        is_alone |= events_of(&mut engine).iter().any(|it| it.kind == avx_event_kind_EVENT_ALONE);
    }
    assert!(!is_alone, "taken to be too dear for moves that there were not");
    assert!((0..4).map(|cpu| engine.kernel().stats(cpu).in_place).sum::<u64>() > 1000);
}
