// SPDX-License-Identifier: GPL-2.0-only
//! Performance counters that tell how low the clock of each CPU is, and who uses wide vectors.
//!
//! The best are those of its core's cycles at each licence, which are the same for both threads of
//! a core, and are counted as a group, so that only shares matter and not for how long they were
//! counted. Next come APERF and MPERF, which tell of a low clock but not why it is low.
//!
//! A CPU has few counters, and they are not there for this alone. So they are open while the
//! scheduler decides by them, or somebody asks what they say; and who only asks steps back for a
//! while as soon as others need them too.

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

/// Those of all CPUs.
pub struct Counters {
    source: Source,
    /// By CPU, how many threads its core has.
    threads: BTreeMap<u32, u32>,
    clocks: Meters,
    wide_operations: Meters,
    /// Where BPF programs find those of clocks, and whether they do.
    map: MapHandle,
    is_handed_over: bool,
    presence: Presence,
    sums: BTreeMap<u32, Counted>,
}

impl Counters {
    /// None is open yet.
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

    /// BPF programs go by them from now on, if there are any: by all of them or by none.
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
            // The map holds on to what is open. If it is not there, so much the better.
            let _ = self.map.delete(&index.to_ne_bytes());
        }
        self.look_around(now);
    }

    /// Of those CPUs that counted while somebody wanted to know.
    pub fn counted(&self) -> &BTreeMap<u32, Counted> {
        &self.sums
    }

    /// Somebody wants to know. Who is the first to ask, or after a long time, makes it begin.
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

    /// Closes what nobody needs any more.
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

    /// Returns whether others had some of the counters meanwhile.
    fn add_up(&mut self) -> bool {
        let clocks = self.clocks.steps().collect();
        let wide_operations = self.wide_operations.steps().collect();
        self.add(clocks, wide_operations)
    }

    /// The same of what counters told.
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

/// Where the map has those of a CPU.
fn places_of(cpu: u32) -> Range<u32> {
    cpu * CYCLES_BY_LICENCE..(cpu + 1) * CYCLES_BY_LICENCE
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.take_back(Instant::now());
    }
}
