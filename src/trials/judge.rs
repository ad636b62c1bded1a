// SPDX-License-Identifier: GPL-2.0-only
//! What pairs of windows say: how much more each program gets done, all of them together, and
//! whether that is chance. Numbers in, a verdict out.

use std::collections::BTreeMap;

/// What a program has done, and how long it was awake for that: it ran, or waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    pub work: f64,
    pub awake_ns: f64,
    pub weight: f64,
}

/// By program.
pub type Sums = BTreeMap<u64, Sum>;

/// What was done in a window under the policy on trial, and in one without it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    pub with: Sums,
    pub without: Sums,
}

/// A logarithm of a ratio, and how far it would be off if it were measured again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    pub mean: f64,
    pub error: f64,
}

/// What came of some pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Of the geometric mean over programs, by their weights.
    pub balance: Gain,
    pub programs: BTreeMap<u64, Gain>,
    nr_pairs: usize,
}

/// So many pairs say nothing yet; and what so many have not shown, more would not.
const PAIRS_MIN: usize = 6;
pub const PAIRS_MAX: usize = 20;

/// Somebody who seems to be harmed has so many pairs to turn out not to be.
const HARMED_AFTER: usize = 10;

/// Less is not worth a policy, nor a harm that anybody would see.
const GAIN_MIN: f64 = 0.005;
const HARM_MIN: f64 = 0.02;

/// Of a normal distribution: one in a thousand is further off to one side.
const SURE: f64 = 3.09;

/// From one sum to the next. A program that was not there before has done nothing.
pub fn since(before: &Sums, now: &Sums) -> Sums {
    let step = |(program, sum): (&u64, &Sum)| {
        let then = before.get(program).copied().unwrap_or_default();
        let (work, awake_ns) = (sum.work - then.work, sum.awake_ns - then.awake_ns);
        (*program, Sum { work: work.max(0.0), awake_ns: awake_ns.max(0.0), ..*sum })
    };
    now.iter().map(step).collect()
}

/// Nothing where too few pairs are there, or no program did anything in both kinds of windows.
pub fn judge(pairs: &[Pair]) -> Option<Judgement> {
    if pairs.len() < PAIRS_MIN {
        return None;
    }
    let all = gains(pairs.iter());
    let parts: Vec<BTreeMap<u64, (f64, f64)>> = (0..pairs.len())
        .map(|left_out| {
            let others = pairs.iter().enumerate().filter(|(n, _)| *n != left_out);
            gains(others.map(|(_, pair)| pair))
        })
        .collect();
    let balances: Vec<f64> = parts.iter().filter_map(balance).collect();
    let of_program = |(program, (mean, _)): (&u64, &(f64, f64))| {
        let values = parts.iter().filter_map(|part| part.get(program));
        let values: Vec<f64> = values.map(|(gain, _)| *gain).collect();
        // One that did something in a single window may have done so by chance.
        let error = if values.len() == parts.len() { jackknife(&values) } else { f64::INFINITY };
        (*program, Gain { mean: *mean, error })
    };
    Some(Judgement {
        balance: Gain { mean: balance(&all)?, error: jackknife(&balances) },
        programs: all.iter().map(of_program).collect(),
        nr_pairs: pairs.len(),
    })
}

/// Of each program that did something with the policy and without it, and its weight.
fn gains<'a>(pairs: impl Iterator<Item = &'a Pair>) -> BTreeMap<u64, (f64, f64)> {
    let mut sums: BTreeMap<u64, [Sum; 2]> = BTreeMap::new();
    for pair in pairs {
        for (side, window) in [&pair.with, &pair.without].into_iter().enumerate() {
            for (program, sum) in window {
                let all = &mut sums.entry(*program).or_default()[side];
                all.work += sum.work;
                all.awake_ns += sum.awake_ns;
                all.weight = sum.weight;
            }
        }
    }
    let gain = |(program, [with, without]): (u64, [Sum; 2])| {
        let ratio = (with.work / with.awake_ns) / (without.work / without.awake_ns);
        (ratio.is_finite() && ratio > 0.0).then(|| (program, (ratio.ln(), without.weight)))
    };
    sums.into_iter().filter_map(gain).collect()
}

fn balance(gains: &BTreeMap<u64, (f64, f64)>) -> Option<f64> {
    let weight: f64 = gains.values().map(|(_, weight)| weight).sum();
    (weight > 0.0).then(|| gains.values().map(|(gain, weight)| gain * weight).sum::<f64>() / weight)
}

/// The error of an estimate, by what it is without each of the pairs (B. Efron and C. Stein, "The
/// Jackknife Estimate of Variance", 1981): of a ratio of sums nothing simpler is known.
fn jackknife(without_each: &[f64]) -> f64 {
    let nr = without_each.len() as f64;
    let mean = without_each.iter().sum::<f64>() / nr;
    let squares: f64 = without_each.iter().map(|it| (it - mean).powi(2)).sum();
    ((nr - 1.0) / nr * squares).sqrt()
}

impl Judgement {
    /// Whether the policy is to be in force, as soon as that is known; with the last of the pairs
    /// whatever is not known to be better is not.
    pub fn verdict(&self) -> Option<bool> {
        let Gain { mean, error } = self.balance;
        let sure = quantile(SURE, self.nr_pairs - 1) * error;
        let harms = self.programs.values().any(Gain::is_harm);
        if mean - sure > GAIN_MIN && !harms {
            return Some(true);
        }
        let is_worth_nothing = mean + sure < GAIN_MIN;
        let is_over = (harms && self.nr_pairs >= HARMED_AFTER) || self.nr_pairs >= PAIRS_MAX;
        (is_worth_nothing || is_over).then_some(false)
    }
}

impl Gain {
    /// Whether it is rather a harm than not: who is harmed need not prove it.
    fn is_harm(&self) -> bool {
        self.mean < -HARM_MIN && self.mean + self.error < 0.0
    }
}

/// Of Student's distribution with so many degrees of freedom what `normal` is of the normal one
/// (Cornish and Fisher's expansion, to its second term).
pub fn quantile(normal: f64, freedom: usize) -> f64 {
    let (z, n) = (normal, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / n + second / n.powi(2)
}
