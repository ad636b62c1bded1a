// SPDX-License-Identifier: GPL-2.0-only
//! Processors, and the clocks that they have for wide vectors.
//!
//! Problem: the scheduler decides by how much of the clock is lost, and the simulator models the
//! same processors. Both need the same numbers, and neither may depend on the other.
//!
//! Mechanism: one table, with the sources of its numbers.
//!
//! Limits: nothing was measured on these processors for this project. Where a number is an
//! assumption or derived from others, its source says so.

use crate::bpf::intf::{AVX_CLOCK_STEPS, AVX_WHOLE, NO_CLOCK_COUNTERS, avx_clock_step, avx_clocks};

/// The clocks while no more than `up_to_cores` cores of a socket are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub up_to_cores: u32,
    /// The clock at each licence.
    pub mhz: [u32; 3],
}

/// The clocks of a processor that nobody calibrated.
pub const UNKNOWN_CLOCKS: avx_clocks = avx_clocks {
    counters: NO_CLOCK_COUNTERS as u64,
    nr_steps: 0,
    steps: [avx_clock_step { up_to_cores: 0, lost: [0; 3] }; AVX_CLOCK_STEPS as usize],
};

const SKYLAKE_SP: &str = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 85\nstepping: 4\n\
    flags: avx512f xsavec xgetbv1\n";
const ICE_LAKE: &str = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 126\nstepping: 5\n\
    flags: avx512f xsavec xgetbv1\n";
const SAPPHIRE_RAPIDS: &str = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 143\nstepping: 8\n\
    flags: avx512f avx_vnni xsavec xgetbv1\n";
const ZEN4: &str = "vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 17\nstepping: 1\n\
    flags: avx512f xsavec xgetbv1\n";

/// A processor whose clocks are known, or taken to be.
pub struct Processor {
    pub name: &'static str,
    /// A part of the name that it gives itself, if its clocks are known well enough.
    calls_itself: Option<&'static str>,
    /// The number of cores, or none where it makes no difference.
    pub cores: Option<u32>,
    pub steps: &'static [Step],
    /// Whether the clock depends on the licence.
    pub licences: bool,
    /// Where the clocks are from.
    pub source: &'static str,
    pub cpuinfo: &'static str,
}

/// Any number of cores.
const ANY: u32 = u32::MAX;

const fn step(up_to_cores: u32, l0: u32, l1: u32, l2: u32) -> Step {
    Step { up_to_cores, mhz: [l0, l1, l2] }
}

const NULL_MODEL: &str = "A null model: there is nothing to gain, and nothing may be lost. The \
    numbers have no meaning but that they are all the same. Real ones lose little: Travis Downs, \
    \"Ice Lake AVX-512 Downclocking\", found 100 MHz at most on a client processor.";

pub const PROCESSORS: [Processor; 7] = [
    Processor {
        name: "xeon-w-2104",
        calls_itself: Some("W-2104"),
        cores: Some(4),
        steps: &[step(ANY, 3200, 2800, 2400)],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "Measured by Travis Downs, \"Gathering Intel on Intel AVX-512 Transitions\". It has \
                 four cores and no turbo.",
    },
    Processor {
        name: "gold-5120",
        calls_itself: Some("Gold 5120 "),
        cores: Some(14),
        steps: &[
            step(2, 3200, 3100, 2900),
            step(4, 3000, 2800, 2500),
            step(8, 2900, 2600, 2200),
            step(12, 2700, 2400, 1900),
            step(ANY, 2600, 2200, 1600),
        ],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "Published are the shares of L0 that L1 and L2 have: 97 and 91 % with 1 or 2 cores \
                 active, 85 and 62 % with 13 or 14. Assumption: L0 is 3.2 and 2.6 GHz there, with \
                 which the shares come out in whole multiples of 100 MHz. The columns between are \
                 interpolated evenly and rounded down to such multiples, with the numbers of cores \
                 of the Xeon Gold 6130.",
    },
    Processor {
        name: "gold-6130",
        calls_itself: Some("Gold 6130 "),
        cores: Some(16),
        steps: &[
            step(2, 3700, 3600, 3500),
            step(4, 3500, 3300, 3100),
            step(8, 3400, 2900, 2400),
            step(12, 3100, 2600, 2100),
            step(ANY, 2800, 2300, 1900),
        ],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "L0 and L2 at third hand, but for all cores active: these two are also in \
                 Gottschlag, Machauer, Khalil and Bellosa, \"Fair Scheduling for AVX2 and AVX-512 \
                 Workloads\". L1 is derived: midway, rounded down to 100 MHz.",
    },
    Processor {
        name: "i9-7940x",
        calls_itself: Some("i9-7940X"),
        cores: Some(14),
        steps: &[step(ANY, 3800, 3300, 2500)],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "Ioannis Papamanoglou, \"Constructing a Library for Mitigating AVX-Induced \
                 Performance Degradation\", with idle states disabled, so that all 14 cores counted \
                 as active. What fewer active cores get is not known: the same, here, though the \
                 processor has a higher turbo.",
    },
    Processor {
        name: "ice-lake",
        calls_itself: None,
        cores: None,
        steps: &[step(ANY, 3000, 3000, 3000)],
        licences: false,
        source: NULL_MODEL,
        cpuinfo: ICE_LAKE,
    },
    Processor {
        name: "sapphire-rapids",
        calls_itself: None,
        cores: None,
        steps: &[step(ANY, 3000, 3000, 3000)],
        licences: false,
        source: NULL_MODEL,
        cpuinfo: SAPPHIRE_RAPIDS,
    },
    Processor {
        name: "zen4",
        calls_itself: None,
        cores: None,
        steps: &[step(ANY, 3000, 3000, 3000)],
        licences: false,
        source: NULL_MODEL,
        cpuinfo: ZEN4,
    },
];

/// Returns the calibrated processor that calls itself `name`.
pub fn calibrated(name: &str) -> Option<&'static Processor> {
    let is_it = |it: &&Processor| it.calls_itself.is_some_and(|part| name.contains(part));
    PROCESSORS.iter().find(is_it)
}

/// Returns what the scheduler is told of a processor with these steps.
pub fn known_clocks(steps: &[Step]) -> avx_clocks {
    let whole = u64::from(AVX_WHOLE);
    let lost = |step: &Step, licence| {
        whole - whole * u64::from(step.mhz[licence]) / u64::from(step.mhz[0]).max(1)
    };
    let mut clocks = UNKNOWN_CLOCKS;
    for (to, step) in clocks.steps.iter_mut().zip(steps) {
        to.up_to_cores = step.up_to_cores.into();
        to.lost = [0, lost(step, 1), lost(step, 2)];
        clocks.nr_steps += 1;
    }
    clocks
}
