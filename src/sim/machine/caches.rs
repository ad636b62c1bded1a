// SPDX-License-Identifier: GPL-2.0-only
//! What a task finds in the caches of a core when it comes back to it, and what it has to wait for.
//!
//! Problem: moving a task costs more than the switch. What it uses again and again is in the caches
//! of the core that it left. How much of this has to be fetched depends on how long the task was
//! away, on what others ran there meanwhile, and on how much of it is used at all before the next
//! move: a move away and back within some microseconds costs little, a permanent one costs all of
//! it.
//!
//! Mechanism: a thread has a footprint: code, which it shares with its program, and data of its
//! own. Each core has first-level caches for both and a second level, shared by its siblings. What
//! is fetched into a cache evicts what was there, at random: of what a thread left behind, a share
//! of e to the minus F remains after F times the capacity was filled. What a thread writes
//! elsewhere is no longer valid where it was before. What a step uses and misses is fetched when
//! the step begins or goes on elsewhere: from the second level, from the last-level cache, from the
//! core where the thread was before, or from another last-level cache. Some of these fetches wait
//! for each other, and some do not.
//!
//! Limits: footprints do not change. What a thread uses only once misses on every core alike and is
//! part of its work. No fetch waits for bandwidth, and the last-level cache holds everything.

use std::collections::BTreeMap;

use super::Place;

pub const LINE_BYTES: f64 = 64.0;

/// What a thread uses again and again, in lines of caches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Threads of one program have their code in common.
    pub program: u64,
    pub code: f64,
    pub data: f64,
}

/// Sizes in lines, times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Each of the two first-level caches.
    pub l1_lines: f64,
    pub l2_lines: f64,
    pub l2_ns: f64,
    pub llc_ns: f64,
    /// The time of a fetch from another core of the same last-level cache.
    pub neighbour_ns: f64,
    /// The time of a fetch from another last-level cache.
    pub remote_ns: f64,
    /// How many lines are fetched at once on average.
    pub overlap: f64,
    /// The share of the used data that is written.
    pub written: f64,
}

/// A Skylake-SP at 3.8 GHz.
pub const SKYLAKE: Timing = Timing {
    // 32 KiB for code, as much for data, and 1 MiB: AnandTech, "The Intel Skylake-X Review".
    l1_lines: 512.0,
    l2_lines: 16384.0,
    // That review measured 11 to 13 cycles, and 77.
    l2_ns: 3.4,
    llc_ns: 20.3,
    // J. McCalpin in Intel's forum on "Core-to-Core Communication Latency": 40 to 42 ns for what
    // another core of a Broadwell-EP has modified. The last-level cache of a Skylake-SP holds what
    // second levels evict, so what a task left a moment ago is not in there.
    neighbour_ns: 41.0,
    // Assumption: it is of the order of an access to memory.
    remote_ns: 100.0,
    // Ferdman et al., "Clearing the Clouds": 1.4 to 2.3 in servers.
    overlap: 2.0,
    // This is an assumption. In the thesis behind nginx.toml most of the misses that moves cause
    // are stores.
    written: 0.5,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner<T> {
    Code(u64),
    Data(T),
}

/// How many lines were ever fetched into the caches of a core.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    code: f64,
    data: f64,
    second: f64,
}

/// What an owner had in the caches of a core when it was there the last time.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    first: f64,
    second: f64,
    /// When that was: how much had been filled into each level, and how much the owner had written.
    first_at: f64,
    second_at: f64,
    written_at: f64,
}

/// What is known of an owner across all cores.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    last_core: usize,
    written: f64,
}

/// The caches of all cores, in which tasks are identified by a `T`.
pub struct Caches<T> {
    timing: Timing,
    /// The core of each CPU.
    core_of: Vec<usize>,
    /// The last-level cache of each core.
    llc_of: Vec<usize>,
    filled: Vec<Filled>,
    left: BTreeMap<(Owner<T>, usize), Left>,
    histories: BTreeMap<Owner<T>, History>,
}

