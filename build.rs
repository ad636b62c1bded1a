// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the BPF programs, and the decisions among them once more natively.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use scx_cargo::BpfBuilder;

#[path = "build/bindings.rs"]
mod bindings;
#[path = "build/requirements.rs"]
mod requirements;

/// The scheduler once more, for the machine that this runs on, and what it finds there.
fn simulator(clang: &Path) {
    let files = [
        "affinity",
        "attach",
        "calls",
        "changes",
        "fair",
        "idle",
        "kernel",
        "load",
        "maps",
        "masks",
        "patch",
        "placement",
        "queues",
        "resched",
        "schedule",
        "scheduler",
        "tasks",
        "timers",
    ];
    let mut build = cc::Build::new();
    // What a fuzzer is to see.
    if std::env::var_os("CARGO_FEATURE_FUZZ").is_some() {
        build.flag("-fsanitize=fuzzer-no-link");
    }
    build
        .compiler(clang)
        .files(files.map(|name| format!("src/sim/kernel/{name}.c")))
        .include("src/sim/kernel/shim")
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

/// From which state of the sources this is built, where git knows: not where an archive of them is
/// unpacked, even if that is within another repository.
fn commit(here: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(here).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    if !here.join(".git").exists() {
        return None;
    }
    // What is not there would have this run each time. So may be a branch, which then is packed with
    // others; but the log tells of each commit as well.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD".to_owned(), "logs/HEAD".to_owned()].into_iter().chain(branch) {
        let path = git(&["rev-parse", "--git-path", &name]).map(|path| here.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    git(&["describe", "--always", "--dirty"])
}

fn main() {
    // As it runs: a tree that was moved is not built anew as a whole.
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let here = here.as_path();
    if let Err(sentence) = requirements::check(here) {
        eprintln!("{sentence}");
        exit(1);
    }

    // All of src: what is changed there and not committed makes another version.
    for path in ["src", "build/bindings.rs", "build/requirements.rs", "build/clang"] {
        println!("cargo:rerun-if-changed={path}");
    }
    if let Some(commit) = commit(here) {
        println!("cargo:rustc-env=AVXSPEC_COMMIT={commit}");
    }

    let clang = requirements::clang_command(std::env::var("BPF_CLANG").ok(), here);
    // SAFETY: a build script has one thread, so nobody reads the environment meanwhile.
    unsafe { std::env::set_var("BPF_CLANG", &clang) };

    simulator(&clang);
    let objects = [("src/bpf/main.bpf.c", "bpf"), ("src/bpf/progress.bpf.c", "progress")];
    let built = objects.iter().try_for_each(|(source, name)| {
        BpfBuilder::new().and_then(|mut builder| builder.enable_skel(source, name).build())
    });
    if let Err(error) = built {
        eprintln!("cannot compile the BPF programs: {error:#}");
        exit(1);
    }

    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let generate = [bindings::types, bindings::decisions, bindings::simulated_kernel];
    if let Err(error) = generate.iter().try_for_each(|bindings| bindings(&out)) {
        eprintln!("cannot tell Rust of the C: {error:#}");
        exit(1);
    }
}
