// SPDX-License-Identifier: GPL-2.0-only
//! One workload under several policies, with all that is needed to repeat the comparison.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::parameters::Parameter;
use super::score::{self, Score};
use super::uncertainty::half_interval;
use crate::sim::machine::Topology;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Where the figures are from: this is always a model.
    pub kind: String,
    pub command: String,
    pub version: String,
    pub workload: String,
    pub about: String,
    pub model: String,
    /// The tier that the scheduler chooses there.
    pub tier: String,
    #[serde(flatten)]
    pub shape: Shape,
    pub seconds: u64,
    pub seed: u64,
    pub parameters: Vec<Parameter>,
    /// The outcome of each policy. The others are measured by the first one.
    pub outcomes: Vec<Outcome>,
}

/// The shape of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub sockets: u16,
    /// Nodes of each socket. Caches and cores are also those of each socket.
    pub nodes: u16,
    pub llcs: u16,
    pub cores: u16,
    /// Threads of each core.
    pub threads: u16,
}

impl Shape {
    pub fn nr_cpus(self) -> u32 {
        u32::from(self.sockets) * u32::from(self.cores) * u32::from(self.threads)
    }

    /// Returns the topology of this shape. Its cores must divide evenly among caches and nodes.
    pub fn topology(self) -> Topology {
        let Self { sockets, nodes, llcs, cores, threads } = self;
        let cores_of_each = cores / llcs;
        let regular =
            Topology::regular(sockets.into(), llcs.into(), cores_of_each.into(), threads.into());
        regular.in_nodes(nodes.into())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sockets, nodes, llcs, cores, threads } = *self;
        match llcs {
            0..=1 => write!(out, "{sockets} x {cores} cores x {threads} threads"),
            _ => write!(
                out,
                "{sockets} x {llcs} caches x {} cores x {threads} threads",
                cores / llcs
            ),
        }?;
        if nodes > 1 { write!(out, " in {} nodes", sockets * nodes) } else { Ok(()) }
    }
}

impl Comparison {
    pub fn named(&self, policy: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.policy == policy)
    }

    /// Returns why ratios have no interval, if some have none.
    pub fn why_no_interval(&self) -> Option<String> {
        let behind = self.outcomes.iter().filter(|outcome| outcome.falls_behind);
        let behind: Vec<&str> = behind.map(|outcome| outcome.variant.as_str()).collect();
        let has_ratios = self.outcomes.len() > 1;
        (has_ratios && !behind.is_empty()).then(|| {
            format!(
                "More requests arrive than are done under these policies, so a ratio with one of \
                 them has no interval: {}.",
                behind.join("; ")
            )
        })
    }
}

/// Measures what is done under each policy relative to the first one.
pub fn measure_by_first(outcomes: &mut [Outcome]) {
    let of_first = outcomes.first().map_or(Vec::new(), |first| first.groups.clone());
    let groups = outcomes.iter_mut().flat_map(|it| it.groups.iter_mut().zip(&of_first));
    groups.for_each(|(group, by)| group.relative = score::relative(group, by));
    let Some((first, others)) = outcomes.split_first_mut() else { return };
    if first.work <= 0.0 {
        return;
    }
    first.relative = Some(1.0);
    let whole: f64 = first.parts.iter().map(|part| part.work).sum();
    for other in others {
        let relative = Score::of(other, first).work;
        other.relative = Some(relative);
        if first.falls_behind || other.falls_behind {
            continue;
        }
        let half = half_interval(&score::errors(other, first, relative)) / whole;
        other.relative_95 = Some([relative - half, relative + half]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::study::outcome::{GroupOutcome, made_up};

    #[test]
    fn each_group_is_measured_by_what_it_is_under_the_first_policy() {
        let group = |requests_per_s, unfinished| GroupOutcome {
            name: "it".to_owned(),
            requests_per_s,
            work: 1.0,
            cpus: 1.0,
            unfinished,
            latency_us: None,
            relative: None,
        };
        let outcome = |rate, unfinished| {
            made_up(2.0, vec![group(rate, None), group(5.0, Some(unfinished)), group(0.0, None)])
        };
        let mut outcomes = [outcome(8.0, 3.0), outcome(6.0, 6.0)];
        measure_by_first(&mut outcomes);
        let relative =
            outcomes.map(|it| it.groups.iter().map(|it| it.relative).collect::<Vec<_>>());
        assert_eq!(relative[0], [Some(1.0), Some(1.0), None]);
        assert_eq!(relative[1], [Some(0.75), Some(0.5), None]);
    }

    #[test]
    fn caches_and_nodes_are_told_of_where_a_socket_has_several() {
        let text =
            |nodes, llcs| Shape { sockets: 2, nodes, llcs, cores: 16, threads: 2 }.to_string();
        assert_eq!(text(1, 1), "2 x 16 cores x 2 threads");
        assert_eq!(text(1, 4), "2 x 4 caches x 4 cores x 2 threads");
        assert_eq!(text(2, 1), "2 x 16 cores x 2 threads in 4 nodes");
    }
}
