// SPDX-License-Identifier: GPL-2.0-only
//! What is done every so often, however busy it is meanwhile.

use std::time::{Duration, Instant};

pub struct Pace {
    every: Duration,
    last: Instant,
}

impl Pace {
    pub fn new(every: Duration, now: Instant) -> Self {
        Self { every, last: now }
    }

    /// Whether it is time; then the next time is a whole interval away.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.last) >= self.every;
        if is_due {
            self.last = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody asks every 100 ms: there is never a whole interval without a request.
    #[test]
    fn nobody_who_asks_often_keeps_it_from_its_turn() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::from_millis(250), start);
        let times = (1..=10u64).filter(|n| pace.is_due(start + Duration::from_millis(n * 100)));
        assert_eq!(times.collect::<Vec<_>>(), [3, 6, 9]);
    }
}
