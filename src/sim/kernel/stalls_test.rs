// SPDX-License-Identifier: GPL-2.0-only
//! What tasks wait for in caches, where they run.

use super::Task;
use super::engine::{COSTS, Engine};
use super::engine_test::{busy, machine, mask};
use super::program::{Home, Program, Step};
use crate::bpf::intf::{AVX_TIER_OBSERVE, AVX_TIER_TRAP};
use crate::sim::machine::caches::Footprint;
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const MS: u64 = 1_000_000;

/// With so many lines of data.
fn spawn(engine: &mut Engine<Steady>, program: Box<dyn Program>, data: f64) -> Task {
    let footprint = Footprint { data, ..Footprint::default() };
    engine.spawn_in(program, Home { process: None, weight: 100, cgroup: 1, footprint })
}

/// It begins its work that much later.
#[test]
fn a_task_waits_for_what_its_caches_lack() {
    let done = |data| {
        let mut engine = machine(1, AVX_TIER_OBSERVE, &[]);
        let task = spawn(&mut engine, busy(), data);
        engine.run_for(MS).unwrap();
        engine.work_done(task, Kind::Scalar)
    };
    let waits = done(0.0) - done(1000.0);
    let expected = 1000.0 * COSTS.caches.llc_ns / COSTS.caches.overlap;
    assert!((waits - expected).abs() < 2.0, "{waits}, not {expected}");
}

/// 16,384 lines take 166 us, of which 50 have passed when it has to go.
#[test]
fn who_goes_while_it_waits_does_not_take_the_rest_along() {
    let done = |data| {
        let mut engine = machine(2, AVX_TIER_OBSERVE, &[]);
        let task = spawn(&mut engine, busy(), data);
        engine.run_for(50_000).unwrap();
        let there = engine.kernel().cpu_of(task);
        engine.allow(task, &mask(1 << (1 - there)));
        engine.run_for(10 * MS).unwrap();
        assert_eq!(engine.kernel().moves(task), 1);
        engine.work_done(task, Kind::Scalar)
    };
    let waits = done(0.0) - done(16384.0);
    let expected = 50_000.0 + 16384.0 * COSTS.caches.neighbour_ns / COSTS.caches.overlap;
    assert!((waits - expected).abs() < 5_000.0, "{waits}, not {expected}");
}

/// All of its data is for AVX-512.
struct WideOnData {
    is_wide: bool,
    nr: u64,
}

impl Program for WideOnData {
    fn next(&mut self, _now: u64) -> Step {
        self.nr += 1;
        if self.nr.is_multiple_of(2) {
            return Step::Syscall;
        }
        self.is_wide = !self.is_wide;
        Step::Work(if self.is_wide { Kind::Light512 } else { Kind::Scalar }, 530_000.0)
    }

    fn uses(&self) -> f64 {
        f64::from(self.is_wide)
    }
}

/// The data is on the AVX core, and stays there: the fault comes before it is used elsewhere.
#[test]
fn who_faults_fetches_nothing_before_it_goes() {
    let done = |data| {
        let settings = ["sizing=static", "avx-cpus=1", "return=syscall"];
        let mut engine = machine(2, AVX_TIER_TRAP, &settings);
        let task = spawn(&mut engine, Box::new(WideOnData { is_wide: false, nr: 0 }), data);
        engine.run_for(100 * MS).unwrap();
        assert!(engine.kernel().moves(task) > 100);
        engine.work_done(task, Kind::Scalar) + engine.work_done(task, Kind::Light512)
    };
    let waits = done(0.0) - done(512.0);
    let expected = 512.0 * COSTS.caches.llc_ns / COSTS.caches.overlap;
    // At first on both cores, for nothing is hidden yet.
    assert!(waits < 5.0 * expected, "{waits}, not {expected}");
}
