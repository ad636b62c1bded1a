// SPDX-License-Identifier: GPL-2.0-only
//! Machines that were booted once and stand at their checkpoint, for as long as the rig runs.
//!
//! Guests with the same machine, kernel and root file system are the same up to the point where
//! their init looks for the job disk. Each goes on from there in a copy of one machine, in a
//! directory of its own: see tests/rig/oracle/checkpoint.cc.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use tempfile::TempDir;

use super::machine::{BOOT_DISC, Parts};
use super::process::{Tied, leave_open};
use super::run::Run;
use super::slots;

/// Where Bochs finds the number of its socket.
const CONTROL: &str = "ORACLE_CHECKPOINT";

struct Standing {
    control: OwnedFd,
    dir: TempDir,
    boot: Duration,
    /// Which ends with this.
    _machine: Tied,
}

type Place = Arc<Mutex<Option<Standing>>>;

static PLACES: Mutex<BTreeMap<String, Place>> = Mutex::new(BTreeMap::new());

/// A machine that stands; who wants the same one waits while it is booted.
pub struct Stand(Place);

impl Stand {
    /// The machine called `name`, for which `command` starts the emulator.
    pub fn of(
        name: String,
        limit: Duration,
        command: impl FnOnce(&Path) -> Result<Command>,
    ) -> Result<Self> {
        let place =
            PLACES.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().clone();
        {
            let mut standing =
                slots::waiting_for(|| place.lock().unwrap_or_else(PoisonError::into_inner));
            if standing.is_none() {
                *standing = Some(Standing::boot(limit, command)?);
            }
        }
        Ok(Self(place))
    }

    /// Has a copy of it go on in `dir`, with the files that are there already instead of its own.
    pub fn copy_to(&self, dir: &Path) -> Result<Tied> {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.as_ref().context("the machine is gone")?.copy_to(dir)
    }
}

impl Standing {
    fn boot(limit: Duration, command: impl FnOnce(&Path) -> Result<Command>) -> Result<Self> {
        let dir = guest_dir()?;
        let mut emulator = command(dir.path())?;
        let (control, its_end) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        emulator.env(CONTROL, its_end.as_raw_fd().to_string());
        leave_open(&mut emulator, its_end.as_raw_fd());

        let _slots = slots::take(1);
        let mut machine = spawn_for_good(emulator)?;
        drop(its_end);
        let mut run = Run::new(dir.path(), &Parts::console_in(dir.path()));
        run.watch_until(&mut machine, limit, |_| {
            Ok(hear(&control, MsgFlags::MSG_DONTWAIT)? == Some(0))
        })?;
        Ok(Self { control, dir, boot: machine.has_run(), _machine: machine })
    }

    fn copy_to(&self, dir: &Path) -> Result<Tied> {
        for entry in fs::read_dir(self.dir.path())? {
            let (from, to) = {
                let path = entry?.path();
                let to = dir.join(path.file_name().context("a file has a name")?);
                (path, to)
            };
            if to.exists() {
                continue;
            }
            if from.ends_with(BOOT_DISC) {
                fs::hard_link(&from, &to)?;
            } else {
                fs::copy(&from, &to)?;
            }
        }
        let place = dir.to_str().context("the directory of a guest has a name in UTF-8")?;
        send(self.control.as_raw_fd(), place.as_bytes(), MsgFlags::MSG_NOSIGNAL)?;
        let pid = hear(&self.control, MsgFlags::empty())?.context("the machine said nothing")?;
        ensure!(pid > 0, "the machine cannot be copied");
        Ok(Tied::adopt(pid))
    }
}

/// The next message of a machine, if there is one.
fn hear(control: &OwnedFd, flags: MsgFlags) -> Result<Option<i32>> {
    let mut message = [0; size_of::<i32>()];
    match recv(control.as_raw_fd(), &mut message, flags) {
        Ok(length) if length == message.len() => Ok(Some(i32::from_ne_bytes(message))),
        Ok(_) | Err(nix::errno::Errno::EAGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What is started by any other thread ends with that thread.
fn spawn_for_good(mut command: Command) -> Result<Tied> {
    type Order = (Command, Sender<Result<Tied>>);
    static KEEPER: OnceLock<Sender<Order>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (sender, orders) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in orders {
                let _ = answer.send(Tied::spawn(&mut command));
            }
        });
        sender
    });
    let (answer, started) = channel();
    command.stdin(std::process::Stdio::null());
    keeper.send((command, answer)).ok().context("nobody keeps machines")?;
    started.recv().context("nobody keeps machines")?
}

/// For a guest.
pub fn guest_dir() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("guest-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

/// What the host's CPUs did for each to get to its checkpoint.
pub fn boots() -> Vec<(String, Duration)> {
    let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let boot = |(name, place): (&String, &Place)| {
        let standing = place.lock().unwrap_or_else(PoisonError::into_inner);
        Some((name.clone(), standing.as_ref()?.boot))
    };
    places.iter().filter_map(boot).collect()
}

/// Ends all machines that stand, and removes what they left.
pub fn end_all() {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
