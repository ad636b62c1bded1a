// SPDX-License-Identifier: GPL-2.0-only
//! What the screen shows: the last status, and what changed since the one before.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::agent::events::Event;
use crate::agent::status::{Status, Waits};

/// More do not fit on any screen.
const EVENTS_KEPT: usize = 100;

const INTERVAL_MIN: Duration = Duration::from_millis(250);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// What a CPU was for most of the interval, and is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    Avx { busy: bool },
    Scalar { busy: bool },
    Offline,
}

/// A CPU, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub cpu: u32,
    pub core: u32,
    pub llc: u32,
    pub node: u32,
    pub cell: Cell,
}

/// Of one interval. Rates are differences of sums that only grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    pub moves_per_s: f64,
    /// Modelled: seconds of a low clock in a second, of all scalar CPUs together.
    pub low_clock_per_s: f64,
    /// CPUs that were busy with it.
    pub avx_cpus: f64,
    pub waits: BTreeMap<String, Waits>,
    /// CPUs that were busy with the AVX work of a cgroup, the most first.
    pub cgroups: Vec<(String, f64)>,
}

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    All,
    Help,
    /// To choose one of them.
    Policies,
}

#[derive(Debug)]
pub struct State {
    pub status: Option<Status>,
    pub rates: Rates,
    pub places: Vec<Place>,
    /// Why there is no newer status.
    pub trouble: Option<String>,
    pub events: VecDeque<String>,
    pub interval: Duration,
    pub page: Page,
}

impl State {
    pub fn new(interval: Duration) -> Self {
        Self {
            status: None,
            rates: Rates::default(),
            places: Vec::new(),
            trouble: None,
            events: VecDeque::new(),
            interval: interval.clamp(INTERVAL_MIN, INTERVAL_MAX),
            page: Page::All,
        }
    }

    pub fn hear(&mut self, answer: Result<Status, String>) {
        match answer {
            Ok(now) => {
                let before = self.status.take().unwrap_or_else(|| now.clone());
                self.rates = rates(&before, &now);
                self.places = places(&before, &now);
                self.status = Some(now);
                self.trouble = None;
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    pub fn note(&mut self, event: &Event) {
        self.say(event.to_string().trim_start().to_owned());
    }

    pub fn say(&mut self, line: String) {
        if self.events.len() == EVENTS_KEPT {
            self.events.pop_front();
        }
        self.events.push_back(line);
    }

    /// There, or back if it is there.
    pub fn turn_to(&mut self, page: Page) {
        self.page = if self.page == page { Page::All } else { page };
    }

    pub fn faster(&mut self) {
        self.interval = (self.interval / 2).max(INTERVAL_MIN);
    }

    pub fn slower(&mut self) {
        self.interval = (self.interval * 2).min(INTERVAL_MAX);
    }
}

/// A scheduler that was loaded anew counts from zero.
fn is_later(before: &Status, now: &Status) -> bool {
    now.runs_for_s >= before.runs_for_s
}

fn rates(before: &Status, now: &Status) -> Rates {
    let zero = Status::default();
    let before = if is_later(before, now) { before } else { &zero };
    let seconds = now.runs_for_s - before.runs_for_s;
    let per_s = |new: f64, old: f64| {
        let rate = (new - old) / seconds;
        if rate.is_finite() { rate.max(0.0) } else { 0.0 }
    };
    let low_clock = |it: &Status| it.low_clock_on_scalar_cpus_s;
    let waits = now.waits.iter().map(|(class, waits)| {
        let earlier = before.waits.get(class).cloned().unwrap_or_default();
        (class.clone(), waits.since(&earlier))
    });
    Rates {
        moves_per_s: per_s(moves(now), moves(before)),
        low_clock_per_s: per_s(low_clock(now), low_clock(before)),
        avx_cpus: per_s(now.avx_s, before.avx_s),
        waits: waits.collect(),
        cgroups: cgroups(before, now, per_s),
    }
}

/// As far as tasks were asked to move.
fn moves(status: &Status) -> f64 {
    let books = status.cgroups.iter().map(|cgroup| &cgroup.book);
    books.map(|book| book.sent_to_avx + book.sent_to_scalar).sum::<u64>() as f64
}

fn cgroups(before: &Status, now: &Status, per_s: impl Fn(f64, f64) -> f64) -> Vec<(String, f64)> {
    let earlier: BTreeMap<&str, f64> =
        before.cgroups.iter().map(|it| (it.path.as_str(), it.book.avx_s)).collect();
    let mut rows: Vec<(String, f64)> = now
        .cgroups
        .iter()
        .map(|it| {
            let old = earlier.get(it.path.as_str()).copied().unwrap_or_default();
            (it.path.clone(), per_s(it.book.avx_s, old))
        })
        .collect();
    rows.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    rows
}

/// All CPUs by node, cache and core. One that is offline has no place: it comes last.
fn places(before: &Status, now: &Status) -> Vec<Place> {
    let busy_before: BTreeMap<u32, f64> =
        before.cpus.iter().map(|cpu| (cpu.cpu, cpu.busy_s)).collect();
    let seconds = now.runs_for_s - before.runs_for_s;
    let mut all: Vec<Place> = now
        .cpus
        .iter()
        .map(|it| {
            let was_busy = busy_before.get(&it.cpu).copied().unwrap_or(it.busy_s);
            let busy = 2.0 * (it.busy_s - was_busy) >= seconds && seconds > 0.0;
            let cell = if it.is_avx_core { Cell::Avx { busy } } else { Cell::Scalar { busy } };
            Place { cpu: it.cpu, core: it.core, llc: it.llc, node: it.node, cell }
        })
        .collect();
    all.sort_by_key(|it| (it.node, it.llc, it.core, it.cpu));
    let offline = now.offline.iter().map(|cpu| {
        let nowhere = u32::MAX;
        Place { cpu: *cpu, core: *cpu, llc: nowhere, node: nowhere, cell: Cell::Offline }
    });
    all.extend(offline);
    all
}
