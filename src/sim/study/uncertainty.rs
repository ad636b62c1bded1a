// SPDX-License-Identifier: GPL-2.0-only
//! How uncertain a ratio of two runs with the same seed is, from one pair of them.
//!
//! There are three reasons, which are told apart. The first is what threads draw: how long their
//! work is. They draw the same in both runs in the same order, but not at the same time, and a run
//! that gets more done draws more, so parts of time tell little about this. But threads draw
//! independently of each other: what each has drawn beyond the mean in one run, less what it has in
//! the other run, is off 0 by as much as it is uncertain. The second reason is what the machine
//! makes of it. This is what is left of the parts without what depends on what was drawn in them.
//! The third is work that was under way at the beginning and at the end, because only what is done
//! counts.

use std::f64::consts::PI;

/// What adds to the error of a ratio.
pub struct Errors {
    /// The error that each part adds, by work that was begun, and by work from outside that was
    /// done.
    pub of_parts: Vec<f64>,
    /// What was drawn in each part beyond the mean.
    pub luck_of_parts: Vec<f64>,
    /// What each thread has drawn beyond the mean, in all parts.
    pub luck_of_threads: Vec<f64>,
    /// What is under way at the end of each part, less what was at the beginning of the first part.
    pub under_way: Vec<f64>,
}

/// How many slow waves are looked for in what parts add, because an error may go on from one part
/// to the next, or what is too much in one part may be too little in another. E. Lazarus, D. Lewis,
/// J. Stock and M. Watson, "HAR Inference: Recommendations for Practice" (2018), show that the sum
/// of the waves has as many degrees of freedom.
const WAVES: usize = 6;

/// Student's t for a probability of 95 %: with as many degrees of freedom as there are waves, and
/// for 20 parts.
const T_OF_WAVES: f64 = 2.447;
pub const T_OF_PARTS: f64 = 2.093;

/// The factor for a probability of 95 % for sums of numbers around 0, relative to the root of the
/// sum of their squares. It holds however few numbers there are and however differently they vary:
/// V. de la Pena, T. Lai and Q. Shao, "Self-Normalized Processes".
const NORMAL: f64 = 1.960;

/// Returns half of the interval: the sum is within this of what it would be over many runs, with a
/// probability of 95 %.
pub fn half_interval(errors: &Errors) -> f64 {
    let slope = slope(&errors.luck_of_parts, &errors.of_parts);
    let pairs = errors.of_parts.iter().zip(&errors.luck_of_parts);
    let rest: Vec<f64> = pairs.map(|(error, luck)| error - slope * luck).collect();
    let by_machine = T_OF_WAVES.powi(2) * variance_of_sum(&rest);
    let by_luck = NORMAL.powi(2) * squares(&errors.luck_of_threads) * slope * slope;
    // Work is under way at the beginning and at the end, so this counts twice.
    let by_ends = T_OF_PARTS.powi(2) * 2.0 * variance(&errors.under_way);
    (by_machine + by_luck + by_ends).sqrt()
}

/// Returns true if the numbers rise from part to part by more than these steps scatter. What parts
/// tell about a sum only holds for runs that stay as they are. The parts of a long queue change
/// slowly, and look like a slope where there is none. The steps between them do not.
pub fn grows(of_parts: &[f64]) -> bool {
    let steps: Vec<f64> = of_parts.windows(2).map(|two| two[1] - two[0]).collect();
    mean(&steps) > T_OF_PARTS * (variance(&steps) / steps.len() as f64).sqrt()
}

fn squares(numbers: &[f64]) -> f64 {
    numbers.iter().map(|it| it * it).sum()
}

pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

pub fn variance(numbers: &[f64]) -> f64 {
    let mean = mean(numbers);
    let off: Vec<f64> = numbers.iter().map(|it| it - mean).collect();
    squares(&off) / (numbers.len() as f64 - 1.0)
}

