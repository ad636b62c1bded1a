// SPDX-License-Identifier: GPL-2.0-only
//! What modelled machines are given to do: groups of threads, each in a loop of steps.
//!
//! Each workload is a file of its own in `shipped`, which names its sources; file.rs reads them,
//! and those of users. docs/simulator.md tells what a file may contain.

pub mod file;
pub mod record;
mod shipped;
pub mod trace;
pub mod unfinished;
pub mod worker;

#[cfg(test)]
mod workload_test;

use anyhow::{Context, Result};
use rand_distr::{Distribution, Exp, Gamma, LogNormal};
use rand_pcg::Pcg64;
use serde::Deserialize;

use crate::sim::machine::Topology;
use crate::sim::machine::caches::Footprint;
use crate::sim::machine::model::{Kind, Licence, Model};

/// The most requests for a group in a second. Each is an event, and waits in memory until a thread
/// takes it.
pub const ARRIVALS_MAX: f64 = 1e7;

#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub name: String,
    pub about: String,
    /// How many seconds of it are worth looking at.
    pub seconds: u64,
    /// When phases begin, in nanoseconds. The first begins at 0.
    pub phases: Vec<u64>,
    pub groups: Vec<Group>,
}

/// Threads that do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub threads: u32,
    pub per: Per,
    pub process: Process,
    pub weight: u32,
    pub cgroup: u64,
    /// After how many rounds a thread ends and another takes its place, if it does.
    pub rounds: Option<u64>,
    /// The footprint of each thread. Its program has no number yet.
    pub footprint: Footprint,
    pub queue: Queue,
    pub arrivals: Option<Arrivals>,
    pub begin: Begin,
    pub steps: Vec<Step>,
    /// If this is false, neither its threads nor what arrives for it are there, and the other
    /// groups draw the same as they do beside them.
    pub takes_part: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    #[default]
    Machine,
    Core,
    Cpu,
}

/// Whether each thread is a process of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    #[default]
    Each,
    One,
}

/// Where threads wait for what is sent to their group: each at a queue of its own, or all at one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    Each,
    #[default]
    Shared,
}

/// The step with which a thread begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Begin {
    #[default]
    First,
    /// A step drawn at random, so that threads that always do the same do not do it at the same
    /// time.
    Anywhere,
}

/// How requests arrive, for each phase.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Requests arrive at random, whatever has become of those before, at a share of the rate that
    /// the machine could do.
    OfCapacity(Vec<f64>),
    PerSecond(Vec<f64>),
    /// A number of clients, each of which waits for its answer and then thinks.
    Clients(u32, Length),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub what: What,
    /// The step is part of one round in so many.
    pub every: u64,
    /// The share of the footprint that it uses.
    pub uses: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// With AVX-512 this is work of the first kind, and its length is divided by the factor.
    /// Without, it is work of the second kind.
    Work(Kind, Kind, Length, f64),
    Sleep(Length),
    Syscall,
    Yield,
    /// Waits for something that is sent to the group.
    Wait,
    /// Sends something to another group.
    Send(usize),
    /// A request is done.
    Done,
}

/// How long something takes, in nanoseconds, for each phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Length {
    means: Vec<f64>,
    /// The shapes for each phase. They are stored because making them takes long.
    shapes: Vec<Shape>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Fixed,
    Exponential(Exp<f64>),
    Gamma(Gamma<f64>),
    Lognormal(LogNormal<f64>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    #[default]
    Fixed,
    Exponential,
    Gamma,
    Lognormal,
}

impl Length {
    /// The spread is the standard deviation, relative to the mean.
    pub fn new(means: Vec<f64>, form: Form, spread: f64) -> Result<Self> {
        let shapes = means
            .iter()
            .map(|mean| Shape::new(*mean, form, spread))
            .collect::<Option<_>>()
            .context("there is no such distribution")?;
        Ok(Self { means, shapes })
    }

    pub fn mean(&self, phase: usize) -> f64 {
        self.means.get(phase).copied().unwrap_or(0.0)
    }

    pub fn sample(&self, phase: usize, random: &mut Pcg64) -> f64 {
        match self.shapes.get(phase).unwrap_or(&Shape::Fixed) {
            Shape::Fixed => self.mean(phase),
            Shape::Exponential(it) => it.sample(random),
            Shape::Gamma(it) => it.sample(random),
            Shape::Lognormal(it) => it.sample(random),
        }
    }
}

impl Shape {
    fn new(mean: f64, form: Form, spread: f64) -> Option<Self> {
        // What takes no time on average always takes none.
        if mean == 0.0 || spread == 0.0 {
            return Some(Shape::Fixed);
        }
        Some(match form {
            Form::Fixed => Shape::Fixed,
            Form::Exponential => Shape::Exponential(Exp::new(1.0 / mean).ok()?),
            Form::Gamma => {
                let shape = 1.0 / (spread * spread);
                Shape::Gamma(Gamma::new(shape, mean / shape).ok()?)
            }
            Form::Lognormal => Shape::Lognormal(LogNormal::from_mean_cv(mean, spread).ok()?),
        })
    }
}

impl Workload {
    /// Returns for each group whether all that is sent to it comes from outside, however many
    /// requests wait: these are its own requests, or those of a group of which this is true, too.
    pub fn open_groups(&self) -> Vec<bool> {
        let waits = |of: &Group| of.has(&What::Wait);
        let has_clients = |of: &Group| of.think().is_some();
        let mut are_open: Vec<bool> =
            self.groups.iter().map(|group| waits(group) && !has_clients(group)).collect();
        loop {
            let senders = self.groups.iter().zip(&are_open).filter(|(_, is_open)| !**is_open);
            let sent = senders.flat_map(|(group, _)| group.sends_to());
            let paced: Vec<usize> = sent.filter(|to| are_open.get(*to) == Some(&true)).collect();
            if paced.is_empty() {
                return are_open;
            }
            for group in paced {
                are_open[group] = false;
            }
        }
    }

