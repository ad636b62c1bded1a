// SPDX-License-Identifier: GPL-2.0-only
//! How well a policy does, relative to what is done without AVX-512.
//!
//! A group that always has something to do is scored by what it gets done. Where requests come from
//! outside, however many wait, all of them are done in the end: how many are done depends on
//! chance, and on what was left over from before. What counts there is how long they take.

use serde::Serialize;

use super::outcome::{GroupOutcome, Outcome};
use super::uncertainty::Errors;
use super::watch::Done;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// All work that was done. A group for which requests come from outside counts with its work
    /// without AVX-512, multiplied by how much sooner such requests are done.
    pub work: f64,
    /// The geometric mean of what each group of threads has done, or of how soon. A policy that
    /// starves one group to feed the others gains nothing by it.
    pub balance: f64,
}

impl Score {
    pub fn of(outcome: &Outcome, reference: &Outcome) -> Self {
        let whole = reference.work;
        let promptness = promptness(&outcome.groups, &reference.groups);
        let is_open = |(_, of_reference): &(&GroupOutcome, &GroupOutcome)| is_open(of_reference);
        let groups = outcome.groups.iter().zip(&reference.groups).filter(is_open);
        let beyond: f64 = groups.map(|(it, by)| by.work * promptness - it.work).sum();
        Self {
            work: if whole > 0.0 { (outcome.work + beyond) / whole } else { 0.0 },
            balance: balance(&outcome.groups, &reference.groups),
        }
    }
}

/// Returns a ratio for people to read, or a dash if there is nothing to measure by.
pub fn ratio(it: Option<f64>) -> String {
    it.map_or("-".to_owned(), |it| format!("{it:.4}"))
}

/// Returns the errors of the work of a score, in what is drawn and in what is done.
pub fn errors(outcome: &Outcome, reference: &Outcome, score: f64) -> Errors {
    let luck = |(it, by): (&f64, &f64)| it - score * by;
    let parts = outcome.parts.iter().zip(&reference.parts);
    let threads = outcome.luck_of_threads.iter().zip(&reference.luck_of_threads);
    Errors {
        of_parts: beyond(outcome, reference, score),
        under_way: under_way(outcome, reference, score),
        luck_of_parts: parts.map(|(it, by)| luck((&it.luck, &by.luck))).collect(),
        luck_of_threads: threads.map(luck).collect(),
    }
}

/// Returns what each part of a run adds to the error of its score, in work. How much sooner
/// requests are done is a ratio within the score, and is taken to be as linear as the score is.
fn beyond(outcome: &Outcome, reference: &Outcome, score: f64) -> Vec<f64> {
    let promptness = promptness(&outcome.groups, &reference.groups);
    let open_work: f64 = reference.parts.iter().map(|by| by.open_work).sum();
    let unfinished: f64 = outcome.parts.iter().map(|it| it.unfinished).sum();
    let weight = if unfinished > 0.0 { open_work / unfinished } else { 0.0 };
    let pairs = outcome.parts.iter().zip(&reference.parts);
    pairs
        .map(|(it, by)| {
            let sooner = weight * (by.unfinished - promptness * it.unfinished);
            let open = promptness * by.open_work + sooner;
            it.begun + open - score * (by.begun + by.open_work)
        })
        .collect()
}

/// Returns the work that was begun and is not done at the end of each part.
fn under_way(outcome: &Outcome, reference: &Outcome, score: f64) -> Vec<f64> {
    let more = |part: &Done| part.begun + part.open_work - part.work;
    let pairs = outcome.parts.iter().zip(&reference.parts);
    pairs
        .scan(0.0, |sum, (it, by)| {
            *sum += more(it) - score * more(by);
            Some(*sum)
        })
        .collect()
}

/// Returns the gain of a group under two policies, unless there is nothing to measure it by.
pub fn relative(group: &GroupOutcome, by: &GroupOutcome) -> Option<f64> {
    does_something(by).then(|| gain(group, by))
}

