// SPDX-License-Identifier: GPL-2.0-only
//! What is known of how low wide vectors make the clock of this processor.

use std::fmt;

use crate::bpf::intf::avx_clocks;
use crate::processors::{UNKNOWN_CLOCKS, calibrated, known_clocks};

#[derive(Clone, Copy)]
pub struct Clocks {
    pub known: avx_clocks,
    /// How much of the clock is lost if they are not known, and on the whole (1/1024).
    pub licence_drop: u64,
    /// The name of the processor whose clocks these are.
    of: Option<&'static str>,
}

impl Clocks {
    /// Returns the clocks of a CPU that calls itself `name`.
    pub fn of(name: &str, licence_drop: u64) -> Self {
        let processor = calibrated(name);
        Self {
            known: processor.map_or(UNKNOWN_CLOCKS, |processor| known_clocks(processor.steps)),
            licence_drop,
            of: processor.map(|processor| processor.name),
        }
    }
}

impl fmt::Display for Clocks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Some(name) => write!(out, "the clocks of {name}"),
            None => out.write_str("licence-drop"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_known_by_their_names() {
        let known = Clocks::of("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", 256);
        assert_eq!(known.to_string(), "the clocks of gold-6130");
        // It has 2.8 GHz without wide vectors, and 1.9 with them, while all 16 cores are active.
        let last = known.known.steps[known.known.nr_steps as usize - 1];
        assert_eq!(last.lost[2], 1024 - 1024 * 1900 / 2800);
        for unknown in ["", "Intel(R) Xeon(R) Gold 6130T CPU @ 2.10GHz", "AMD EPYC 7452"] {
            let clocks = Clocks::of(unknown, 256);
            assert_eq!(clocks.known.nr_steps, 0);
            assert_eq!(clocks.to_string(), "licence-drop");
        }
    }
}
