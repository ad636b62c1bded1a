// SPDX-License-Identifier: GPL-2.0-only
//! The proving ground: the scheduler's own BPF code, run natively on a modelled machine.
//!
//! A study gives workloads to a kernel, which runs on a machine. Each folder knows those that this
//! sentence names after it, and none of those before it.

mod kernel;
mod machine;
mod study;
mod workload;

pub use self::kernel::CPUS_MAX;
pub use self::kernel::engine::COSTS;
pub use self::machine::{Topology, model};
pub use self::study::setup::Setup;
pub use self::study::{
    comparison, experiment, harm, outcome, parameters, report, score, sweep, unfairness, variant,
};
#[cfg(feature = "fuzz")]
pub use self::study::{scenario, trial};
pub use self::workload::record::Latency;
pub use self::workload::{Workload, file as workload_file, trace};
