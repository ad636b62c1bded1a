// SPDX-License-Identifier: GPL-2.0-only
//! How much a result depends on what nobody knows well, and on how a policy is set.

use rand_distr::{Distribution, StandardUniform};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use serde::Serialize;

use super::comparison::Comparison;
use super::parameters;

/// Factors for each uncertain parameter: anything from half to one and a half of what it is.
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

/// What a policy does, by the first one, over all draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub policy: String,
    pub variant: String,
    pub median: f64,
    /// It does less in 5 of 100 draws.
    pub p5: f64,
    /// In the order of the draws.
    pub relative: Vec<f64>,
}

/// Of comparisons of the same policies.
pub fn spreads(comparisons: &[Comparison]) -> Vec<Spread> {
    let first = comparisons.first().map_or(&[][..], |first| &first.outcomes);
    let spread = |(n, it): (usize, &super::outcome::Outcome)| {
        let relative: Vec<f64> = comparisons
            .iter()
            .filter_map(|comparison| comparison.relative(comparison.outcomes.get(n)?))
            .collect();
        Spread {
            policy: it.policy.clone(),
            variant: it.variant.clone(),
            median: percentile(&relative, 0.5),
            p5: percentile(&relative, 0.05),
            relative,
        }
    };
    first.iter().enumerate().map(spread).collect()
}

/// The one that so many are below.
fn percentile(numbers: &[f64], share: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Every static partition that is worth a try on such a machine, by its settings.
pub fn partitions(nr_cpus: usize, nr_sockets: usize) -> Vec<Vec<String>> {
    let counts = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128].into_iter();
    let placements = if nr_sockets > 1 { &["pack", "spread"][..] } else { &["pack"] };
    let mut all = Vec::new();
    for count in counts.filter(|count| *count < nr_cpus).chain([nr_cpus]) {
        for placement in placements {
            for method in ["syscall", "switch", "timeout", "adaptive"] {
                for slice in ["500us", "3ms", "20ms"] {
                    all.push(vec![
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
    pub workload: String,
    /// By the work without AVX-512.
    pub default: f64,
    pub best: f64,
    pub settings: Vec<String>,
    /// What the default policy does, by the best.
    pub default_by_best: f64,
    /// Of all that were tried, the best ones first.
    pub tried: Vec<Tried>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    pub relative: f64,
    pub settings: Vec<String>,
}

/// From what the reference, the default policy and the policies tried have done.
pub fn best(workload: &str, reference: f64, default: f64, tried: &[(Vec<String>, f64)]) -> Best {
    let by = |work: f64, whole: f64| if whole > 0.0 { work / whole } else { 0.0 };
    let mut tried: Vec<Tried> = tried
        .iter()
        .map(|(settings, work)| Tried {
            relative: by(*work, reference),
            settings: settings.clone(),
        })
        .collect();
    tried.sort_by(|a, b| b.relative.total_cmp(&a.relative));
    let first = tried.first().cloned();
    let best = first.as_ref().map_or(0.0, |it| it.relative);
    let default = by(default, reference);
    Best {
        workload: workload.to_owned(),
        default,
        best,
        settings: first.map_or(Vec::new(), |it| it.settings),
        default_by_best: by(default, best),
        tried,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn percentiles_are_of_the_sorted_numbers() {
        let numbers: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!((percentile(&numbers, 0.5), percentile(&numbers, 0.05)), (50.0, 5.0));
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn the_best_is_the_one_that_does_most() {
        let tried = [(vec!["a".to_owned()], 5.0), (vec!["b".to_owned()], 8.0)];
        let best = best("w", 10.0, 6.0, &tried);
        assert_eq!((best.default, best.best, best.settings), (0.6, 0.8, vec!["b".to_owned()]));
        assert!((best.default_by_best - 0.75).abs() < 1e-9);
    }

    #[test]
    fn partitions_fit_the_machine() {
        let small = partitions(4, 1);
        assert_eq!(small.len(), 3 * 4 * 3);
        assert!(small.iter().all(|settings| settings.contains(&"placement=pack".to_owned())));
        assert_eq!(partitions(4, 2).len(), 2 * small.len());
    }
}
