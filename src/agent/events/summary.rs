// SPDX-License-Identifier: GPL-2.0-only
//! Many events in a few lines: how many of each kind, for each reason.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{Event, Kind};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// How many events there were, by kind and reason.
    pub counts: BTreeMap<Kind, BTreeMap<String, u64>>,
    /// How long it ran as an AVX task, in the phases that ended.
    pub ran_in_phases_s: f64,
}

impl Summary {
    pub fn add(&mut self, event: &Event) {
        let count = event.count.unwrap_or(1);
        let reasons = self.counts.entry(event.kind).or_default();
        *reasons.entry(event.why.clone()).or_default() += count;
        if event.kind == Kind::Ended {
            self.ran_in_phases_s += event.for_s.unwrap_or_default();
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return writeln!(out, "  nothing happened to it");
        }
        for (kind, reasons) in &self.counts {
            let list: Vec<String> = reasons.iter().map(|(why, n)| format!("{n} {why}")).collect();
            writeln!(out, "  {}: {}", of_kind(*kind), list.join(", "))?;
        }
        if self.ran_in_phases_s > 0.0 {
            writeln!(out, "  it ran for {:.6} s in the phases that ended", self.ran_in_phases_s)?;
        }
        Ok(())
    }
}

fn of_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Began => "phases began",
        Kind::Ended => "phases ended",
        Kind::Fault => "faults that need no AVX core",
        Kind::Sent => "sent elsewhere",
        Kind::Role => "CPUs changed their role",
        Kind::Policy => "policies in force",
        Kind::Loaded => "the scheduler was loaded anew",
        Kind::Lost => "events lost",
    }
}
