// SPDX-License-Identifier: GPL-2.0-only
//! The results of requests: how many were done, and how long they took.

use std::cell::RefCell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::unfinished::Unfinished;

/// What a group of threads has done.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub arrived: u64,
    pub done: u64,
    /// How long it would have taken on CPUs at full speed, without AVX-512, in nanoseconds.
    pub work: f64,
    pub latency: Histogram,
    /// The requests that are not done, where requests come from outside, however many there are.
    pub unfinished: Option<Unfinished>,
    /// How much longer than on average the work is that each thread has drawn, in nanoseconds. It
    /// is empty except for groups that always have something to do.
    pub luck: Vec<f64>,
    /// The mean length of all work that these threads have begun.
    pub begun: f64,
}

/// What a group has done up to a time, or between two times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    pub done: u64,
    pub work: f64,
    /// For how long requests were not done, summed up in nanoseconds.
    pub unfinished: Option<f64>,
}

/// A record that every thread of the group writes.
pub type SharedRecord = Rc<RefCell<Record>>;

impl Record {
    pub fn finish(&mut self, took_ns: u64, work: f64) {
        self.done += 1;
        self.work += work;
        self.latency.add(took_ns);
    }

    /// Notes that something was sent to the group.
    pub fn arrive(&mut self, now: u64) {
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.arrive(now);
        }
    }

    /// Notes that the group is done with something that was sent to it.
    pub fn end(&mut self, now: u64) {
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.end(now);
        }
    }

    /// Notes that the thread has drawn `ns` of work, which is `mean` on average, for a request
    /// whose work is `worth` on average.
    pub fn draw(&mut self, thread: usize, ns: f64, mean: f64, worth: f64) {
        if let Some(luck) = self.luck.get_mut(thread) {
            *luck += ns - mean;
            // Only work that leads to a request that is done counts.
            self.begun += if worth > 0.0 { mean } else { 0.0 };
        }
    }

    pub fn sums(&self, now: u64) -> Sums {
        let unfinished = self.unfinished.map(|it| it.until(now));
        Sums { done: self.done, work: self.work, unfinished }
    }
}

impl Sums {
    pub fn since(&self, before: &Self) -> Self {
        Self {
            done: self.done - before.done,
            work: self.work - before.work,
            unfinished: self.unfinished.zip(before.unfinished).map(|(now, before)| now - before),
        }
    }
}

/// A histogram of times that is exact below 1024 ns, and within 1/1024 above.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    nr: u64,
    max: u64,
}

const BITS: u32 = 10;

fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(shift) << BITS) + (ns >> shift)) as usize
}

/// Returns the shortest time of a bucket.
fn least(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> BITS).saturating_sub(1);
    (bucket - (shift << BITS)) << shift
}

impl Histogram {
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket(ns);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.nr += 1;
        self.max = self.max.max(ns);
    }

    /// Returns the time that `percent` of a hundred did not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (self.nr as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return least(bucket);
            }
        }
        0
    }

    pub fn latency(&self) -> Option<Latency> {
        let us = |ns: u64| ns as f64 / 1000.0;
        (self.nr > 0).then(|| Latency {
            p50: us(self.percentile(50.0)),
            p90: us(self.percentile(90.0)),
            p99: us(self.percentile(99.0)),
            p999: us(self.percentile(99.9)),
            max: us(self.max),
        })
    }
}

/// Percentiles of the times of requests, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Latency {
    /// Returns each of them as a ratio to that of `whole`.
    pub fn by(&self, whole: &Self) -> Self {
        Self {
            p50: self.p50 / whole.p50,
            p90: self.p90 / whole.p90,
            p99: self.p99 / whole.p99,
            p999: self.p999 / whole.p999,
            max: self.max / whole.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_times(
            mut times in prop::collection::vec(0u64..10_000_000_000, 1..300),
            percent in 1u32..=100,
        ) {
            let mut histogram = Histogram::default();
            times.iter().for_each(|time| histogram.add(*time));
            times.sort_unstable();
            let rank = (times.len() * percent as usize).div_ceil(100);
            let (found, exact) = (histogram.percentile(percent.into()), times[rank - 1]);
            prop_assert!(found <= exact && exact - found <= exact / 1024, "{} {}", found, exact);
            prop_assert_eq!(histogram.max, times[times.len() - 1]);
        }
    }
}
