// SPDX-License-Identifier: GPL-2.0-only
//! The rig's one program: the integration tests and the tools around them.
//!
//! `cargo test` runs the tests. `cargo rig` (an alias, see .cargo/config.toml)
//! gives the other commands; `cargo rig --help` lists them.

mod bench;
mod commands;
mod rig;
mod suite;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo rig", about = "Kernels, emulated machines and tests for scx_avxspec")]
struct Arguments {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Build what the tests need: kernels, emulator, root file systems
    Prepare,
    /// Boot the patched kernel on emulated AVX-512 and show the scheduler at work
    Run(commands::run::Arguments),
    /// Boot a machine and run one shell command in it as root
    Boot(commands::boot::Arguments),
    /// Measure; write target/bench/results.json
    Bench(bench::Arguments),
    /// Show which functions of the kernel a workload spends its instructions in
    Profile(commands::profile::Arguments),
    /// Record a web server and write it as a workload of the simulator
    Record(commands::record::Arguments),
    /// Run for long what the tests run for short; write target/soak/results.json
    Soak(bench::soak::Arguments),
    /// Write docs/figures.md from the last measurements
    Figures,
    /// Seed each known bug and see that the test named for it fails
    Mutants(commands::mutants::Arguments),
    /// Compile what the series touches, by gcc and clang, and show what they warn of
    Warnings,
    /// Remove all that was built and kept for this project
    Clean,
    /// In a guest: hide xfeatures from everybody while a command runs
    #[command(hide = true)]
    Force(commands::force::Arguments),
    /// In a guest: note the callbacks of the scheduler while commands run
    #[command(hide = true)]
    Calls,
}

fn main() -> ExitCode {
    // cargo test passes nothing, or a filter and flags for the test harness;
    // only the name of a tool means a tool.
    let first = std::env::args().nth(1).unwrap_or_default();
    let code = run(&first);
    rig::standing::end_all();
    code
}

fn run(first: &str) -> ExitCode {
    let is_tool = ["--help", "help"].contains(&first)
        || Arguments::command().find_subcommand(first).is_some();
    if !is_tool {
        return suite::run();
    }
    match start(Arguments::parse().tool) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rig: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(tool: Tool) -> Result<ExitCode> {
    match tool {
        Tool::Prepare => commands::prepare::prepare(),
        Tool::Run(arguments) => commands::run::run(&arguments),
        Tool::Boot(arguments) => commands::boot::boot(&arguments),
        Tool::Bench(arguments) => bench::bench(&arguments),
        Tool::Profile(arguments) => commands::profile::profile(&arguments),
        Tool::Record(arguments) => commands::record::record(&arguments),
        Tool::Soak(arguments) => bench::soak::soak(&arguments),
        Tool::Figures => bench::figures::write(),
        Tool::Mutants(arguments) => commands::mutants::run(&arguments),
        Tool::Warnings => commands::prepare::warnings(),
        Tool::Clean => commands::prepare::clean(),
        Tool::Force(arguments) => commands::force::force(&arguments),
        Tool::Calls => commands::calls::calls(),
    }
}
