// SPDX-License-Identifier: GPL-2.0-only
//! How much a result depends on what is not known well, and on how a policy is set.

use rand_distr::{Distribution, StandardUniform};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use serde::Serialize;

use super::comparison::Comparison;
use super::outcome::Outcome;
use super::parameters;
use super::score::{self, Score};
use crate::sim::workload::record::Latency;

/// Returns factors for each uncertain parameter, from a half to one and a half, for each draw.
pub fn draws(nr: usize, seed: u64) -> Vec<Vec<String>> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut factor = || -> f64 {
        let share: f64 = StandardUniform.sample(&mut random);
        0.5 + share
    };
    (0..nr)
        .map(|_| parameters::uncertain().map(|name| format!("{name}={:.4}", factor())).collect())
        .collect()
}

/// A workload under all draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawn {
    pub kind: &'static str,
    pub workload: String,
    pub draws: u16,
    pub seconds: u64,
    pub seed: u64,
    /// The factors of each draw.
    pub factors: Vec<Vec<String>>,
    pub policies: Vec<Spread>,
}

impl Drawn {
    /// Returns what the parameter was multiplied by in each draw.
    pub fn factors_of(&self, parameter: &str) -> Vec<f64> {
        let factor = |draw: &Vec<String>| {
            let of =
                |it: &String| it.split_once('=').filter(|it| it.0 == parameter)?.1.parse().ok();
            draw.iter().find_map(of)
        };
        self.factors.iter().filter_map(factor).collect()
    }
}

/// What a policy does relative to the first one, over all draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub policy: String,
    pub variant: String,
    /// None where the first one does nothing.
    pub median: Option<f64>,
    /// The policy does less than this in 5 of 100 draws.
    pub p5: Option<f64>,
    /// What the policy does in each draw, in the order of the draws. It is None in those in which
    /// the first one does nothing.
    pub relative: Vec<Option<f64>>,
    /// How long requests of the first group of threads take, relative to the first policy.
    pub latency: Vec<Latency>,
    /// The longest settle time of each draw in which the load changes. It is None where a change of
    /// the load did not change the number of AVX cores, or where this number never settled.
    pub settle_ms: Vec<Option<f64>>,
    /// How far the work of each draw deviates from seed to seed, relative to its mean, if there are
    /// several seeds. Where requests come from outside this is about `relative`, and the first
    /// policy has none.
    pub sigma: Vec<f64>,
    /// How often CPUs change their roles in 10 s once there is no more to learn, for runs that are
    /// longer than learning takes.
    pub role_changes_10s: Vec<f64>,
}

/// By this time the scheduler knows programs that always do the same.
const LEARNT_MS: f64 = 30_000.0;

/// Returns the spread of each policy. There are comparisons of the same policies for each draw,
/// with several seeds. All but `sigma` is from the first seed of a draw.
pub fn spreads(draws: &[Vec<Comparison>]) -> Vec<Spread> {
    let comparisons: Vec<&Comparison> = draws.iter().filter_map(|seeds| seeds.first()).collect();
    let first = comparisons.first().map_or(&[][..], |first| &first.outcomes);
    let spread = |(n, it): (usize, &Outcome)| {
        let relative: Vec<Option<f64>> =
            comparisons.iter().map(|comparison| comparison.outcomes.get(n)?.relative).collect();
        let known: Vec<f64> = relative.iter().flatten().copied().collect();
        Spread {
            policy: it.policy.clone(),
            variant: it.variant.clone(),
            median: percentile(&known, 0.5),
            p5: percentile(&known, 0.05),
            relative,
            latency: comparisons.iter().filter_map(|it| latency(it, n)).collect(),
            settle_ms: comparisons
                .iter()
                .filter_map(|comparison| comparison.outcomes.get(n))
                .filter(|outcome| !outcome.settle_ms.is_empty())
                .map(longest)
                .collect(),
            sigma: draws.iter().filter_map(|seeds| sigma(&results(seeds, n))).collect(),
            role_changes_10s: comparisons
                .iter()
                .filter_map(|it| role_changes_10s(it.outcomes.get(n)?, it.seconds))
                .collect(),
        }
    };
    first.iter().enumerate().map(spread).collect()
}

fn latency(comparison: &Comparison, nth: usize) -> Option<Latency> {
    let of = |nth: usize| comparison.outcomes.get(nth)?.groups.first()?.latency_us;
    Some(of(nth)?.by(&of(0)?))
}

