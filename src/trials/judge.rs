// SPDX-License-Identifier: GPL-2.0-only
//! What pairs of windows say: how much more each program gets done, all of them together, and
//! whether that is chance. Numbers in, a verdict out.

use std::collections::BTreeMap;

/// What a program has done, and how long it was awake for that: it ran, or waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    pub work: f64,
    pub awake_ns: f64,
    /// Nothing where a program says itself what it has done, which is its own affair: it decides
    /// nothing for others.
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
    /// By what programs say themselves.
    pub claims: BTreeMap<u64, Gain>,
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

/// What a program did in each pair, with the policy and without it, and in all of them.
struct Record {
    each: Vec<[Sum; 2]>,
    all: [Sum; 2],
    weight: f64,
}

/// Nothing where too few pairs are there, or no program did anything in both kinds of windows.
pub fn judge(pairs: &[Pair]) -> Option<Judgement> {
    if pairs.len() < PAIRS_MIN {
        return None;
    }
    let records = records(pairs);
    let all = gains(&records, None);
    let parts: Vec<_> = (0..pairs.len()).map(|left_out| gains(&records, Some(left_out))).collect();
    let balances: Vec<f64> = parts.iter().filter_map(|part| balance(&records, part)).collect();
    let of_program = |(program, mean): (&u64, &f64)| {
        let values: Vec<f64> = parts.iter().filter_map(|it| it.get(program).copied()).collect();
        // One that did something in a single window may have done so by chance.
        let error = if values.len() == parts.len() { jackknife(&values) } else { f64::INFINITY };
        (*program, Gain { mean: *mean, error })
    };
    let has_say = |(program, _): &(&u64, &f64)| records[*program].weight > 0.0;
    let (programs, claims) = all.iter().partition::<Vec<_>, _>(has_say);
    Some(Judgement {
        balance: Gain { mean: balance(&records, &all)?, error: jackknife(&balances) },
        programs: programs.into_iter().map(of_program).collect(),
        claims: claims.into_iter().map(of_program).collect(),
        nr_pairs: pairs.len(),
    })
}

fn records(pairs: &[Pair]) -> BTreeMap<u64, Record> {
    let nothing = [Sum::default(); 2];
    let empty = || Record { each: vec![nothing; pairs.len()], all: nothing, weight: 0.0 };
    let mut records: BTreeMap<u64, Record> = BTreeMap::new();
    for (n, pair) in pairs.iter().enumerate() {
        for (side, window) in [&pair.with, &pair.without].into_iter().enumerate() {
            for (program, sum) in window {
                let record = records.entry(*program).or_insert_with(empty);
                record.each[n][side] = *sum;
                record.all[side].work += sum.work;
                record.all[side].awake_ns += sum.awake_ns;
                record.weight = sum.weight;
            }
        }
    }
    records
}

/// Of each program that did something with the policy and without it, in all pairs but one.
fn gains(records: &BTreeMap<u64, Record>, left_out: Option<usize>) -> BTreeMap<u64, f64> {
    let gain = |(program, record): (&u64, &Record)| Some((*program, record.gain(left_out)?));
    records.iter().filter_map(gain).collect()
}

impl Record {
    fn gain(&self, left_out: Option<usize>) -> Option<f64> {
        let nothing = [Sum::default(); 2];
        let out = left_out.map_or(&nothing, |n| &self.each[n]);
        let [with, without] = [0, 1].map(|side| {
            let (all, out) = (self.all[side], out[side]);
            rest(all.work, out.work) / rest(all.awake_ns, out.awake_ns)
        });
        let ratio = with / without;
        (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
    }
}

/// Where a part was all that there was, nothing is left, however sums are rounded.
fn rest(all: f64, part: f64) -> f64 {
    let rest = all - part;
    if rest > all * 1e-12 { rest } else { 0.0 }
}

fn balance(records: &BTreeMap<u64, Record>, gains: &BTreeMap<u64, f64>) -> Option<f64> {
    let weighed = gains.iter().map(|(program, gain)| (records[program].weight, gain));
    let weight: f64 = weighed.clone().map(|(weight, _)| weight).sum();
    (weight > 0.0).then(|| weighed.map(|(weight, gain)| gain * weight).sum::<f64>() / weight)
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
    /// How far off a gain is at most, where a normal distribution were no further off than `normal`.
    pub fn sure(&self, gain: &Gain, normal: f64) -> f64 {
        quantile(normal, self.nr_pairs - 1) * gain.error
    }

    /// Who says, and is sure, that it gets less done with the policy.
    pub fn claimed_harms(&self) -> Vec<u64> {
        let is_sure = |gain: &Gain| gain.mean + self.sure(gain, SURE) < 0.0;
        let harmed = self.claims.iter().filter(|(_, gain)| gain.is_harm() && is_sure(gain));
        harmed.map(|(program, _)| *program).collect()
    }

    /// Whether the policy is to be in force, as soon as that is known; with the last of the pairs
    /// whatever is not known to be better is not.
    pub fn verdict(&self) -> Option<bool> {
        let mean = self.balance.mean;
        let sure = self.sure(&self.balance, SURE);
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
