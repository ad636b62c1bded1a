// SPDX-License-Identifier: GPL-2.0-only
//! What Rust knows of the C, generated from its headers: nothing of it is written down twice.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use bindgen::{Builder, CodegenConfig};

const DECISIONS: &str = "src/bpf/decide/decisions.h";
const SIMULATED_KERNEL: &str = "src/sim/kernel/internal.h";

fn bindings(header: &str) -> Builder {
    bindgen::builder()
        .header(header)
        .prepend_enum_name(false)
        .array_pointers_in_arguments(true)
        .derive_default(true)
        .derive_partialeq(true)
        .wrap_unsafe_ops(true)
}

/// The types and constants that cross a border, and those of the decisions.
pub fn types(out: &Path) -> Result<()> {
    bindings(DECISIONS)
        .allowlist_file("src/bpf/.*")
        .with_codegen_config(CodegenConfig::TYPES | CodegenConfig::VARS)
        // Tables, of which nobody but the decisions knows.
        .blocklist_var("insn_maps|displacements")
        .generate()?
        .write_to_file(out.join("bpf_intf.rs"))
        .context("cannot write the types")
}

/// The decisions as functions, for their tests. The headers hold static inline functions for the
/// BPF compiler; the C file that is generated gives them addresses, so that native code calls the
/// very lines that run in the kernel.
pub fn decisions(out: &Path) -> Result<()> {
    let wrappers = out.join("decisions.c");
    let functions = bindings(DECISIONS)
        .allowlist_file("src/bpf/.*")
        .with_codegen_config(CodegenConfig::FUNCTIONS)
        .wrap_static_fns(true)
        .wrap_static_fns_path(&wrappers)
        .generate()?
        .to_string();
    fs::write(out.join("decisions.rs"), safe(&functions)).context("cannot write the decisions")?;
    cc::Build::new()
        .file(wrappers)
        .include(".")
        .flag("-Wall")
        .flag("-Wextra")
        .warnings_into_errors(true)
        .try_compile("avxspec_decisions")
        .context("cannot compile the decisions")
}

/// Decisions look at what they are given, and at nothing else: with references for pointers, as
/// decisions.h says, they are as safe as any function.
fn safe(functions: &str) -> String {
    let mut all = String::new();
    for part in functions.replace("pub fn", "pub safe fn").split_inclusive([',', ')']) {
        let part = match part.split_once("__nullable: *const ") {
            Some((name, rest)) => {
                let (pointee, end) = rest.split_at(rest.len() - 1);
                format!("{name}: Option<&{pointee}>{end}")
            }
            None => part.replace(": *const ", ": &").replace(": *mut ", ": &mut "),
        };
        all.push_str(&part);
    }
    all
}

/// The kernel's side of a simulation, as the engine calls it, and as a scheduler does.
pub fn simulated_kernel(out: &Path) -> Result<()> {
    bindings(SIMULATED_KERNEL)
        .allowlist_function("(sim|scx|__COMPAT)_.*")
        .allowlist_type("sim_callback")
        .allowlist_var("(SIM|SCX)_.*")
        // Whose they are knows what is in them.
        .opaque_type("(sim_task|task_struct|sim_cpu|kernel_cpustat|bpf_timer)")
        // They are in the types above.
        .blocklist_file(".*/intf.h")
        .raw_line("use crate::bpf::intf::*;")
        .generate()?
        .write_to_file(out.join("sim_kernel.rs"))
        .context("cannot write the simulated kernel")
}
