// SPDX-License-Identifier: GPL-2.0-only
//! Why a run fails: what went wrong, when, and what the machine was at.

use std::fmt::{self, Display, Formatter};

/// When a simulation begins. It is not 0, because time 0 means "never" to the scheduler.
pub const BEGIN_NS: u64 = 1_000_000_000;

#[derive(Debug, PartialEq)]
pub struct Failure {
    pub at: u64,
    pub occasion: Option<String>,
    /// The callback of the scheduler that was under way, and the task that it was for.
    pub callback: Option<&'static str>,
    pub task: Option<i32>,
    pub what: String,
}

impl Display for Failure {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{}", time(self.at))?;
        if let Some(occasion) = &self.occasion {
            write!(to, ", {occasion}")?;
        }
        if let Some(callback) = self.callback {
            write!(to, ", in {callback}()")?;
        }
        if let (Some(_), Some(task)) = (self.callback, self.task) {
            write!(to, " of task {task}")?;
        }
        write!(to, ": {}", self.what)
    }
}

/// Returns the time since the machine began, to the nanosecond.
pub(super) fn time(ns: u64) -> String {
    let ns = ns.saturating_sub(BEGIN_NS);
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}
