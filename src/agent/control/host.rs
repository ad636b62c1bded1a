// SPDX-License-Identifier: GPL-2.0-only
//! The listening end of the control socket. Its threads read and write. The main loop gets whole
//! requests, one at a time, and no thread waits without end until it takes one.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use crossbeam::channel::{Receiver, Sender, bounded};
use nix::unistd::Group;
use tracing::warn;

use super::access::{Access, Peer};
use super::protocol::{Answer, Request, SOCKET, read_line, write_line};
use super::stream;
use crate::about::NAME;
use crate::agent::cgroups;
use crate::agent::events::hub::{Following, Hub};
use crate::agent::peers::{self, Host, Until, refusal};

/// No request is longer.
pub const REQUEST_MAX: u64 = 64 * 1024;

/// How long a whole request may take, and a whole answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait until the main loop takes a request: it may be loading the scheduler.
const BUSY: Duration = Duration::from_secs(5);

/// A request that waits for its answer.
pub struct Pending {
    pub request: Request,
    /// The client that asks.
    pub peer: Peer,
    answers: Sender<Answer>,
}

impl Pending {
    pub fn answer(self, answer: Answer) {
        // The client may have gone meanwhile.
        let _ = self.answers.send(answer);
    }
}

/// Opens the socket, also for a group if one is named, unless another agent has it.
pub fn serve(group: Option<&str>, hub: &Arc<Hub>) -> Result<Receiver<Pending>> {
    serve_at(Path::new(SOCKET), Access::new(group)?, hub.clone())
}

struct Door {
    listener: UnixListener,
    access: Access,
    pending: Sender<Pending>,
    hub: Arc<Hub>,
    /// No other agent has the socket while this is open.
    _claim: File,
}

/// Opens the socket, which outlives the restarts of the scheduler.
pub fn serve_at(path: &Path, access: Access, hub: Arc<Hub>) -> Result<Receiver<Pending>> {
    let cannot = || format!("cannot listen at {}", path.display());
    make_place(path, &access).with_context(cannot)?;
    let claim = claim(path)?;
    let listener = listen(path, &access).with_context(cannot)?;
    let (pending, requests) = bounded(0);
    peers::receive(Door { listener, access, pending, hub, _claim: claim })?;
    Ok(requests)
}

fn make_place(path: &Path, access: &Access) -> io::Result<()> {
    let Some(dir) = path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    match access.group() {
        // Whatever the umask is.
        Some(_) => fs::set_permissions(dir, Permissions::from_mode(0o755)),
        None => Ok(()),
    }
}

/// Takes a lock, which the kernel releases when the process ends, however that is. Two agents that
/// start at once cannot both have it.
fn claim(socket: &Path) -> Result<File> {
    let path = socket.with_extension("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let cannot = || format!("cannot lock {}", path.display());
    let mut file = options.open(&path).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!("{}", belongs_to(&mut file)),
        Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
    }
    // The process id is only for the message that another agent gets.
    let noted = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    if let Err(error) = noted {
        warn!("cannot write to {}: {error}", path.display());
    }
    Ok(file)
}

fn belongs_to(file: &mut File) -> String {
    let mut owner = String::new();
    let _ = file.rewind().and_then(|()| file.take(20).read_to_string(&mut owner));
    let owner = if owner.is_empty() { String::new() } else { format!(", process {owner}") };
    format!("another {NAME} runs already{owner}: stop it first, or change its policy")
}

/// Listens at the path, and removes the socket that a killed agent may have left behind.
fn listen(path: &Path, access: &Access) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    let mode = match access.group() {
        Some(group) => {
            let given = chown(path, None, Some(group.gid.as_raw()));
            given.map_err(|error| not_given(error, group))?;
            0o660
        }
        None => 0o600,
    };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Adds advice to an error. Without power over all files, a process may give a file to the groups
/// that it is in, and to no other.
pub fn not_given(error: io::Error, group: &Group) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let Group { name, gid, .. } = group;
    let cure = format!(
        "it may not be given to the group {name}, which this process is not in: add \
         SupplementaryGroups={name} to the service, or supplementalGroups: [{gid}] to the pod"
    );
    io::Error::new(error.kind(), cure)
}

impl Host for Door {
    type Stream = UnixStream;
    const NAME: &str = "control";
    const MOST: usize = 32;

    fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().map(|(stream, _)| stream)
    }

    fn serve(&self, stream: &UnixStream) {
        let answered = self.answer(stream);
        let (answer, following) =
            answered.unwrap_or_else(|error| (Answer::Refused(format!("{error:#}")), None));
        // If a client does not read its answer, nothing else can be done for it.
        let is_told = write_line(&mut Until::after(PATIENCE, stream), &answer).is_ok();
        if let (Some(following), true, Answer::Following) = (following, is_told, answer) {
            // This ends when the client goes.
            let _ = stream::serve(stream, &following);
        }
    }

    /// Refuses a connection, and waits for nothing: a new one has room for an answer.
    fn refuse(&self, mut stream: &UnixStream) {
        let _ = stream.set_nonblocking(true);
        let _ = write_line(&mut stream, &Answer::Refused(refusal(Self::MOST)));
    }
}

impl Door {
    /// Returns the answer, and what comes after it if the client wants to follow.
    fn answer(&self, stream: &UnixStream) -> Result<(Answer, Option<Following>)> {
        let peer = Peer::of(stream)?;
        if let Err(error) = self.access.check(&peer) {
            warn!("refused {peer}: {error:#}");
            return Err(error);
        }
        let line = read_line(Until::after(PATIENCE, stream), REQUEST_MAX)?;
        let request: Request = serde_json::from_slice(&line).context("this is no request")?;
        let following = match &request {
            Request::Follow(wanted) => Some(self.hub.follow(wanted.clone())?),
            _ => None,
        };
        let mut answer = self.ask_scheduler(request, peer)?;
        match &mut answer {
            Answer::Status(status) => status.name_cgroups(&cgroups::paths()),
            Answer::Tried(report) if report.ended.is_some() => {
                report.name_cgroups(&cgroups::paths());
            }
            _ => {}
        }
        Ok((answer, following))
    }

    fn ask_scheduler(&self, request: Request, peer: Peer) -> Result<Answer> {
        let (answers, answer) = bounded(1);
        let pending = Pending { request, peer, answers };
        self.pending.send_timeout(pending, BUSY).ok().context(
            "the scheduler does not answer, it may be starting again: nothing has changed, try \
             once more",
        )?;
        // The main loop has taken the request, and does nothing that takes long.
        answer.recv().context("the scheduler ended meanwhile")
    }
}
