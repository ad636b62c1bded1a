// SPDX-License-Identifier: GPL-2.0-only
//! Lets time pass: programs do their work on the CPUs that the scheduler gives them, as fast as
//! the hardware lets them, one event after the other.
//!
//! Work is measured in nanoseconds on a CPU at its best. How fast it is done changes while it is
//! done, so what is left of it is brought up to date whenever the rate of its CPU changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use anyhow::Result;

use super::channels::{Channel, Channels};
use super::event::{Event, Occasion};
use super::program::{Home, Program, Source, Step, sample_of};
use super::{BEGIN_NS, Code, Kernel, Task};
use crate::sim::machine::Place;
use crate::sim::machine::caches::{self, Caches, Footprint, Timing};
use crate::sim::machine::hardware::Hardware;
use crate::sim::machine::model::Kind;

/// How long the kernel itself takes for things, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub tick_every: u64,
    pub switch: f64,
    pub fault: f64,
    pub syscall: f64,
    /// The time until another CPU hears that it is to schedule.
    pub kick: u64,
    /// Beyond these times: those that tasks wait for what is missing in caches.
    pub caches: Timing,
}

/// A server of a few GHz: a switch of 4,000 instructions, a fault of 1,200, as measured.
pub const COSTS: Costs = Costs {
    tick_every: 1_000_000,
    switch: 1500.0,
    fault: 500.0,
    syscall: 200.0,
    kick: 1500,
    caches: caches::SKYLAKE,
};

/// The kernel's watchdog would not let a task wait for longer.
pub(super) const WATCHDOG_NS: u64 = 30_000_000_000;

/// Less than this is due to rounding.
pub(super) const ALMOST_NOTHING: f64 = 1e-3;

pub(super) struct Thread {
    /// Threads are numbered in the order in which they began.
    pub(super) number: u64,
    pub(super) program: Box<dyn Program>,
    pub(super) step: Option<Step>,
    /// What is left of the step, and of what the kernel does before the step goes on.
    pub(super) work_left: f64,
    pub(super) kernel_left: f64,
    /// For how long it waits for its caches before that, and the core whose caches these are.
    stall_left: f64,
    fetches_to: usize,
    pub(super) home: Home,
    /// What it has done, by kind.
    pub(super) done: Work,
    clocked: Clocked,
}

impl Thread {
    /// Returns the work that the thread itself does, if the kernel does nothing for it now.
    fn executes(&self) -> Option<Kind> {
        match self.step {
            Some(Step::Work(kind, _)) if self.kernel_left <= 0.0 => Some(kind),
            _ => None,
        }
    }
}

/// What licences did to a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocked {
    pub ran: f64,
    /// The part of that which is lost to lower clocks, throttling and halts, and the part that the
    /// scheduler takes for lost.
    pub lost: f64,
    pub waived: f64,
}

/// Nanoseconds of work by kind.
pub type Work = [f64; Kind::ALL.len()];

#[derive(Clone, Copy, Default)]
struct Cpu {
    plan: u64,
    /// Up to when the work is brought up to date, and how fast it has been done since then.
    at: u64,
    rate: f64,
    loses: f64,
    running: Option<Task>,
    /// The number of the thread that runs.
    thread: u64,
    /// The hardware was told that the thread waits for its caches.
    waits: bool,
    done: Work,
}

pub struct Engine<H> {
    pub(super) kernel: Kernel,
    hardware: H,
    pub(super) costs: Costs,
    pub(super) now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    nr_events: u64,
    cpus: Vec<Cpu>,
    pub(super) threads: BTreeMap<Task, Thread>,
    /// How many threads ever began.
    nr_threads: u64,
    pub(super) channels: Channels,
    pub(super) caches: Caches<Task>,
    sources: Vec<Box<dyn Source>>,
    /// Moves between CPUs by tasks that are gone.
    pub(super) past_moves: u64,
    pub(super) wide_faults: u64,
    /// For how long tasks that are gone ran, by program.
    pub(super) past_ran: BTreeMap<u64, u64>,
    /// Work that programs gave to CPUs.
    pub(super) given: f64,
    /// What the next sample of code is drawn from.
    dice: u64,
    pub(super) occasion: Occasion,
}

