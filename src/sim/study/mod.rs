// SPDX-License-Identifier: GPL-2.0-only
//! What is found out with the model: runs and their results, scores, sweeps, reports; and trials,
//! which only check rules.

pub mod comparison;
pub mod experiment;
pub mod harm;
pub mod outcome;
pub mod parameters;
pub mod report;
#[cfg(any(test, feature = "fuzz"))]
pub mod scenario;
pub mod score;
pub mod setup;
pub mod sweep;
#[cfg(any(test, feature = "fuzz"))]
pub mod trial;
mod tried;
mod uncertainty;
pub mod unfairness;
pub mod variant;
mod watch;

#[cfg(test)]
mod experiment_test;
#[cfg(test)]
mod fair_test;
#[cfg(test)]
mod scenario_test;
#[cfg(test)]
mod uncertainty_test;
#[cfg(test)]
mod unfairness_test;
