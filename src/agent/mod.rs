// SPDX-License-Identifier: GPL-2.0-only
//! Loads, observes and explains; schedules nothing.

mod books;
mod clocks;
pub mod control;
mod cpulist;
pub mod events;
pub mod explain;
mod hints;
pub mod metrics;
mod peers;
pub mod policy;
pub mod preflight;
pub mod prospect;
pub mod scheduler;
pub mod service;
pub mod setup;
pub mod stats;
pub mod status;
mod topology;
