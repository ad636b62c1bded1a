// SPDX-License-Identifier: GPL-2.0-only
//! Performance counters that tell how low the clock of each CPU is, and which CPUs use wide
//! vectors.
//!
//! The best are those of its core's cycles at each licence. These are the same for both threads of
//! a core, and are counted as a group, so that only shares matter and not for how long they were
//! counted. Next come APERF and MPERF, which tell of a low clock but not why it is low.
//!
//! A CPU has few counters, and they are not there for this alone. So they are open only while the
//! scheduler decides by them, or somebody asks what they say. If somebody only asks, they are
//! closed for a while as soon as others need counters too.

mod event;
mod instructions;
mod meter;
mod presence;
mod reading;
mod source;

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Instant;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};
use tracing::debug;

use crate::bpf::intf::CYCLES_BY_LICENCE;
pub use instructions::Instructions;
use meter::Meters;
use presence::Presence;
pub use reading::Counted;
use reading::Step;
#[cfg(test)]
pub use source::LICENCES;
pub use source::{AMDS_FLOATS, Choice, Countable, INTELS_FLOATS, Source};

/// The counters of all CPUs.
pub struct Counters {
    source: Source,
    /// How many threads the core of each CPU has.
    threads: BTreeMap<u32, u32>,
    clocks: Meters,
    wide_operations: Meters,
    /// The map in which BPF programs find the counters of clocks, and whether these are in it.
    map: MapHandle,
    is_handed_over: bool,
    presence: Presence,
    sums: BTreeMap<u32, Counted>,
}

impl Counters {
    /// Returns counters of which none is open yet.
    pub fn new(source: &Source, map: &MapMut<'_>, threads: BTreeMap<u32, u32>) -> Result<Self> {
        Ok(Self {
            source: source.clone(),
            threads,
            clocks: Meters::default(),
            wide_operations: Meters::default(),
            map: MapHandle::try_from(map)?,
            is_handed_over: false,
            presence: Presence::default(),
            sums: BTreeMap::new(),
        })
    }

    /// Makes BPF programs use the counters of clocks from now on, if there are any: all of them or
    /// none.
    pub fn hand_over(&mut self, now: Instant) -> Result<()> {
        if self.is_handed_over || !self.source.counts_clocks() {
            return Ok(());
        }
        self.open_clocks()?;
        self.is_handed_over = true;
        self.put_into_map().inspect_err(|_| self.take_back(now))
    }

    fn put_into_map(&self) -> Result<()> {
        for (cpu, group) in self.clocks.groups() {
            for (index, event) in places_of(cpu).zip(group.events()) {
                self.map
                    .update(&index.to_ne_bytes(), &event.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
                    .with_context(|| format!("cannot hand over the counters of CPU {cpu}"))?;
            }
        }
        Ok(())
    }

    pub fn take_back(&mut self, now: Instant) {
        if !std::mem::take(&mut self.is_handed_over) {
            return;
        }
        for index in self.threads.keys().copied().flat_map(places_of) {
            // The map keeps open what is in it. It is no error if there is nothing at this index.
            let _ = self.map.delete(&index.to_ne_bytes());
        }
        self.look_around(now);
    }

    /// Returns what CPUs counted while somebody wanted to know it.
    pub fn counted(&self) -> &BTreeMap<u32, Counted> {
        &self.sums
    }

    /// Adds up what was counted, because somebody asks. Counting begins with the first request, or
    /// with one after a long time.
    pub fn read(&mut self, now: Instant) {
        if !self.source.counts_licences() && !self.source.counts_wide_operations() {
            return;
        }
        self.presence.asked_at(now);
        let was_shared = self.add_up();
        if was_shared && !self.is_handed_over {
            debug!("others need the CPUs' counters: they have them");
            self.presence.steps_back(now);
        }
        self.look_around(now);
        if self.presence.is_wanted(now)
            && let Err(error) = self.open_all()
        {
            debug!("nothing is counted for now: {error:#}");
            self.presence.steps_back(now);
            self.look_around(now);
        }
    }

    /// Closes the counters that nobody needs any more.
    pub fn look_around(&mut self, now: Instant) {
        if self.presence.is_wanted(now) {
            return;
        }
        let wide_operations = self.wide_operations.close();
        let clocks = if self.is_handed_over { Vec::new() } else { self.clocks.close() };
        self.add(clocks, wide_operations);
    }

    fn open_clocks(&mut self) -> Result<()> {
        let source = &self.source;
        self.clocks.open(self.threads.keys(), |cpu| source.open_clocks(cpu))
    }

    fn open_all(&mut self) -> Result<()> {
        if self.source.counts_licences() {
            self.open_clocks()?;
        }
        if self.source.counts_wide_operations() {
            let source = &self.source;
            self.wide_operations
                .open(self.threads.keys(), |cpu| source.open_wide_operations(cpu))?;
        }
        for cpu in self.threads.keys() {
            self.sums.entry(*cpu).or_default();
        }
        Ok(())
    }

    /// Adds up what was counted. Returns true if others had some of the counters meanwhile.
    fn add_up(&mut self) -> bool {
        let clocks = self.clocks.steps().collect();
        let wide_operations = self.wide_operations.steps().collect();
        self.add(clocks, wide_operations)
    }

    /// Adds what counters told. Returns true if others had some of the counters meanwhile.
    fn add(&mut self, clocks: Vec<(u32, Step)>, wide_operations: Vec<(u32, Step)>) -> bool {
        let mut was_shared = false;
        if self.source.counts_licences() {
            for (cpu, step) in clocks {
                let threads = self.threads.get(&cpu).copied().unwrap_or(1);
                self.sums.entry(cpu).or_default().add_cycles(&step, threads);
                was_shared |= step.was_shared;
            }
        }
        for (cpu, step) in wide_operations {
            self.sums.entry(cpu).or_default().add_wide_operations(&step);
            was_shared |= step.was_shared;
        }
        was_shared
    }
}

/// Returns where the map has the counters of a CPU.
fn places_of(cpu: u32) -> Range<u32> {
    cpu * CYCLES_BY_LICENCE..(cpu + 1) * CYCLES_BY_LICENCE
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.take_back(Instant::now());
    }
}
