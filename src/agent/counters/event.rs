// SPDX-License-Identifier: GPL-2.0-only
//! One event that a CPU counts, and how the kernel is asked for it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::libbpf_sys::{
    PERF_FORMAT_GROUP, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING,
    perf_event_attr,
};

use super::reading::Reading;

const PMUS: &str = "/sys/bus/event_source/devices";

/// This is from <linux/perf_event.h>.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// How many events a group has at most, and how many words come before their counts: the number of
/// events, and the times for which the group was open and for which it was counted.
const GROUP_MAX: usize = 3;
const HEAD: usize = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pmu: String,
    config: u64,
}

/// Events of one CPU that are counted together or not at all.
pub struct Group {
    events: Vec<File>,
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

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{:#x}", self.pmu, self.config)
    }
}

impl Event {
    pub fn new(pmu: &str, config: u64) -> Self {
        Self { pmu: pmu.to_owned(), config }
    }

    /// Opens the event on a CPU, in the group of the leader if there is one. Others that count have
    /// the same right to the CPU's counters, so the event is not pinned to one.
    fn open(&self, cpu: u32, leader: Option<&File>) -> Result<File> {
        let path = Path::new(PMUS).join(&self.pmu).join("type");
        let kind = fs::read_to_string(&path)
            .with_context(|| format!("there are no counters of {:?} here", self.pmu))?;
        let format =
            PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_GROUP;
        let attributes = perf_event_attr {
            type_: kind.trim().parse().with_context(|| format!("cannot read {path:?}"))?,
            size: size_of::<perf_event_attr>() as u32,
            config: self.config,
            read_format: format.into(),
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
            return Err(error).with_context(|| format!("CPU {cpu} does not count {self}"));
        }
        // SAFETY: the call has just made the descriptor, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(opened as i32) }.into())
    }
}

/// What counts on one CPU.
pub trait Count {
    fn read(&self) -> Result<Reading>;
}

impl Group {
    pub fn open(events: &[Event], cpu: u32) -> Result<Self> {
        let mut opened: Vec<File> = Vec::new();
        for event in events {
            opened.push(event.open(cpu, opened.first())?);
        }
        Ok(Self { events: opened })
    }

    pub fn events(&self) -> &[File] {
        &self.events
    }
}

impl Count for Group {
    fn read(&self) -> Result<Reading> {
        let mut words = [0; (HEAD + GROUP_MAX) * size_of::<u64>()];
        let mut leader = self.events.first().context("a group of none")?;
        let length = leader.read(&mut words).context("cannot read a counter")?;
        let words: Vec<u64> = words[..length]
            .chunks_exact(size_of::<u64>())
            .map(|word| word.try_into().map(u64::from_ne_bytes).unwrap_or_default())
            .collect();
        let [number, open_ns, counted_ns, counts @ ..] = words.as_slice() else {
            bail!("a counter of {length} bytes");
        };
        ensure!(*number == counts.len() as u64, "{number} counters that are {}", counts.len());
        Ok(Reading { open_ns: *open_ns, counted_ns: *counted_ns, counts: counts.to_vec() })
    }
}
