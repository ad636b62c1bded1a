// SPDX-License-Identifier: GPL-2.0-only
//! Samples a machine while it runs: where its AVX cores are, and which licence each core has.

use serde::{Deserialize, Serialize};

use crate::sim::kernel::engine::{Engine, Work};
use crate::sim::machine::hardware::Modelled;
use crate::sim::machine::model::Kind;
use crate::sim::machine::{Books, Topology};
use crate::sim::workload::record::{SharedRecord, Sums};

const MS: u64 = 1_000_000;

/// The time between two looks, and that at the end of the run.
const SLICE_NS: u64 = MS;
const FINE_SLICE_NS: u64 = MS / 10;

/// The columns of a picture of what each core does.
pub const COLUMNS: u64 = 160;
const FINE_NS: u64 = COLUMNS * FINE_SLICE_NS;

/// The number of parts into which the time is cut, to see how much they differ.
pub const BATCHES: u64 = 20;

/// How cores of a class spent their time, in nanoseconds, and how much wide work they did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Class {
    pub by_licence: [u64; 3],
    pub lost: f64,
    pub wide: f64,
}

/// What each core had most of in each part of some time: a licence, or nothing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strip {
    pub from_ms: f64,
    pub to_ms: f64,
    pub cores: Vec<CoreStrip>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreStrip {
    /// A letter for each part: 0, 1 or 2 for the licence, and a dot while it idles.
    pub licences: String,
    /// A is for an AVX core, and a dash for another.
    pub roles: String,
}

/// How long each core had what within the present column of a strip.
struct Painter {
    begin: u64,
    length: u64,
    column: u64,
    /// The time of each core idle and with each licence, and the time as an AVX core.
    cores: Vec<([u64; 4], u64)>,
    strip: Strip,
}

/// What is known of a core at one time.
struct Core {
    books: Books,
    wide: f64,
    is_avx: bool,
}

pub struct Watch {
    /// The CPUs of each core.
    cores: Vec<Vec<u32>>,
    begin: u64,
    now: u64,
    end: u64,
    before: Vec<Core>,
    painters: [Painter; 2],
    pub scalar: Class,
    pub avx: Class,
    /// The number of AVX cores after each change, with its time since the measurement began.
    pub avx_cores: Vec<(u64, u32)>,
    /// How often CPUs had changed their role after each change, with its time since the measurement
    /// began.
    pub role_changes: Vec<(u64, u64)>,
    roles_changed_before: u64,
    pub moves: u64,
    pub wide_faults: u64,
    pub ran: u64,
    /// How long the threads of each group ran.
    pub ran_of_groups: Vec<u64>,
    pub events: u64,
    /// What was done up to the end of each batch, and by each group in all.
    pub batches: Vec<Done>,
    pub groups: Vec<Sums>,
    /// What each thread has drawn beyond the mean, in groups that always have something to do.
    pub luck: Vec<f64>,
    /// How far the scheduler is wrong about what threads lost that never needed a licence, relative
    /// to the time in which they got something done.
    pub estimate_error: Option<f64>,
}

/// What all groups have done, since the beginning or in a part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    pub work: f64,
    /// For groups whose requests come from outside: their work, and for how long requests were not
    /// done.
    pub open_work: f64,
    pub unfinished: f64,
    /// For the threads of other groups: work that was begun, and what was drawn beyond the mean.
    pub begun: f64,
    pub luck: f64,
}

impl Done {
    fn of(records: &[SharedRecord], now: u64) -> Self {
        let groups = sums(records, now);
        let open = || groups.iter().filter_map(|it| Some((it.work, it.unfinished?)));
        Self {
            work: groups.iter().map(|it| it.work).sum(),
            open_work: open().map(|(work, _)| work).sum(),
            unfinished: open().map(|(_, unfinished)| unfinished).sum(),
            begun: records.iter().map(|record| record.borrow().begun).sum(),
            luck: luck(records).iter().sum(),
        }
    }
}

