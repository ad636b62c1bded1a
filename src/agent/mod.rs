// SPDX-License-Identifier: GPL-2.0-only
//! The agent loads the BPF programs, observes them and explains what they do. It schedules nothing.

pub mod books;
mod cgroups;
pub mod clocks;
pub mod control;
pub mod counters;
mod cpulist;
mod ending;
pub mod events;
pub mod explain;
mod hints;
mod left_alone;
mod light;
pub mod metrics;
mod pace;
mod peers;
pub mod policy;
pub mod preflight;
pub mod prospect;
pub mod scheduler;
pub mod service;
pub mod setup;
mod slots;
pub mod stats;
pub mod status;
mod symbols;
pub mod topology;
pub mod trial;
