// SPDX-License-Identifier: GPL-2.0-only
//! What is measured of a workload as a whole: how far the CPU time of its groups is from what their
//! weights give them, and how many moves its wide work takes.

use serde::Serialize;

use super::judge::Runs;
use crate::sim::study::uncertainty::mean;

/// What is measured of a workload under a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Whole {
    pub policy: String,
    /// How far the CPU time is from its share for the group that is farthest off, of those that
    /// always want to run, as a share of the machine.
    pub share_error: Option<f64>,
    /// The moves for each time that wide work began where it was hidden, beyond the moves that
    /// there are with AVX-512 left alone. It is None where such work hardly ever began.
    pub moves_per_use: Option<f64>,
}

/// The policy by which other moves are told from those for wide work.
const LEFT_ALONE: &str = "alone";

/// The fewest uses that count. Fewer tell nothing beside the moves that there are anyway.
const USES_MIN: f64 = 1000.0;

impl Whole {
    pub fn of(runs: &Runs<'_>, policy: &str) -> Self {
        let policy = policy.to_owned();
        let share_error = share_error(runs, &policy);
        let moves_per_use = moves_per_use(runs, &policy);
        Self { policy, share_error, moves_per_use }
    }
}

fn share_error(runs: &Runs<'_>, policy: &str) -> Option<f64> {
    let has = |n| runs.cpus_under(policy, n);
    let is_busy = |n: usize| runs.members[n].is_busy;
    // What the other groups want is not known beyond what they have.
    let shares = runs.shares(|n| if is_busy(n) { f64::INFINITY } else { has(n) });
    let busy = shares.iter().enumerate().filter(|(n, _)| is_busy(*n));
    busy.map(|(n, share)| (has(n) - share).abs() / runs.cpus).max_by(f64::total_cmp)
}

fn moves_per_use(runs: &Runs<'_>, policy: &str) -> Option<f64> {
    let moves =
        |policy: &str| mean(&runs.outcomes(policy).map(|it| it.moves as f64).collect::<Vec<_>>());
    let uses: Vec<f64> = runs.outcomes(policy).map(|it| it.wide_faults as f64).collect();
    let least = uses.iter().copied().min_by(f64::total_cmp)?;
    (least >= USES_MIN).then(|| (moves(policy) - moves(LEFT_ALONE)) / mean(&uses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::study::harm::judge::Member;
    use crate::sim::study::outcome::{GroupOutcome, Outcome, made_up};

    fn group(cpus: f64) -> GroupOutcome {
        GroupOutcome {
            name: "it".to_owned(),
            requests_per_s: 1.0,
            work: 1.0,
            cpus,
            unfinished: None,
            latency_us: None,
            relative: None,
        }
    }

    fn outcome(policy: &str, cpus: &[f64], moves: u64, wide_faults: u64) -> Outcome {
        let groups = cpus.iter().copied().map(group).collect();
        Outcome { policy: policy.to_owned(), moves, wide_faults, ..made_up(1.0, groups) }
    }

    fn member(weight: f64, is_busy: bool) -> Member {
        Member { weight, threads: 4.0, answers: !is_busy, is_busy }
    }

    #[test]
    fn shares_are_of_what_others_leave() {
        let members = [member(300.0, true), member(100.0, true), member(100.0, false)];
        for (cpus, error) in [([2.625, 0.875, 0.5], 0.0), ([2.5, 1.0, 0.5], 0.03125)] {
            let outcomes = [outcome("it", &cpus, 0, 0)];
            let runs = Runs { members: &members, cpus: 4.0, of_seeds: vec![&outcomes] };
            let found = share_error(&runs, "it").unwrap();
            assert!((found - error).abs() < 1e-9, "{cpus:?}: {found}");
        }
        let outcomes = [outcome("it", &[1.0], 0, 0)];
        let runs = Runs { members: &members[2..], cpus: 4.0, of_seeds: vec![&outcomes] };
        assert_eq!(share_error(&runs, "it"), None);
    }

    #[test]
    fn moves_count_beyond_those_that_there_are_anyway() {
        let members = [member(100.0, true)];
        let per_use = |uses: u64| {
            let outcomes = [outcome("alone", &[1.0], 500, 0), outcome("it", &[1.0], 4500, uses)];
            let runs = Runs { members: &members, cpus: 1.0, of_seeds: vec![&outcomes] };
            moves_per_use(&runs, "it")
        };
        assert_eq!(per_use(2000), Some(2.0));
        assert_eq!(per_use(999), None);
    }
}
