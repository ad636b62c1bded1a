// SPDX-License-Identifier: GPL-2.0-only
//! The Rust face of the BPF programs: generated types and the skeleton.

pub mod names;
pub mod places;
pub mod trials;

/// Types and constants of `intf.h`, and of the decisions.
#[allow(clippy::all, clippy::restriction)]
#[allow(dead_code, non_camel_case_types)]
pub mod intf {
    include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
}

/// Maps, programs and callbacks of `main.bpf.c`.
#[allow(clippy::all, clippy::restriction)]
pub mod skel {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}

/// The programs of `progress.bpf.c`.
pub const PROGRESS_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/progress.bpf.o"));

#[cfg(test)]
mod decide;
