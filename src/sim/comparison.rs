// SPDX-License-Identifier: GPL-2.0-only
//! One workload under several policies, with all that is needed to do it again.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::parameters::Parameter;
use super::score::{self, Score};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Whose figures these are: a model's, always.
    pub kind: String,
    pub command: String,
    pub version: String,
    pub workload: String,
    pub about: String,
    pub model: String,
    /// That the scheduler chooses there.
    pub tier: String,
    #[serde(flatten)]
    pub shape: Shape,
    pub seconds: u64,
    pub seed: u64,
    pub parameters: Vec<Parameter>,
    /// The first one is what the others are measured by.
    pub outcomes: Vec<Outcome>,
}

/// Of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub sockets: u16,
    /// Of each socket, as its cores are.
    pub llcs: u16,
    pub cores: u16,
    /// Of each core.
    pub threads: u16,
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sockets, llcs, cores, threads } = *self;
        match llcs {
            0..=1 => write!(out, "{sockets} x {cores} cores x {threads} threads"),
            _ => write!(
                out,
                "{sockets} x {llcs} caches x {} cores x {threads} threads",
                cores / llcs
            ),
        }
    }
}

impl Comparison {
    pub fn named(&self, policy: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.policy == policy)
    }

    /// Of a group under a policy, by the same one under the first.
    pub fn relative_group(&self, outcome: &Outcome, group: usize) -> Option<f64> {
        let first = self.outcomes.first()?.groups.get(group)?;
        score::relative(outcome.groups.get(group)?, first)
    }
}

/// What is done under each policy, by that under the first one.
pub fn measure_by_first(outcomes: &mut [Outcome]) {
    let Some((first, others)) = outcomes.split_first_mut() else { return };
    if first.work <= 0.0 {
        return;
    }
    first.relative = Some(1.0);
    let whole: f64 = first.parts.iter().map(|part| part.work).sum();
    for other in others {
        let relative = Score::of(other, first).work;
        let half = half_interval(&score::beyond(other, first, relative)) / whole;
        other.relative = Some(relative);
        other.relative_95 = Some([relative - half, relative + half]);
    }
}

/// Between so many parts and the next ones there may be a connexion.
const LAGS: usize = 2;

/// What Student's t is for 20 parts among which nothing is connected, where it is estimated how
/// much is: N. Kiefer and T. Vogelsang, "A New Asymptotic Theory for
/// Heteroskedasticity-Autocorrelation Robust Tests", for three lags of twenty.
const T_95: f64 = 2.413;

/// Of a sum, by what each part adds to it: of what is beyond a ratio, so that what both runs have in
/// common in a part cancels out. A request that ends in one
/// part was begun in the one before, and a queue outlives a part: hence the covariances, with
/// Bartlett's weights as Newey and West have them.
fn half_interval(beyond: &[f64]) -> f64 {
    let nr = beyond.len() as f64;
    let covariance = |lag: usize| -> f64 {
        beyond.iter().zip(beyond.iter().skip(lag)).map(|(one, next)| one * next).sum()
    };
    let weight = |lag: usize| 1.0 - lag as f64 / (LAGS + 1) as f64;
    let connected: f64 = (1..=LAGS).map(|lag| 2.0 * weight(lag) * covariance(lag)).sum();
    // Never below 0 with such weights, but for what is rounded.
    let variance = (covariance(0) + connected).max(0.0) * nr / (nr - 1.0);
    T_95 * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal};
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn caches_are_told_of_where_a_socket_has_several() {
        let text = |llcs| Shape { sockets: 2, llcs, cores: 16, threads: 2 }.to_string();
        assert_eq!(text(1), "2 x 16 cores x 2 threads");
        assert_eq!(text(4), "2 x 4 caches x 4 cores x 2 threads");
    }

    /// Worked out by hand.
    #[test]
    fn the_interval_is_as_wide_as_parts_are_off_the_ratio() {
        assert_eq!(half_interval(&[0.0; 20]), 0.0);
        // One less and one more in turn: squares are 20, and products -19 with the next part, 18
        // with the one after. Of 20 - 2 * 19 * 2 / 3 + 2 * 18 / 3 = 20 / 3, times 20 / 19, the root
        // is 2.649, times 2.413.
        let half = half_interval(&[-1.0, 1.0].repeat(10));
        assert!((half - 6.3922).abs() < 1e-3, "{half}");
        // One more in the first half, one less in the second: 20 + 2 * 17 * 2 / 3 + 2 * 14 / 3 = 52.
        let half = half_interval(&[[1.0; 10], [-1.0; 10]].concat());
        assert!((half - 17.8524).abs() < 1e-3, "{half}");
    }

    /// Of parts of which nobody knows the next one, whatever they have in common.
    #[test]
    fn the_ratio_is_within_the_interval_as_often_as_it_says() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let mut is_within = || {
            let common: Vec<f64> = (0..20).map(|_| 100.0 + 10.0 * normal()).collect();
            let mut run = |ratio: f64| -> Vec<f64> {
                common.iter().map(|it| ratio * it + normal()).collect()
            };
            let (these, those) = (run(0.9), run(1.0));
            let whole = those.iter().sum::<f64>();
            let ratio = these.iter().sum::<f64>() / whole;
            let pairs = these.iter().zip(&those);
            let beyond: Vec<f64> = pairs.map(|(this, that)| this - that * ratio).collect();
            (ratio - 0.9).abs() < half_interval(&beyond) / whole
        };
        let nr = 4000;
        let share = (0..nr).filter(|_| is_within()).count() as f64 / f64::from(nr);
        assert!((0.94..0.96).contains(&share), "{share}");
    }
}
