// SPDX-License-Identifier: GPL-2.0-only
//! `sim import`: a workload of what real programs did.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cmd::print;
use crate::files;
use crate::sim::trace::{self, Speed};

const LARGEST_KIB: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct Options {
    /// A trace of the emulator with the oracle, as docs/rig.md has it.
    trace: PathBuf,

    /// How many instructions a core executes in a microsecond at its highest clock.
    #[arg(long, value_name = "NUMBER", default_value_t = 3800.0)]
    mips: f64,

    /// How much faster the programs are where they use 512-bit vectors, apart from the clock.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed_up: f64,
}

pub fn run(options: &Options) -> Result<()> {
    let Options { trace, mips, speed_up } = options;
    ensure!((1.0..=1e6).contains(mips), "--mips is 1 to 1000000, not {mips}");
    ensure!((0.01..=100.0).contains(speed_up), "--speed-up is 0.01 to 100, not {speed_up}");
    let text = files::read_text(trace, LARGEST_KIB)
        .with_context(|| format!("cannot read {}", trace.display()))?;
    let speed = Speed { instructions_per_us: *mips, speed_up: *speed_up };
    let workload = trace::workload(&text, speed);
    print(&workload.with_context(|| format!("{} is of no use", trace.display()))?)
}
