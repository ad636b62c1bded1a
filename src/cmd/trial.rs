// SPDX-License-Identifier: GPL-2.0-only
//! `policy trial`: which of two policies is better for whom, found out on the machine as it runs.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::{print, print_json};
use crate::agent::control::{self, Answer, Request};
use crate::agent::policy;
use crate::agent::trial::{Ended, Report};

/// The scheduler ends it where nobody asks for longer.
const ASKS_EVERY: Duration = Duration::from_millis(500);

pub fn run(policy: &str, time: Duration, as_json: bool) -> Result<()> {
    let settings = policy::texts(&policy::load(policy)?);
    let mut report = ask(&Request::Try { settings, time })?;
    let progress = progress_of(&report);
    while report.ended.is_none() {
        sleep(ASKS_EVERY.min(Duration::from_secs_f64(report.left_s)));
        // With the scheduler, where that is loaded anew.
        report = ask(&Request::Tried).context("the trial is lost")?;
        progress
            .set_position(time.saturating_sub(Duration::from_secs_f64(report.left_s)).as_secs());
    }
    progress.finish_and_clear();
    if as_json { print_json(&report) } else { print(&report.to_string()) }?;
    match report.ended {
        Some(Ended::Because(why)) => bail!("the trial ended before its time: {why}"),
        _ => Ok(()),
    }
}

fn ask(request: &Request) -> Result<Report> {
    match control::ask(request)? {
        Answer::Tried(report) => Ok(*report),
        other => bail!("this is no report of a trial: {other:?}"),
    }
}

/// Nothing is shown where standard error is no terminal.
fn progress_of(report: &Report) -> ProgressBar {
    let bar = ProgressBar::new(report.left_s as u64);
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} s {wide_bar}") {
        bar.set_style(style);
    }
    bar
}
