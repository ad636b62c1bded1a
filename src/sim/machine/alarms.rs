// SPDX-License-Identifier: GPL-2.0-only
//! One alarm for each core, and which of them is the first.
//!
//! The alarms form a tournament tree: each node holds the earlier of the two times below it, and
//! the root holds the first of all. Setting an alarm again replaces it, so no old alarm is ever
//! left in the tree, and nothing is allocated after `new`.

const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub struct Alarms {
    /// The root is at 1, the nodes below n are at 2n and 2n + 1, and the cores are in the second
    /// half.
    nodes: Vec<u64>,
}

impl Alarms {
    pub fn new(cores: usize) -> Self {
        Self { nodes: vec![NEVER; 2 * cores.next_power_of_two()] }
    }

    fn middle(&self) -> usize {
        self.nodes.len() / 2
    }

    pub fn set(&mut self, core: usize, time: Option<u64>) {
        let mut node = self.middle() + core;
        self.nodes[node] = time.unwrap_or(NEVER);
        while node > 1 {
            node /= 2;
            let earlier = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == earlier {
                return;
            }
            self.nodes[node] = earlier;
        }
    }

    pub fn first_time(&self) -> Option<u64> {
        Some(self.nodes[1]).filter(|&time| time != NEVER)
    }

    /// Returns one of the cores whose alarm is the first, with its time, if that alarm is due.
    pub fn due(&self, now: u64) -> Option<(u64, usize)> {
        let time = self.first_time().filter(|&time| time <= now)?;
        let mut node = 1;
        while node < self.middle() {
            node = if self.nodes[2 * node] == time { 2 * node } else { 2 * node + 1 };
        }
        Some((time, node - self.middle()))
    }

    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.nodes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest(
            cores in 1usize..20,
            settings in prop::collection::vec((0usize..20, prop::option::of(0u64..50)), 0..100),
        ) {
            let mut alarms = Alarms::new(cores);
            let mut expected = vec![None; cores];
            for (core, time) in settings {
                alarms.set(core % cores, time);
                expected[core % cores] = time;
                let first = expected.iter().flatten().min().copied();
                prop_assert_eq!(alarms.first_time(), first);
                let due = alarms.due(u64::MAX);
                prop_assert_eq!(due.map(|(time, _)| time), first);
                if let Some((time, core)) = due {
                    prop_assert_eq!(expected[core], Some(time));
                    prop_assert_eq!(alarms.due(time), due);
                    prop_assert_eq!(time.checked_sub(1).and_then(|before| alarms.due(before)), None);
                }
            }
        }
    }
}
