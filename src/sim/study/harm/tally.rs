// SPDX-License-Identifier: GPL-2.0-only
//! What a search has found: how many groups of tasks are harmed, how much, and where the most.

use serde::Serialize;

use super::judge::{Judged, Verdict};
use super::whole::Whole;
use crate::sim::study::sweep::percentile;

/// A drawn workload, with what it takes to run it again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    pub workload: String,
    /// The command that runs it, from a file that has this text.
    pub command: String,
    pub text: String,
}

/// A workload, and what became of its groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    #[serde(flatten)]
    pub replay: Replay,
    pub judged: Vec<Judged>,
    pub wholes: Vec<Whole>,
}

/// A workload that could not be run: the model found a mistake.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    #[serde(flatten)]
    pub replay: Replay,
    pub error: String,
}

/// All of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Search {
    pub kind: &'static str,
    pub command: String,
    pub version: String,
    pub seed: u64,
    pub workloads: u64,
    /// The number of other seeds with which a workload is run again where a group seems to be
    /// harmed.
    pub seeds: u16,
    pub baseline: Vec<&'static str>,
    pub policies: Vec<Tally>,
    pub cases: Vec<Case>,
    pub failures: Vec<Failure>,
}

/// The counts under one policy. Where requests pile up under the baseline as well, a group only
/// counts in `pile_up`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tally {
    pub policy: String,
    pub groups: usize,
    pub harmed: usize,
    pub harmed_below_0_9: usize,
    pub harmed_below_0_5: usize,
    pub gain_above_1_1: usize,
    pub had_more: usize,
    pub pile_up: usize,
    /// What a tenth of the gains is below, two tenths and so on. Groups that had more than their
    /// share are left out.
    pub deciles: Vec<f64>,
    /// The gain of the group of each workload that gets the least: the least of all workloads, and
    /// what one workload in fifty is below.
    pub group_min: Option<f64>,
    pub group_p2: Option<f64>,
    /// What one workload in fifty is below by the geometric mean of its groups.
    pub balance_p2: Option<f64>,
    /// How far CPU time is from what weights give, where a group always wants to run: the root of
    /// the mean square.
    pub share_error: Option<f64>,
    /// The moves for each use of wide vectors, in the workload that needs the most.
    pub moves_per_use: Option<f64>,
    #[serde(skip)]
    pub gains: Vec<f64>,
}

impl Tally {
    pub fn of(policy: &str, cases: &[Case]) -> Self {
        let all = cases.iter().flat_map(|it| &it.judged).filter(|it| it.policy == policy);
        let all: Vec<&Judged> = all.filter(|it| it.gain.is_some()).collect();
        let gains = |verdict: Verdict| -> Vec<f64> {
            all.iter().filter(|it| it.verdict == verdict).filter_map(|it| it.gain).collect()
        };
        let harmed = gains(Verdict::Harmed);
        let below = |most: f64| harmed.iter().filter(|gain| **gain < most).count();
        let (had_more, pile_up) = (gains(Verdict::HadMore), gains(Verdict::PilesUp));
        let of_cases: Vec<Vec<f64>> = cases.iter().map(|it| counted_in(it, policy)).collect();
        let of_each = |of: fn(&[f64]) -> f64| -> Vec<f64> {
            of_cases.iter().filter(|it| !it.is_empty()).map(|it| of(it)).collect()
        };
        let least = of_each(|gains| gains.iter().copied().fold(f64::INFINITY, f64::min));
        let balance = of_each(geometric_mean);
        let counted = of_cases.concat();
        let wholes = || cases.iter().flat_map(|it| &it.wholes).filter(|it| it.policy == policy);
        let errors: Vec<f64> = wholes().filter_map(|it| it.share_error).collect();
        Self {
            policy: policy.to_owned(),
            groups: counted.len() + had_more.len(),
            harmed: harmed.len(),
            harmed_below_0_9: below(0.9),
            harmed_below_0_5: below(0.5),
            gain_above_1_1: counted.iter().filter(|gain| **gain > 1.1).count(),
            had_more: had_more.len(),
            pile_up: pile_up.len(),
            deciles: (1..10).filter_map(|n| percentile(&counted, f64::from(n) / 10.0)).collect(),
            group_min: percentile(&least, 0.0),
            group_p2: percentile(&least, 0.02),
            balance_p2: percentile(&balance, 0.02),
            share_error: root_mean_square(&errors),
            moves_per_use: wholes().filter_map(|it| it.moves_per_use).max_by(f64::total_cmp),
            gains: counted,
        }
    }
}

/// Returns what the groups of one workload that count get under a policy.
fn counted_in(case: &Case, policy: &str) -> Vec<f64> {
    let counts = |it: &&Judged| matches!(it.verdict, Verdict::Fine | Verdict::Harmed);
    let judged = case.judged.iter().filter(|it| it.policy == policy).filter(counts);
    judged.filter_map(|it| it.gain).collect()
}

fn geometric_mean(all: &[f64]) -> f64 {
    (all.iter().map(|it| it.ln()).sum::<f64>() / all.len() as f64).exp()
}

