// SPDX-License-Identifier: GPL-2.0-only
//! Judges whether a group of tasks is harmed, by what it gets under a policy and under the best of
//! a baseline.

use std::cmp::Ordering;

use serde::Serialize;

use crate::sim::machine::Topology;
use crate::sim::study::outcome::{GroupOutcome, Outcome};
use crate::sim::study::uncertainty::{mean, variance};
use crate::sim::study::variant::Variant;
use crate::sim::workload::{Group, What, Workload};

/// The policies that others are measured by, as far as the simulator has them. What a group gets
/// under the best of these, no policy may take from it.
const BASELINE: [&str; 2] = ["eevdf", "alone"];

pub fn baseline() -> Vec<&'static str> {
    BASELINE.into_iter().filter(|name| Variant::named(name).is_some()).collect()
}

/// A gain of this or more is no harm that anybody would see, and is not worth more runs.
const SEEN: f64 = 0.98;

/// The part of a share of the CPUs by which runs differ.
const ABOUT: f64 = 0.02;

/// The least gain that counts, so that a mean of logarithms is a number. Its inverse is the
/// largest.
const STARVED: f64 = 1e-4;

/// What is known of a group, besides what it gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub weight: f64,
    pub threads: f64,
    /// Whether it answers requests, from wherever they come.
    pub answers: bool,
    /// Whether its threads never sleep.
    pub is_busy: bool,
}

pub fn members(workload: &Workload, topology: &Topology) -> Vec<Member> {
    let member = |group: &Group| Member {
        weight: group.weight.into(),
        threads: group.nr_threads(topology) as f64,
        answers: group.has(&What::Wait),
        is_busy: !group.sleeps(),
    };
    workload.groups.iter().map(member).collect()
}

/// The CPUs that a group has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cpus {
    /// The CPUs under the baseline, and under the policy.
    pub had: f64,
    pub has: f64,
    /// What weights give the group, where the others take no more than the larger of what they have
    /// under both.
    pub share: f64,
}

impl Cpus {
    /// Returns true if the group had more than its share, and still has its share.
    fn are_enough(self) -> bool {
        self.had > self.share * (1.0 + ABOUT) && self.has >= self.share * (1.0 - ABOUT)
    }
}

/// What a group gets, as a number of which more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Rounds that are done in a second.
    Work,
    /// How soon requests are done, by the mean, the median and the 99th percentile.
    Mean,
    P50,
    P99,
}

impl Measure {
    pub fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }

    /// Returns the measures that count for a group. The mean is over all requests that arrive,
    /// including those that are never answered. Where clients wait for answers there is no such
    /// mean.
    fn of(member: &Member, group: &GroupOutcome) -> &'static [Measure] {
        match (member.answers, group.unfinished) {
            (false, _) => &[Measure::Work],
            (true, Some(_)) => &[Measure::Mean, Measure::P99],
            (true, None) => &[Measure::P50, Measure::P99],
        }
    }

    /// Returns what a group gets by this measure. It is 0 where there is nothing to measure.
    fn get(self, group: &GroupOutcome) -> f64 {
        let soon = |time: Option<f64>| time.filter(|it| *it > 0.0).map_or(0.0, |it| 1.0 / it);
        match self {
            Self::Work => group.requests_per_s,
            Self::Mean => soon(group.unfinished),
            Self::P50 => soon(group.latency_us.map(|it| it.p50)),
            Self::P99 => soon(group.latency_us.map(|it| it.p99)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It gets as much, or more, or too little is known.
    Fine,
    Harmed,
    /// It gets less, but it had more than its share, and still has its share.
    HadMore,
    /// Ever more requests wait under every policy of the baseline.
    PilesUp,
}

/// The verdict on a group under a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    pub group: String,
    pub policy: String,
    pub verdict: Verdict,
    /// The measure that loses the most, of those that lose more than by chance if there are any. It
    /// is None where there was nothing to be got.
    pub measure: Option<Measure>,
    pub gain: Option<f64>,
    /// The interval in which the gain is with a probability of 95 %. One run does not tell it.
    pub gain_95: Option<[f64; 2]>,
    /// The policy of the baseline that was best for the group.
    pub baseline: Option<&'static str>,
    pub cpus: Option<Cpus>,
}

impl Judged {
    /// Returns true if the group may be harmed, which more runs have to confirm.
    pub fn seems_harmed(&self) -> bool {
        self.verdict == Verdict::Fine && self.gain.is_some_and(|gain| gain < SEEN)
    }
}

/// The runs with each seed, each under all policies.
pub struct Runs<'a> {
    pub members: &'a [Member],
    pub cpus: f64,
    pub of_seeds: Vec<&'a [Outcome]>,
}

