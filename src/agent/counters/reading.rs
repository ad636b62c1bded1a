// SPDX-License-Identifier: GPL-2.0-only
//! What counters said, and what follows from it. All of it is pure.
//!
//! Where more is to be counted than there are counters, the kernel lets events take turns, and
//! tells for how long each group was open and for how long it was counted. What was counted between
//! two readings stands for all of that time. Each step is scaled by itself, so that sums never
//! shrink.

use serde::{Deserialize, Serialize};

/// What a group says at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub open_ns: u64,
    pub counted_ns: u64,
    pub counts: Vec<u64>,
}

/// What came between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The time that it stands for: none if nothing was counted in it.
    pub ns: u64,
    pub counts: Vec<u64>,
    /// Whether others had the counters for a part of it.
    pub was_shared: bool,
}

/// What a CPU did while its counters were open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The cycles at each frequency licence, and for how long they were counted.
    pub cycles: [u64; 3],
    pub cycles_ns: u64,
    /// The operations with vectors of 512 bits, and for how long they were counted.
    pub wide_operations: u64,
    pub wide_operations_ns: u64,
}

/// If less than this part of the time was missed, it was not because of other users.
const MISSED: u64 = 64;

impl Reading {
    pub fn since(&self, earlier: &Self) -> Step {
        let open = self.open_ns.saturating_sub(earlier.open_ns);
        let counted = self.counted_ns.saturating_sub(earlier.counted_ns);
        let was_shared = open.saturating_sub(counted) > open / MISSED;
        if counted == 0 {
            return Step { was_shared, ..Step::default() };
        }
        let scaled = |now: u64, before: u64| {
            let whole = u128::from(now.saturating_sub(before)) * u128::from(open);
            u64::try_from(whole / u128::from(counted)).unwrap_or(u64::MAX)
        };
        let before = earlier.counts.iter().chain(std::iter::repeat(&0));
        let counts = self.counts.iter().zip(before).map(|(now, then)| scaled(*now, *then));
        Step { ns: open, counts: counts.collect(), was_shared }
    }
}

impl Counted {
    /// Adds a step of cycles. They are those of the core, and each of its threads counts them all.
    pub fn add_cycles(&mut self, step: &Step, threads: u32) {
        for (sum, count) in self.cycles.iter_mut().zip(&step.counts) {
            *sum += count / u64::from(threads.max(1));
        }
        self.cycles_ns += step.ns;
    }

    /// Returns the cycles, or none as long as they were not counted.
    pub fn known_cycles(&self) -> Option<[u64; 3]> {
        (self.cycles_ns > 0).then_some(self.cycles)
    }

    pub fn known_wide_operations(&self) -> Option<u64> {
        (self.wide_operations_ns > 0).then_some(self.wide_operations)
    }

    pub fn add_wide_operations(&mut self, step: &Step) {
        self.wide_operations += step.counts.iter().sum::<u64>();
        self.wide_operations_ns += step.ns;
    }
}

impl std::ops::AddAssign for Counted {
    fn add_assign(&mut self, other: Self) {
        for (sum, cycles) in self.cycles.iter_mut().zip(other.cycles) {
            *sum += cycles;
        }
        self.cycles_ns += other.cycles_ns;
        self.wide_operations += other.wide_operations;
        self.wide_operations_ns += other.wide_operations_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(open_ns: u64, counted_ns: u64, counts: &[u64]) -> Reading {
        Reading { open_ns, counted_ns, counts: counts.to_vec() }
    }

    #[test]
    fn what_was_counted_for_a_part_of_the_time_stands_for_all_of_it() {
        let all = at(1000, 1000, &[300, 30]).since(&Reading::default());
        assert_eq!(all, Step { ns: 1000, counts: vec![300, 30], was_shared: false });
        let half = at(3000, 2000, &[800, 80]).since(&at(1000, 1000, &[300, 30]));
        assert_eq!(half, Step { ns: 2000, counts: vec![1000, 100], was_shared: true });
    }

    #[test]
    fn of_a_time_in_which_others_had_the_counters_nothing_is_said() {
        let nothing = at(3000, 1000, &[300]).since(&at(1000, 1000, &[300]));
        assert_eq!(nothing, Step { ns: 0, counts: vec![], was_shared: true });
        let no_time = at(1000, 1000, &[300]).since(&at(1000, 1000, &[300]));
        assert!(!no_time.was_shared && no_time.ns == 0);
    }

    #[test]
    fn an_event_that_begins_late_is_not_taken_for_a_shared_one() {
        assert!(!at(1_000_000, 999_000, &[1]).since(&Reading::default()).was_shared);
    }

    #[test]
    fn steps_do_not_overflow() {
        let step = at(u64::MAX, 1, &[u64::MAX]).since(&Reading::default());
        assert_eq!(step.counts, [u64::MAX]);
    }

    #[test]
    fn threads_of_a_core_share_its_cycles_and_nothing_else() {
        let mut it = Counted::default();
        let step = at(10, 10, &[100, 20, 6]).since(&Reading::default());
        it.add_cycles(&step, 2);
        it.add_cycles(&step, 1);
        it.add_wide_operations(&at(10, 10, &[7]).since(&Reading::default()));
        let expected = Counted {
            cycles: [150, 30, 9],
            cycles_ns: 20,
            wide_operations: 7,
            wide_operations_ns: 10,
        };
        assert_eq!(it, expected);
    }
}
