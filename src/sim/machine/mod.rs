// SPDX-License-Identifier: GPL-2.0-only
//! The modelled hardware: how fast each CPU is, depending on what all of them execute.
//!
//! Problem: on processors that lower their clock for wide vectors, what a burst costs is paid by
//! the tasks that run on that core afterwards. The cost depends on licences, on siblings, and on
//! how many cores of the socket are active. Real processors cannot be had for every experiment.
//!
//! Mechanism: each core has a licence for wide vectors. Instructions that need a higher one make it
//! ask; it is throttled meanwhile, stands still to change its clock, and keeps the licence for a
//! while after the last such instruction. The end of this time is settled some microseconds before
//! it comes: a burst that comes in between is answered by a halt to raise the clock and another one
//! to lower it. The clock depends on the licence and on the number of active cores. Siblings share
//! their core's licence and clock, and one has all of the core while the other waits for its
//! caches. A core that idles has to wake up, which takes longer the longer it idled. All numbers
//! are in the model. Time only moves by `advance`; between two changes all rates are constant.
//!
//! Limits: this is a model, not a measurement. These are left out:
//! - the density of heavy instructions: the first one counts;
//! - that 256-bit units wake up slowly: light 256-bit instructions cost nothing;
//! - that a CPU that waits still holds its part of the core's buffers;
//! - limits by power, current and heat, and clocks that the operating system chooses;
//! - attenuation: hardware may stay at the lower clock if active cores come and go too often.

mod alarms;
pub mod caches;
mod clock;
pub mod hardware;
pub mod model;

#[cfg(test)]
mod machine_test;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use self::alarms::Alarms;
use self::clock::{Clock, Moment};
use self::model::{Kind, Licence, Model};

/// Where a CPU is. Any numbers may be used; those of cores need only differ within a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub core: usize,
    pub llc: usize,
    pub node: usize,
    pub socket: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub cpus: Vec<Place>,
}

impl Topology {
    /// Returns a topology whose CPUs are numbered in the way of Linux: first one CPU of each core,
    /// then their siblings. Each socket is a node.
    pub fn regular(sockets: usize, llcs: usize, cores: usize, threads: usize) -> Self {
        let core_places = (0..sockets * llcs * cores).map(|core| Place {
            core,
            llc: core / cores,
            node: core / (llcs * cores),
            socket: core / (llcs * cores),
        });
        Self { cpus: (0..threads).flat_map(|_| core_places.clone()).collect() }
    }

    /// Divides the cores of each socket evenly among `of_each` nodes.
    pub fn in_nodes(self, of_each: usize) -> Self {
        let cores = (self.cores_of_a_socket() / of_each).max(1);
        let cpus = self.cpus.into_iter().map(|it| Place { node: it.core / cores, ..it });
        Self { cpus: cpus.collect() }
    }

    pub fn nr_cores(&self) -> usize {
        self.cpus.iter().map(|it| (it.socket, it.core)).collect::<BTreeSet<_>>().len()
    }

    pub fn has_siblings(&self) -> bool {
        self.nr_cores() < self.cpus.len()
    }

    /// Returns the CPUs of each core. The cores are in the order of their first CPUs.
    pub fn cpus_by_core(&self) -> Vec<Vec<u32>> {
        let mut cores: Vec<((usize, usize), Vec<u32>)> = Vec::new();
        for (cpu, place) in (0..).zip(&self.cpus) {
            let core = (place.socket, place.core);
            match cores.iter_mut().find(|(known, _)| *known == core) {
                Some((_, cpus)) => cpus.push(cpu),
                None => cores.push((core, vec![cpu])),
            }
        }
        cores.into_iter().map(|(_, cpus)| cpus).collect()
    }

    /// Returns the number of cores of the socket that has the most.
    pub fn cores_of_a_socket(&self) -> usize {
        let cores: BTreeSet<_> = self.cpus.iter().map(|it| (it.socket, it.core)).collect();
        let of = |socket| cores.iter().filter(|(of, _)| *of == socket).count();
        cores.iter().map(|(socket, _)| of(*socket)).max().unwrap_or(0)
    }
}