/// Returns the result of a policy with each seed. How many requests come from outside is chance,
/// and the same under all policies, so `relative` is the result there. The first policy has none
/// there because it is measured by itself.
fn results(seeds: &[Comparison], nth: usize) -> Vec<f64> {
    let outcomes = seeds.iter().filter_map(|it| it.outcomes.get(nth));
    let result = |it: &Outcome| match it.groups.iter().any(score::is_open) {
        true => it.relative.filter(|_| nth > 0),
        false => Some(it.work),
    };
    outcomes.filter_map(result).collect()
}

/// Returns the standard deviation relative to the mean.
fn sigma(numbers: &[f64]) -> Option<f64> {
    let nr = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / nr;
    let squares: f64 = numbers.iter().map(|it| (it - mean).powi(2)).sum();
    (nr > 1.0).then(|| (squares / (nr - 1.0)).sqrt() / mean)
}

fn role_changes_10s(outcome: &Outcome, seconds: u64) -> Option<f64> {
    let ms = seconds as f64 * 1000.0 - LEARNT_MS;
    let course = &outcome.role_changes_over_time;
    let before = course.iter().rfind(|(at, _)| *at < LEARNT_MS).map_or(0, |(_, nr)| *nr);
    (ms > 0.0).then(|| (outcome.role_changes - before) as f64 * 10_000.0 / ms)
}

fn longest(outcome: &Outcome) -> Option<f64> {
    let all: Option<Vec<f64>> = outcome.settle_ms.iter().copied().collect();
    all?.into_iter().max_by(f64::total_cmp)
}

/// Returns what this share of the numbers is below, if there are any. Between two numbers the
/// result is interpolated linearly.
pub fn percentile(numbers: &[f64], share: f64) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = sorted.len().saturating_sub(1) as f64 * share;
    let (low, high) = (sorted.get(at.floor() as usize)?, sorted.get(at.ceil() as usize)?);
    // Both may be infinite, so that their difference is not a number.
    Some(if low == high { *low } else { low + (high - low) * at.fract() })
}

/// Returns the settings of every static partition that is worth a try on such a machine.
pub fn partitions(nr_cpus: usize, nr_nodes: usize) -> Vec<Vec<String>> {
    let counts = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128].into_iter();
    // Spreading over one node is the same as packing.
    let placements =
        if nr_nodes > 1 { &["pack", "spread", "first-use"][..] } else { &["pack", "first-use"] };
    let mut all = Vec::new();
    for count in counts.filter(|count| *count < nr_cpus).chain([nr_cpus]) {
        for placement in placements {
            for method in ["syscall", "switch", "timeout", "adaptive"] {
                for slice in ["500us", "3ms", "20ms"] {
                    all.push(vec![
                        "trials=off".to_owned(),
                        "sizing=static".to_owned(),
                        format!("avx-cpus={count}"),
                        format!("placement={placement}"),
                        format!("return={method}"),
                        format!("avx-slice={slice}"),
                    ]);
                }
            }
        }
    }
    all
}

/// The default policy beside the best static partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    pub kind: &'static str,
    pub workload: String,
    pub seconds: u64,
    /// Groups that are scored by how soon their requests are done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_groups: Vec<String>,
    pub default: Score,
    /// The most work and the best balance that any of the partitions has.
    pub best: Score,
    /// The settings of the partition that has the most work, and of the one that has the best
    /// balance.
    pub settings: Vec<String>,
    pub balanced_settings: Vec<String>,
    /// What the default policy does, relative to the best.
    pub default_by_best: f64,
    pub default_by_best_balance: f64,
    /// The most that a partition does for every group of threads, relative to what the default
    /// policy does for the group. Up to 1, no partition is better for all of them.
    pub best_for_all: f64,
    /// All partitions that were tried, the best ones first.
    pub tried: Vec<Tried>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    pub score: Score,
    pub settings: Vec<String>,
}

impl Best {
    /// Returns the name of what the best partition has the most of.
    pub fn unit(&self) -> &'static str {
        if self.open_groups.is_empty() { "work" } else { "score" }
    }
}

