// SPDX-License-Identifier: GPL-2.0-only
//! The proving ground: the scheduler's own BPF code, run natively on a modelled machine.
//!
//! A study gives workloads to a kernel, which is on a machine: each folder knows those after it in
//! this sentence, and none before.

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
