// SPDX-License-Identifier: GPL-2.0-only
//! `--monitor`: the statistics of a scheduler that runs in another process.

use std::time::Duration;

use anyhow::Result;

use crate::agent::stats;

pub fn run(interval: Duration) -> Result<()> {
    let shutdown = super::shutdown_flag()?;
    stats::monitor(interval, &shutdown)
}
