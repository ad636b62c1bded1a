// SPDX-License-Identifier: GPL-2.0-only
//! What a run is of, but for the policy.

use crate::bpf::intf::{avx_clock_counters, avx_tier};
use crate::sim::kernel::engine::Costs;
use crate::sim::machine::Topology;
use crate::sim::machine::model::Model;
use crate::sim::workload::Workload;

#[derive(Clone, Debug)]
pub struct Setup {
    pub workload: Workload,
    pub model: Model,
    pub topology: Topology,
    pub costs: Costs,
    /// As the scheduler would choose it on such a machine.
    pub tier: avx_tier,
    /// What tells it of clocks there, beside what it knows.
    pub counters: avx_clock_counters,
    /// Nothing is measured before it is over.
    pub warm_up_ns: u64,
    pub seconds: u64,
    pub seed: u64,
}
