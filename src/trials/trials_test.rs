// SPDX-License-Identifier: GPL-2.0-only
//! Trials of made up programs, of which it is known what the policy does to them.

use std::collections::BTreeMap;

use anyhow::Result;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::comparison::Comparison;
use super::course::Course;
use super::judge::{Pair, Sum, Sums, judge, quantile};
use super::windows::{Side, Subject};

/// What a policy is to a program: the factor by which it gets more done, and by how much windows
/// differ by chance.
#[derive(Clone, Copy)]
struct Made {
    gain: f64,
    noise: f64,
    /// That is what it says.
    is_claim: bool,
}

struct Machine {
    programs: Vec<Made>,
    /// What everybody gets done changes so much with each window, whatever the policy.
    drift: f64,
    pace: f64,
    now_ns: u64,
    accounted_ns: u64,
    sums: Sums,
    side: Side,
    entered: Vec<(u64, Side)>,
    left_alone: Vec<Vec<u64>>,
    is_concerned: bool,
    random: Pcg64,
}

impl Machine {
    fn new(seed: u64, programs: &[Made]) -> Self {
        Self {
            programs: programs.to_vec(),
            drift: 1.0,
            pace: 1.0,
            now_ns: 0,
            accounted_ns: 0,
            sums: BTreeMap::new(),
            side: Side::With,
            entered: Vec::new(),
            left_alone: Vec::new(),
            is_concerned: true,
            random: Pcg64::seed_from_u64(seed),
        }
    }

    fn go_on(&mut self) {
        let awake_ns = (self.now_ns - self.accounted_ns) as f64;
        self.accounted_ns = self.now_ns;
        for (program, made) in (0..).zip(&self.programs) {
            let chance = LogNormal::new(0.0, made.noise).unwrap().sample(&mut self.random);
            let gain = if self.side == Side::With { made.gain } else { 1.0 };
            let sum = self.sums.entry(program).or_default();
            sum.work += awake_ns * self.pace * gain * chance;
            sum.awake_ns += awake_ns;
            sum.weight = if made.is_claim { 0.0 } else { 100.0 };
        }
    }

    /// Whether the policy is better, as far as the first trial says, and after how long.
    fn decide(&mut self) -> (bool, u64) {
        let mut course = Course::new(1, 0);
        while course.decided().is_none() {
            self.now_ns = course.due_ns();
            course.go_on(self.now_ns, self).unwrap();
        }
        let is_better = self.side == Side::With;
        assert_eq!(course.decided(), Some(is_better));
        (is_better, self.now_ns)
    }
}

impl Subject for Machine {
    fn is_concerned(&mut self) -> bool {
        self.is_concerned
    }

    fn enter(&mut self, side: Side) -> Result<()> {
        self.go_on();
        self.pace *= self.drift;
        self.side = side;
        self.entered.push((self.now_ns, side));
        Ok(())
    }

    fn sums(&mut self) -> Result<Sums> {
        self.go_on();
        Ok(self.sums.clone())
    }

    fn leave_alone(&mut self, programs: &[u64]) -> Result<()> {
        self.left_alone.push(programs.to_vec());
        Ok(())
    }
}

/// Of so many trials how many find that the policy is better.
fn better(nr: u64, programs: &[Made]) -> u64 {
    (0..nr).map(|seed| u64::from(Machine::new(seed, programs).decide().0)).sum()
}

fn made(gain: f64, noise: f64) -> Made {
    Made { gain, noise, is_claim: false }
}

fn claimed(gain: f64) -> Made {
    Made { gain, noise: 0.01, is_claim: true }
}

#[test]
fn chance_is_not_taken_for_a_gain() {
    for noise in [0.01, 0.1, 0.5] {
        let found = better(1000, &[made(1.0, noise); 3]);
        assert!(found <= 10, "{found} of 1000 with noise of {noise}");
    }
}

#[test]
fn a_gain_that_can_be_told_from_chance_is_found() {
    for (gain, noise) in [(1.03, 0.01), (1.1, 0.04), (1.5, 0.15)] {
        let found = better(200, &[made(gain, noise); 2]);
        assert!(found >= 190, "{found} of 200, of {gain} with noise of {noise}");
    }
}

