// SPDX-License-Identifier: GPL-2.0-only
//! One group of events on all CPUs, and what it counts from one reading to the next.

use std::collections::BTreeMap;

use anyhow::Result;
use tracing::debug;

use super::event::Group;
use super::reading::{Reading, Step};

/// By CPU. None is open by default.
#[derive(Default)]
pub struct Meters(BTreeMap<u32, Meter>);

struct Meter {
    group: Group,
    last: Reading,
}

impl Meters {
    /// All of them, unless they are.
    pub fn open<'a>(
        &mut self,
        cpus: impl Iterator<Item = &'a u32>,
        open_on: impl Fn(u32) -> Result<Group>,
    ) -> Result<()> {
        if self.0.is_empty() {
            let meter =
                |cpu: &u32| Ok((*cpu, Meter { group: open_on(*cpu)?, last: Reading::default() }));
            self.0 = cpus.map(meter).collect::<Result<_>>()?;
        }
        Ok(())
    }

    pub fn close(&mut self) {
        self.0.clear();
    }

    pub fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.0.iter().map(|(cpu, meter)| (*cpu, &meter.group))
    }

    /// What each counted since the last time. Of a CPU that is about to go there may be nothing.
    pub fn steps(&mut self) -> impl Iterator<Item = (u32, Step)> {
        self.0.iter_mut().filter_map(|(cpu, meter)| {
            let read = meter.group.read();
            let now = read.inspect_err(|error| debug!("CPU {cpu}: {error:#}")).ok()?;
            let step = now.since(&meter.last);
            meter.last = now;
            Some((*cpu, step))
        })
    }
}
