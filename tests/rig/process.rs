// SPDX-License-Identifier: GPL-2.0-only
//! Children that cannot outlive the rig.
//!
//! Whatever the rig starts is told by the kernel to die when the thread that
//! started it does, and is killed when its handle is dropped. So neither a
//! panic, nor ^C, nor SIGKILL to the rig leaves an emulator or a build behind.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::libc;

thread_local! {
    static CPU_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// How much time of the host's CPUs the machines took that this thread has seen end.
pub fn cpu_time() -> Duration {
    CPU_TIME.get()
}

/// A running child; dropping it kills it and waits for its end.
pub struct Tied {
    pid: libc::pid_t,
    ended: Option<ExitStatus>,
}

impl Tied {
    pub fn spawn(command: &mut Command) -> Result<Self> {
        tie(command, libc::SIGKILL);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Self::adopt(child.id().cast_signed()))
    }

    /// A child of this process that something else started, and that is tied already.
    pub fn adopt(pid: libc::pid_t) -> Self {
        Self { pid, ended: None }
    }

    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.wait(libc::WNOHANG)?;
        Ok(self.ended)
    }

    fn wait(&mut self, options: i32) -> std::io::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        let mut status = 0;
        // SAFETY: of this structure all zeroes is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to what lives here.
        match unsafe { libc::wait4(self.pid, &raw mut status, options, &raw mut usage) } {
            -1 => return Err(std::io::Error::last_os_error()),
            0 => return Ok(()),
            _ => self.ended = Some(ExitStatus::from_raw(status)),
        }
        let used = [usage.ru_utime, usage.ru_stime]
            .map(|time| Duration::new(time.tv_sec.cast_unsigned(), time.tv_usec as u32 * 1000));
        CPU_TIME.set(CPU_TIME.get() + used[0] + used[1]);
        Ok(())
    }

    /// How long it could run, but others had the host's CPUs: of its threads,
    /// the one that waited longest.
    pub fn kept_waiting(&self) -> Duration {
        self.longest_of_schedstat(1)
    }

    /// How long it ran: of its threads, the one that ran longest.
    pub fn has_run(&self) -> Duration {
        self.longest_of_schedstat(0)
    }

    fn longest_of_schedstat(&self, column: usize) -> Duration {
        let threads = format!("/proc/{}/task", self.pid);
        let longest = std::fs::read_dir(threads)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
            .filter_map(|ran_and_waited| ran_and_waited.split(' ').nth(column)?.parse().ok())
            .max();
        Duration::from_nanos(longest.unwrap_or_default())
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // SAFETY: kill() has no preconditions; until it is waited for, the id is the child's.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            let _ = self.wait(0);
        }
    }
}

fn tie(command: &mut Command, signal: i32) {
    // SAFETY: prctl() is async-signal-safe and touches no memory of ours.
    unsafe {
        command.pre_exec(move || match libc::prctl(libc::PR_SET_PDEATHSIG, signal) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

/// Lets `lock` be held by the whole family of `command`: a make whose parent
/// was killed keeps others out until its last compiler is gone.
pub fn hold_lock(command: &mut Command, lock: &File) {
    leave_open(command, lock.as_raw_fd());
}

/// Lets `command` have the descriptor by the same number.
pub fn leave_open(command: &mut Command, fd: RawFd) {
    // SAFETY: fcntl() is async-signal-safe; the descriptor is open in the
    // child, which is a copy of this process until it calls exec.
    unsafe {
        command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

/// Runs `command` to its end with all its output in the file `log`, calling
/// `on_line` for each line of it. An error quotes the end of the log.
pub fn run_logged(command: &mut Command, log: &Path, mut on_line: impl FnMut(&str)) -> Result<()> {
    // make dies cleanly of SIGTERM, and takes its half-written targets along.
    tie(command, libc::SIGTERM);
    let what = describe(command);
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {what}"))?;
    // The command still holds the pipe's write end: without this, no end of
    // file ever comes.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let mut copy = File::options().create(true).append(true).open(log)?;
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        use std::io::Write;
        writeln!(copy, "{line}")?;
        on_line(&line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!(
            "{what} failed ({status}); its last words in {}:\n{}",
            log.display(),
            tail(&std::fs::read_to_string(log).unwrap_or_default(), 25)
        );
    }
    Ok(())
}

/// Runs `command` and returns what it printed.
pub fn output_of(command: &mut Command) -> Result<Vec<u8>> {
    tie(command, libc::SIGTERM);
    let what = describe(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {what}"))?;
    if !output.status.success() {
        bail!(
            "{what} failed ({}):\n{}",
            output.status,
            tail(&String::from_utf8_lossy(&output.stderr), 25)
        );
    }
    Ok(output.stdout)
}

pub fn text_of(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output_of(command)?).into_owned())
}

/// A make of our own in `dir`, with as many jobs as the host has CPUs, which
/// keeps `lock` until its last child is gone.
pub fn make_in(dir: &Path, lock: &File) -> Result<Command> {
    let mut make = Command::new("make");
    make.arg(format!("-j{}", std::thread::available_parallelism()?))
        .current_dir(dir)
        // The variables of a make around us are not this one's.
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        .env_remove("MAKELEVEL");
    hold_lock(&mut make, lock);
    Ok(make)
}

/// What a tool says of its version, as far as it fits on a line.
pub fn version_of(tool: &str) -> Result<String> {
    let version = text_of(Command::new(tool).arg("--version"))?;
    Ok(version.lines().next().unwrap_or_default().to_owned())
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    let mut text = words.join(" ");
    if text.len() > 200 {
        text.truncate(text.floor_char_boundary(200));
        text.push_str(" ...");
    }
    text
}

/// The last `lines` lines of `text`.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
