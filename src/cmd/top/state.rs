// SPDX-License-Identifier: GPL-2.0-only
//! What the screen shows: the last status, and what changed since the one before.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::agent::events::Event;
use crate::agent::status::{Cpu, Status, Waits};

/// More do not fit on any screen.
const EVENTS_KEPT: usize = 100;

const INTERVAL_MIN: Duration = Duration::from_millis(250);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// What a CPU was for most of the interval, and is; and whether wide vectors made its clock low for
/// a good part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub kind: Kind,
    pub is_low: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// A clock that is low for this part of the time is shown as low.
const OFTEN_LOW: f64 = 0.1;

/// Of one interval. Rates are differences of sums that only grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    pub moves_per_s: f64,
    /// Modelled: seconds of a low clock in a second, of all scalar CPUs together.
    pub low_clock_per_s: f64,
    /// CPUs that were busy with it.
    pub avx_cpus: f64,
    pub waits: BTreeMap<String, Waits>,
    /// CPUs that were busy with the AVX work of a cgroup or a program, the most first.
    pub cgroups: Vec<(String, f64)>,
    pub programs: Vec<(String, f64)>,
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
    /// When that came.
    heard: Instant,
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
            heard: Instant::now(),
            rates: Rates::default(),
            places: Vec::new(),
            trouble: None,
            events: VecDeque::new(),
            interval: interval.clamp(INTERVAL_MIN, INTERVAL_MAX),
            page: Page::All,
        }
    }

    pub fn hear(&mut self, answer: Result<Status, String>) {
        self.hear_at(answer, Instant::now());
    }

    pub fn hear_at(&mut self, answer: Result<Status, String>, at: Instant) {
        match answer {
            Ok(now) => {
                let before = self.status.take().unwrap_or_else(|| now.clone());
                self.rates = rates(&before, &now);
                self.places = places(&before, &now, at.duration_since(self.heard));
                (self.status, self.heard) = (Some(now), at);
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
        cgroups: changes(of_cgroups(before), of_cgroups(now), per_s),
        programs: changes(of_programs(before), of_programs(now), per_s),
    }
}

fn of_cgroups(status: &Status) -> impl Iterator<Item = (&str, f64)> {
    status.cgroups.iter().map(|it| (it.path.as_str(), it.book.avx_s))
}

fn of_programs(status: &Status) -> impl Iterator<Item = (&str, f64)> {
    status.programs.iter().map(|it| (it.name.as_str(), it.book.avx_s))
}

/// As far as tasks were asked to move.
fn moves(status: &Status) -> f64 {
    let books = status.cgroups.iter().map(|cgroup| &cgroup.book);
    books.map(|book| book.sent_to_avx + book.sent_to_scalar).sum::<u64>() as f64
}

/// Of each name, the most first.
fn changes<'a>(
    before: impl Iterator<Item = (&'a str, f64)>,
    now: impl Iterator<Item = (&'a str, f64)>,
    per_s: impl Fn(f64, f64) -> f64,
) -> Vec<(String, f64)> {
    let earlier: BTreeMap<&str, f64> = before.collect();
    let change = |(name, new): (&str, f64)| {
        (name.to_owned(), per_s(new, earlier.get(name).copied().unwrap_or_default()))
    };
    let mut rows: Vec<(String, f64)> = now.map(change).collect();
    rows.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    rows
}

/// The part of the interval for which its clock was low: of its cycles where some were counted, and
/// otherwise as it is modelled. Both begin at zero where there is nothing before.
fn low_share(before: Option<&Cpu>, now: &Cpu, seconds: f64) -> f64 {
    let counted = |cpu: &Cpu| cpu.counted.and_then(|it| it.known_cycles());
    let earlier = before.map_or(Some([0; 3]), counted);
    let cycles = earlier.zip(counted(now)).map(|(old, new)| -> [f64; 3] {
        std::array::from_fn(|n| new[n].saturating_sub(old[n]) as f64)
    });
    let share = match cycles {
        Some([at_0, at_1, at_2]) if at_0 + at_1 + at_2 > 0.0 => {
            (at_1 + at_2) / (at_0 + at_1 + at_2)
        }
        _ => (now.low_clock_s - before.map_or(0.0, |it| it.low_clock_s)) / seconds,
    };
    if share.is_finite() { share } else { 0.0 }
}

/// All CPUs by node, cache and core. One that is offline has no place: it comes last. The time that
/// a CPU was busy goes on where a scheduler is loaded anew, whose own time does not.
fn places(before: &Status, now: &Status, apart: Duration) -> Vec<Place> {
    let earlier: BTreeMap<u32, &Cpu> = before.cpus.iter().map(|cpu| (cpu.cpu, cpu)).collect();
    let goes_on = is_later(before, now);
    let (seconds, of_clocks) = if goes_on {
        let seconds = now.runs_for_s - before.runs_for_s;
        (seconds, seconds)
    } else {
        (apart.as_secs_f64(), now.runs_for_s)
    };
    let mut all: Vec<Place> = now
        .cpus
        .iter()
        .map(|it| {
            let was = earlier.get(&it.cpu).copied().unwrap_or(it);
            let busy = 2.0 * (it.busy_s - was.busy_s) >= seconds && seconds > 0.0;
            let kind = if it.is_avx_core { Kind::Avx { busy } } else { Kind::Scalar { busy } };
            let low = low_share(goes_on.then_some(was), it, of_clocks);
            let cell = Cell { kind, is_low: low > OFTEN_LOW };
            Place { cpu: it.cpu, core: it.core, llc: it.llc, node: it.node, cell }
        })
        .collect();
    all.sort_by_key(|it| (it.node, it.llc, it.core, it.cpu));
    let offline = now.offline.iter().map(|cpu| {
        let nowhere = u32::MAX;
        let cell = Cell { kind: Kind::Offline, is_low: false };
        Place { cpu: *cpu, core: *cpu, llc: nowhere, node: nowhere, cell }
    });
    all.extend(offline);
    all
}
