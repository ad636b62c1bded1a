// SPDX-License-Identifier: GPL-2.0-only
//! A thread of a workload, and the requests that come to it.

use std::rc::Rc;

use rand_distr::{Distribution, Exp1, StandardUniform};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::record::SharedRecord;
use super::{Begin, Length, What, Workload};
use crate::sim::kernel::channels::Channel;
#[cfg(test)]
use crate::sim::kernel::channels::Channels;
use crate::sim::kernel::program::{Program, Source, Step};

/// The times at which phases begin, on the machine's clock.
#[derive(Clone, Debug)]
pub struct Phases(Vec<u64>);

impl Phases {
    pub fn new(workload: &Workload, begin: u64) -> Self {
        Self(workload.phases.iter().map(|at| begin + at).collect())
    }

    fn at(&self, now: u64) -> usize {
        self.0.partition_point(|begin| *begin <= now).saturating_sub(1)
    }

    fn end_of(&self, phase: usize) -> Option<u64> {
        self.0.get(phase + 1).copied()
    }
}

/// What all threads of a group have in common.
pub struct Script {
    /// The name of the group.
    pub name: String,
    pub steps: Vec<super::Step>,
    pub begin: Begin,
    pub phases: Phases,
    pub rounds: Option<u64>,
    pub has_avx512: bool,
    /// The channels of each group.
    pub channels: Vec<Vec<Channel>>,
    /// How long clients that have waited for an answer think before they ask again.
    pub think: Option<Length>,
    /// The work of a request, by phase.
    pub worth: Vec<f64>,
    pub record: SharedRecord,
    /// The record of each group.
    pub records: Vec<SharedRecord>,
}

pub struct Worker {
    script: Rc<Script>,
    /// The number of the thread within its group.
    number: usize,
    random: Pcg64,
    /// Where requests for this thread come in.
    inbox: Option<Channel>,
    at: usize,
    round: u64,
    /// Whether any step of the round took time. This begins as true: of the first round it need not
    /// be known.
    took_time: bool,
    /// The round before which the thread ends.
    ends_before: Option<u64>,
    /// When the request that it works on began. Nothing has begun before the first step.
    since: Option<u64>,
    /// Whether it has received something and is not done with it.
    is_owing: bool,
    sent: usize,
    /// The share of the footprint that its present step uses.
    uses: f64,
}

impl Worker {
    pub fn new(script: Rc<Script>, number: usize, seed: u64, inbox: Option<Channel>) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let ends_before = script.rounds;
        let at = match script.begin {
            Begin::First => 0,
            Begin::Anywhere => any_of(script.steps.len(), &mut random),
        };
        Self {
            script,
            number,
            random,
            inbox,
            at,
            round: 0,
            took_time: true,
            ends_before,
            since: None,
            is_owing: false,
            sent: 0,
            uses: 1.0,
        }
    }

    /// Begins a step. Returns None for one that takes no time.
    fn begin(&mut self, what: &What, now: u64) -> Option<Step> {
        let script = self.script.clone();
        let phase = script.phases.at(now);
        match what {
            What::Work(wide, narrow, length, speed_up) => {
                let ns = length.sample(phase, &mut self.random);
                let (mean, worth) = (length.mean(phase), self.worth(phase));
                script.record.borrow_mut().draw(self.number, ns, mean, worth);
                let step = match script.has_avx512 {
                    true => Step::Work(*wide, ns / speed_up),
                    false => Step::Work(*narrow, ns),
                };
                (ns > 0.0).then_some(step)
            }
            What::Sleep(length) => {
                let ns = length.sample(phase, &mut self.random) as u64;
                (ns > 0).then_some(Step::Sleep(ns))
            }
            What::Syscall => Some(Step::Syscall),
            What::Yield => Some(Step::Yield),
            What::Wait => {
                // Not every round need finish a request.
                self.end(now);
                self.inbox.map(Step::Wait)
            }
            What::Send(group) => {
                let channels = script.channels.get(*group)?;
                self.sent += 1;
                script.records.get(*group)?.borrow_mut().arrive(now);
                channels.get(self.sent % channels.len().max(1)).map(|to| Step::Send(*to, 0))
            }
            What::Done => self.finish(now, phase),
        }
    }

    fn worth(&self, phase: usize) -> f64 {
        self.script.worth.get(phase).copied().unwrap_or(0.0)
    }

    fn finish(&mut self, now: u64, phase: usize) -> Option<Step> {
        let since = self.since.replace(now).unwrap_or(now);
        let work = self.worth(phase);
        self.script.record.borrow_mut().finish(now.saturating_sub(since), work);
        if !self.end(now) {
            return None;
        }
        // The client that has sent this request gets its answer once.
        let think = self.script.think.as_ref()?;
        let ns = think.sample(phase, &mut self.random) as u64;
        self.inbox.map(|inbox| Step::Send(inbox, ns))
    }

    /// Marks what was received as done. Returns true if there was anything.
    fn end(&mut self, now: u64) -> bool {
        let was_owing = std::mem::take(&mut self.is_owing);
        if was_owing {
            self.script.record.borrow_mut().end(now);
        }
        was_owing
    }
}

