// SPDX-License-Identifier: GPL-2.0-only
//! What `cargo rig` offers beside the tests.

pub mod bench;
pub mod boot;
mod callbacks;
pub mod calls;
pub mod figures;
pub mod force;
mod modelled;
pub mod mutants;
pub mod prepare;
pub mod profile;
pub mod record;
pub mod results;
pub mod run;
pub mod soak;