#[derive(Debug)]
struct Cpu {
    core: usize,
    runs: Option<Kind>,
    /// Whether it waits for its caches. This is false while it idles.
    waits: bool,
    /// The rate that was reported last.
    rate: f64,
}

#[derive(Debug)]
struct Core {
    socket: usize,
    /// Which range of `Machine::by_core` holds its CPUs.
    cpus: Range<usize>,
    busy_cpus: u32,
    /// How many of the busy CPUs wait for their caches.
    waiting_cpus: u32,
    idle_since: u64,
    is_active: bool,
    clock: Clock,
    books: Books,
}

/// How a core spent its time while it was busy, in nanoseconds up to `at`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Books {
    at: u64,
    /// The share of its speed that the core loses at present.
    loses: f64,
    pub by_licence: [u64; 3],
    /// Clock cycles in the same time, by licence.
    pub cycles: [u64; 3],
    /// The time lost to lower clocks than that of L0, to throttling and to halts.
    pub lost: f64,
}

#[derive(Debug)]
struct Socket {
    cores: Range<usize>,
    active_cores: u32,
    /// The step of the model for the number of active cores.
    step: usize,
}

#[derive(Debug)]
pub struct Machine {
    model: Model,
    now: u64,
    cpus: Vec<Cpu>,
    cores: Vec<Core>,
    sockets: Vec<Socket>,
    /// The CPUs of each core side by side.
    by_core: Vec<usize>,
    alarms: Alarms,
    /// Cores whose rates may have changed in the present call.
    touched: Vec<usize>,
    changed: Vec<usize>,
}

impl Machine {
    /// Returns a machine on which all CPUs idle.
    pub fn new(model: &Model, topology: Topology) -> Self {
        let places = &topology.cpus;
        let mut members: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (cpu, place) in places.iter().enumerate() {
            members.entry((place.socket, place.core)).or_default().push(cpu);
        }
        let mut machine = Self {
            model: model.clone(),
            now: 0,
            cpus: places
                .iter()
                .map(|_| Cpu { core: 0, runs: None, waits: false, rate: 0.0 })
                .collect(),
            cores: Vec::with_capacity(members.len()),
            sockets: Vec::new(),
            by_core: Vec::with_capacity(places.len()),
            alarms: Alarms::new(members.len()),
            touched: Vec::new(),
            changed: Vec::with_capacity(places.len()),
        };
        let sockets: BTreeSet<usize> = members.keys().map(|(socket, _)| *socket).collect();
        for socket in sockets {
            machine.add_socket(members.range((socket, 0)..=(socket, usize::MAX)));
        }
        machine
    }

