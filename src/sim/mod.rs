// SPDX-License-Identifier: GPL-2.0-only
//! The proving ground: the scheduler's own BPF code, run natively on a modelled machine.

// Tests ask for more than the command does.
#![cfg_attr(not(test), allow(dead_code))]

mod alarms;
mod clock;
mod engine;
mod kernel;
pub mod machine;
pub mod model;
pub mod scenario;
mod workload;

#[cfg(test)]
mod engine_test;
#[cfg(test)]
mod machine_test;
#[cfg(test)]
mod scenario_test;
