// SPDX-License-Identifier: GPL-2.0-only
//! `check`: whether it would run here, and what it would find.

use std::path::Path;

use anyhow::{Result, ensure};
use clap::Args;

use super::{print, print_json};
use crate::agent::preflight::Report;

#[derive(Debug, Args)]
pub struct Options {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// That it would not run is an error.
pub fn run(options: &Options) -> Result<()> {
    let report = Report::of(Path::new("/"));
    match options.json {
        true => print_json(&report)?,
        false => print(&report.to_string())?,
    }
    ensure!(report.would_run, "it would not run here: see what is marked as a problem");
    Ok(())
}
