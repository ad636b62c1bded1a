// SPDX-License-Identifier: GPL-2.0-only
//! What the service manager is told, if one listens. contrib/systemd has a unit for it.

use std::env;
use std::fmt::Write;
use std::sync::LazyLock;
use std::thread;

use crossbeam::channel::{Sender, bounded};
use sd_notify::NotifyState::{Custom, Ready, Reloading, Status, Stopping, Watchdog};
use sd_notify::{NotifyState, notify};
use tracing::debug;

use super::preflight::Tier;

/// How many messages may wait until the manager reads them. It does not get the rest.
const ROOM: usize = 64;

/// Tells that tasks are scheduled from now on.
pub fn attached(tier: Tier) {
    tell(&[Ready, Status(&format!("schedules, tier {}: {}", tier.name(), tier.why))]);
}

/// Tells that the kernel's default scheduler has the machine for a moment.
pub fn restarts(why: &str) {
    tell(&words_of_restart(&format!("starts again: {why}")));
}

/// Returns what the manager is told at a restart. While CPUs come and go faster than a scheduler is
/// loaded, nothing else is said, so this has to be a sign of life too.
fn words_of_restart(status: &str) -> Vec<NotifyState<'_>> {
    let mut words = vec![Reloading, Status(status), Watchdog];
    // Newer managers want to know when that was.
    words.extend(NotifyState::monotonic_usec_now());
    words
}

pub fn stops() {
    tell(&[Stopping, Status("gives the machine back to the kernel's default scheduler")]);
}

/// Gives a sign of life. The main loop calls this each time it comes round. If it does not for too
/// long, the manager kills this process, so that the machine gets its default scheduler back, and
/// starts another process.
pub fn is_alive() {
    tell(&[Watchdog]);
}

/// Tells the manager, if there is one. Tasks are scheduled whether or not anybody is told.
fn tell(words: &[NotifyState<'_>]) {
    if env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    static MANAGER: LazyLock<Manager> = LazyLock::new(|| {
        Manager::told_by(|words| {
            if let Err(error) = notify(&[Custom(words)]) {
                debug!("the service manager was not told: {error}");
            }
        })
    });
    MANAGER.hear(words);
}

/// The service manager. If it reads nothing, because it hangs, only a thread of its own waits for
/// it.
struct Manager(Sender<String>);

impl Manager {
    fn told_by(tell: impl Fn(&str) + Send + 'static) -> Self {
        let (sender, told) = bounded::<String>(ROOM);
        let teller = move || told.iter().for_each(|lines| tell(lines.trim_end()));
        // Without a thread nothing is told, and nothing waits.
        if let Err(error) = thread::Builder::new().name("service".to_owned()).spawn(teller) {
            debug!("the service manager is told nothing: {error}");
        }
        Self(sender)
    }

    fn hear(&self, words: &[NotifyState<'_>]) {
        let mut lines = String::new();
        for word in words {
            let _ = writeln!(lines, "{word}");
        }
        let _ = self.0.try_send(lines);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::pace::is_so_within;
    use super::*;

    #[test]
    fn who_starts_again_is_alive() {
        assert!(words_of_restart("starts again").iter().any(|word| matches!(word, Watchdog)));
    }

    #[test]
    fn a_manager_that_reads_nothing_holds_nobody_up() {
        let (go_on, waits) = bounded::<()>(0);
        let (hear, heard) = bounded(2 * ROOM);
        let manager = Manager::told_by(move |words| {
            let _ = waits.recv();
            hear.send(words.to_owned()).unwrap();
        });
        let teller = thread::spawn(move || {
            (0..10 * ROOM).for_each(|nth| manager.hear(&[Custom(&nth.to_string())]));
        });
        let is_held_up = !is_so_within(Duration::from_secs(30), || teller.is_finished(), || {});
        drop(go_on);
        assert!(!is_held_up);
        let heard: Vec<String> = heard.iter().collect();
        assert!(
            heard.len() >= ROOM && heard[..ROOM].iter().map(|it| it.parse()).eq((0..ROOM).map(Ok))
        );
    }
}
