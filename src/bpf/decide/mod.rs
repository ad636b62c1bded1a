// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the decisions that are pure: numbers and structs in, a verdict out.

/// All that is decided, as functions of C.
#[allow(clippy::all, clippy::restriction, dead_code)]
mod native {
    use crate::bpf::intf::*;

    include!(concat!(env!("OUT_DIR"), "/decisions.rs"));
}

mod books_test;
mod class_test;
mod compensation_test;
mod decisions_test;
mod decode_test;
mod elf_test;
mod placement_test;
mod sizing_apart_test;
mod sizing_machine_test;
mod sizing_share_test;
mod sizing_test;
