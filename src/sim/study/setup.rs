// SPDX-License-Identifier: GPL-2.0-only
//! All that a run needs except the policy.

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
    /// The tier that the scheduler would choose on such a machine.
    pub tier: avx_tier,
    /// What tells the scheduler about clocks there, besides what it knows.
    pub counters: avx_clock_counters,
    /// The time before anything is measured.
    pub warm_up_ns: u64,
    pub seconds: u64,
    pub seed: u64,
}
