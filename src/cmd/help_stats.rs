// SPDX-License-Identifier: GPL-2.0-only
//! `--help-stats`: what the statistics mean.

use anyhow::{Context, Result};

use super::print;
use crate::agent::stats;

pub fn run() -> Result<()> {
    let mut text = Vec::new();
    stats::server_data()
        .describe_meta(&mut text, None)
        .context("cannot describe the statistics")?;
    print(&String::from_utf8(text)?)
}
