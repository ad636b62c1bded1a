// SPDX-License-Identifier: GPL-2.0-only
//! What `cargo rig` offers beside tests and benchmarks.

pub mod boot;
pub mod calls;
pub mod force;
pub mod mutants;
pub mod prepare;
pub mod profile;
pub mod record;
pub mod run;
