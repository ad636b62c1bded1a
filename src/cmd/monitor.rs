// SPDX-License-Identifier: GPL-2.0-only
//! `--monitor`: the statistics of a scheduler that runs in another process.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use crate::agent::stats;

/// Between two lines it sleeps, and would not see a flag: signals end it as they end any program.
pub fn run(interval: Duration) -> Result<()> {
    stats::monitor(interval, &AtomicBool::new(false))
}
