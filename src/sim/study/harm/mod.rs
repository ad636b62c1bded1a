// SPDX-License-Identifier: GPL-2.0-only
//! Finds which tasks a policy harms, with workloads drawn at random and what their groups get under
//! it.
//!
//! Problem: policies are made with workloads at hand, and harm others that nobody thought of.
//!
//! Mechanism: workloads and machines are drawn at random, from a distribution that
//! docs/simulator.md has in a table. Each workload is a file like any other, so whatever is found
//! can be run again. A group is measured by what it gets under the best policy of a baseline, and a
//! group that had more than its share of the CPUs there may lose what is beyond its share.
//!
//! Limits: the distribution is made up, so shares of it tell nothing about real programs. Harm that
//! the search finds is there; harm that it does not find may be there as well.

mod dice;
pub mod draw;
mod fit;
pub mod judge;
pub mod program;
pub mod tally;
mod text;
pub mod whole;

#[cfg(test)]
mod harm_test;
