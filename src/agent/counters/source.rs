// SPDX-License-Identifier: GPL-2.0-only
//! Which events tell of low clocks and of wide vectors, and which of them work here.

use std::fmt;
use std::io::{self, ErrorKind};
use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};
use tracing::{debug, warn};

use super::event::{Count, Event, Group};
use crate::agent::clocks::Clocks;
use crate::agent::symbols::kernel_has;
use crate::bpf::intf::{APERF_AND_MPERF, CYCLES_BY_LICENCE, NO_CLOCK_COUNTERS, avx_clock_counters};

/// CORE_POWER.LVL0_TURBO_LICENSE, LVL1 and LVL2 in Intel's lists of events for Skylake-SP and
/// Ice Lake-SP.
pub const LICENCES: [u64; 3] = [0x0728, 0x1828, 0x2028];
/// FP_ARITH_INST_RETIRED.512B_PACKED_DOUBLE and SINGLE in the same lists, and up to Granite Rapids.
pub const INTELS_FLOATS: u64 = 0xc0c7;
/// FP_OPS_RETIRED_BY_WIDTH.PACK_512_UOPS_RETIRED of Zen 4 and Zen 5.
pub const AMDS_FLOATS: u64 = 0x2008;

/// The PMU of the CPU itself, and that of its registers, which the kernel makes of APERF and MPERF.
const CPU: &str = "cpu";
const MSR: &str = "msr";
const CLOCKS: [u64; 2] = [1, 2];

/// The kernel's function before which the counters are read.
const READ_BEFORE: &str = "task_tick_scx";

/// Which counters to use.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    Best,
    None,
    These(Source),
}

/// What a processor counts of wide vectors, which is known by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Countable {
    pub licences: bool,
    pub wide_operations: Option<u64>,
}

/// What to count on each CPU. By default it is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The cycles at each licence, or APERF and MPERF, or none.
    clocks: Vec<Event>,
    wide_operations: Option<Event>,
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "best" => Ok(Self::Best),
            "none" => Ok(Self::None),
            events => events.parse().map(Self::These),
        }
    }
}

impl FromStr for Source {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut clocks = text.split(',').map(Event::from_str).collect::<Result<Vec<_>>>()?;
        let wide_operations = (clocks.len() == 4).then(|| clocks.pop()).flatten();
        ensure!(
            matches!(clocks.len() as u32, APERF_AND_MPERF | CYCLES_BY_LICENCE),
            "give two events, those of APERF and MPERF, or three, the cycles at each licence, or \
             four, with the 512-bit operations"
        );
        Ok(Self { clocks, wide_operations })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => out.write_str("best"),
            Self::None => out.write_str("none"),
            Self::These(source) => source.fmt(out),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.clocks.iter().chain(&self.wide_operations);
        let words: Vec<String> = events.map(Event::to_string).collect();
        out.write_str(&words.join(","))
    }
}

impl Source {
    /// Returns the chosen source, or the best one that works on this CPU if that was chosen. A
    /// source that was named has to work on this CPU.
    pub fn find(choice: &Choice, known: Countable, cpu: u32) -> Result<Self> {
        match choice {
            Choice::None => Ok(Self::default()),
            Choice::These(source) => {
                source.try_clocks(cpu)?;
                source.try_wide_operations(cpu)?;
                ensure!(kernel_has(READ_BEFORE)?, "this kernel has no {READ_BEFORE} to listen to");
                Ok(source.clone())
            }
            Choice::Best if !kernel_has(READ_BEFORE)? => Ok(Self::default()),
            Choice::Best => Ok(Self::best(known, cpu)),
        }
    }

    fn best(known: Countable, cpu: u32) -> Self {
        let of = |pmu, configs: &[u64]| Self {
            clocks: configs.iter().map(|config| Event::new(pmu, *config)).collect(),
            wide_operations: None,
        };
        let mut forbidden = None;
        let mut works = |tried: Result<()>| match tried {
            Ok(()) => true,
            Err(error) => {
                debug!("clocks are not told so: {error:#}");
                if is_forbidden(&error) {
                    forbidden.get_or_insert(error);
                }
                false
            }
        };
        let by_licence = known.licences.then(|| of(CPU, &LICENCES));
        let by_clocks = of(MSR, &CLOCKS);
        let found = by_licence.into_iter().chain([by_clocks]).find(|it| works(it.try_clocks(cpu)));
        let mut best = found.unwrap_or_default();
        best.wide_operations = known.wide_operations.map(|config| Event::new(CPU, config));
        if !works(best.try_wide_operations(cpu)) {
            best.wide_operations = None;
        }
        // This is said once, and not for each that was tried.
        if let Some(error) = forbidden {
            warn!(
                "the CPUs' counters are forbidden to this process: {error:#}; where \
                 kernel.perf_event_paranoid is above 2, set it to 2"
            );
        }
        best
    }

