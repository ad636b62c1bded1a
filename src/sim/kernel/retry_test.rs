// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that are to leave their CPU in a moment in which they cannot.

use super::engine_test::{forever, machine};
use super::program::Step;
use crate::bpf::intf::{AVX_HINT_AVX512, AVX_HINT_NONE, AVX_TIER_HINTS};
use crate::sim::machine::model::Kind;

const US: f64 = 1e3;
const MS: u64 = 1_000_000;

/// Hints come sooner after each other than ticks do, and within them nobody can be migrated.
#[test]
fn who_gives_a_hint_does_not_wait_for_a_tick() {
    let steps = [
        Step::Hint(AVX_HINT_AVX512.into()),
        Step::Work(Kind::Scalar, 300.0 * US),
        Step::Hint(AVX_HINT_NONE.into()),
        Step::Work(Kind::Scalar, 300.0 * US),
    ];
    let settings = ["sizing=static", "avx-cpus=1"];
    let mut engine = machine(2, AVX_TIER_HINTS, &settings);
    engine.run_for(100 * MS).unwrap();
    let task = engine.spawn(forever(&steps), 100);
    engine.run_for(60 * MS).unwrap();
    assert!((190..=200).contains(&engine.kernel().moves(task)), "{}", engine.kernel().moves(task));
    let avx_ns = [0, 1].map(|cpu| engine.kernel().stats(cpu).avx_ns);
    assert!(avx_ns.iter().max() > avx_ns.iter().min().map(|few| 10 * few).as_ref(), "{avx_ns:?}");
    engine.kernel().audit().unwrap();
}