/// A thread that ran for less than this tells nothing.
const LEAST_RAN_NS: f64 = 50e6;

impl Watch {
    pub fn new(
        engine: &mut Engine<Modelled>,
        topology: &Topology,
        ns: u64,
        records: &[SharedRecord],
    ) -> Self {
        let begin = engine.now();
        let cores = topology.cpus_by_core();
        let nr = cores.len();
        let mut watch = Self {
            before: Vec::new(),
            painters: [
                Painter::new(nr, begin, 0, ns),
                Painter::new(nr, begin, ns.saturating_sub(FINE_NS), ns),
            ],
            cores,
            begin,
            now: begin,
            end: begin + ns,
            scalar: Class::default(),
            avx: Class::default(),
            avx_cores: vec![(0, engine.kernel().nr_avx_cores())],
            role_changes: vec![(0, 0)],
            roles_changed_before: role_changes(engine),
            moves: engine.moves(),
            wide_faults: engine.wide_faults(),
            ran: engine.ran(),
            ran_of_groups: ran_of_groups(engine, records.len()),
            events: engine.nr_events(),
            batches: vec![Done::of(records, begin)],
            groups: sums(records, begin),
            luck: luck(records),
            estimate_error: None,
        };
        watch.before = watch.sample(engine);
        watch
    }

    /// Returns how long to go on before the next look, or None at the end.
    pub fn next_slice(&self) -> Option<u64> {
        let left = self.end - self.now;
        let slice = if left <= FINE_NS { FINE_SLICE_NS } else { SLICE_NS.min(left - FINE_NS) };
        Some(slice.min(left)).filter(|slice| *slice > 0)
    }

    pub fn look(&mut self, engine: &mut Engine<Modelled>, records: &[SharedRecord]) {
        let since = self.now;
        self.now = engine.now();
        let sample = self.sample(engine);
        for (core, (before, after)) in self.before.iter().zip(&sample).enumerate() {
            let class = if before.is_avx { &mut self.avx } else { &mut self.scalar };
            let spent = class.add(before, after);
            for painter in &mut self.painters {
                painter.paint(core, since, self.now, spent, before.is_avx);
            }
        }
        self.before = sample;
        let at = self.now - self.begin;
        note(&mut self.avx_cores, at, engine.kernel().nr_avx_cores());
        note(&mut self.role_changes, at, role_changes(engine) - self.roles_changed_before);
        let batch = self.batches.len() as u64;
        if (self.now - self.begin) * BATCHES >= (self.end - self.begin) * batch {
            self.batches.push(Done::of(records, self.now));
        }
        if self.now == self.end {
            self.finish(engine, records);
        }
    }

    /// Turns sums since the beginning of the run into differences.
    fn finish(&mut self, engine: &Engine<Modelled>, records: &[SharedRecord]) {
        self.moves = engine.moves() - self.moves;
        self.wide_faults = engine.wide_faults() - self.wide_faults;
        self.ran = engine.ran() - self.ran;
        let now = ran_of_groups(engine, self.ran_of_groups.len());
        for (it, now) in self.ran_of_groups.iter_mut().zip(now) {
            *it = now - *it;
        }
        self.events = engine.nr_events() - self.events;
        self.estimate_error = mean(
            engine
                .innocent()
                .filter(|it| it.ran >= LEAST_RAN_NS)
                .map(|it| (it.waived - it.lost).abs() / (it.ran - it.lost)),
        );
        for (it, now) in self.groups.iter_mut().zip(sums(records, self.now)) {
            *it = now.since(it);
        }
        for (it, now) in self.luck.iter_mut().zip(luck(records)) {
            *it = now - *it;
        }
    }

    fn sample(&self, engine: &mut Engine<Modelled>) -> Vec<Core> {
        let core = |cpus: &Vec<u32>| Core {
            books: cpus.first().map_or(Books::default(), |cpu| engine.hardware_mut().books(*cpu)),
            wide: cpus.iter().map(|cpu| wide(&engine.work_on(*cpu))).sum(),
            is_avx: cpus.iter().any(|cpu| engine.kernel().is_avx_core(*cpu)),
        };
        self.cores.iter().map(core).collect()
    }

