// SPDX-License-Identifier: GPL-2.0-only
//! Asks the scheduler that runs in another process.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::protocol::{Answer, Request, SOCKET, read_line, write_line};
use crate::agent::peers::Until;

/// The greatest length of an answer. It is more than all books that the kernel keeps.
const ANSWER_MAX: u64 = 16 << 20;

/// How long to wait for an answer. It is longer than the other end may take to give one.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Asks the scheduler. It is an error if it refuses.
pub fn ask(request: &Request) -> Result<Answer> {
    match ask_at(Path::new(SOCKET), request)? {
        Answer::Refused(why) => bail!("{why}"),
        answer => Ok(answer),
    }
}

/// Asks, and leaves it to the caller to read what is said. The caller waits for the first line as
/// long as for any answer, and sets itself how long it waits for more.
pub fn begin(request: &Request) -> Result<UnixStream> {
    begin_at(Path::new(SOCKET), request)
}

pub fn begin_at(path: &Path, request: &Request) -> Result<UnixStream> {
    let stream = connect(path)?;
    // A client that is refused at once is not listened to, but gets an answer.
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

pub fn ask_at(path: &Path, request: &Request) -> Result<Answer> {
    let stream = connect(path)?;
    let mut stream = Until::after(PATIENCE, &stream);
    let asked = write_line(&mut stream, request).context("cannot ask the scheduler");
    // A client that is refused at once is not listened to, but gets an answer.
    let line = read_line(stream, ANSWER_MAX)
        .or_else(|error| asked.and(Err(error.context("the scheduler gave no answer"))))?;
    serde_json::from_slice(&line).context("the scheduler's answer is not understood")
}