/// Returns true if requests come to the group whatever has become of those before.
pub fn is_open(group: &GroupOutcome) -> bool {
    group.unfinished.is_some()
}

/// Returns what groups of threads do under one policy, relative to what they do under another, for
/// the group that gains the least. More than 1 means that all do more. A group that does nothing
/// under either gains nothing.
pub fn gain_of_all(these: &[GroupOutcome], those: &[GroupOutcome]) -> f64 {
    let gains = these.iter().zip(those).map(|(this, that)| gain(this, that));
    gains.min_by(f64::total_cmp).unwrap_or(1.0)
}

/// Returns what one group does, or how soon its requests are done, under one policy relative to
/// another.
fn gain(this: &GroupOutcome, that: &GroupOutcome) -> f64 {
    let (one, other) = match (this.unfinished, that.unfinished) {
        (Some(this), Some(that)) => (that, this),
        _ => (this.requests_per_s, that.requests_per_s),
    };
    if one == other { 1.0 } else { one / other }
}

/// Returns true if the group does something, or would have something to do.
fn does_something(group: &GroupOutcome) -> bool {
    group.unfinished.unwrap_or(group.requests_per_s) > 0.0
}

/// Returns how much sooner requests from outside are done, over all groups together, because some
/// requests may pass through several.
fn promptness(these: &[GroupOutcome], those: &[GroupOutcome]) -> f64 {
    let unfinished = |of: &[GroupOutcome]| of.iter().filter_map(|it| it.unfinished).sum::<f64>();
    let (here, there) = (unfinished(these), unfinished(those));
    if here == there { 1.0 } else { there / here }
}

