// SPDX-License-Identifier: GPL-2.0-only
//! What the main loop tells: plain numbers, without a name that would have to be looked up.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use crate::agent::counters::Counted;
use crate::agent::prospect::Prospect;
use crate::agent::stats::Metrics;
use crate::agent::status::Waits;
use crate::agent::trial::standing::Known;
use crate::bpf::intf::avx_book;

/// For how many cgroups it is remembered over restarts what they did. These are as many as the
/// kernel keeps books of.
const REMEMBERED: usize = 4096;

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub sums: Sums,
    pub now: Now,
    pub restarts: u64,
}

/// What is so now, and may be different the next time.
#[derive(Clone, Debug, Default)]
pub struct Now {
    pub tier: &'static str,
    /// The source by which it is known how low clocks are.
    pub clocks: String,
    /// The policy in force: its number, its name, for whom it has AVX cores, how much longer it is
    /// on trial, how often a change was refused, and how often the policy before came back because
    /// nobody confirmed the new one.
    pub generation: u64,
    pub policy: &'static str,
    pub avx_cores_for: String,
    pub trial_left: Duration,
    pub policy_refusals: u64,
    pub policy_reverts: u64,
    /// The online CPUs, and whether each is an AVX core.
    pub cpus: BTreeMap<u32, bool>,
    pub avx_cores: u64,
    pub prospect: Option<Prospect>,
    /// What trials know of AVX cores, if the policy leaves these to trials.
    pub trials: Option<Known>,
}

/// What only grows.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    pub counters: Metrics,
    pub waits: BTreeMap<String, Waits>,
    pub as_avx_core_ns: BTreeMap<u32, u64>,
    /// What the CPUs' own counters counted.
    pub counted: BTreeMap<u32, Counted>,
    pub cgroups: BTreeMap<u64, Work>,
}

/// How long AVX tasks of a cgroup ran, in their phases and between these; and how much time its
/// tasks lost to clocks that others had made low, out of the time in which that was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    pub avx_ns: u64,
    pub scalar_ns: u64,
    pub lost_ns: u64,
    pub watched_ns: u64,
}

impl Sums {
    /// Adds what was counted in earlier lives of the scheduler. CPUs that are gone and come back
    /// go on where they were.
    pub fn go_on_from(&mut self, earlier: &Self) {
        self.counters.go_on_from(&earlier.counters);
        for (class, waits) in &earlier.waits {
            self.waits.entry(class.clone()).or_default().add(waits);
        }
        add_each(&mut self.as_avx_core_ns, &earlier.as_avx_core_ns);
        add_each(&mut self.counted, &earlier.counted);
        add_each(&mut self.cgroups, &earlier.cgroups);
    }

    /// Keeps only the cgroups that did the most, because cgroups come and go without end.
    pub fn forget_small_cgroups(&mut self) {
        let mut by_work: Vec<(u64, Work)> = std::mem::take(&mut self.cgroups).into_iter().collect();
        by_work.sort_by_key(|(_, work)| Reverse(work.to_tell()));
        by_work.truncate(REMEMBERED);
        self.cgroups = by_work.into_iter().collect();
    }
}

fn add_each<K: Copy + Ord, V: AddAssign + Copy + Default>(
    sums: &mut BTreeMap<K, V>,
    earlier: &BTreeMap<K, V>,
) {
    for (key, value) in earlier {
        *sums.entry(*key).or_default() += *value;
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.avx_ns += other.avx_ns;
        self.scalar_ns += other.scalar_ns;
        self.lost_ns += other.lost_ns;
        self.watched_ns += other.watched_ns;
    }
}

impl Work {
    pub fn of(book: &avx_book) -> Self {
        Self {
            avx_ns: book.avx_ns,
            scalar_ns: book.scalar_ns,
            lost_ns: book.lost_ns,
            watched_ns: book.watched_ns,
        }
    }

    /// Returns what came since `earlier`. If a book made room for others, less may be known than
    /// before: then this is nothing.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            avx_ns: self.avx_ns.saturating_sub(earlier.avx_ns),
            scalar_ns: self.scalar_ns.saturating_sub(earlier.scalar_ns),
            lost_ns: self.lost_ns.saturating_sub(earlier.lost_ns),
            watched_ns: self.watched_ns.saturating_sub(earlier.watched_ns),
        }
    }

    /// Returns the time by which cgroups are ordered. Those with the most are told first.
    pub fn to_tell(self) -> u64 {
        self.avx_ns + self.lost_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded() {
        let work = |n| Work { avx_ns: n, ..Work::default() };
        let cgroups = (0..10_000).map(|n| (n, work(n))).collect();
        let mut sums = Sums { cgroups, ..Sums::default() };
        sums.forget_small_cgroups();
        assert_eq!(sums.cgroups.len(), REMEMBERED);
        assert!(sums.cgroups.contains_key(&9999) && !sums.cgroups.contains_key(&0));
    }
}
