// SPDX-License-Identifier: GPL-2.0-only
//! What is known of how low wide vectors make the clock of this processor.

use std::fmt;
use std::fs;

use super::preflight::first_cpu_says;
use crate::bpf::intf::avx_clocks;
use crate::sim::model::{Model, UNKNOWN_CLOCKS};

const CPUINFO: &str = "/proc/cpuinfo";

pub struct Clocks {
    pub known: avx_clocks,
    /// Whose clocks these are.
    of: Option<&'static str>,
}

impl Clocks {
    pub fn of_this_cpu() -> Self {
        let cpuinfo = fs::read_to_string(CPUINFO).unwrap_or_default();
        Self::of(first_cpu_says(&cpuinfo, "model name"))
    }

    fn of(name: &str) -> Self {
        let model = Model::of_processor(name);
        Self {
            known: model.as_ref().map_or(UNKNOWN_CLOCKS, Model::known_clocks),
            of: model.map(|model| model.name),
        }
    }
}

impl fmt::Display for Clocks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Some(name) => write!(out, "an estimate with the clocks of {name}"),
            None => write!(out, "an estimate with licence-drop"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_known_by_their_names() {
        let known = Clocks::of("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz");
        assert_eq!(known.to_string(), "an estimate with the clocks of gold-6130");
        // 2.8 GHz without wide vectors, and 1.9 with, where all of 16 cores are active.
        let last = known.known.steps[known.known.nr_steps as usize - 1];
        assert_eq!(last.lost[2], 1024 - 1024 * 1900 / 2800);
        for unknown in ["", "Intel(R) Xeon(R) Gold 6130T CPU @ 2.10GHz", "AMD EPYC 7452"] {
            let clocks = Clocks::of(unknown);
            assert_eq!(clocks.known.nr_steps, 0);
            assert_eq!(clocks.to_string(), "an estimate with licence-drop");
        }
    }
}