impl<T: Copy + Ord> Caches<T> {
    /// Returns caches that are all empty.
    pub fn new(timing: Timing, places: &[Place]) -> Self {
        let mut cores = BTreeMap::new();
        for place in places {
            let next = cores.len();
            cores.entry((place.socket, place.core)).or_insert((next, place.llc));
        }
        let mut llc_of = vec![0; cores.len()];
        for (core, llc) in cores.values() {
            llc_of[*core] = *llc;
        }
        Self {
            timing,
            core_of: places.iter().map(|it| cores[&(it.socket, it.core)].0).collect(),
            filled: vec![Filled::default(); llc_of.len()],
            llc_of,
            left: BTreeMap::new(),
            histories: BTreeMap::new(),
        }
    }

    pub fn core_of(&self, cpu: u32) -> usize {
        self.core_of[cpu as usize]
    }

    /// Returns for how long the task waits if it is to do `work_ns` of work on the CPU, which uses
    /// `share` of its footprint.
    pub fn fetch(
        &mut self,
        task: T,
        footprint: &Footprint,
        cpu: u32,
        share: f64,
        work_ns: f64,
    ) -> f64 {
        let core = self.core_of(cpu);
        // The task cannot use more lines than it can read one after the other in this time.
        let most = work_ns / self.timing.l2_ns;
        let mut wait = 0.0;
        let owners =
            [(Owner::Code(footprint.program), footprint.code), (Owner::Data(task), footprint.data)];
        for (owner, lines) in owners {
            if lines > 0.0 {
                wait += self.fetch_of(owner, lines, core, (share * lines).min(most));
            }
        }
        wait / self.timing.overlap
    }

    fn fetch_of(&mut self, owner: Owner<T>, lines: f64, core: usize, used: f64) -> f64 {
        let Timing { l1_lines, l2_lines, l2_ns, llc_ns, neighbour_ns, remote_ns, .. } = self.timing;
        let is_data = matches!(owner, Owner::Data(_));
        let history =
            self.histories.entry(owner).or_insert(History { last_core: core, written: 0.0 });
        let filled = &mut self.filled[core];
        let first = if is_data { &mut filled.data } else { &mut filled.code };
        let left = self.left.entry((owner, core)).or_default();

        let valid = (left.written_at - history.written).exp();
        let first_left = left.first * valid * ((left.first_at - *first) / l1_lines).exp();
        let second_left = left.second * valid * ((left.second_at - filled.second) / l2_lines).exp();
        let to_first = missing(used.min(l1_lines), first_left, lines.min(l1_lines));
        let to_second = missing(used.min(l2_lines), second_left, lines.min(l2_lines));
        let far_ns = match history.last_core {
            last if !is_data || last == core => llc_ns,
            last if self.llc_of[last] == self.llc_of[core] => neighbour_ns,
            _ => remote_ns,
        };

        *first += to_first;
        filled.second += to_second;
        if is_data {
            history.written -= (1.0 - self.timing.written * used / lines).ln();
        }
        history.last_core = core;
        *left = Left {
            first: first_left + to_first,
            second: second_left + to_second,
            first_at: *first,
            second_at: filled.second,
            written_at: history.written,
        };
        (to_first - to_second).max(0.0) * l2_ns + to_second * far_ns
    }

    /// Forgets a task that has ended.
    pub fn forget(&mut self, task: T) {
        let owner = Owner::Data(task);
        self.histories.remove(&owner);
        for core in 0..self.filled.len() {
            self.left.remove(&(owner, core));
        }
    }
}

