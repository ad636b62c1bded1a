// SPDX-License-Identifier: GPL-2.0-only
//! How unfairly a machine is shared between programs that lower its clocks and others.
//!
//! Each of both kinds is run by itself, and then both are run at once. A program may expect the
//! same share of what it gets done by itself as the others. Where its requests come from outside,
//! however many wait, what counts is how soon they are done. The unfairness is how much less a
//! program gets than those that lower the clocks.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::score;
use super::setup::Setup;
use super::variant::Variant;
use crate::sim::machine::model::{Licence, Model};
use crate::sim::workload::{Group, What, Workload};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharing {
    pub policy: String,
    /// By how much the scheduler's estimate of what is lost is wrong, where it has one.
    pub estimate_error: Option<f64>,
    /// The share of what they do by themselves that programs that lower clocks get done, as a mean
    /// over their groups.
    pub relative_of_causes: f64,
    pub victims: Vec<Victim>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Victim {
    pub group: String,
    pub relative: f64,
    pub unfairness: f64,
}

const NEEDS: &str = "it takes a workload in which at least one group lowers the clocks, one does \
                     not, and neither kind sends to the other";

/// The ways of sharing that are compared: the name, whether fairness compensates, and the settings
/// that differ from the standard policy.
const NOBODY_MOVES: &[&str] = &["trials=off", "sizing=static", "avx-cpus=0"];
const SHARED: [(&str, bool, &[&str]); 3] = [
    ("off", false, NOBODY_MOVES),
    ("fair", true, NOBODY_MOVES),
    ("untried", true, &["trials=off"]),
];

/// Measures the unfairness with 512-bit vectors, or with those of 256 bits that programs use where
/// there are none. `run` runs a variant.
pub fn measure(
    setup: &Setup,
    has_avx512: bool,
    settings: &[String],
    run: impl Fn(&Setup, &Variant) -> Result<Outcome>,
) -> Result<Vec<Sharing>> {
    let is_cause = |group: &Group| lowers_clocks(group, &setup.model, has_avx512);
    let Workload { name, groups, .. } = &setup.workload;
    let (causes, victims): (Vec<usize>, Vec<usize>) =
        (0..groups.len()).partition(|n| is_cause(&groups[*n]));
    ensure!(
        !causes.is_empty() && !victims.is_empty(),
        "{name} has only one of two kinds of groups: {NEEDS}"
    );
    // A group that waits for the others does nothing by itself.
    ensure!(
        !groups
            .iter()
            .any(|from| from.sends_to().any(|to| is_cause(from) != is_cause(&groups[to]))),
        "in {name} groups that lower the clocks and others send to each other: {NEEDS}"
    );
    let left_alone = variant("alone", false, has_avx512, Vec::new());
    let by_themselves = [&causes, &victims].map(|groups| {
        let alone = Setup { workload: only(&setup.workload, groups), ..setup.clone() };
        run(&alone, &left_alone)
    });
    let [causes_alone, victims_alone] = by_themselves;
    let (causes_alone, victims_alone) = (causes_alone?, victims_alone?);
    let share = |(name, compensates, own): &(&str, bool, &[&str])| {
        let mut all: Vec<String> = own.iter().map(|set| (*set).to_owned()).collect();
        if *compensates {
            all.push("fairness=compensate".to_owned());
        }
        if !has_avx512 {
            all.push("classes=avx512+avx2-heavy".to_owned());
        }
        all.extend(settings.iter().cloned());
        let variant = variant(name, true, has_avx512, all);
        let mixed = run(setup, &variant)?;
        let nothing = |who| format!("{who} gets nothing done: simulate for longer");
        let relative_of_causes = mean_relative(&mixed, &causes_alone, &causes)
            .with_context(|| nothing("what lowers the clocks"))?;
        let victim = |n: &usize| {
            let relative = relative(&mixed, &victims_alone, *n)?;
            let unfairness = 1.0 - relative / relative_of_causes;
            Some(Victim { group: mixed.groups.get(*n)?.name.clone(), relative, unfairness })
        };
        let victims: Vec<Victim> = victims.iter().filter_map(victim).collect();
        ensure!(!victims.is_empty(), nothing("what does not lower the clocks"));
        let estimate_error = mixed.estimate_error;
        Ok(Sharing { policy: (*name).to_owned(), estimate_error, relative_of_causes, victims })
    };
    SHARED.iter().map(share).collect()
}

fn lowers_clocks(group: &Group, model: &Model, has_avx512: bool) -> bool {
    group.steps.iter().any(|step| match step.what {
        What::Work(wide, narrow, ..) => {
            model.demand(if has_avx512 { wide } else { narrow }) > Licence::L0
        }
        _ => false,
    })
}

fn variant(name: &str, mitigates: bool, has_avx512: bool, settings: Vec<String>) -> Variant {
    Variant { has_avx512, mitigates, ..Variant::of_policy(name, name.to_owned(), settings) }
}

/// Returns a workload in which only these groups take part. The others stay in it, because groups
/// and threads have their numbers.
fn only(workload: &Workload, groups: &[usize]) -> Workload {
    let mut workload = workload.clone();
    for (n, group) in workload.groups.iter_mut().enumerate() {
        group.takes_part = groups.contains(&n);
    }
    workload
}

fn relative(mixed: &Outcome, alone: &Outcome, group: usize) -> Option<f64> {
    score::relative(mixed.groups.get(group)?, alone.groups.get(group)?)
}

fn mean_relative(mixed: &Outcome, alone: &Outcome, groups: &[usize]) -> Option<f64> {
    let all: Vec<f64> = groups.iter().filter_map(|n| relative(mixed, alone, *n)).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    (mean > 0.0).then_some(mean)
}
