// SPDX-License-Identifier: GPL-2.0-only
//! `--help-metrics`: what Prometheus is told.

use anyhow::Result;

use super::print;
use crate::agent::metrics;

pub fn run() -> Result<()> {
    print(&metrics::reference())
}
