// SPDX-License-Identifier: GPL-2.0-only
//! One group of events on all CPUs, and what it counts from one reading to the next.

use std::collections::BTreeMap;

use anyhow::Result;
use tracing::debug;

use super::event::{Count, Group};
use super::reading::{Reading, Step};

/// The meters of CPUs. None is open by default.
pub struct Meters<G = Group>(BTreeMap<u32, Meter<G>>);

struct Meter<G> {
    group: G,
    last: Reading,
}

impl<G> Default for Meters<G> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<G: Count> Meters<G> {
    /// Opens all of them, unless they are open.
    pub fn open<'a>(
        &mut self,
        cpus: impl Iterator<Item = &'a u32>,
        open_on: impl Fn(u32) -> Result<G>,
    ) -> Result<()> {
        if self.0.is_empty() {
            let meter =
                |cpu: &u32| Ok((*cpu, Meter { group: open_on(*cpu)?, last: Reading::default() }));
            self.0 = cpus.map(meter).collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Closes all of them. Returns what each counted since the last time, because this cannot be
    /// read afterwards.
    #[must_use]
    pub fn close(&mut self) -> Vec<(u32, Step)> {
        let rest = self.steps().collect();
        self.0.clear();
        rest
    }

    pub fn groups(&self) -> impl Iterator<Item = (u32, &G)> {
        self.0.iter().map(|(cpu, meter)| (*cpu, &meter.group))
    }

    /// Returns what each counted since the last time. A CPU that is about to go may be left out.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Counts ten more each time.
    #[derive(Default)]
    struct Tens(Cell<u64>);

    impl Count for Tens {
        fn read(&self) -> Result<Reading> {
            self.0.set(self.0.get() + 10);
            let now = self.0.get();
            Ok(Reading { open_ns: now, counted_ns: now, counts: vec![now] })
        }
    }

    #[test]
    fn what_is_closed_tells_what_it_counted_until_then() {
        let mut meters = Meters::default();
        assert_eq!(meters.close(), []);
        let open = |meters: &mut Meters<_>| meters.open([0, 1].iter(), |_| Ok(Tens::default()));
        let ten = Step { ns: 10, counts: vec![10], was_shared: false };
        let each = vec![(0, ten.clone()), (1, ten)];
        open(&mut meters).unwrap();
        assert_eq!(meters.close(), each);
        open(&mut meters).unwrap();
        assert_eq!(meters.steps().collect::<Vec<_>>(), each);
        assert_eq!(meters.close(), each);
        assert_eq!(meters.steps().count(), 0);
    }
}