fn root_mean_square(all: &[f64]) -> Option<f64> {
    let squares: f64 = all.iter().map(|it| it * it).sum();
    (!all.is_empty()).then(|| (squares / all.len() as f64).sqrt())
}

/// Returns the `nr` groups that are harmed the most, under any policy, each with its workload.
pub fn worst(cases: &[Case], nr: usize) -> Vec<(&Case, &Judged)> {
    let all = cases.iter().flat_map(|case| case.judged.iter().map(move |it| (case, it)));
    let mut harmed: Vec<_> = all.filter(|(_, it)| it.verdict == Verdict::Harmed).collect();
    let gain = |it: &Judged| it.gain.unwrap_or(1.0);
    harmed.sort_by(|(_, a), (_, b)| gain(a).total_cmp(&gain(b)));
    harmed.truncate(nr);
    harmed
}

/// Returns a gain for people to read, with half of its interval.
pub fn gain(judged: &Judged) -> String {
    let half = judged.gain_95.map_or(0.0, |[low, high]| (high - low) / 2.0);
    format!("{:.4} +- {half:.4}", judged.gain.unwrap_or(1.0))
}

#[cfg(test)]
pub fn made_up(workload: &str, gains: &[(Verdict, f64)]) -> Case {
    let judged = |(verdict, gain): &(Verdict, f64)| Judged {
        group: "it".to_owned(),
        policy: "default".to_owned(),
        verdict: *verdict,
        measure: Some(super::judge::Measure::Work),
        gain: Some(*gain),
        gain_95: Some([gain - 0.01, gain + 0.01]),
        baseline: Some("alone"),
        cpus: None,
    };
    let replay = Replay {
        workload: workload.to_owned(),
        command: format!("scx_avxspec sim run --workload={workload}.toml"),
        text: "about = \"it\"\n".to_owned(),
    };
    Case { replay, judged: gains.iter().map(judged).collect(), wholes: Vec::new() }
}

#[cfg(test)]
pub fn made_up_search(cases: Vec<Case>, failures: Vec<Failure>) -> Search {
    Search {
        kind: "modelled",
        command: "scx_avxspec sim harm".to_owned(),
        version: "1".to_owned(),
        seed: 7,
        workloads: 3,
        seeds: 5,
        baseline: vec!["alone"],
        policies: vec![Tally::of("default", &cases)],
        cases,
        failures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> [Case; 2] {
        let (fine, harmed) = (Verdict::Fine, Verdict::Harmed);
        [
            made_up("a", &[(fine, 1.0), (harmed, 0.8), (Verdict::HadMore, 0.3)]),
            made_up("b", &[(harmed, 0.4), (fine, 1.2), (harmed, 0.95), (Verdict::PilesUp, 0.1)]),
        ]
    }

    #[test]
    fn groups_are_counted_by_what_became_of_them() {
        let tally = Tally::of("default", &cases());
        assert_eq!((tally.groups, tally.had_more, tally.pile_up), (6, 1, 1));
        let harmed = (tally.harmed, tally.harmed_below_0_9, tally.harmed_below_0_5);
        assert_eq!((harmed, tally.gain_above_1_1), ((3, 2, 1), 1));
        assert_eq!((tally.deciles.len(), tally.deciles[4]), (9, 0.95));
        assert_eq!(tally.group_min, Some(0.4));
        assert!((tally.group_p2.unwrap() - 0.408).abs() < 1e-9, "{tally:?}");
        // The first workload has a balance of 0.894, and the other one 0.770.
        assert!((tally.balance_p2.unwrap() - 0.772).abs() < 1e-3, "{tally:?}");
        let nobody = Tally::of("another", &cases());
        assert_eq!((nobody.group_min, nobody.balance_p2), (None, None));
        assert_eq!((nobody.groups, nobody.share_error, nobody.moves_per_use), (0, None, None));
    }

    #[test]
    fn errors_of_shares_are_averaged_and_the_most_moves_count() {
        let with = |policy: &str, share_error, moves_per_use| {
            let policy = policy.to_owned();
            let wholes = vec![Whole { policy, share_error, moves_per_use }];
            Case { wholes, ..made_up("a", &[]) }
        };
        let cases = [
            with("default", Some(0.03), Some(2.0)),
            with("default", Some(0.04), Some(1.5)),
            with("default", None, None),
            with("another", Some(0.5), Some(9.0)),
        ];
        let tally = Tally::of("default", &cases);
        assert!((tally.share_error.unwrap() - 0.00125_f64.sqrt()).abs() < 1e-9, "{tally:?}");
        assert_eq!(tally.moves_per_use, Some(2.0));
    }

    #[test]
    fn the_worst_come_first() {
        let cases = cases();
        let worst: Vec<(&str, f64)> = worst(&cases, 2)
            .into_iter()
            .map(|(case, it)| (case.replay.workload.as_str(), it.gain.unwrap()))
            .collect();
        assert_eq!(worst, [("b", 0.4), ("a", 0.8)]);
    }
}
