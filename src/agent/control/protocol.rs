// SPDX-License-Identifier: GPL-2.0-only
//! The requests and answers of the control socket. Each is a line of JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::agent::events::Wanted;
use crate::agent::explain::Explanation;
use crate::agent::peers::is_timeout;
use crate::agent::policy::history::Change;
use crate::agent::policy::{Difference, Setting};
use crate::agent::status::Status;
use crate::agent::trial::Report;

/// Where the control socket is.
pub const SOCKET: &str = "/run/scx_avxspec/control";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Asks what is in force.
    Show,
    /// Puts something else into force, as a whole or not at all.
    Change(Change),
    /// Confirms that what is in force on trial shall stay.
    Confirm,
    /// Tries these settings, with the default of each knob that they leave out, against what is in
    /// force.
    Try { settings: Vec<String>, time: Duration },
    /// Asks how far the trial is. The trial ends if nobody asks any more.
    Tried,
    /// Asks what the scheduler is doing.
    Status,
    /// Asks what the scheduler thinks of this thread.
    Explain(i32),
    /// Asks for what happens from now on, until one of the two ends goes.
    Follow(Wanted),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// This is in force.
    InForce {
        generation: u64,
        settings: Vec<Setting>,
        /// For how many more seconds it is in force, if it is on trial.
        trial_left_s: Option<u64>,
    },
    /// This is different from now on, or would be.
    Changed {
        generation: u64,
        differences: Vec<Difference>,
    },
    Tried(Box<Report>),
    Status(Box<Status>),
    Explanation(Box<Explanation>),
    /// Lines of events follow.
    Following,
    /// Nothing has changed, for this reason.
    Refused(String),
}

pub fn read_line(stream: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    let read = BufReader::new(stream.take(most)).read_until(b'\n', &mut line);
    read.map_err(|error| match is_timeout(&error) {
        true => anyhow!("a line was expected, and it took too long"),
        false => anyhow!("cannot read a line: {error}"),
    })?;
    if line.last() != Some(&b'\n') {
        bail!("a line of at most {most} bytes was expected");
    }
    Ok(line)
}

pub fn write_line(stream: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}
