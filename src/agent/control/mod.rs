// SPDX-License-Identifier: GPL-2.0-only
//! The control socket: the policy is shown and changed while the scheduler runs. A line of JSON
//! asks, another one answers, and that was the connection.

mod access;
mod host;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use crossbeam::channel::{Receiver, Sender};
use serde::{Deserialize, Serialize};

use super::events::Wanted;
use super::events::hub::Hub;
use super::explain::Explanation;
use super::peers::{Until, is_timeout};
use super::policy::history::Change;
use super::policy::{Difference, Setting};
use super::status::Status;
use access::Access;
pub use access::Peer;

const SOCKET: &str = "/run/scx_avxspec/control";

/// More than all books that the kernel keeps.
const ANSWER_MAX: u64 = 16 << 20;

/// For an answer: longer than the other end may take to give one.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What is in force?
    Show,
    /// Something else, as a whole or not at all.
    Change(Change),
    /// What is in force on trial shall stay.
    Confirm,
    /// What is the scheduler doing?
    Status,
    /// What does it think of this thread?
    Explain(i32),
    /// What happens from now on, until one of the two goes?
    Follow(Wanted),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// This is.
    InForce {
        generation: u64,
        settings: Vec<Setting>,
        /// How many more seconds, if it is on trial.
        trial_left_s: Option<u64>,
    },
    /// This is otherwise from now on, or would be.
    Changed {
        generation: u64,
        differences: Vec<Difference>,
    },
    Status(Box<Status>),
    Explanation(Box<Explanation>),
    /// Lines of events follow.
    Following,
    /// Nothing has changed, for this reason.
    Refused(String),
}

/// A request that waits for its answer.
pub struct Pending {
    pub request: Request,
    /// Whose it is.
    pub peer: Peer,
    answers: Sender<Answer>,
}

impl Pending {
    pub fn answer(self, answer: Answer) {
        // Who asked may have gone meanwhile.
        let _ = self.answers.send(answer);
    }
}

/// Opens the socket, also for a group if it has a name, unless another agent has it.
pub fn serve(group: Option<&str>, hub: &Arc<Hub>) -> Result<Receiver<Pending>> {
    host::serve_at(Path::new(SOCKET), Access::new(group)?, hub.clone())
}

fn read_line(stream: impl Read, most: u64) -> Result<Vec<u8>> {
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

/// Asks the scheduler that runs in another process. That it refuses is an error.
pub fn ask(request: &Request) -> Result<Answer> {
    match ask_at(Path::new(SOCKET), request)? {
        Answer::Refused(why) => bail!("{why}"),
        answer => Ok(answer),
    }
}

/// Asks, and leaves it to others to read what is said. They wait for the first line as long as for
/// any answer, and say themselves how long they wait for more.
pub fn begin(request: &Request) -> Result<UnixStream> {
    begin_at(Path::new(SOCKET), request)
}

fn begin_at(path: &Path, request: &Request) -> Result<UnixStream> {
    let stream = connect(path)?;
    // Who is turned away at the door is not listened to, but gets an answer.
    let _ = write_line(&mut Until::after(PATIENCE, &stream), request);
    stream.set_read_timeout(Some(PATIENCE)).context("cannot bound the wait for an answer")?;
    Ok(stream)
}

fn connect(path: &Path) -> Result<UnixStream> {
    UnixStream::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!(
            "only root, or the group of --control-group, may ask the scheduler: run it again with \
             sudo"
        ),
        _ => anyhow!("no scheduler listens at {}: start it first", path.display()),
    })
}

fn ask_at(path: &Path, request: &Request) -> Result<Answer> {
    let stream = connect(path)?;
    let mut stream = Until::after(PATIENCE, &stream);
    let asked = write_line(&mut stream, request).context("cannot ask the scheduler");
    // Who is turned away at the door is not listened to, but gets an answer.
    let line = read_line(stream, ANSWER_MAX)
        .or_else(|error| asked.and(Err(error.context("the scheduler gave no answer"))))?;
    serde_json::from_slice(&line).context("the scheduler's answer is not understood")
}

#[cfg(test)]
mod host_test;
