// SPDX-License-Identifier: GPL-2.0-only
//! Requests that were sent and are not done yet, over time.
//!
//! By Little's law there are as many of them at a time, on average, as arrive while one request
//! takes. Where the same requests arrive whatever becomes of those before, their number tells how
//! long all requests take. This includes requests that are never answered, and those that a warm-up
//! left behind.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unfinished {
    nr: u64,
    /// The time up to which `ns` is summed up.
    at: u64,
    /// For how long requests were not done, summed up over all of them.
    ns: f64,
}

impl Unfinished {
    pub fn arrive(&mut self, now: u64) {
        self.ns = self.until(now);
        self.at = now;
        self.nr += 1;
    }

    pub fn end(&mut self, now: u64) {
        self.ns = self.until(now);
        self.at = now;
        self.nr -= 1;
    }

    /// Returns for how long requests were not done, in nanoseconds, of all requests together, since
    /// the beginning.
    pub fn until(&self, now: u64) -> f64 {
        self.ns + self.nr as f64 * now.saturating_sub(self.at) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one request from 10 to 40, one from 20 to 30, and one from 35 on.
    #[test]
    fn each_counts_for_as_long_as_it_is_not_done() {
        let mut it = Unfinished::default();
        it.arrive(10);
        it.arrive(20);
        assert_eq!(it.until(25), 15.0 + 5.0);
        it.end(30);
        it.arrive(35);
        it.end(40);
        assert_eq!(it.until(100), 30.0 + 10.0 + 65.0);
    }
}