/// However much others gain.
#[test]
fn where_somebody_is_harmed_it_is_no_gain() {
    for (gain, loss) in [(1.1, 0.95), (2.0, 0.9)] {
        let found = better(200, &[made(gain, 0.02), made(loss, 0.02)]);
        assert!(found <= 2, "{found} of 200, with {gain} and {loss}");
    }
    assert!(better(100, &[made(1.1, 0.01), made(0.99, 0.01)]) >= 95);
}

/// However much it says that it gains or loses, and whoever else gains or loses.
#[test]
fn who_says_itself_what_it_gets_done_decides_for_itself_alone() {
    for claim in [0.001, 0.9, 1.0, 1.2, 1000.0] {
        for gain in [1.05, 0.95] {
            let mut machine = Machine::new(1, &[made(gain, 0.01), claimed(claim)]);
            assert_eq!(machine.decide().0, gain > 1.0, "{gain}, and {claim} by what it says");
            let harmed = if gain > 1.0 && claim < 1.0 { vec![1] } else { vec![] };
            assert_eq!(machine.left_alone, [harmed], "{gain}, and {claim} by what it says");
        }
    }
}

/// It may be better off by then.
#[test]
fn who_is_left_alone_takes_part_in_the_next_trial() {
    let mut machine = Machine::new(1, &[made(1.05, 0.01), claimed(0.9)]);
    let mut course = Course::new(1, 0);
    while machine.left_alone.len() < 5 {
        machine.now_ns = course.due_ns();
        course.go_on(machine.now_ns, &mut machine).unwrap();
        if machine.left_alone.len() == 3 {
            machine.programs[1].gain = 1.1;
        }
    }
    assert_eq!(machine.left_alone, [vec![1], vec![], vec![1], vec![], vec![]]);
}

#[test]
fn what_is_clear_is_known_soon() {
    let (is_better, after_ns) = Machine::new(1, &[made(1.1, 0.003)]).decide();
    assert!(is_better && after_ns < 1_500_000_000, "{after_ns}");
    let (is_better, after_ns) = Machine::new(1, &[made(0.9, 0.003)]).decide();
    assert!(!is_better && after_ns < 1_500_000_000, "{after_ns}");
    let (is_better, after_ns) = Machine::new(1, &[made(1.0, 0.0005)]).decide();
    assert!(!is_better && after_ns < 1_500_000_000, "{after_ns}");
    // And what is not, not for ever.
    assert!(Machine::new(1, &[made(1.0, 0.3)]).decide().1 < 4_000_000_000);
}

/// A load that doubles within a second, and one that goes away.
#[test]
fn what_changes_slowly_is_no_gain() {
    for drift in [1.06, 0.94] {
        let decide = |seed| Machine { drift, ..Machine::new(seed, &[made(1.0, 0.02); 2]) }.decide();
        let found = (0..500).filter(|seed| decide(*seed).0).count();
        assert!(found <= 5, "{found} of 500 with {drift}");
    }
}

#[test]
fn both_are_in_force_for_as_long_and_in_no_order() {
    let mut machine = Machine::new(1, &[made(1.0, 0.3)]);
    let end = machine.decide().1;
    // Before, there is nothing to decide, and then nothing is counted yet.
    assert_eq!(machine.entered[0].1, Side::Without);
    assert_eq!(machine.entered[1].1, Side::With);
    machine.entered.drain(..2);
    let ends = machine.entered.iter().skip(1).map(|(at, _)| *at).chain([end]);
    let mut spent = BTreeMap::new();
    for ((begin, side), end) in machine.entered.iter().zip(ends) {
        *spent.entry(*side == Side::With).or_insert(0) += end - begin;
    }
    assert_eq!(spent[&true], spent[&false]);
    let firsts: Vec<Side> = machine.entered.chunks_exact(2).map(|pair| pair[0].1).collect();
    assert!([Side::With, Side::Without].iter().all(|side| firsts.contains(side)), "{firsts:?}");
}

