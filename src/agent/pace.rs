// SPDX-License-Identifier: GPL-2.0-only
//! Work that is done at intervals, however busy the agent is meanwhile.

use std::thread;
use std::time::{Duration, Instant};

/// How many parts a time limit is divided into: after each, the condition is looked at again.
const LOOKS: u32 = 100;

pub struct Pace {
    every: Duration,
    last: Instant,
}

impl Pace {
    pub fn new(every: Duration, now: Instant) -> Self {
        Self { every, last: now }
    }

    /// Returns true if it is time. Then the next time is a whole interval away.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.last) >= self.every;
        if is_due {
            self.last = now;
        }
        is_due
    }
}

/// Returns true if the condition comes true within the limit. Each time that it is not true yet,
/// `meanwhile` is called.
pub fn is_so_within(limit: Duration, is_so: impl Fn() -> bool, meanwhile: impl Fn()) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > limit {
            return false;
        }
        meanwhile();
        thread::sleep(limit / LOOKS);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Somebody asks every 100 ms: there is never a whole interval without a request.
    #[test]
    fn nobody_who_asks_often_keeps_it_from_its_turn() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::from_millis(250), start);
        let times = (1..=10u64).filter(|n| pace.is_due(start + Duration::from_millis(n * 100)));
        assert_eq!(times.collect::<Vec<_>>(), [3, 6, 9]);
    }

    #[test]
    fn who_waits_does_something_meanwhile() {
        let (looks, done) = (Cell::new(0), Cell::new(0));
        let is_so = || {
            looks.set(looks.get() + 1);
            looks.get() > 3
        };
        let meanwhile = || done.set(done.get() + 1);
        assert!(is_so_within(Duration::from_secs(20), is_so, meanwhile));
        assert_eq!((looks.get(), done.get()), (4, 3));
        assert!(!is_so_within(Duration::from_secs(1), || false, meanwhile));
        assert!(done.get() > 3);
    }
}