impl Program for Worker {
    fn next(&mut self, now: u64) -> Step {
        self.since.get_or_insert(now);
        let script = self.script.clone();
        loop {
            if self.at == script.steps.len() {
                self.at = 0;
                self.round += 1;
                // A round in which no step takes time ends with a system call, or time would stand
                // still.
                if !std::mem::take(&mut self.took_time) {
                    return Step::Syscall;
                }
            }
            if self.at == 0 && self.ends_before == Some(self.round) {
                self.ends_before = script.rounds.map(|rounds| self.round + rounds);
                return Step::Succeed;
            }
            let Some(step) = script.steps.get(self.at) else { return Step::Syscall };
            let is_due = (self.round + 1).is_multiple_of(step.every);
            let begun = if is_due { self.begin(&step.what, now) } else { None };
            self.at += 1;
            if let Some(begun) = begun {
                self.took_time |= takes_time(begun);
                self.uses = step.uses;
                return begun;
            }
        }
    }

    fn name(&self) -> &str {
        &self.script.name
    }

    fn received(&mut self, sent_at: u64) {
        self.since = Some(sent_at);
        self.is_owing = true;
    }

    fn uses(&self) -> f64 {
        self.uses
    }
}

/// Returns true if a step takes time. A thread that waits may have what it waits for at once, and
/// makes a system call after that.
fn takes_time(step: Step) -> bool {
    matches!(step, Step::Work(..) | Step::Sleep(_) | Step::Syscall)
}

fn any_of(several: usize, random: &mut Pcg64) -> usize {
    let share: f64 = StandardUniform.sample(random);
    ((share * several as f64) as usize).min(several.saturating_sub(1))
}

/// Requests that arrive at random, however many wait.
pub struct Poisson {
    phases: Phases,
    /// The rate of requests, by phase.
    per_second: Vec<f64>,
    channels: Vec<Channel>,
    random: Pcg64,
    at: u64,
    record: SharedRecord,
    is_first: bool,
}

impl Poisson {
    pub fn new(
        phases: Phases,
        per_second: Vec<f64>,
        channels: Vec<Channel>,
        seed: u64,
        begin: u64,
        record: SharedRecord,
    ) -> Self {
        let random = Pcg64::seed_from_u64(seed);
        Self { phases, per_second, channels, random, at: begin, record, is_first: true }
    }

    /// Returns when the next request arrives. Arrivals do not depend on earlier ones, so each phase
    /// begins anew.
    fn next_time(&mut self) -> Option<u64> {
        loop {
            let phase = self.phases.at(self.at);
            let rate = self.per_second.get(phase).copied().unwrap_or(0.0);
            let wait: f64 = Exp1.sample(&mut self.random);
            let time = self.at.saturating_add((wait * 1e9 / rate) as u64);
            match self.phases.end_of(phase).filter(|end| *end <= time) {
                Some(end) => self.at = end,
                None if rate <= 0.0 => return None,
                None => {
                    self.at = time;
                    return Some(time);
                }
            }
        }
    }
}

impl Source for Poisson {
    fn next(&mut self) -> Option<(u64, Channel)> {
        // The request of the previous call has arrived by now.
        if !self.is_first {
            let mut record = self.record.borrow_mut();
            record.arrived += 1;
            record.arrive(self.at);
        }
        self.is_first = false;
        let time = self.next_time()?;
        let chosen = match self.channels.len() {
            1 => 0,
            several => any_of(several, &mut self.random),
        };
        self.channels.get(chosen).map(|channel| (time, *channel))
    }
}

/// The first requests of clients that each wait for an answer. There is one request of each client.
pub struct Clients {
    left: u32,
    channels: Vec<Channel>,
    begin: u64,
}