#[test]
fn nothing_is_tried_where_there_is_nothing_to_decide() {
    let mut machine = Machine { is_concerned: false, ..Machine::new(1, &[made(1.1, 0.01)]) };
    let mut course = Course::new(1, 0);
    for _ in 0..1000 {
        machine.now_ns = course.due_ns();
        course.go_on(machine.now_ns, &mut machine).unwrap();
    }
    assert_eq!(machine.entered, [(0, Side::Without)]);
    assert!(machine.now_ns > 10_000_000_000);
}

/// In an hour of the same answers hardly any time goes to trials, and none is the last.
#[test]
fn it_is_asked_anew_ever_more_seldom() {
    let hour = 3_600_000_000_000;
    let mut machine = Machine::new(1, &[made(1.1, 0.003)]);
    let mut course = Course::new(1, 0);
    let (mut without_ns, mut last) = (0, 0);
    while course.due_ns() < hour {
        let before = (machine.now_ns, machine.side);
        machine.now_ns = course.due_ns();
        if before.1 == Side::Without {
            without_ns += machine.now_ns - before.0;
            last = machine.now_ns;
        }
        course.go_on(machine.now_ns, &mut machine).unwrap();
    }
    assert!(without_ns < hour / 500, "{without_ns} ns");
    assert!(last > hour / 2, "{last} ns");
}

fn compared(mut machine: Machine, lasts_ns: u64) -> Comparison {
    let mut comparison = Comparison::new(1, 0, lasts_ns);
    while comparison.due_ns() < comparison.ends_ns() {
        machine.now_ns = comparison.due_ns();
        comparison.go_on(machine.now_ns, &mut machine).unwrap();
    }
    comparison
}

/// In windows whose length fits, of which the last one may be cut off.
#[test]
fn two_policies_are_compared_for_as_long_as_somebody_wants() {
    let s = 1_000_000_000;
    for (lasts_s, window_ms, nr_pairs) in
        [(2, 80, 12), (20, 500, 19), (60, 1000, 29), (3600, 6000, 299)]
    {
        let comparison = compared(Machine::new(1, &[made(1.05, 0.01)]), lasts_s * s);
        assert_eq!(comparison.window_ns(), window_ms * 1_000_000);
        assert_eq!(comparison.nr_pairs(), nr_pairs, "in {lasts_s} s");
        let judgement = comparison.judgement().unwrap();
        assert!((judgement.balance.mean - 1.05f64.ln()).abs() < 0.02, "{judgement:?}");
    }
}

/// Nine out of ten at least, of those of which nineteen should be.
#[test]
fn what_is_true_is_within_the_limits() {
    for noise in [0.005, 0.1] {
        let is_within = |seed: &u64| {
            let comparison = compared(Machine::new(*seed, &[made(1.1, noise)]), 4_000_000_000);
            let judgement = comparison.judgement().unwrap();
            let gain = judgement.programs[&0];
            (gain.mean - 1.1f64.ln()).abs() < judgement.sure(&gain, 1.96)
        };
        let found = (0..400).filter(is_within).count();
        assert!((360..400).contains(&found), "{found} of 400 with noise of {noise}");
    }
}

#[test]
fn who_did_nothing_under_one_of_both_is_left_out() {
    let sum = |work| Sum { work, awake_ns: 1e6, weight: 100.0 };
    let with = Sums::from([(1, sum(2e6)), (2, sum(1e6))]);
    let without = Sums::from([(1, sum(1e6)), (2, sum(0.0))]);
    let pairs = vec![Pair { with, without }; 6];
    let judgement = judge(&pairs).unwrap();
    assert_eq!(judgement.programs.keys().collect::<Vec<_>>(), [&1]);
    assert!((judgement.balance.mean - 2f64.ln()).abs() < 1e-9);
    assert!(judge(&pairs[1..]).is_none(), "five pairs are too few");
    assert!(judge(&vec![Pair::default(); 20]).is_none());
}

/// By the table of Student's distribution, one in a thousand to one side.
#[test]
fn few_pairs_have_to_say_more() {
    for (freedom, known) in [(5, 5.893), (9, 4.297), (14, 3.787), (19, 3.579), (1000, 3.098)] {
        let found = quantile(3.09, freedom);
        assert!((found / known - 1.0).abs() < 0.07, "{freedom}: {found} and {known}");
    }
}