/// Finds the best of the policies that were tried, from what these and the default policy have
/// done. `best_for_all` is the most that any of those tried does for every group of threads.
pub fn best(
    workload: &str,
    seconds: u64,
    open_groups: Vec<String>,
    default: Score,
    tried: &[(Vec<String>, Score)],
    best_for_all: f64,
) -> Best {
    let by = |done: f64, whole: f64| if whole > 0.0 { done / whole } else { 0.0 };
    let mut tried: Vec<Tried> = tried
        .iter()
        .map(|(settings, score)| Tried { score: *score, settings: settings.clone() })
        .collect();
    tried.sort_by(|a, b| b.score.work.total_cmp(&a.score.work));
    let most = tried.first();
    // Of several with the same balance, this takes the one with the most work.
    let balanced = tried.iter().reduce(|a, b| match b.score.balance > a.score.balance {
        true => b,
        false => a,
    });
    let settings = |of: Option<&Tried>| of.map_or(Vec::new(), |it| it.settings.clone());
    let best = Score {
        work: most.map_or(0.0, |it| it.score.work),
        balance: balanced.map_or(0.0, |it| it.score.balance),
    };
    Best {
        kind: "modelled",
        workload: workload.to_owned(),
        seconds,
        open_groups,
        default,
        best,
        settings: settings(most),
        balanced_settings: settings(balanced),
        default_by_best: by(default.work, best.work),
        default_by_best_balance: by(default.balance, best.balance),
        best_for_all,
        tried,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::study::outcome::made_up;

    #[test]
    fn draws_are_within_half_and_repeatable() {
        let all = draws(200, 3);
        assert_eq!(all, draws(200, 3));
        assert_ne!(all, draws(200, 4));
        let factors = || all.iter().flatten().filter_map(|it| it.split_once('=')?.1.parse().ok());
        assert_eq!(factors().count(), 800);
        assert!(factors().all(|it: f64| (0.5..=1.5).contains(&it)));
        let mean = factors().sum::<f64>() / 800.0;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn sigma_is_how_far_seeds_are_apart() {
        assert_eq!(sigma(&[8.0]), None);
        assert!((sigma(&[9.0, 10.0, 11.0]).unwrap() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn roles_that_change_while_there_is_more_to_learn_do_not_count() {
        let course = vec![(0.0, 0), (200.0, 8), (29_999.0, 9), (30_000.0, 11), (41_000.0, 14)];
        let outcome = Outcome {
            role_changes: 14,
            role_changes_over_time: course,
            ..made_up(1.0, Vec::new())
        };
        assert_eq!(role_changes_10s(&outcome, 40), Some(5.0));
        assert_eq!(role_changes_10s(&outcome, 50), Some(2.5));
        assert_eq!(role_changes_10s(&outcome, 30), None);
    }

    #[test]
    fn percentiles_are_of_the_sorted_numbers() {
        let numbers: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(percentile(&numbers, 0.5), Some(49.5));
        let p5 = percentile(&numbers, 0.05).unwrap();
        assert!((p5 - 4.95).abs() < 1e-9, "{p5}");
        assert_eq!(percentile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(percentile(&[7.0], 0.95), Some(7.0));
        assert_eq!(percentile(&[f64::INFINITY, 1.0, f64::INFINITY], 0.75), Some(f64::INFINITY));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn the_best_is_the_one_that_does_most() {
        let score = |work, balance| Score { work, balance };
        let named = |name: &str| vec![name.to_owned()];
        let tried = [(named("a"), score(0.5, 0.9)), (named("b"), score(0.8, 0.3))];
        let best = best("w", 1, Vec::new(), score(0.6, 0.45), &tried, 1.25);
        assert_eq!((best.kind, best.seconds), ("modelled", 1));
        assert_eq!((best.settings, best.balanced_settings), (named("b"), named("a")));
        assert_eq!(best.best, score(0.8, 0.9));
        assert!((best.default_by_best - 0.75).abs() < 1e-9);
        assert!((best.default_by_best_balance - 0.5).abs() < 1e-9);
        assert_eq!(best.best_for_all, 1.25);
    }

    #[test]
    fn partitions_fit_the_machine() {
        let nr_placed = |all: &[Vec<String>], how: &str| {
            let placement = format!("placement={how}");
            all.iter().filter(|settings| settings.contains(&placement)).count()
        };
        let (one, two) = (partitions(4, 1), partitions(4, 2));
        // There are one, two or four CPUs, four ways back and three lengths of turns.
        for (of, how, expected) in [
            (&one, "pack", 3 * 4 * 3),
            (&one, "first-use", 3 * 4 * 3),
            (&one, "spread", 0),
            (&two, "pack", 3 * 4 * 3),
            (&two, "first-use", 3 * 4 * 3),
            (&two, "spread", 3 * 4 * 3),
        ] {
            assert_eq!(nr_placed(of, how), expected, "{how}");
        }
        assert_eq!((one.len(), two.len()), (2 * 36, 3 * 36));
    }
}
