// SPDX-License-Identifier: GPL-2.0-only
//! The proving ground: the scheduler's own BPF code, run natively on a modelled machine.

// Tests ask for more than the command does.
#![cfg_attr(not(test), allow(dead_code))]

mod alarms;
pub mod caches;
mod changes;
mod channels;
mod clock;
pub mod comparison;
pub mod engine;
pub mod experiment;
mod failure;
mod hardware;
pub mod kernel;
pub mod machine;
pub mod model;
pub mod outcome;
pub mod parameters;
mod program;
pub mod record;
pub mod report;
pub mod score;
mod steps;
pub mod sweep;
pub mod trace;
pub mod uncertainty;
pub mod unfairness;
mod unfinished;
pub mod variant;
pub mod watch;
mod worker;
pub mod workload;
pub mod workload_file;

#[cfg(test)]
mod calls_test;
#[cfg(test)]
mod changes_test;
#[cfg(test)]
mod confined_test;
#[cfg(test)]
mod engine_test;
#[cfg(test)]
mod experiment_test;
#[cfg(test)]
mod machine_test;
#[cfg(test)]
mod retry_test;
#[cfg(test)]
mod rules_test;
#[cfg(any(test, feature = "fuzz"))]
pub mod scenario;
#[cfg(test)]
mod scenario_test;
#[cfg(test)]
mod siblings_test;
#[cfg(test)]
mod stalls_test;
#[cfg(any(test, feature = "fuzz"))]
pub mod trial;
#[cfg(test)]
mod uncertainty_test;
#[cfg(test)]
mod unfairness_test;
#[cfg(test)]
mod workload_test;