impl<H: Hardware> Engine<H> {
    pub fn new(kernel: Kernel, hardware: H, costs: Costs) -> Self {
        let nr_cpus = kernel.nr_cpus();
        let places: Vec<Place> = (0..nr_cpus).map(|cpu| hardware.place(cpu)).collect();
        let mut engine = Self {
            kernel,
            hardware,
            costs,
            now: BEGIN_NS,
            events: BinaryHeap::new(),
            nr_events: 0,
            cpus: vec![Cpu { at: BEGIN_NS, ..Cpu::default() }; nr_cpus as usize],
            threads: BTreeMap::new(),
            nr_threads: 0,
            channels: Channels::default(),
            caches: Caches::new(costs.caches, &places),
            sources: Vec::new(),
            past_moves: 0,
            wide_faults: 0,
            past_ran: BTreeMap::new(),
            given: 0.0,
            dice: 1,
            occasion: Occasion::Outside,
        };
        for cpu in 0..nr_cpus {
            // As on a machine, CPUs do not tick all at once.
            let phase = costs.tick_every * u64::from(cpu) / u64::from(nr_cpus);
            engine.at(BEGIN_NS + costs.tick_every + phase, Event::Tick(cpu));
        }
        engine.at(BEGIN_NS + WATCHDOG_NS, Event::Watchdog);
        engine
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub fn hardware_mut(&mut self) -> &mut H {
        &mut self.hardware
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns how many events were ever planned.
    pub fn nr_events(&self) -> u64 {
        self.nr_events
    }

    /// Makes a task that begins at once.
    pub fn spawn_in(&mut self, program: Box<dyn Program>, home: Home) -> Task {
        let cpu = home.process.map_or(0, |process| self.kernel.cpu_of(process));
        self.spawn_on(cpu, program, home)
    }

    /// Makes a task that begins at once, as a child of what runs on the CPU.
    pub(super) fn spawn_on(&mut self, cpu: u32, program: Box<dyn Program>, home: Home) -> Task {
        let is_thread = home.process.is_some();
        let task = self.kernel.spawn(home.process, is_thread, home.weight, home.cgroup, cpu);
        self.nr_threads += 1;
        let thread = Thread {
            number: self.nr_threads,
            program,
            step: None,
            work_left: 0.0,
            kernel_left: 0.0,
            stall_left: 0.0,
            fetches_to: 0,
            home,
            done: Work::default(),
            clocked: Clocked::default(),
        };
        self.threads.insert(task, thread);
        self.at(self.now, Event::Wake(task));
        task
    }

    pub fn open_channel(&mut self) -> Channel {
        self.channels.open()
    }

    pub fn add_source(&mut self, source: Box<dyn Source>) {
        self.sources.push(source);
        self.ask_source(self.sources.len() - 1);
    }

    fn ask_source(&mut self, source: usize) {
        if let Some((when, channel)) = self.sources.get_mut(source).and_then(|it| it.next()) {
            self.at(when.max(self.now), Event::Arrive { source, channel });
        }
    }

    /// Returns the work that was done on the CPU, up to when that was last brought up to date.
    pub fn work_on(&self, cpu: u32) -> Work {
        self.cpus.get(cpu as usize).map_or(Work::default(), |it| it.done)
    }

    /// Returns what licences did to each of the threads that never needed one.
    pub fn innocent(&self) -> impl Iterator<Item = Clocked> {
        let is_innocent =
            |it: &&Thread| Kind::ALL[2..].iter().all(|kind| it.done[*kind as usize] <= 0.0);
        let threads = self.threads.iter();
        threads
            .filter(move |(_, it)| is_innocent(it))
            .map(|(task, it)| Clocked { waived: self.kernel.waived(*task) as f64, ..it.clocked })
    }

    pub(super) fn at(&mut self, when: u64, event: Event) {
        self.nr_events += 1;
        self.events.push(Reverse((when, self.nr_events, event)));
    }

    /// Lets `ns` nanoseconds pass.
    pub fn run_for(&mut self, ns: u64) -> Result<()> {
        let end = self.now + ns;
        // Something that was done since the last call may have gone wrong.
        self.check()?;
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.go_to(next);
            if self.kernel.next_timer().is_some_and(|at| at <= self.now) {
                self.occasion = Occasion::Timers;
                self.kernel.run_timer();
                self.settle_resched(None);
            } else if let Some(event) = self.pop_due() {
                self.occasion = self.occasion_of(event);
                let outcome = self.happen(event);
                if let Err(error) = outcome {
                    return Err(self.failed(&format!("{error:#}")));
                }
            }
            self.check()?;
        }
        self.go_to(end);
        self.occasion = Occasion::Outside;
        Ok(())
    }

    fn occasion_of(&self, event: Event) -> Occasion {
        match event {
            Event::Done { cpu, .. } => {
                Occasion::EndOfWork { cpu, thread: self.cpus[cpu as usize].thread }
            }
            _ => Occasion::Event(event),
        }
    }

    fn pop_due(&mut self) -> Option<Event> {
        if self.events.peek().is_none_or(|Reverse((at, ..))| *at > self.now) {
            return None;
        }
        self.events.pop().map(|Reverse((_, _, event))| event)
    }

    fn next_time(&self) -> Option<u64> {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        [event, self.kernel.next_timer(), self.hardware.next_change()].into_iter().flatten().min()
    }

    fn go_to(&mut self, time: u64) {
        self.now = self.now.max(time);
        self.kernel.set_time(self.now);
        self.hardware.advance(self.now);
        self.follow_rates();
    }

    /// Counts what was done at the old rates as done, and plans anew when what is under way will be
    /// done.
    fn follow_rates(&mut self) {
        while let Some(cpu) = self.hardware.take_changed() {
            self.bring_up_to_date(cpu);
            self.plan(cpu);
        }
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Done { cpu, plan } if self.cpus[cpu as usize].plan == plan => self.go_on(cpu),
            Event::Done { .. } => {}
            Event::Schedule(cpu) => self.schedule(cpu),
            Event::Tick(cpu) => {
                self.bring_up_to_date(cpu);
                let sample = self.sample(cpu);
                self.tell_counts(cpu);
                self.kernel.tick(cpu, sample);
                self.settle_resched(Some(cpu));
                self.at(self.now + self.costs.tick_every, Event::Tick(cpu));
            }
            Event::Wake(task) => {
                self.kernel.wake_by_timer(task);
                self.settle_resched(None);
            }
            Event::Send(channel, cpu) => self.send(channel, Some(cpu)),
            Event::Arrive { source, channel } => {
                self.send(channel, None);
                self.ask_source(source);
            }
            Event::Give(cpu) => self.give_cpu(cpu),
            Event::Eject => self.eject(),
            Event::Load => self.load()?,
            Event::Watchdog => self.watch_waits()?,
        }
        Ok(())
    }