    pub fn measured_ns(&self) -> u64 {
        self.end - self.begin
    }

    pub fn into_strips(self) -> [Strip; 2] {
        self.painters.map(Painter::finish)
    }
}

/// Returns the mean. The order of the sum does not depend on where things are in memory.
fn mean(of: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn wide(work: &Work) -> f64 {
    work[Kind::Light512 as usize] + work[Kind::Heavy512 as usize]
}

fn sums(records: &[SharedRecord], now: u64) -> Vec<Sums> {
    records.iter().map(|record| record.borrow().sums(now)).collect()
}

fn luck(records: &[SharedRecord]) -> Vec<f64> {
    records.iter().flat_map(|record| record.borrow().luck.clone()).collect()
}

/// Returns how long each group ran. Each group is a program.
fn ran_of_groups(engine: &Engine<Modelled>, nr_groups: usize) -> Vec<u64> {
    (0..).take(nr_groups).map(|program| engine.ran_of(program)).collect()
}

/// Notes a value if it differs from the last one.
fn note<T: PartialEq>(course: &mut Vec<(u64, T)>, at: u64, now: T) {
    if course.last().is_none_or(|(_, last)| *last != now) {
        course.push((at, now));
    }
}

fn role_changes(engine: &Engine<Modelled>) -> u64 {
    (0..engine.kernel().nr_cpus()).map(|cpu| engine.kernel().stats(cpu).role_changes).sum()
}

impl Class {
    /// Adds what a core did between two looks. Returns the time that it spent with each licence.
    fn add(&mut self, before: &Core, after: &Core) -> [u64; 3] {
        let mut spent = [0; 3];
        for (licence, ns) in spent.iter_mut().enumerate() {
            *ns = after.books.by_licence[licence] - before.books.by_licence[licence];
            self.by_licence[licence] += *ns;
        }
        self.lost += after.books.lost - before.books.lost;
        self.wide += after.wide - before.wide;
        spent
    }
}

impl Painter {
    fn new(nr_cores: usize, begin: u64, from: u64, to: u64) -> Self {
        let empty = CoreStrip { licences: String::new(), roles: String::new() };
        Self {
            begin: begin + from,
            length: to - from,
            column: 0,
            cores: vec![([0; 4], 0); nr_cores],
            strip: Strip {
                from_ms: from as f64 / MS as f64,
                to_ms: to as f64 / MS as f64,
                cores: vec![empty; nr_cores],
            },
        }
    }

    /// A slice belongs to the column in which it ends.
    fn paint(&mut self, core: usize, since: u64, now: u64, spent: [u64; 3], is_avx: bool) {
        if since < self.begin {
            return;
        }
        if core == 0 {
            let column = ((now - self.begin) * COLUMNS).div_ceil(self.length).saturating_sub(1);
            if column > self.column {
                self.next_column(column);
            }
        }
        let (times, as_avx) = &mut self.cores[core];
        let ns = now - since;
        times[0] += ns.saturating_sub(spent.iter().sum());
        for (time, ns) in times[1..].iter_mut().zip(spent) {
            *time += ns;
        }
        *as_avx += if is_avx { ns } else { 0 };
    }

    fn next_column(&mut self, column: u64) {
        for (strip, (times, as_avx)) in self.strip.cores.iter_mut().zip(&mut self.cores) {
            let whole: u64 = times.iter().sum();
            let most = (0..4).rev().max_by_key(|n| times[*n]).unwrap_or(0);
            strip.licences.push(['.', '0', '1', '2'][most]);
            strip.roles.push(if *as_avx * 2 > whole { 'A' } else { '-' });
            (*times, *as_avx) = ([0; 4], 0);
        }
        self.column = column;
    }

    fn finish(mut self) -> Strip {
        self.next_column(COLUMNS);
        self.strip
    }
}
