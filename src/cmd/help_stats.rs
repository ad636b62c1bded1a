// SPDX-License-Identifier: GPL-2.0-only
//! `--help-stats`: what the statistics mean.

use anyhow::{Context, Result};

use crate::agent::stats;

pub fn run() -> Result<()> {
    stats::server_data()
        .describe_meta(&mut std::io::stdout(), None)
        .context("cannot describe the statistics")
}
