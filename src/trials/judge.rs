// SPDX-License-Identifier: GPL-2.0-only
//! Judges what pairs of windows say: how much more each program gets done, and all of them
//! together, and whether that is chance. It takes numbers and returns a verdict.

use std::collections::BTreeMap;

/// What a program has done, and how long it was awake for that: it ran, or waited for a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    pub work: f64,
    pub awake_ns: f64,
    /// Zero where a program says itself what it has done, so that it decides nothing for others.
    pub weight: f64,
}

/// The sum of each program.
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
    /// The gain of the geometric mean over programs, by their weights.
    pub balance: Gain,
    pub programs: BTreeMap<u64, Gain>,
    /// The gains by what programs say themselves.
    pub claims: BTreeMap<u64, Gain>,
    nr_pairs: usize,
}

/// Fewer pairs than this say nothing yet.
const PAIRS_MIN: usize = 6;
/// What this many pairs have not shown, more would not show.
pub const PAIRS_MAX: usize = 20;

/// A program that seems to be harmed has this many pairs to turn out not to be.
const HARMED_AFTER: usize = 10;

/// A smaller gain is not worth a policy.
const GAIN_MIN: f64 = 0.005;
/// Nobody would see a smaller harm.
const HARM_MIN: f64 = 0.02;

/// One in a thousand of a normal distribution is further off to one side.
const SURE: f64 = 3.09;

/// Returns what was done from one sum to the next. A program that was not there before had done
/// nothing.
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

/// Returns nothing where there are too few pairs, or no program did anything in both kinds of
/// windows.
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
        // A program that did something in a single window of either kind may have done so by
        // chance.
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

/// Returns the gain of each program that did something with the policy and without it, in all pairs
/// but the one that is left out.
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

/// Returns what is left without a part. Where that was all, nothing is left, however sums are
/// rounded.
fn rest(all: f64, part: f64) -> f64 {
    let rest = all - part;
    if rest > all * 1e-12 { rest } else { 0.0 }
}

fn balance(records: &BTreeMap<u64, Record>, gains: &BTreeMap<u64, f64>) -> Option<f64> {
    let weighed = gains.iter().map(|(program, gain)| (records[program].weight, gain));
    let weight: f64 = weighed.clone().map(|(weight, _)| weight).sum();
    (weight > 0.0).then(|| weighed.map(|(weight, gain)| gain * weight).sum::<f64>() / weight)
}

/// Returns the error of an estimate, by what it is without each of the pairs (B. Efron and C.
/// Stein, "The Jackknife Estimate of Variance", 1981). Nothing simpler is known for a ratio of
/// sums.
fn jackknife(without_each: &[f64]) -> f64 {
    let nr = without_each.len() as f64;
    let mean = without_each.iter().sum::<f64>() / nr;
    let squares: f64 = without_each.iter().map(|it| (it - mean).powi(2)).sum();
    ((nr - 1.0) / nr * squares).sqrt()
}

impl Judgement {
    /// Returns how far off a gain is at most, where a normal distribution would be no further off
    /// than `normal`.
    pub fn sure(&self, gain: &Gain, normal: f64) -> f64 {
        quantile(normal, self.nr_pairs - 1) * gain.error
    }

    /// Returns the programs that get less done with the policy for sure, by what they say
    /// themselves.
    pub fn claimed_harms(&self) -> Vec<u64> {
        let is_sure = |gain: &Gain| gain.mean + self.sure(gain, SURE) < 0.0;
        let harmed = self.claims.iter().filter(|(_, gain)| gain.is_harm() && is_sure(gain));
        harmed.map(|(program, _)| *program).collect()
    }

    /// Returns whether the policy is to be in force, as soon as that is known. With the last of the
    /// pairs a policy that is not known to be better is not to be in force.
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
    /// Returns true if it is rather a harm than not. A program that is harmed need not prove it.
    fn is_harm(&self) -> bool {
        self.mean < -HARM_MIN && self.mean + self.error < 0.0
    }
}

/// Returns the quantile of Student's distribution, with `freedom` degrees of freedom, that
/// corresponds to the quantile `normal` of the normal distribution (Cornish and Fisher's expansion,
/// to its second term).
pub fn quantile(normal: f64, freedom: usize) -> f64 {
    let (z, n) = (normal, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / n + second / n.powi(2)
}