    pub fn nr_threads(&self, topology: &Topology) -> usize {
        self.groups.iter().map(|group| group.nr_threads(topology)).sum()
    }
}

impl Group {
    pub fn has(&self, what: &What) -> bool {
        self.steps.iter().any(|step| step.what == *what)
    }

    pub fn sleeps(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.what, What::Wait | What::Sleep(_)))
    }

    /// Returns how long its clients think, if it has any.
    pub fn think(&self) -> Option<&Length> {
        match &self.arrivals {
            Some(Arrivals::Clients(_, think)) => Some(think),
            _ => None,
        }
    }

    /// Returns the numbers of the groups that it sends to.
    pub fn sends_to(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| match step.what {
            What::Send(to) => Some(to),
            _ => None,
        })
    }

    pub fn nr_threads(&self, topology: &Topology) -> usize {
        let times = match self.per {
            Per::Machine => 1,
            Per::Core => topology.nr_cores(),
            Per::Cpu => topology.cpus.len(),
        };
        self.threads as usize * times
    }

    /// Returns how many requests the machine could do in a second, without AVX-512 and if it did
    /// nothing else.
    pub fn capacity(&self, phase: usize, model: &Model, topology: &Topology) -> f64 {
        1e9 * machine_capacity(model, topology) / self.work_of_request(phase).max(1.0)
    }

    /// Returns the mean work of a request without AVX-512, in nanoseconds.
    pub fn work_of_request(&self, phase: usize) -> f64 {
        let per_round = |what: fn(&What, usize) -> f64| -> f64 {
            self.steps.iter().map(|step| what(&step.what, phase) / step.every as f64).sum()
        };
        let work = per_round(|what, phase| match what {
            What::Work(_, _, length, _) => length.mean(phase),
            _ => 0.0,
        });
        let done = per_round(|what, _| f64::from(u8::from(*what == What::Done)));
        if done > 0.0 { work / done } else { 0.0 }
    }
}

/// Returns how much work the machine can do, in CPUs that have a core at its highest clock to
/// themselves.
fn machine_capacity(model: &Model, topology: &Topology) -> f64 {
    let (cpus, cores) = (topology.cpus.len(), topology.nr_cores());
    let per_core = if cpus > cores { 2.0 * model.smt_share } else { 1.0 };
    let busy = model.step(topology.cores_of_a_socket() as u32);
    let clock = f64::from(model.mhz(busy, Licence::L0)) / f64::from(model.top_mhz().max(1));
    cores as f64 * per_core * clock
}

#[cfg(test)]
mod tests {
    use rand_pcg::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn samples_have_the_mean_and_the_spread_that_was_asked_for() {
        for form in [Form::Exponential, Form::Gamma, Form::Lognormal] {
            let spread = if form == Form::Exponential { 1.0 } else { 0.5 };
            let length = Length::new(vec![0.0, 2000.0], form, spread).unwrap();
            let mut random = Pcg64::seed_from_u64(1);
            let n = 100_000;
            let all: Vec<f64> = (0..n).map(|_| length.sample(1, &mut random)).collect();
            let mean = all.iter().sum::<f64>() / f64::from(n);
            let variance = all.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / f64::from(n);
            assert!((mean / 2000.0 - 1.0).abs() < 0.02, "{form:?}: {mean}");
            assert!((variance.sqrt() / mean / spread - 1.0).abs() < 0.05, "{form:?}: {variance}");
            assert_eq!(length.sample(0, &mut random), 0.0);
        }
    }

    #[test]
    fn open_is_who_is_sent_nothing_but_from_outside() {
        let mut text = "about = \"it\"\n".to_owned();
        for (name, arrivals, steps) in [
            ("front", "arrivals = { per_second = 9 }", "\"wait\", WORK, { send = \"back\" }"),
            ("back", "", "\"wait\", WORK, \"done\""),
            (
                "asked",
                "arrivals = { clients = 2 }",
                "\"wait\", WORK, { send = \"paced\" }, \"done\"",
            ),
            ("paced", "", "\"wait\", WORK, { send = \"next\" }, \"done\""),
            ("next", "arrivals = { per_second = 9 }", "\"wait\", WORK, \"done\""),
            ("busy", "", "WORK, \"done\""),
        ] {
            let steps = steps.replace("WORK", "{ work = \"scalar\", us = 9 }");
            text += &format!("[[group]]\nname = \"{name}\"\n{arrivals}\nsteps = [{steps}]\n");
        }
        let workload = file::read("it", &text).unwrap();
        assert_eq!(workload.open_groups(), [true, true, false, false, false, false]);
    }

    /// 20 CPUs of 10 cores do as much as 12, and a request of the server takes 1.7 ms.
    #[test]
    fn capacity_is_what_a_machine_could_do() {
        let topology = Topology::regular(1, 1, 10, 2);
        let model = Model::named("i9-7940x").unwrap();
        let nginx = Workload::named("nginx").unwrap();
        let capacity = nginx.groups[0].capacity(0, &model, &topology);
        assert!((capacity - 12.0 / 0.0017).abs() < 1.0, "{capacity}");
    }
}
