// SPDX-License-Identifier: GPL-2.0-only
//! Whether a ratio is as uncertain as it is said to be, of many runs.

use super::comparison::measure_by_first;
use super::experiment::WARM_UP_NS;
use super::outcome::Outcome;
use super::setup::Setup;
use super::unfairness_test::run_variant;
use super::variant::Variant;
use crate::bpf::intf::{AVX_TIER_TRAP, NO_CLOCK_COUNTERS};
use crate::sim::kernel::engine::COSTS;
use crate::sim::machine::Topology;
use crate::sim::machine::model::Model;
use crate::sim::workload::Workload;

const SEEDS: u64 = 200;

/// Of a web server on four cores, under each policy.
fn outcomes(seed: u64) -> Vec<Outcome> {
    let setup = Setup {
        workload: Workload::named("nginx").unwrap(),
        model: Model::named("i9-7940x").unwrap(),
        topology: Topology::regular(1, 1, 4, 2),
        costs: COSTS,
        tier: AVX_TIER_TRAP,
        counters: NO_CLOCK_COUNTERS,
        warm_up_ns: WARM_UP_NS,
        seconds: 1,
        seed,
    };
    let outcome = |name| run_variant(&setup, &Variant::named(name).unwrap()).unwrap();
    let mut outcomes = ["off", "alone", "untried"].map(outcome).to_vec();
    measure_by_first(&mut outcomes);
    outcomes
}

/// 95 of 100 runs are within what they say of where they are on average. Of how far they are off it
/// there is not much more in what they say: with parts of the runs alone there was three times as
/// much.
#[test]
fn runs_are_within_their_intervals_as_often_as_they_say() {
    let all: Vec<Vec<Outcome>> = (1..=SEEDS).map(outcomes).collect();
    for policy in [1, 2] {
        let runs = all.iter().map(|outcomes| &outcomes[policy]);
        let runs: Vec<(f64, f64)> =
            runs.map(|it| (it.relative.unwrap(), it.uncertainty().unwrap())).collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| runs.iter().map(of).sum::<f64>() / 200.0;
        let expected = mean(&|it| it.0);
        let is_within = |(relative, half): &(f64, f64)| (relative - expected).abs() <= *half;
        let share = mean(&|it| f64::from(u8::from(is_within(it))));
        assert!((0.9..=0.99).contains(&share), "policy {policy}: {share}");
        let deviation = mean(&|it| (it.0 - expected).powi(2)).sqrt();
        let (half, needed) = (mean(&|it| it.1), 1.96 * deviation);
        assert!(half < 1.4 * needed, "policy {policy}: {half} instead of {needed}");
    }
}
