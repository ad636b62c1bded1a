// SPDX-License-Identifier: GPL-2.0-only
//! Performance counters that tell how low the clock of each CPU is.
//!
//! The best are those of its core's cycles at each licence, which are the same for both threads of
//! a core, and are counted as a group, so that only shares matter and not for how long they were
//! counted. Next come APERF and MPERF, which tell of a low clock but not why it is low. They are
//! open while somebody needs them, and else there for others.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut, libbpf_sys};
use tracing::debug;

use super::clocks::Clocks;
use super::setup::kernel_has;
use crate::bpf::intf::{
    avx_clock_counters, avx_clock_counters_APERF_AND_MPERF as APERF_AND_MPERF,
    avx_clock_counters_CYCLES_BY_LICENCE as CYCLES_BY_LICENCE,
};

const PMUS: &str = "/sys/bus/event_source/devices";

/// CORE_POWER.LVL0_TURBO_LICENSE, LVL1 and LVL2 in Intel's lists of events for Skylake-SP and
/// Ice Lake-SP.
const LICENCES: [(&str, u64); 3] = [("cpu", 0x0728), ("cpu", 0x1828), ("cpu", 0x2028)];

/// Of <linux/perf_event.h>.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// As the kernel's "msr" counts them.
const MSRS: [(&str, u64); 2] = [("msr", 1), ("msr", 2)];

/// The kernel's function before which they are read.
const READ_BEFORE: &str = "task_tick_scx";

/// Which counters to use.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    Best,
    None,
    These(Source),
}

/// What to count on each CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq)]
struct Event {
    pmu: String,
    config: u64,
}

/// Those of all CPUs, where BPF programs find them.
pub struct Counters {
    map: MapHandle,
    open: Vec<(u32, OwnedFd)>,
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
        let events = text.split(',').map(Event::from_str).collect::<Result<Vec<_>>>()?;
        ensure!(
            matches!(events.len() as u32, APERF_AND_MPERF | CYCLES_BY_LICENCE),
            "give two events, those of APERF and MPERF, or three, the cycles at each licence"
        );
        Ok(Self { events })
    }
}

impl FromStr for Event {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = text.split_once(':').and_then(|(pmu, config)| {
            let config = u64::from_str_radix(config.trim_start_matches("0x"), 16).ok()?;
            Some(Self { pmu: pmu.to_owned(), config })
        });
        found.with_context(|| {
            format!("{text:?} is no event: it is written as PMU:CONFIG, like cpu:0x728")
        })
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
        let words: Vec<String> = self.events.iter().map(Event::to_string).collect();
        out.write_str(&words.join(","))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{:#x}", self.pmu, self.config)
    }
}

impl Event {
    fn of((pmu, config): &(&str, u64)) -> Self {
        Self { pmu: (*pmu).to_owned(), config: *config }
    }

    /// Together with that of the leader, if there is one.
    fn open(&self, cpu: u32, leader: Option<&OwnedFd>) -> Result<OwnedFd> {
        let path = Path::new(PMUS).join(&self.pmu).join("type");
        let kind = fs::read_to_string(&path)
            .with_context(|| format!("there are no counters of {:?} here", self.pmu))?;
        let attributes = libbpf_sys::perf_event_attr {
            type_: kind.trim().parse().with_context(|| format!("cannot read {path:?}"))?,
            size: size_of::<libbpf_sys::perf_event_attr>() as u32,
            config: self.config,
            ..Default::default()
        };
        // SAFETY: the attributes are those of this call, which only reads them.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                -1, // whatever runs there
                cpu,
                leader.map_or(-1, AsRawFd::as_raw_fd),
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if opened < 0 {
            let error = io::Error::last_os_error();
            bail!("CPU {cpu} does not count {self}: {error}");
        }
        // SAFETY: the call has just made it, for nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(opened as i32) })
    }
}