/// Returns how much `those` change with `these`.
fn slope(these: &[f64], those: &[f64]) -> f64 {
    let mean = mean(these);
    let off: Vec<f64> = these.iter().map(|it| it - mean).collect();
    let products: f64 = off.iter().zip(those).map(|(this, that)| this * that).sum();
    let squares = squares(&off);
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Returns the variance of the sum of numbers that may be correlated with those that follow.
fn variance_of_sum(numbers: &[f64]) -> f64 {
    let nr = numbers.len() as f64;
    let wave = |times: usize| -> f64 {
        let angle = |n: usize| PI * times as f64 * (n as f64 + 0.5) / nr;
        numbers.iter().enumerate().map(|(n, number)| angle(n).cos() * number).sum()
    };
    (1..=WAVES).map(|times| 2.0 * wave(times).powi(2)).sum::<f64>() / WAVES as f64
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, StandardNormal};
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::SeedableRng;

    use super::*;

    const NOTHING: [f64; 20] = [0.0; 20];

    fn half(of_parts: &[f64], luck_of_parts: &[f64], luck_of_threads: &[f64], ends: &[f64]) -> f64 {
        half_interval(&Errors {
            of_parts: of_parts.to_vec(),
            luck_of_parts: luck_of_parts.to_vec(),
            luck_of_threads: luck_of_threads.to_vec(),
            under_way: ends.to_vec(),
        })
    }

    /// What one part has too much and the next one too little cancels out in the end.
    #[test]
    fn what_cancels_out_is_hardly_uncertain() {
        let half = |of_parts: &[f64]| half(of_parts, &NOTHING, &[], &NOTHING);
        assert_eq!(half(&NOTHING), 0.0);
        let cancels = half(&[-1.0, 1.0].repeat(10));
        let drifts = half(&[[1.0; 10], [-1.0; 10]].concat());
        // Independent parts would make it 11.
        assert!(cancels < 3.0 && drifts > 15.0, "{cancels} {drifts}");
    }

    /// The parts go up and down with what was drawn in them, and with nothing else.
    #[test]
    fn luck_counts_as_threads_have_it() {
        let luck: Vec<f64> = (0..20).map(|n| f64::from(n * n % 7) - 3.0).collect();
        let of_parts: Vec<f64> = luck.iter().map(|luck| -0.5 * luck).collect();
        let half = half(&of_parts, &luck, &[3.0; 16], &NOTHING);
        assert!((half / (1.96 * 0.5 * 3.0 * 4.0) - 1.0).abs() < 1e-6, "{half}");
    }

    /// What is under way is one less and one more in turn: the variance is 20 by 19, and there are
    /// two ends.
    #[test]
    fn what_is_under_way_counts_at_both_ends() {
        let half = half(&NOTHING, &NOTHING, &[], &[4.0, 6.0].repeat(10));
        assert!((half - 2.093 * (2.0_f64 * 20.0 / 19.0).sqrt()).abs() < 1e-6, "{half}");
    }

    /// There is a queue that gets longer all the time, one that is about as long again and again,
    /// and one that goes up and down by chance alone. The last one grows no more often than by
    /// chance.
    #[test]
    fn what_grows_is_told_from_what_goes_up_and_down() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let mut walk = |drift: f64| {
            let mut at = 0.0;
            let mut step = || {
                at += drift + normal();
                at
            };
            grows(&(0..20).map(|_| step()).collect::<Vec<_>>())
        };
        let mut share = |drift| (0..1000).filter(|_| walk(drift)).count();
        let (by_chance, with_drift) = (share(0.0), share(1.5));
        assert!(by_chance < 50 && with_drift > 990, "{by_chance} {with_drift}");
        assert!(grows(&[10.0, 20.0, 30.0, 40.0]) && !grows(&[40.0, 30.0, 20.0, 10.0]));
        assert!(!grows(&[4.0, 6.0].repeat(10)) && !grows(&NOTHING) && !grows(&[]));
    }

    /// There are 16 threads and 20 parts, each correlated with the next as in a queue.
    #[test]
    fn it_is_within_the_interval_as_often_as_it_says() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let mut is_within = || {
            let mut luck_of_threads = vec![0.0; 16];
            let mut luck = || -> f64 {
                let drawn = luck_of_threads.iter_mut().map(|sum| {
                    let it = normal();
                    *sum += it;
                    it
                });
                drawn.sum()
            };
            let luck_of_parts: Vec<f64> = (0..20).map(|_| luck()).collect();
            let mut connected = normal();
            let mut rest = || {
                connected = 0.3 * connected + normal();
                connected
            };
            let all: Vec<f64> = luck_of_parts.iter().map(|luck| rest() - 0.8 * luck).collect();
            let sum = all.iter().sum::<f64>();
            let of_parts: Vec<f64> = all.iter().map(|it| it - sum / 20.0).collect();
            sum.abs() < half(&of_parts, &luck_of_parts, &luck_of_threads, &NOTHING)
        };
        let nr = 4000;
        let share = (0..nr).filter(|_| is_within()).count() as f64 / f64::from(nr);
        assert!((0.94..0.96).contains(&share), "{share}");
    }
}