impl Clients {
    pub fn new(clients: u32, channels: Vec<Channel>, begin: u64) -> Self {
        Self { left: clients, channels, begin }
    }
}

impl Source for Clients {
    fn next(&mut self) -> Option<(u64, Channel)> {
        self.left = self.left.checked_sub(1)?;
        let chosen = self.left as usize % self.channels.len().max(1);
        self.channels.get(chosen).map(|channel| (self.begin, *channel))
    }
}

/// Returns a thread of the first group, which may send to any group.
#[cfg(test)]
pub fn made_up(workload: &Workload, seed: u64) -> Worker {
    let (group, nr) = (&workload.groups[0], workload.groups.len());
    let inbox = Channels::default().open();
    let script = Script {
        name: group.name.clone(),
        steps: group.steps.clone(),
        begin: group.begin,
        phases: Phases::new(workload, 0),
        rounds: group.rounds,
        has_avx512: true,
        channels: vec![vec![inbox]; nr],
        think: group.think().cloned(),
        worth: Vec::new(),
        record: SharedRecord::default(),
        records: vec![SharedRecord::default(); nr],
    };
    Worker::new(Rc::new(script), 0, seed, Some(inbox))
}

/// Returns true if a thread of the first group that begins at `now` does anything that takes time.
#[cfg(test)]
pub fn lets_time_go_on(workload: &Workload, seed: u64, now: u64) -> bool {
    let mut worker = made_up(workload, seed);
    // The thread may begin in the middle of its first round.
    let two_rounds = 2 * (workload.groups[0].steps.len() + 2);
    let is_at_once =
        |step| matches!(step, Step::Send(..) | Step::Wait(_) | Step::Yield | Step::Succeed);
    (0..two_rounds).any(|_| !is_at_once(worker.next(now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::workload::file;

    fn with_steps(lines: &str) -> Workload {
        let sink = "[[group]]\nname = \"sink\"\nsteps = [\"wait\", \"done\"]\n";
        let source = "[[group]]\nname = \"source\"\nsteps = [\"syscall\", { send = \"sink\" }]\n";
        let text = format!(
            "about = \"it\"\nphases_s = [0, 1]\n[[group]]\nname = \"it\"\n{lines}\n{sink}{source}"
        );
        file::read("it", &text).unwrap()
    }

    /// This also holds where the next round begins at once.
    #[test]
    fn a_thread_ends_after_its_rounds() {
        for last in ["\"syscall\"", "\"done\"", "{ do = \"syscall\", every = 2 }"] {
            let steps = format!("steps = [{{ work = \"scalar\", us = 1 }}, \"done\", {last}]");
            let mut worker = made_up(&with_steps(&format!("rounds = 3\n{steps}")), 1);
            let mut works = || {
                let steps = (0..).map(|n| worker.next(n)).take(20);
                let steps = steps.take_while(|step| *step != Step::Succeed);
                steps.filter(|step| matches!(step, Step::Work(..))).count()
            };
            assert_eq!([works(), works()], [3, 3], "{last}");
        }
    }

    /// This holds whatever the thread sends meanwhile.
    #[test]
    fn a_round_takes_time_even_if_no_step_does() {
        for lines in [
            "steps = [{ send = \"sink\" }, { work = \"scalar\", us = 0 }, \"done\"]",
            "steps = [{ send = \"sink\" }, { work = \"scalar\", us = [100, 0] }, \"done\"]",
            "steps = [{ sleep_us = 0 }, \"done\", { send = \"sink\" }]",
            "steps = [{ do = \"syscall\", every = 1000000000 }, { send = \"sink\" }, \"done\"]",
            "arrivals = { clients = 1 }\nsteps = [{ do = \"wait\", every = 1000000000 }, \"done\"]",
        ] {
            assert!(lets_time_go_on(&with_steps(lines), 1, 2_000_000_000), "{lines}");
        }
    }

    /// A round that takes time gets no additional system call.
    #[test]
    fn a_round_takes_no_more_time_than_it_says() {
        let lines = "steps = [{ sleep_us = 1 }, { send = \"sink\" }, \"done\"]";
        let mut worker = made_up(&with_steps(lines), 1);
        let steps: Vec<Step> = (0..8).map(|n| worker.next(n)).collect();
        let nr_calls = steps.iter().filter(|step| **step == Step::Syscall).count();
        assert_eq!(nr_calls, 4, "{steps:?}");
    }
}
