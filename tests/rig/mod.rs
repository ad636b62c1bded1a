// SPDX-License-Identifier: GPL-2.0-only
//! The rig: real kernels on emulated machines, for tests that need them.
//!
//! A test orders a [`Guest`]: a machine, a kernel, what to put in and what to
//! run there as root. It gets back an [`guest::Outcome`], or an error that quotes the
//! console when the guest hangs, panics, oopses or prints a warning. Whatever
//! the order needs is built on first use and kept in the cache.
//!
//! Data flows one way: packages -> kernel, bochs, userland -> machine -> guest.

pub mod bochs;
pub mod bpf;
pub mod cache;
pub mod census;
pub mod code_lines;
pub mod console;
pub mod guest;
pub mod kernel;
pub mod machine;
pub mod packages;
pub mod process;
pub mod program;
pub mod progress;
pub mod qemu;
pub mod results;
pub mod run;
pub mod series;
pub mod slots;
pub mod standing;
pub mod userland;
pub mod warnings;

pub use bochs::Bochs;
pub use guest::Guest;
pub use kernel::{Flavour, Kernel, all_series, in_repository};
pub use qemu::Qemu;