    /// The task that waits for it wakes up. An interrupt from outside comes where the task is.
    pub(super) fn send(&mut self, channel: Channel, waker: Option<u32>) {
        let Some(task) = self.channels.send(channel, self.now) else { return };
        if let Some(thread) = self.threads.get_mut(&task) {
            thread.program.received(self.now);
        }
        self.kernel.wake_by_message(task, waker.unwrap_or(self.kernel.cpu_of(task)));
        self.settle_resched(waker);
    }

    /// Lets the CPUs that are to schedule do so: `here` at once, the others when they hear of it.
    pub(super) fn settle_resched(&mut self, here: Option<u32>) {
        while let Some(cpu) = self.kernel.take_resched() {
            if here == Some(cpu) {
                self.schedule(cpu);
            } else {
                let delay = self.costs.kick + self.hardware.wakes_in(cpu);
                self.at(self.now + delay, Event::Schedule(cpu));
            }
        }
    }

    fn schedule(&mut self, cpu: u32) {
        self.bring_up_to_date(cpu);
        self.tell_counts(cpu);
        self.kernel.schedule(cpu);
        self.switched(cpu);
        self.settle_resched(Some(cpu));
    }

    /// What runs on the CPU goes to sleep.
    pub(super) fn block(&mut self, cpu: u32) {
        self.tell_counts(cpu);
        self.kernel.block(cpu);
        self.switched(cpu);
    }

    /// A program that reads counters on the CPU finds what was counted up to now.
    fn tell_counts(&mut self, cpu: u32) {
        if let Some(counts) = self.hardware.counts(cpu) {
            self.kernel.set_counts(cpu, counts);
        }
    }

    /// Another task may run on the CPU now, or none.
    pub(super) fn switched(&mut self, cpu: u32) {
        let task = self.kernel.current(cpu);
        if task == self.cpus[cpu as usize].running {
            return;
        }
        self.cpus[cpu as usize].running = task;
        if let Some(thread) = task.and_then(|task| self.threads.get_mut(&task)) {
            thread.kernel_left += self.costs.switch;
            self.cpus[cpu as usize].thread = thread.number;
        }
        self.fetch(cpu);
        self.execute(cpu);
    }

    /// Lets the task wait for what its present work uses and the caches here do not have.
    pub(super) fn fetch(&mut self, cpu: u32) {
        let Some(task) = self.cpus[cpu as usize].running else { return };
        let Some(thread) = self.threads.get_mut(&task) else { return };
        if thread.work_left > 0.0 {
            let (footprint, share) = (thread.home.footprint, thread.program.uses());
            // What had still to come to another core does not delay the task here.
            let core = self.caches.core_of(cpu);
            if thread.fetches_to != core {
                (thread.fetches_to, thread.stall_left) = (core, 0.0);
            }
            thread.stall_left += self.caches.fetch(task, &footprint, cpu, share, thread.work_left);
        }
    }

    /// Tells the hardware what the CPU does now.
    pub(super) fn execute(&mut self, cpu: u32) {
        let what = self.running(cpu).map(|(_, thread)| thread.executes().unwrap_or(Kind::Scalar));
        self.bring_up_to_date(cpu);
        let waits = self.running(cpu).is_some_and(|(_, thread)| thread.stall_left > 0.0);
        self.cpus[cpu as usize].waits = waits;
        self.hardware.run(cpu, what);
        self.hardware.wait(cpu, waits);
        self.follow_rates();
        self.plan(cpu);
    }