/// How much a group gets of what it gets under a policy of the baseline.
struct Gain {
    measure: Measure,
    baseline: &'static str,
    gain: f64,
    interval: Option<[f64; 2]>,
    cpus: Cpus,
}

impl Gain {
    /// Returns true if this is a loss that is more than chance.
    fn is_loss(&self) -> bool {
        self.gain < SEEN && self.interval.is_some_and(|[_, high]| high < 1.0)
    }
}

impl Runs<'_> {
    /// Judges all groups under the policy, relative to the baseline.
    pub fn judge(&self, baseline: &[&'static str], policy: &str) -> Vec<Judged> {
        let piles_up = baseline.iter().all(|name| self.falls_behind(name));
        let judged = |n: usize| self.judge_group(n, baseline, policy, piles_up);
        (0..self.members.len()).filter_map(judged).collect()
    }

    fn judge_group(
        &self,
        n: usize,
        baseline: &[&'static str],
        policy: &str,
        piles_up: bool,
    ) -> Option<Judged> {
        let group = self.groups(n, policy).next()?;
        let measures = Measure::of(self.members.get(n)?, group).iter();
        let gains = measures.filter_map(|measure| self.gain(n, *measure, baseline, policy));
        let order = |a: &Gain, b: &Gain| {
            (!a.is_loss(), a.gain).partial_cmp(&(!b.is_loss(), b.gain)).unwrap_or(Ordering::Equal)
        };
        let worst = gains.min_by(order);
        let verdict = match &worst {
            _ if piles_up => Verdict::PilesUp,
            Some(it) if it.gain < SEEN && it.cpus.are_enough() => Verdict::HadMore,
            Some(it) if it.is_loss() => Verdict::Harmed,
            _ => Verdict::Fine,
        };
        Some(Judged {
            group: group.name.clone(),
            policy: policy.to_owned(),
            verdict,
            measure: worst.as_ref().map(|it| it.measure),
            gain: worst.as_ref().map(|it| it.gain),
            gain_95: worst.as_ref().and_then(|it| it.interval),
            baseline: worst.as_ref().map(|it| it.baseline),
            cpus: worst.as_ref().map(|it| it.cpus),
        })
    }

    pub fn outcomes(&self, policy: &str) -> impl Iterator<Item = &Outcome> {
        let of_seed = move |all: &&[Outcome]| all.iter().position(|it| it.policy == policy);
        self.of_seeds.iter().filter_map(move |all| all.get(of_seed(all)?))
    }

    fn groups(&self, n: usize, policy: &str) -> impl Iterator<Item = &GroupOutcome> {
        self.outcomes(policy).filter_map(move |it| it.groups.get(n))
    }

    /// Returns true if more requests arrive than are done with most seeds.
    fn falls_behind(&self, policy: &str) -> bool {
        let nr = self.outcomes(policy).filter(|it| it.falls_behind).count();
        2 * nr > self.of_seeds.len()
    }

    /// Returns the gain of a group, relative to the policy of the baseline under which it gets the
    /// most.
    fn gain(
        &self,
        n: usize,
        measure: Measure,
        baseline: &[&'static str],
        policy: &str,
    ) -> Option<Gain> {
        let logarithms = |policy: &str| -> Vec<f64> {
            self.groups(n, policy).map(|it| measure.get(it).max(f64::MIN_POSITIVE).ln()).collect()
        };
        let got = |name: &&&'static str| mean(&logarithms(name));
        let best = baseline.iter().max_by(|a, b| got(a).total_cmp(&got(b)))?;
        let (here, there) = (logarithms(policy), logarithms(best));
        let gets_nothing = there.iter().all(|it| *it <= f64::MIN_POSITIVE.ln());
        let ratios = || here.iter().zip(&there).map(|(here, there)| here - there);
        let limits = [STARVED.ln(), -STARVED.ln()];
        let ratios: Vec<f64> = ratios().map(|it| it.clamp(limits[0], limits[1])).collect();
        let interval = interval(&ratios).map(|ends| ends.map(f64::exp));
        let cpus = self.cpus_of(n, best, policy);
        let gain = mean(&ratios).exp();
        (!gets_nothing).then_some(Gain { measure, baseline: best, gain, interval, cpus })
    }

    fn cpus_of(&self, n: usize, baseline: &str, policy: &str) -> Cpus {
        let (had, has) = (|n| self.cpus_under(baseline, n), |n| self.cpus_under(policy, n));
        let wants = |other| if other == n { f64::INFINITY } else { had(other).max(has(other)) };
        let share = self.shares(wants).get(n).copied().unwrap_or(0.0);
        Cpus { had: had(n), has: has(n), share }
    }

    /// Returns the CPUs that a group has at a time.
    pub fn cpus_under(&self, policy: &str, n: usize) -> f64 {
        mean(&self.groups(n, policy).map(|it| it.cpus).collect::<Vec<_>>())
    }

    /// Returns what weights give each group, where each wants `wants` CPUs.
    pub fn shares(&self, wants: impl Fn(usize) -> f64) -> Vec<f64> {
        let claims = (0..).zip(self.members).map(|(n, it)| Claim::of(it, wants(n)));
        shares(&claims.collect::<Vec<_>>(), self.cpus)
    }
}

/// A claim of a group to CPUs.
#[derive(Clone, Copy, Debug)]
struct Claim {
    weight: f64,
    most: f64,
}

impl Claim {
    /// Returns the claim of a group that wants this many CPUs at a time. A thread has one at most.
    fn of(member: &Member, wants: f64) -> Self {
        Self { weight: member.weight * member.threads, most: wants.min(member.threads) }
    }
}

/// Shares out CPUs by weight. What one group does not want the others have, again by weight.
fn shares(claims: &[Claim], cpus: f64) -> Vec<f64> {
    let mut shares: Vec<Option<f64>> = vec![None; claims.len()];
    loop {
        let open = || claims.iter().zip(&shares).filter(|(_, share)| share.is_none());
        let weight: f64 = open().map(|(claim, _)| claim.weight).sum();
        let left = cpus - shares.iter().flatten().sum::<f64>();
        let by_weight = |claim: &Claim| left * claim.weight / weight;
        let nr_open = open().count();
        let settled: Vec<Option<f64>> = claims
            .iter()
            .zip(&shares)
            .map(|(claim, share)| share.or((claim.most <= by_weight(claim)).then_some(claim.most)))
            .collect();
        if settled.iter().filter(|share| share.is_none()).count() == nr_open {
            let all = claims.iter().zip(&shares);
            return all.map(|(claim, share)| share.unwrap_or_else(|| by_weight(claim))).collect();
        }
        shares = settled;
    }
}

/// Student's t of 95 %, for two numbers and more.
const T_95: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// The largest number of seeds for which there is a factor in `T_95`.
pub const SEEDS_MAX: u16 = T_95.len() as u16 + 1;

/// Returns the interval in which the mean of more numbers would be.
fn interval(numbers: &[f64]) -> Option<[f64; 2]> {
    let t = T_95.get(numbers.len().checked_sub(2)?)?;
    let mean = mean(numbers);
    let half = t * (variance(numbers) / numbers.len() as f64).sqrt();
    Some([mean - half, mean + half])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::study::outcome::made_up;

    const FROM_OUTSIDE: Member =
        Member { weight: 100.0, threads: 4.0, answers: true, is_busy: false };
    const BUSY: Member = Member { weight: 100.0, threads: 4.0, answers: false, is_busy: true };

    fn group(requests_per_s: f64, unfinished: Option<f64>, cpus: f64) -> GroupOutcome {
        let (name, latency_us, relative) = ("it".to_owned(), None, None);
        GroupOutcome { name, requests_per_s, work: 1.0, cpus, unfinished, latency_us, relative }
    }

    fn outcome(policy: &str, groups: Vec<GroupOutcome>) -> Outcome {
        Outcome { policy: policy.to_owned(), ..made_up(1.0, groups) }
    }

    fn judge(members: &[Member], seeds: &[[Outcome; 2]]) -> Vec<(Verdict, Option<f64>)> {
        let of_seeds = seeds.iter().map(|it| &it[..]).collect();
        let judged = Runs { members, cpus: 4.0, of_seeds }.judge(&["alone"], "default");
        let round = |it: f64| (it * 1e4).round() / 1e4;
        judged.into_iter().map(|it| (it.verdict, it.gain.map(round))).collect()
    }

    /// Returns the runs of a group that has all CPUs to itself, with a rate for each seed.
    fn busy(rates: &[f64]) -> Vec<[Outcome; 2]> {
        let pair = |rate: &f64| {
            [("alone", 100.0), ("default", *rate)]
                .map(|(policy, rate)| outcome(policy, vec![group(rate, None, 4.0)]))
        };
        rates.iter().map(pair).collect()
    }

    #[test]
    fn who_gets_less_is_harmed_if_it_is_no_chance() {
        for (rates, expected) in [
            (&[80.0, 80.5, 79.5][..], (Verdict::Harmed, Some(0.8))),
            (&[120.0, 121.0, 119.0], (Verdict::Fine, Some(1.2))),
            (&[60.0, 100.0, 85.375], (Verdict::Fine, Some(0.8))),
            // One run does not tell.
            (&[80.0], (Verdict::Fine, Some(0.8))),
            (&[0.0, 0.0], (Verdict::Harmed, Some(1e-4))),
        ] {
            let [(verdict, gain)] = judge(&[BUSY], &busy(rates))[..] else { panic!("{rates:?}") };
            assert_eq!(verdict, expected.0, "{rates:?}");
            assert!((gain.unwrap() - expected.1.unwrap()).abs() < 1e-3, "{rates:?} {gain:?}");
        }
        let one = busy(&[80.0]);
        let runs = Runs { members: &[BUSY], cpus: 4.0, of_seeds: vec![&one[0]] };
        assert!(runs.judge(&["alone"], "default")[0].seems_harmed());
        assert!(!runs.judge(&["alone"], "alone")[0].seems_harmed());
    }

    /// The group has three CPUs of four, where half of them are its share.
    #[test]
    fn who_had_more_than_its_share_may_lose_that() {
        let with = |cpus: f64| -> Vec<(Verdict, Option<f64>)> {
            let one = |policy, cpus: f64| {
                outcome(policy, vec![group(cpus, None, cpus), group(4.0 - cpus, None, 4.0 - cpus)])
            };
            judge(&[BUSY, BUSY], &[1, 2].map(|_| [one("alone", 3.0), one("default", cpus)]))
        };
        assert_eq!(with(2.5), [(Verdict::HadMore, Some(0.8333)), (Verdict::Fine, Some(1.5))]);
        assert_eq!(with(2.0)[0].0, Verdict::HadMore);
        assert_eq!(with(1.5)[0].0, Verdict::Harmed);
        // Where the other one takes no more than before, nothing is lost to it.
        let idles = |policy, cpus: f64| {
            outcome(policy, vec![group(cpus, None, cpus), group(1.0, None, 1.0)])
        };
        let runs = [1, 2].map(|_| [idles("alone", 3.0), idles("default", 2.0)]);
        assert_eq!(judge(&[BUSY, BUSY], &runs)[0].0, Verdict::Harmed);
    }

    #[test]
    fn requests_count_by_how_soon_they_are_done() {
        let with = |unfinished: f64, falls_behind: bool| {
            let one = |policy, unfinished| Outcome {
                falls_behind,
                ..outcome(policy, vec![group(50.0, Some(unfinished), 1.0)])
            };
            judge(&[FROM_OUTSIDE], &[1, 2].map(|_| [one("alone", 3.0), one("default", unfinished)]))
        };
        assert_eq!(with(6.0, false), [(Verdict::Harmed, Some(0.5))]);
        assert_eq!(with(2.0, false), [(Verdict::Fine, Some(1.5))]);
        assert_eq!(with(6.0, true), [(Verdict::PilesUp, Some(0.5))]);
    }

    /// One policy of the baseline keeps up and one does not: a group is measured by what it gets
    /// under the first.
    #[test]
    fn the_better_of_the_baseline_counts() {
        let one = |policy: &str, unfinished, falls_behind| Outcome {
            falls_behind,
            ..outcome(policy, vec![group(50.0, Some(unfinished), 1.0)])
        };
        let all = || [one("eevdf", 9.0, true), one("alone", 3.0, false), one("it", 4.0, false)];
        let runs = [all(), all()];
        let of_seeds = runs.iter().map(|it| &it[..]).collect();
        let runs = Runs { members: &[FROM_OUTSIDE], cpus: 4.0, of_seeds };
        let [it] = &runs.judge(&["eevdf", "alone"], "it")[..] else { panic!("no group") };
        assert_eq!((it.verdict, it.baseline), (Verdict::Harmed, Some("alone")));
        assert!((it.gain.unwrap() - 0.75).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_told_of_who_gets_nothing_anyway() {
        let runs = [1, 2].map(|_| {
            [("alone", 0.0), ("default", 3.0)]
                .map(|(it, rate)| outcome(it, vec![group(rate, None, 0.0)]))
        });
        assert_eq!(judge(&[BUSY], &runs), [(Verdict::Fine, None)]);
    }

    #[test]
    fn what_somebody_does_not_want_others_have() {
        let claims = |all: &[(f64, f64)]| -> Vec<Claim> {
            all.iter().map(|(weight, most)| Claim { weight: *weight, most: *most }).collect()
        };
        assert_eq!(shares(&claims(&[(1.0, 9.0), (3.0, 9.0)]), 8.0), [2.0, 6.0]);
        assert_eq!(shares(&claims(&[(1.0, 9.0), (3.0, 1.0)]), 8.0), [7.0, 1.0]);
        assert_eq!(shares(&claims(&[(1.0, 1.0), (3.0, 1.0)]), 8.0), [1.0, 1.0]);
        let three = shares(&claims(&[(1.0, 0.5), (1.0, 9.0), (2.0, 3.5)]), 6.0);
        assert_eq!(three, [0.5, 2.0, 3.5]);
    }

    #[test]
    fn the_baseline_is_what_the_simulator_has_of_it() {
        assert!(baseline().contains(&"alone"));
        assert!(baseline().iter().all(|name| Variant::named(name).is_some()));
    }
}
