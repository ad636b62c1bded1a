// SPDX-License-Identifier: GPL-2.0-only
//! Which cgroups are shown by name: those with the most AVX time, or that lost the most to it, and
//! all others as one.
//!
//! Counters must not go backwards, because Prometheus takes that for a restart and adds the whole
//! value once more. If `other` were the total without the cgroups that are shown, it would go
//! backwards whenever a cgroup gets a row of its own. So all work is added, once, to one row: that
//! of its cgroup while this is shown, or else `other`. A cgroup that gets its row late has its past
//! in `other`, and rates are right from then on. The sum of all rows is always that of all cgroups.
//!
//! Names are kept for as long as possible, because each change of names is one more series. A
//! cgroup makes room when it is gone, or for one that did clearly more. What is shown is no state
//! of the scheduler: a request changes nothing but the row that later work is added to.

use std::collections::{BTreeMap, BTreeSet};

use super::snapshot::Work;

const ROWS: usize = 20;

pub const OTHER: &str = "other";

/// What a cgroup must have done to take the place of one that is shown, in eighths of what that one
/// did.
const CLEARLY_MORE: u128 = 9;

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    pub work: Work,
}

#[derive(Debug, Default)]
pub struct Shown {
    /// What each cgroup had done when it was looked at the last time.
    seen: BTreeMap<u64, Work>,
    rows: BTreeMap<u64, Work>,
    other: Work,
}

impl Shown {
    /// Returns the rows after all that happened up to now, by what the cgroups have done and by
    /// their names. A cgroup without a name is gone.
    pub fn look(
        &mut self,
        cgroups: &BTreeMap<u64, Work>,
        names: &BTreeMap<u64, String>,
    ) -> Vec<Row> {
        self.choose(cgroups, names);
        for (id, work) in cgroups {
            let new = work.since(self.seen.get(id).copied().unwrap_or_default());
            *self.rows.get_mut(id).unwrap_or(&mut self.other) += new;
        }
        self.seen.clone_from(cgroups);

        let name_of = |id| names.get(id).cloned().unwrap_or_default();
        let named = self.rows.iter().map(|(id, work)| Row { name: name_of(id), work: *work });
        named.chain([Row { name: OTHER.to_owned(), work: self.other }]).collect()
    }

    fn choose(&mut self, cgroups: &BTreeMap<u64, Work>, names: &BTreeMap<u64, String>) {
        self.rows.retain(|id, _| cgroups.contains_key(id) && names.contains_key(id));
        let done = |id: &u64| cgroups.get(id).map_or(0, |work| work.to_tell());
        let waiting = cgroups.iter().filter(|(id, work)| {
            work.to_tell() > 0 && names.contains_key(id) && !self.rows.contains_key(id)
        });
        let mut waiting: BTreeSet<(u64, u64)> =
            waiting.map(|(id, work)| (work.to_tell(), *id)).collect();
        while let Some((most, id)) = waiting.pop_last() {
            if self.rows.len() >= ROWS {
                let least = self.rows.keys().copied().min_by_key(done);
                let Some(least) = least.filter(|least| exceeds(most, done(least))) else { break };
                self.rows.remove(&least);
            }
            self.rows.insert(id, Work::default());
        }
    }
}

fn exceeds(ns: u64, other_ns: u64) -> bool {
    u128::from(ns) * 8 > u128::from(other_ns) * CLEARLY_MORE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(ids: impl Iterator<Item = u64>) -> BTreeMap<u64, String> {
        ids.map(|id| (id, format!("/{id}"))).collect()
    }

    fn work(avx_ns: u64) -> Work {
        Work { avx_ns, scalar_ns: 2 * avx_ns, lost_ns: 0, watched_ns: 3 * avx_ns }
    }

    fn row(rows: &[Row], name: &str) -> Option<u64> {
        rows.iter().find(|row| row.name == name).map(|row| row.work.avx_ns)
    }

    #[test]
    fn twenty_are_shown_and_the_rest_is_other() {
        let cgroups = (1..=25).map(|id| (id, work(id * 100))).collect();
        let rows = Shown::default().look(&cgroups, &names(1..=25));
        assert_eq!(rows.len(), 21);
        assert_eq!((row(&rows, "/25"), row(&rows, "/6")), (Some(2500), Some(600)));
        assert_eq!((row(&rows, "/5"), row(&rows, OTHER)), (None, Some(1500)));
    }

    #[test]
    fn a_little_more_takes_nobodys_place_and_clearly_more_does() {
        let mut shown = Shown::default();
        let mut cgroups: BTreeMap<u64, Work> = (1..=20).map(|id| (id, work(1000))).collect();
        shown.look(&cgroups, &names(1..=21));
        cgroups.insert(21, work(1100));
        assert_eq!(row(&shown.look(&cgroups, &names(1..=21)), "/21"), None);
        cgroups.insert(21, work(1300));
        let rows = shown.look(&cgroups, &names(1..=21));
        assert_eq!((row(&rows, "/21"), row(&rows, OTHER)), (Some(200), Some(1100)));
    }

    #[test]
    fn who_is_gone_makes_room() {
        let mut shown = Shown::default();
        let cgroups: BTreeMap<u64, Work> = (1..=21).map(|id| (id, work(100))).collect();
        shown.look(&cgroups, &names(1..=21));
        let rows = shown.look(&cgroups, &names(2..=21));
        assert_eq!((rows.len(), row(&rows, "/1")), (21, None));
        assert_eq!(row(&rows, OTHER), Some(100));
    }

    proptest! {
        #[test]
        fn nothing_goes_backwards_and_all_is_counted(
            steps in prop::collection::vec((0u64..60, 0u64..10_000, 0u64..60), 1..300),
        ) {
            let mut shown = Shown::default();
            let mut cgroups = BTreeMap::new();
            let mut before: BTreeMap<String, u64> = BTreeMap::new();
            for (id, ns, gone) in steps {
                *cgroups.entry(id).or_insert(Work::default()) += work(ns);
                let rows = shown.look(&cgroups, &names((0..60).filter(|id| *id != gone)));
                let now: BTreeMap<String, u64> =
                    rows.into_iter().map(|row| (row.name, row.work.avx_ns)).collect();
                let mut grown = 0;
                for (name, now) in &now {
                    let old = before.get(name).copied().unwrap_or(0);
                    prop_assert!(*now >= old, "{name} fell from {old} to {now}");
                    grown += now - old;
                }
                prop_assert_eq!(grown, ns);
                prop_assert!(now.get(OTHER) >= before.get(OTHER));
                prop_assert!(now.len() <= ROWS + 1);
                before = now;
            }
        }
    }
}