    pub(super) fn running(&mut self, cpu: u32) -> Option<(Task, &mut Thread)> {
        let task = self.cpus[cpu as usize].running?;
        self.threads.get_mut(&task).map(|thread| (task, thread))
    }

    /// Returns the code at which a tick finds the CPU. In the kernel this is scalar code.
    fn sample(&mut self, cpu: u32) -> &'static Code {
        self.dice = self.dice.wrapping_mul(6364136223846793005).wrapping_add(1);
        let nth = self.dice >> 40;
        let executes = self.running(cpu).and_then(|(_, thread)| thread.executes());
        sample_of(executes, nth)
    }

    pub(super) fn bring_up_to_date(&mut self, cpu: u32) {
        let now = self.now;
        let it = &mut self.cpus[cpu as usize];
        let (mut passed, rate) = ((now - it.at) as f64, it.rate);
        let lost = passed * it.loses;
        it.at = now;
        it.rate = self.hardware.rate(cpu);
        it.loses = self.hardware.loses(cpu);
        let Some((_, thread)) = self.running(cpu) else { return };
        thread.clocked.ran += passed;
        thread.clocked.lost += lost;
        if rate > 0.0 {
            let stalled = passed.min(thread.stall_left);
            thread.stall_left -= stalled;
            passed -= stalled;
            if thread.stall_left <= ALMOST_NOTHING {
                thread.stall_left = 0.0;
            }
        }
        let mut done = passed * rate;
        let in_kernel = done.min(thread.kernel_left);
        thread.kernel_left -= in_kernel;
        done -= in_kernel;
        if let Some(Step::Work(kind, _)) = thread.step {
            let work = done.min(thread.work_left);
            thread.work_left -= work;
            thread.done[kind as usize] += work;
            self.cpus[cpu as usize].done[kind as usize] += work;
        }
    }

    /// Plans when what is under way will be done, if the rate stays what it is.
    fn plan(&mut self, cpu: u32) {
        let it = &mut self.cpus[cpu as usize];
        it.plan += 1;
        let (now, plan, rate) = (self.now, it.plan, self.hardware.rate(cpu));
        let has_waited = self.has_waited(cpu);
        let Some((_, thread)) = self.running(cpu) else { return };
        // What it waits for, the kernel's part and the step come one after the other. The hardware
        // is told at once that a wait is over, even if another CPU's rate changes at that moment.
        let ns = match (thread.stall_left, thread.kernel_left) {
            _ if has_waited => 0.0,
            (stall, _) if stall > 0.0 => stall,
            (_, kernel) if kernel > 0.0 => kernel / rate,
            _ => thread.work_left / rate,
        };
        if rate > 0.0 {
            self.at(now + ns.ceil() as u64, Event::Done { cpu, plan });
        }
    }

    /// Returns true if the hardware still takes the CPU to wait, but the wait is over.
    pub(super) fn has_waited(&mut self, cpu: u32) -> bool {
        let waits = self.cpus[cpu as usize].waits;
        waits && self.running(cpu).is_some_and(|(_, thread)| thread.stall_left <= 0.0)
    }
}

impl<H> Drop for Engine<H> {
    fn drop(&mut self) {
        for task in std::mem::take(&mut self.threads).into_keys() {
            self.kernel.exit(task);
        }
    }
}

// Only trials and tests ask for these.
#[cfg_attr(not(test), allow(dead_code))]
impl<H: Hardware> Engine<H> {
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Makes a process that begins at once.
    pub fn spawn(&mut self, program: Box<dyn Program>, weight: u32) -> Task {
        let footprint = Footprint::default();
        self.spawn_in(program, Home { process: None, weight, cgroup: 1, footprint })
    }

    /// Returns how much was sent that no task has taken yet.
    pub fn nr_sent(&self) -> usize {
        self.channels.nr_sent()
    }

    /// Returns how many threads did not exit.
    pub fn nr_threads(&self) -> usize {
        self.threads.len()
    }

    /// Returns the work of this kind that the thread has done.
    pub fn work_done(&self, task: Task, kind: Kind) -> f64 {
        self.threads.get(&task).map_or(0.0, |it| it.done[kind as usize])
    }

    /// Returns the work that programs gave to CPUs, and how much of it was found again: it is done,
    /// or left to do.
    pub fn given_and_found(&self) -> (f64, f64) {
        let done: f64 = self.cpus.iter().flat_map(|cpu| cpu.done).sum();
        let left: f64 = self.threads.values().map(|it| it.work_left).sum();
        (self.given, done + left)
    }
}
