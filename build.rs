// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF programs, and the decisions among them once more natively.

use std::path::Path;
use std::process::exit;

use scx_cargo::BpfBuilder;

#[path = "build/requirements.rs"]
mod requirements;

const HEADERS: [&str; 12] = [
    "src/bpf/intf.h",
    "src/bpf/arithmetic.bpf.h",
    "src/bpf/books.bpf.h",
    "src/bpf/class.bpf.h",
    "src/bpf/decode.bpf.h",
    "src/bpf/elf.bpf.h",
    "src/bpf/fairness.bpf.h",
    "src/bpf/placement.bpf.h",
    "src/bpf/queues.bpf.h",
    "src/bpf/remigrate.bpf.h",
    "src/bpf/sizing.bpf.h",
    "src/bpf/worth.bpf.h",
];

/// The scheduler once more, for the machine that this runs on, and what it finds there.
fn simulator(clang: &Path) {
    let files = ["src/sim/kernel.c", "src/sim/maps.c", "src/sim/scheduler.c"];
    println!("cargo:rerun-if-changed=src/sim");
    let mut build = cc::Build::new();
    // What a fuzzer is to see.
    if std::env::var_os("CARGO_FEATURE_FUZZ").is_some() {
        build.flag("-fsanitize=fuzzer-no-link");
    }
    build
        .compiler(clang)
        .files(files)
        .include("src/sim/shim")
        .flag("-Wall")
        .flag("-Wextra")
        // What is said twice is said for the kernel's sake, and what is unused is for BPF.
        .flag("-Wno-unused-parameter")
        .flag("-Wno-unused-function")
        .flag("-Wno-unused-variable")
        .flag("-Wno-sign-compare")
        .flag("-Wno-unknown-attributes")
        .flag("-Wno-constant-logical-operand")
        .flag("-Wno-incompatible-pointer-types-discards-qualifiers")
        .warnings_into_errors(true)
        .compile("avxspec_simulator");
}

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    if let Err(sentence) = requirements::check(here) {
        eprintln!("{sentence}");
        exit(1);
    }

    let clang = requirements::clang_command(std::env::var("BPF_CLANG").ok(), here);
    // SAFETY: a build script has one thread, so nobody reads the environment meanwhile.
    unsafe { std::env::set_var("BPF_CLANG", &clang) };

    simulator(&clang);
    let built = BpfBuilder::new().and_then(|mut builder| {
        builder
            .enable_intf("src/bpf/intf.h", "bpf_intf.rs")
            .enable_skel("src/bpf/main.bpf.c", "bpf")
            .build()
    });
    if let Err(error) = built {
        eprintln!("cannot compile the BPF programs: {error:#}");
        exit(1);
    }

    for file in HEADERS.iter().chain(&["src/bpf/native.c", "build/requirements.rs", "build/clang"])
    {
        println!("cargo:rerun-if-changed={file}");
    }
    cc::Build::new()
        .file("src/bpf/native.c")
        .flag("-Wall")
        .flag("-Wextra")
        .warnings_into_errors(true)
        .compile("avxspec_decisions");
}
