// SPDX-License-Identifier: GPL-2.0-only
//! What the service manager is told, if one listens: contrib/systemd has a unit for it.

use sd_notify::NotifyState::{Ready, Reloading, Status, Stopping, Watchdog};
use sd_notify::{NotifyState, notify};
use tracing::debug;

use super::preflight::Tier;

/// From now on tasks are scheduled.
pub fn attached(tier: Tier) {
    tell(&[Ready, Status(&format!("schedules, tier {}: {}", tier.name(), tier.why))]);
}

/// The kernel's default scheduler has the machine for a moment.
pub fn restarts(why: &str) {
    tell(&words_of_restart(&format!("starts again: {why}")));
}

/// While CPUs come and go faster than a scheduler is loaded, nothing else is said: so this has to be
/// a sign of life too.
fn words_of_restart(status: &str) -> Vec<NotifyState<'_>> {
    let mut words = vec![Reloading, Status(status), Watchdog];
    // Newer managers want to know when that was.
    words.extend(NotifyState::monotonic_usec_now());
    words
}

pub fn stops() {
    tell(&[Stopping, Status("gives the machine back to the kernel's default scheduler")]);
}

/// The main loop says so each time it comes round. When it does not for too long, the manager
/// kills this process, and so the machine gets its default scheduler back, and starts another.
pub fn is_alive() {
    tell(&[Watchdog]);
}

/// Tasks are scheduled whether or not anybody is told.
fn tell(words: &[NotifyState<'_>]) {
    if let Err(error) = notify(words) {
        debug!("the service manager was not told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_starts_again_is_alive() {
        assert!(words_of_restart("starts again").iter().any(|word| matches!(word, Watchdog)));
    }
}
