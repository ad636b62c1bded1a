// SPDX-License-Identifier: GPL-2.0-only
//! The trials of src/sim as a target of clang's libFuzzer, which sees what the scheduler's own
//! source does with each input. `make fuzz` builds and runs it.

#![no_main]
// It takes a part of the program.
#![allow(dead_code, unused_imports)]

#[path = "../../src/about.rs"]
mod about;
#[path = "../../src/agent"]
mod agent {
    pub mod cpulist;
    pub mod policy;
}
#[path = "../../src/bpf"]
mod bpf {
    #[allow(clippy::all, clippy::restriction)]
    #[allow(non_camel_case_types)]
    pub mod intf {
        include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
    }
    pub mod names;
    pub mod places;
    pub mod trials;
}
#[path = "../../src/files.rs"]
mod files;
#[path = "../../src/processors.rs"]
mod processors;
#[path = "../../src/sim/mod.rs"]
mod sim;
#[path = "../../src/trials/mod.rs"]
mod trials;

use sim::scenario::Scenario;
use sim::trial;

/// Ends the process if the scheduler does what it must not do.
///
/// # Safety
///
/// There are `size` bytes of data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> i32 {
    let bytes = match size {
        0 => &[],
        // SAFETY: the fuzzer gives them, and keeps them for as long as this takes.
        _ => unsafe { std::slice::from_raw_parts(data, size) },
    };
    let scenario = Scenario::of(bytes);
    if let Err(error) = trial::run(&scenario) {
        eprintln!("{error:#} in {scenario:?}");
        std::process::abort();
    }
    0
}