impl Source {
    /// The best that works on this CPU, if any does.
    pub fn find(choice: &Choice, counts_licences: bool, cpu: u32) -> Result<Option<Self>> {
        let of = |events: &[(&str, u64)]| Self { events: events.iter().map(Event::of).collect() };
        match choice {
            Choice::None => Ok(None),
            Choice::These(source) => {
                source.try_on(cpu)?;
                ensure!(kernel_has(READ_BEFORE)?, "this kernel has no {READ_BEFORE} to listen to");
                Ok(Some(source.clone()))
            }
            Choice::Best if !kernel_has(READ_BEFORE)? => Ok(None),
            Choice::Best => {
                let by_licence = counts_licences.then(|| of(&LICENCES));
                let works = |source: &Self| {
                    let tried = source.try_on(cpu);
                    tried.inspect_err(|error| debug!("clocks are not told so: {error:#}")).is_ok()
                };
                Ok(by_licence.into_iter().chain([of(&MSRS)]).find(works))
            }
        }
    }

    pub fn kind(&self) -> avx_clock_counters {
        self.events.len() as avx_clock_counters
    }

    pub fn counts_licences(&self) -> bool {
        self.kind() == CYCLES_BY_LICENCE
    }

    /// What tells of low clocks, and of what they cost.
    pub fn with(&self, clocks: &Clocks) -> String {
        match self.kind() {
            CYCLES_BY_LICENCE => format!("the cycles at each licence, with {clocks}"),
            _ => "APERF and MPERF".to_owned(),
        }
    }

    /// Virtual machines may have counters that always are zero.
    fn try_on(&self, cpu: u32) -> Result<()> {
        let opened: Vec<File> = self.open_on(cpu)?.into_iter().map(File::from).collect();
        let mut counts = Vec::new();
        for mut event in &opened {
            let mut count = [0; size_of::<u64>()];
            event
                .read_exact(&mut count)
                .with_context(|| format!("cannot read those of CPU {cpu}"))?;
            counts.push(u64::from_ne_bytes(count) > 0);
        }
        let is_known = match self.kind() {
            CYCLES_BY_LICENCE => counts.contains(&true),
            _ => !counts.contains(&false),
        };
        ensure!(is_known, "CPU {cpu} has {self} that do not count");
        Ok(())
    }

    fn open_on(&self, cpu: u32) -> Result<Vec<OwnedFd>> {
        let mut opened: Vec<OwnedFd> = Vec::new();
        for event in &self.events {
            opened.push(event.open(cpu, opened.first())?);
        }
        Ok(opened)
    }
}

impl Counters {
    pub fn open(
        source: &Source,
        map: &MapMut<'_>,
        cpus: impl Iterator<Item = u32>,
    ) -> Result<Self> {
        let mut it = Self { map: MapHandle::try_from(map)?, open: Vec::new() };
        for cpu in cpus {
            for (event, opened) in (cpu * CYCLES_BY_LICENCE..).zip(source.open_on(cpu)?) {
                it.map
                    .update(&event.to_ne_bytes(), &opened.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
                    .with_context(|| format!("cannot hand over the counters of CPU {cpu}"))?;
                it.open.push((event, opened));
            }
        }
        Ok(it)
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        for (event, _) in &self.open {
            // The map holds on to what is open. If it is not there, so much the better.
            let _ = self.map.delete(&event.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_named_by_who_counts_and_what() {
        for text in ["best", "none", "cpu:0x728,cpu:0x1828,cpu:0x2028", "msr:0x1,msr:0x2"] {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
        for bad in ["", "cpu", "cpu:", "cpu:x", "msr:1", "a:1,b:2,c:3,d:4"] {
            bad.parse::<Choice>().unwrap_err();
        }
    }

    #[test]
    fn what_does_not_count_is_left_out_or_said() {
        let choice: Choice = "nobody:1,nobody:2".parse().unwrap();
        let error = Source::find(&choice, true, 0).unwrap_err().to_string();
        assert_eq!(error, "there are no counters of \"nobody\" here");
        assert!(Source::find(&Choice::None, true, 0).unwrap().is_none());
    }
}
