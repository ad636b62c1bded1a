// SPDX-License-Identifier: GPL-2.0-only
//! What the command line can ask for, one file each.

pub mod check;
pub mod events;
pub mod explain;
pub mod generate;
pub mod help_metrics;
pub mod help_policy;
pub mod help_stats;
pub mod later;
pub mod log;
mod manual;
pub mod monitor;
pub mod policy;
pub mod run;
pub mod sim;
pub mod status;
pub mod top;

use std::io::{self, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use scx_utils::init_libbpf_logging;
use serde::Serialize;
use tracing::Level;

use self::log::Log;

pub fn log_to_stderr(verbose: bool) -> Result<Log> {
    let log = Log::to(io::stderr())?;
    let writer = log.writer();
    let level = if verbose { Level::DEBUG } else { Level::INFO };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(move || writer.clone())
        // It would tell of them where there is no room, and panic.
        .log_internal_errors(false)
        .init();
    init_libbpf_logging(None);
    Ok(log)
}

/// An answer, as it is, of which nobody has to read all.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot print the answer"),
    }
}

/// The same for programs.
fn print_json(answer: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(answer)? + "\n"))
}

/// A time with its unit, within what makes sense of it.
fn parse_time(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok().filter(|time| range.contains(time));
    let shown = humantime::format_duration;
    time.ok_or_else(|| format!("it takes {} to {}", shown(*range.start()), shown(*range.end())))
}

/// A flag that SIGINT, SIGTERM and SIGHUP raise.
pub fn shutdown_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    ctrlc::set_handler(move || raised.store(true, Ordering::Relaxed))
        .context("cannot install a signal handler")?;
    Ok(flag)
}
