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
mod trial;

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

/// What whoever starts a program may have it ignore: nohup does, and a shell where it starts a job
/// of a script in the background.
const MAY_BE_IGNORED: [libc::c_int; 2] = [libc::SIGINT, libc::SIGHUP];

/// A flag that SIGINT, SIGTERM and SIGHUP raise, but for those that this program was to ignore.
pub fn shutdown_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    let ignored = MAY_BE_IGNORED.map(is_ignored);
    ctrlc::set_handler(move || raised.store(true, Ordering::Relaxed))
        .context("cannot install a signal handler")?;
    for (signal, _) in MAY_BE_IGNORED.iter().zip(ignored).filter(|(_, ignored)| *ignored) {
        // SAFETY: no code of ours runs for a signal that is ignored.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
    Ok(flag)
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all zeroes is a valid value of the type, and the call writes nothing else.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let told = libc::sigaction(signal, std::ptr::null(), &mut now);
        told == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;
    use std::thread;
    use std::time::Instant;

    use super::*;

    const IGNORED: &str = "SIGNAL_TO_IGNORE";

    /// Signals are the whole process's, so that each try has one of its own, in which this is called
    /// again.
    #[test]
    fn what_is_ignored_from_the_start_ends_nothing() {
        if let Ok(signal) = env::var(IGNORED) {
            return all_signals_but_one_are_heard(signal.parse().unwrap());
        }
        for signal in MAY_BE_IGNORED {
            let tried = Command::new(env::current_exe().unwrap())
                .args(["--exact", "cmd::tests::what_is_ignored_from_the_start_ends_nothing"])
                .env(IGNORED, signal.to_string())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&tried.stdout);
            assert!(tried.status.success() && said.contains("1 passed"), "{signal}: {said}");
        }
    }

    /// Whoever runs the tests in the background may have had others ignored already.
    fn all_signals_but_one_are_heard(ignored: libc::c_int) {
        for signal in MAY_BE_IGNORED {
            let then = if signal == ignored { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: no code of ours runs for a signal that is ignored or ends the process.
            unsafe { libc::signal(signal, then) };
        }
        let flag = shutdown_flag().unwrap();
        let is_heard = |signal| {
            flag.store(false, Ordering::Relaxed);
            // SAFETY: the signal is ignored, or its handler does nothing but to post a semaphore.
            unsafe { libc::raise(signal) };
            let until =
                Instant::now() + Duration::from_secs(if signal == ignored { 1 } else { 30 });
            while !flag.load(Ordering::Relaxed) && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            flag.load(Ordering::Relaxed)
        };
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            assert_eq!(is_heard(signal), signal != ignored, "{signal}");
        }
    }
}