    pub fn kind(&self) -> avx_clock_counters {
        self.clocks.len() as avx_clock_counters
    }

    pub fn counts_clocks(&self) -> bool {
        self.kind() != NO_CLOCK_COUNTERS
    }

    pub fn counts_licences(&self) -> bool {
        self.kind() == CYCLES_BY_LICENCE
    }

    pub fn counts_wide_operations(&self) -> bool {
        self.wide_operations.is_some()
    }

    /// Says what tells of low clocks, and of what they cost.
    pub fn with(&self, clocks: &Clocks) -> String {
        match self.kind() {
            NO_CLOCK_COUNTERS => Self::estimate(clocks),
            CYCLES_BY_LICENCE => format!("the cycles at each licence, with {clocks}"),
            _ => "APERF and MPERF".to_owned(),
        }
    }

    /// Says what tells of low clocks where nothing counts them, or where the counters cannot be
    /// had.
    pub fn estimate(clocks: &Clocks) -> String {
        format!("an estimate with {clocks}")
    }

    pub fn open_clocks(&self, cpu: u32) -> Result<Group> {
        Group::open(&self.clocks, cpu)
    }

    pub fn open_wide_operations(&self, cpu: u32) -> Result<Group> {
        Group::open(self.wide_operations.as_slice(), cpu)
    }

    /// Fails unless the counters of clocks count. Virtual machines may have counters that are
    /// always zero.
    fn try_clocks(&self, cpu: u32) -> Result<()> {
        let counts = self.open_clocks(cpu)?.read().with_context(|| format!("on CPU {cpu}"))?.counts;
        let is_known = match self.kind() {
            CYCLES_BY_LICENCE => counts.iter().any(|count| *count > 0),
            _ => !counts.contains(&0),
        };
        ensure!(is_known, "CPU {cpu} has {self} that do not count");
        Ok(())
    }

    /// Fails unless the counter of wide operations can be read. It may be zero, because no program
    /// has to have done any.
    fn try_wide_operations(&self, cpu: u32) -> Result<()> {
        if self.counts_wide_operations() {
            self.open_wide_operations(cpu)?.read().with_context(|| format!("on CPU {cpu}"))?;
        }
        Ok(())
    }
}

/// Returns true if the kernel or a container forbids the counters, whatever the CPU has.
fn is_forbidden(error: &Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_told_from_what_is_not_there() {
        let failed_by = |code| {
            let opened: Result<(), _> = Err(io::Error::from_raw_os_error(code));
            opened.context("CPU 0 does not count cpu:0x728").context("on CPU 0").unwrap_err()
        };
        assert!(is_forbidden(&failed_by(libc::EACCES)));
        assert!(is_forbidden(&failed_by(libc::EPERM)));
        assert!(!is_forbidden(&failed_by(libc::ENOENT)));
        assert!(!is_forbidden(&Error::msg("CPU 0 has msr:0x1,msr:0x2 that do not count")));
    }

    #[test]
    fn events_are_named_by_who_counts_and_what() {
        let words = [
            "best",
            "none",
            "cpu:0x728,cpu:0x1828,cpu:0x2028",
            "cpu:0x728,cpu:0x1828,cpu:0x2028,cpu:0xc0c7",
            "msr:0x1,msr:0x2",
        ];
        for text in words {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
        for bad in ["", "cpu", "cpu:", "cpu:x", "msr:1", "a:1,b:2,c:3,d:4,e:5"] {
            bad.parse::<Choice>().unwrap_err();
        }
    }

    #[test]
    fn the_fourth_event_counts_operations() {
        let source: Source = "a:1,a:2,a:3,a:4".parse().unwrap();
        assert!(source.counts_licences() && source.counts_wide_operations());
        let source: Source = "a:1,a:2,a:3".parse().unwrap();
        assert!(source.counts_licences() && !source.counts_wide_operations());
        assert!(!Source::default().counts_clocks());
    }

    #[test]
    fn what_does_not_count_is_left_out_or_said() {
        let known = Countable { licences: true, wide_operations: Some(INTELS_FLOATS) };
        let choice: Choice = "nobody:1,nobody:2".parse().unwrap();
        let error = Source::find(&choice, known, 0).unwrap_err().to_string();
        assert_eq!(error, "there are no counters of \"nobody\" here");
        assert_eq!(Source::find(&Choice::None, known, 0).unwrap(), Source::default());
    }
}
