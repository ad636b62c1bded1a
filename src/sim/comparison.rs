// SPDX-License-Identifier: GPL-2.0-only
//! One workload under several policies, with all that is needed to do it again.

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::parameters::Parameter;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Whose figures these are: a model's, always.
    pub kind: String,
    pub command: String,
    pub version: String,
    pub workload: String,
    pub about: String,
    pub model: String,
    /// That the scheduler chooses there.
    pub tier: String,
    pub sockets: u16,
    pub cores: u16,
    pub threads: u16,
    pub seconds: u64,
    pub seed: u64,
    pub parameters: Vec<Parameter>,
    /// The first one is what the others are measured by.
    pub outcomes: Vec<Outcome>,
}

impl Comparison {
    /// The work that is done under the policy, by that under the first one.
    pub fn relative(&self, outcome: &Outcome) -> Option<f64> {
        let first = self.outcomes.first()?.work;
        (first > 0.0).then(|| outcome.work / first)
    }

    /// Half of the interval, as a share of what the first one does.
    pub fn uncertainty(&self, outcome: &Outcome) -> Option<f64> {
        let first = self.outcomes.first()?.work;
        let [low, high] = outcome.work_95;
        (first > 0.0).then(|| (high - low) / 2.0 / first)
    }

    pub fn named(&self, policy: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.policy == policy)
    }

    /// Of a group under a policy, by the same one under the first.
    pub fn relative_group(&self, outcome: &Outcome, group: usize) -> Option<f64> {
        let first = self.outcomes.first()?.groups.get(group)?.requests_per_s;
        let here = outcome.groups.get(group)?.requests_per_s;
        (first > 0.0).then(|| here / first)
    }
}
