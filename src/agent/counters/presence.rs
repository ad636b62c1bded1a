// SPDX-License-Identifier: GPL-2.0-only
//! Decides whether counters are open for somebody who only wants to know what they say.

use std::time::{Duration, Instant};

/// A client that asked this long ago has lost interest. One that asks every few minutes is still
/// served.
const INTEREST: Duration = Duration::from_secs(5 * 60);
/// For how long others have the counters for themselves, once they turn out to need them.
const STEP_BACK: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Presence {
    asked: Option<Instant>,
    stepped_back: Option<Instant>,
}

impl Presence {
    pub fn asked_at(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    pub fn steps_back(&mut self, now: Instant) {
        self.stepped_back = Some(now);
    }

    pub fn is_wanted(&self, now: Instant) -> bool {
        let within = |since: Option<Instant>, time| {
            since.is_some_and(|since| now.duration_since(since) < time)
        };
        within(self.asked, INTEREST) && !within(self.stepped_back, STEP_BACK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_disturbed_while_nobody_asks_or_others_count() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut it = Presence::default();
        assert!(!it.is_wanted(at(0)));
        it.asked_at(at(0));
        assert!(it.is_wanted(at(299)) && !it.is_wanted(at(300)));
        it.asked_at(at(310));
        it.steps_back(at(310));
        it.asked_at(at(365));
        assert!(!it.is_wanted(at(369)));
        assert!(it.is_wanted(at(370)));
    }
}
