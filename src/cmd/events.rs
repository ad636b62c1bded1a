// SPDX-License-Identifier: GPL-2.0-only
//! `events`: what happens, one line each.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::agent::control::stream::Followed;
use crate::agent::events::{Event, Kind, Wanted};

/// Without --follow.
const A_WHILE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct Options {
    /// Go on until ^C, instead of for a second.
    #[arg(short, long)]
    follow: bool,

    /// A line of JSON for each.
    #[arg(long)]
    json: bool,

    /// Only those of this thread, or of the threads of this process.
    #[arg(long)]
    pid: Option<i32>,

    /// Only those of these kinds.
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<Kind>,
}

pub fn run(options: &Options) -> Result<()> {
    let wanted = Wanted { pid: options.pid, kinds: options.kinds.clone() };
    let mut followed = Followed::begin(wanted)?;
    let end = (!options.follow).then(|| Instant::now() + A_WHILE);
    while end.is_none_or(|end| Instant::now() < end) {
        let Some(event) = followed.next(end)? else { continue };
        match print(&event, options.json) {
            // Whoever read this has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            other => other.context("cannot print an event")?,
        }
    }
    Ok(())
}

fn print(event: &Event, as_json: bool) -> io::Result<()> {
    let line = if as_json { serde_json::to_string(event)? } else { event.to_string() };
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