/// Returns how many of the `used` lines are missing if `left` of the `fit` lines that fit are
/// there. Any of these may be there alike.
fn missing(used: f64, left: f64, fit: f64) -> f64 {
    used * (1.0 - left / fit).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::machine::Topology;

    const ONE: Footprint = Footprint { program: 1, code: 0.0, data: 256.0 };

    /// Returns the caches of two sockets of two cores with two threads each, with numbers that are
    /// easy to calculate with.
    fn caches() -> Caches<u32> {
        let timing = Timing {
            l1_lines: 512.0,
            l2_lines: 4096.0,
            l2_ns: 1.0,
            llc_ns: 10.0,
            neighbour_ns: 20.0,
            remote_ns: 100.0,
            overlap: 2.0,
            written: 0.0,
        };
        Caches::new(timing, &Topology::regular(2, 1, 2, 2).cpus)
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6 * expected.max(1.0), "{found}, not {expected}");
    }

    #[test]
    fn what_is_there_is_not_fetched_again() {
        let mut caches = caches();
        assert_near(caches.fetch(1, &ONE, 0, 1.0, 1e6), 256.0 * 10.0 / 2.0);
        assert_near(caches.fetch(1, &ONE, 0, 1.0, 1e6), 0.0);
        // CPU 4 is the sibling.
        assert_near(caches.fetch(1, &ONE, 4, 1.0, 1e6), 0.0);
    }

    #[test]
    fn it_comes_from_where_it_is() {
        for (cpu, ns) in [(1, 20.0), (2, 100.0)] {
            let mut caches = caches();
            caches.fetch(1, &ONE, 0, 1.0, 1e6);
            assert_near(caches.fetch(1, &ONE, cpu, 1.0, 1e6), 256.0 * ns / 2.0);
        }
    }

    #[test]
    fn a_part_is_used_and_the_rest_is_fetched_later() {
        let mut caches = caches();
        caches.fetch(1, &ONE, 0, 1.0, 1e6);
        assert_near(caches.fetch(1, &ONE, 1, 0.25, 1e6), 64.0 * 20.0 / 2.0);
        // This time the task was on this core before.
        assert_near(caches.fetch(1, &ONE, 1, 1.0, 1e6), 192.0 * 10.0 / 2.0);
        // In 8 ns no task uses more than 8 lines of a second level.
        let mut caches = self::caches();
        assert_near(caches.fetch(1, &ONE, 0, 1.0, 8.0), 8.0 * 10.0 / 2.0);
    }

    #[test]
    fn who_comes_back_finds_what_others_have_not_evicted() {
        let mut caches = caches();
        caches.fetch(1, &ONE, 0, 1.0, 1e6);
        caches.fetch(1, &ONE, 1, 0.25, 1e6);
        caches.fetch(2, &Footprint { data: 128.0, ..ONE }, 0, 1.0, 1e6);
        let first = (-128.0 / 512.0_f64).exp();
        let second = (-128.0 / 4096.0_f64).exp();
        let to_first = 256.0 * (1.0 - first);
        let to_second = 256.0 * (1.0 - second);
        let ns = (to_first - to_second) + to_second * 20.0;
        assert_near(caches.fetch(1, &ONE, 0, 1.0, 1e6), ns / 2.0);
    }

    #[test]
    fn what_is_written_elsewhere_is_no_longer_valid() {
        let mut caches = caches();
        caches.timing.written = 0.5;
        caches.fetch(1, &ONE, 0, 1.0, 1e6);
        caches.fetch(1, &ONE, 1, 0.25, 1e6);
        // A quarter was used elsewhere, and half of this was written.
        assert_near(caches.fetch(1, &ONE, 0, 1.0, 1e6), 32.0 * 20.0 / 2.0);
    }

    #[test]
    fn a_program_has_its_code_in_common() {
        let mut caches = caches();
        let code = Footprint { program: 7, code: 1024.0, data: 0.0 };
        caches.fetch(1, &code, 0, 1.0, 1e6);
        assert_near(caches.fetch(2, &code, 0, 1.0, 1e6), 0.0);
        let other = Footprint { program: 8, ..code };
        assert_near(caches.fetch(3, &other, 0, 1.0, 1e6), 1024.0 * 10.0 / 2.0);
        // The first level never held more of it than fits.
        assert!(caches.fetch(1, &code, 0, 1.0, 1e6) < 1024.0 * 10.0 / 2.0);
    }

    #[test]
    fn who_is_gone_leaves_nothing() {
        let mut caches = caches();
        for task in 0..100 {
            caches.fetch(task, &ONE, 0, 1.0, 1e6);
            caches.forget(task);
        }
        assert!(caches.left.is_empty() && caches.histories.is_empty());
    }
}
