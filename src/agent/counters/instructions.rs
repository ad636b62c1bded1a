// SPDX-License-Identifier: GPL-2.0-only
//! The instructions that CPUs retire.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};

use anyhow::Result;

use super::event::{Event, Group};

/// The event of Intel's CPUs and of AMD's.
const RETIRED: (&str, u64) = ("cpu", 0xc0);

/// Counters of the instructions of each CPU, which count as long as this is there.
pub struct Instructions(BTreeMap<u32, Group>);

impl Instructions {
    /// Opens counters on all of these CPUs or on none.
    pub fn open(cpus: &[u32]) -> Result<Self> {
        let (pmu, config) = RETIRED;
        let open = |cpu: &u32| Ok((*cpu, Group::open(&[Event::new(pmu, config)], *cpu)?));
        Ok(Self(cpus.iter().map(open).collect::<Result<_>>()?))
    }

    /// Returns the descriptors of the counters, by CPU.
    pub fn events(&self) -> impl Iterator<Item = (u32, RawFd)> {
        self.0
            .iter()
            .flat_map(|(cpu, group)| group.events().iter().map(|it| (*cpu, it.as_raw_fd())))
    }
}
