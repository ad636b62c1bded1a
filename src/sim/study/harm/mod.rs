// SPDX-License-Identifier: GPL-2.0-only
//! Whom a policy harms: workloads that nobody chose, and what their groups get under it.
//!
//! Problem: policies are made with workloads at hand, and harm others, of which nobody thought.
//!
//! Mechanism: workloads and machines are drawn at random, from a distribution that
//! docs/simulator.md has in a table. Each is a file like any other, so whatever is found can be run
//! again. A group is measured by what it gets under the best policy of a baseline, and whoever had
//! more than its share of the CPUs there may lose what is beyond it.
//!
//! Limits: the distribution is made up, and so shares of it say nothing of the world. What it finds
//! is there; what it does not find may be there as well.

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