/// Returns the geometric mean of the gains of all groups. Groups that do nothing without AVX-512 do
/// not count.
fn balance(done: &[GroupOutcome], whole: &[GroupOutcome]) -> f64 {
    let counted = done.iter().zip(whole).filter(|(_, whole)| does_something(whole));
    let logarithms: Vec<f64> = counted.map(|(done, whole)| gain(done, whole).ln()).collect();
    (logarithms.iter().sum::<f64>() / logarithms.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::study::outcome::made_up;

    fn closed(requests_per_s: f64) -> GroupOutcome {
        let name = "closed".to_owned();
        let (unfinished, latency_us, relative) = (None, None, None);
        GroupOutcome {
            name,
            requests_per_s,
            work: 0.0,
            cpus: 1.0,
            unfinished,
            latency_us,
            relative,
        }
    }

    fn all_closed(rates: &[f64]) -> Vec<GroupOutcome> {
        rates.iter().copied().map(closed).collect()
    }

    fn open(unfinished: f64, work: f64) -> GroupOutcome {
        GroupOutcome { work, unfinished: Some(unfinished), ..closed(1000.0) }
    }

    #[test]
    fn all_gain_what_the_one_gains_that_gains_least() {
        let gain = |one: &[f64], other: &[f64]| gain_of_all(&all_closed(one), &all_closed(other));
        assert_eq!(gain(&[3.0, 6.0], &[2.0, 5.0]), 1.2);
        assert_eq!(gain(&[9.0, 0.0], &[2.0, 5.0]), 0.0);
        assert_eq!(gain(&[0.0, 6.0], &[0.0, 5.0]), 1.0);
        // The other policy starves the first group.
        assert_eq!(gain(&[1.0, 6.0], &[0.0, 3.0]), 2.0);
        // Fewer that are not done are a gain.
        let with = |unfinished| [open(unfinished, 1.0), closed(2.0)];
        assert_eq!(gain_of_all(&with(6.0), &with(3.0)), 0.5);
        assert_eq!(gain_of_all(&with(3.0), &with(6.0)), 1.0);
    }

    #[test]
    fn who_starves_some_to_feed_others_gains_no_balance() {
        let balance = |one: &[f64], other: &[f64]| balance(&all_closed(one), &all_closed(other));
        assert!((balance(&[200.0, 5.0], &[100.0, 10.0]) - 1.0).abs() < 1e-9);
        let some = balance(&[150.0, 50.0, 0.0], &[100.0, 100.0, 0.0]);
        assert!((some - 0.75_f64.sqrt()).abs() < 1e-9, "{some}");
        assert_eq!(balance(&[1.0, 0.0], &[1.0, 1.0]), 0.0);
    }

    /// Of 8 CPUs of work a quarter comes from outside, and takes twice as long. The rest is 5
    /// instead of 6. How much of what comes was done does not matter: here it is more.
    #[test]
    fn what_comes_from_outside_counts_by_how_soon_it_is_done() {
        let reference = made_up(8.0, vec![open(10.0, 2.0), closed(100.0)]);
        let outcome = made_up(7.5, vec![open(20.0, 2.5), closed(90.0)]);
        let score = Score::of(&outcome, &reference);
        assert!((score.work - (5.0 + 2.0 / 2.0) / 8.0).abs() < 1e-9, "{score:?}");
        assert!((score.balance - (0.5_f64 * 0.9).sqrt()).abs() < 1e-9, "{score:?}");
        // Where nothing comes from outside, the score is what was done.
        let done = |work, rate| made_up(work, vec![closed(rate)]);
        assert_eq!(Score::of(&done(5.0, 2.0), &done(8.0, 3.0)).work, 5.0 / 8.0);
    }

    /// A request may pass through several groups: all of the time that it takes counts.
    #[test]
    fn to_wait_for_one_group_is_as_bad_as_for_the_next() {
        let chain = |front, back| made_up(8.0, vec![open(front, 2.0), open(back, 6.0)]);
        let score = Score::of(&chain(1.0, 19.0), &chain(5.0, 5.0));
        assert!((score.work - 0.5).abs() < 1e-9, "{score:?}");
    }

    /// The numbers were worked out by hand. A quarter of the work comes from outside, and takes
    /// twice as long: the score is 7 of 8. In the first part two less of the rest are done than in
    /// the second, and a third as many requests from outside are not done at a time.
    #[test]
    fn parts_are_off_the_score_by_what_is_done_and_what_is_not() {
        let with = |parts: [(f64, f64); 2]| {
            let part = |(work, unfinished)| Done {
                work,
                begun: work - 2.0,
                open_work: 2.0,
                unfinished,
                luck: 0.0,
            };
            let mean = |of: fn(&(f64, f64)) -> f64| parts.iter().map(of).sum::<f64>() / 2.0;
            let group = open(mean(|it| it.1), 2.0);
            Outcome { parts: parts.map(part).to_vec(), ..made_up(mean(|it| it.0), vec![group]) }
        };
        let (outcome, reference) = (with([(7.0, 10.0), (9.0, 30.0)]), with([(8.0, 10.0); 2]));
        let score = Score::of(&outcome, &reference).work;
        assert_eq!(score, 7.0 / 8.0);
        // There are 5 and 7 of the rest, 1 of what comes, and half of one more or less by when it
        // is done.
        assert_eq!(beyond(&outcome, &reference, score), [5.5 + 1.0 - 7.0, 6.5 + 1.0 - 7.0]);
        assert_eq!(under_way(&outcome, &reference, score), [0.0, 0.0]);
    }

    /// The score is a half.
    #[test]
    fn under_way_is_what_was_begun_and_is_not_done() {
        let with = |parts: [(f64, f64); 2]| {
            let part = |(work, begun)| Done { work, begun, ..Done::default() };
            Outcome { parts: parts.map(part).to_vec(), ..made_up(1.0, vec![closed(1.0)]) }
        };
        let (outcome, reference) = (with([(3.0, 4.0), (5.0, 4.0)]), with([(8.0, 6.0), (8.0, 9.0)]));
        assert_eq!(under_way(&outcome, &reference, 0.5), [1.0 + 1.0, 0.0 + 0.5]);
    }
}