    fn add_socket<'a>(
        &mut self,
        cores: impl Iterator<Item = (&'a (usize, usize), &'a Vec<usize>)>,
    ) {
        let first = self.cores.len();
        for (_, cpus) in cores {
            for &cpu in cpus {
                self.cpus[cpu].core = self.cores.len();
            }
            let start = self.by_core.len();
            self.by_core.extend(cpus);
            self.cores.push(Core {
                socket: self.sockets.len(),
                cpus: start..self.by_core.len(),
                busy_cpus: 0,
                waiting_cpus: 0,
                idle_since: 0,
                is_active: false,
                clock: Clock::new(&self.model),
                books: Books::default(),
            });
        }
        let step = self.model.step(0);
        self.sockets.push(Socket { cores: first..self.cores.len(), active_cores: 0, step });
    }

    #[cfg(test)]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns how much work a CPU does in a nanosecond, relative to one that is alone on its core,
    /// at the highest L0 clock and not throttled. This is 0.0 while the CPU stands still or idles.
    pub fn rate(&self, cpu: usize) -> f64 {
        self.cpus.get(cpu).map_or(0.0, |cpu| cpu.rate)
    }

    /// Returns the licence that the core of a CPU really has, which no scheduler can see.
    #[cfg(test)]
    pub fn licence(&self, cpu: usize) -> Licence {
        self.core_of(cpu).map_or(Licence::L0, |core| core.clock.licence())
    }

    /// Returns the clock of the core of a CPU. While the core stands still this is the clock that
    /// it had before.
    #[cfg(test)]
    pub fn frequency_mhz(&self, cpu: usize) -> u32 {
        self.core_of(cpu).map_or(0, |core| core.clock.mhz())
    }

    /// Returns the books of the core of a CPU, up to now.
    pub fn books(&mut self, cpu: usize) -> Books {
        let Some(index) = self.cpus.get(cpu).map(|cpu| cpu.core) else { return Books::default() };
        self.book(index);
        self.cores[index].books
    }

    /// Returns the share of its speed that the core of a CPU loses to licences at present.
    pub fn loses(&self, cpu: usize) -> f64 {
        self.core_of(cpu).map_or(0.0, |core| core.books.loses)
    }

    fn core_of(&self, cpu: usize) -> Option<&Core> {
        self.cores.get(self.cpus.get(cpu)?.core)
    }

    /// Returns the time up to which all rates stay the same if neither `run` nor `wait` is called.
    /// They need not change then.
    pub fn next_change(&self) -> Option<u64> {
        self.alarms.first_time()
    }

    /// Lets `cpu` execute `what` from now on, or idle if that is `None`. Returns the CPUs whose
    /// rate changed by this, each once.
    pub fn run(&mut self, cpu: usize, what: Option<Kind>) -> &[usize] {
        self.changed.clear();
        let Some(state) = self.cpus.get_mut(cpu).filter(|state| state.runs != what) else {
            return &self.changed;
        };
        let index = state.core;
        let was_busy = state.runs.is_some();
        state.runs = what;
        if what.is_none() {
            self.set_waiting(cpu, false);
        }
        self.book(index);
        if was_busy != what.is_some() {
            self.count_busy(index, what.is_some());
        }
        let core = &mut self.cores[index];
        let kinds = self.by_core[core.cpus.clone()].iter().filter_map(|&cpu| self.cpus[cpu].runs);
        let demand = kinds.map(|kind| self.model.demand(kind)).max().unwrap_or(Licence::L0);
        core.clock.set_demand(&self.model, self.now, demand);
        self.look_at(index);
        self.report()
    }

    /// Tells whether what runs on `cpu` waits for its caches from now on. Returns the CPUs whose
    /// rate changed by this, each once.
    pub fn wait(&mut self, cpu: usize, waits: bool) -> &[usize] {
        self.changed.clear();
        let runs = self.cpus.get(cpu).is_some_and(|state| state.runs.is_some());
        if runs && self.set_waiting(cpu, waits) {
            self.touched.push(self.cpus[cpu].core);
        }
        self.report()
    }

    /// Returns true if this is a change.
    fn set_waiting(&mut self, cpu: usize, waits: bool) -> bool {
        let is_new = std::mem::replace(&mut self.cpus[cpu].waits, waits) != waits;
        let waiting = &mut self.cores[self.cpus[cpu].core].waiting_cpus;
        match (is_new, waits) {
            (true, true) => *waiting += 1,
            (true, false) => *waiting -= 1,
            (false, _) => {}
        }
        is_new
    }

    /// Goes on to `to`, which should not be beyond `next_change`, because rates may differ in
    /// between. Returns the CPUs whose rate changed by this, each once.
    pub fn advance(&mut self, to: u64) -> &[usize] {
        self.changed.clear();
        while let Some((time, core)) = self.alarms.due(to) {
            self.now = self.now.max(time);
            self.look_at(core);
        }
        self.now = self.now.max(to);
        self.report()
    }

    fn count_busy(&mut self, index: usize, more: bool) {
        let core = &mut self.cores[index];
        if more {
            core.busy_cpus += 1;
        } else {
            core.busy_cpus -= 1;
            core.idle_since = self.now;
        }
        if core.busy_cpus > 0 && !core.is_active {
            self.set_active(index, true);
        }
    }

    /// Returns how long it takes until `cpu` can run something. A core sleeps if both siblings
    /// idle.
    pub fn wakes_in(&self, cpu: usize) -> u64 {
        let asleep = self.core_of(cpu).filter(|core| core.busy_cpus == 0);
        asleep.map_or(0, |core| self.model.wakes_in(self.now - core.idle_since))
    }

    /// Returns the time at which an idle core ceases to be active.
    fn active_until(&self, index: usize) -> Option<u64> {
        let core = &self.cores[index];
        let end = core.idle_since.saturating_add(self.model.active_window_ns);
        Some(end).filter(|_| core.is_active && core.busy_cpus == 0)
    }

    fn set_active(&mut self, index: usize, is_active: bool) {
        let socket = &mut self.sockets[self.cores[index].socket];
        if is_active {
            socket.active_cores += 1;
        } else {
            socket.active_cores -= 1;
        }
        let step = self.model.step(socket.active_cores);
        let is_other_step = socket.step != step;
        socket.step = step;
        if is_active {
            // The core is not active yet, so it gets the clock of the new step without a halt.
            self.settle(index);
        }
        self.cores[index].is_active = is_active;
        if is_other_step {
            for core in self.sockets[self.cores[index].socket].cores.clone() {
                self.settle(core);
            }
        }
    }

    /// Makes the changes that are due on a core.
    fn look_at(&mut self, index: usize) {
        if self.active_until(index).is_some_and(|end| end <= self.now) {
            self.set_active(index, false);
        }
        self.settle(index);
    }

    /// Adds the time since the last call to the books. Nothing has changed in this time.
    fn book(&mut self, index: usize) {
        let core = &mut self.cores[index];
        let ns = self.now - core.books.at;
        core.books.at = self.now;
        if core.busy_cpus > 0 {
            let licence = core.clock.licence() as usize;
            core.books.by_licence[licence] += ns;
            core.books.cycles[licence] += ns * u64::from(core.clock.mhz()) / 1000;
            core.books.lost += ns as f64 * core.books.loses;
        }
    }

    fn settle(&mut self, index: usize) {
        self.book(index);
        let active_until = self.active_until(index);
        let core = &mut self.cores[index];
        core.clock.settle(Moment {
            model: &self.model,
            now: self.now,
            step: self.sockets[core.socket].step,
            is_active: core.is_active,
        });
        let highest = self.model.mhz(self.sockets[core.socket].step, Licence::L0).max(1);
        let speed = f64::from(core.clock.mhz()) / f64::from(highest);
        core.books.loses = 1.0 - speed * core.clock.dispatch(&self.model);
        let times = [core.clock.next_change(&self.model), active_until];
        self.alarms.set(index, times.into_iter().flatten().min());
        self.touched.push(index);
    }

    /// Finds out which rates differ from those before the present call.
    fn report(&mut self) -> &[usize] {
        while let Some(index) = self.touched.pop() {
            for position in self.cores[index].cpus.clone() {
                let cpu = self.by_core[position];
                let rate = self.present_rate(cpu);
                if rate != self.cpus[cpu].rate {
                    self.cpus[cpu].rate = rate;
                    self.changed.push(cpu);
                }
            }
        }
        &self.changed
    }

    fn present_rate(&self, cpu: usize) -> f64 {
        let cpu = &self.cpus[cpu];
        let core = &self.cores[cpu.core];
        if cpu.runs.is_none() {
            return 0.0;
        }
        let clock = f64::from(core.clock.mhz()) / f64::from(self.model.top_mhz().max(1));
        // A CPU that waits leaves the core to the others until it goes on.
        let others = core.waiting_cpus - u32::from(cpu.waits);
        clock * core.clock.dispatch(&self.model) * self.share(core.busy_cpus - others)
    }

    /// Returns the share of a core that each of its busy CPUs gets. More than two CPUs together get
    /// as much as two.
    fn share(&self, busy_cpus: u32) -> f64 {
        match busy_cpus {
            0 | 1 => 1.0,
            several => self.model.smt_share * 2.0 / f64::from(several),
        }
    }

    /// Returns the size of everything that could grow.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.alarms.size() + self.touched.capacity() + self.changed.capacity()
    }
}
