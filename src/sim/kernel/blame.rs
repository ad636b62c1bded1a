// SPDX-License-Identifier: GPL-2.0-only
//! What the machine was at when something went wrong, and whether a task waits for too long.

use anyhow::{Result, anyhow, bail, ensure};

use super::Task;
use super::engine::{Engine, Thread, WATCHDOG_NS};
use super::event::{Event, Occasion};
use super::failure::{Failure, time};
use crate::sim::machine::hardware::Hardware;

impl<H: Hardware> Engine<H> {
    /// Notes what is done from outside. What went wrong before keeps the occasion that it had.
    pub(super) fn is_at(&mut self, occasion: Occasion) {
        if self.kernel.failure().is_none() {
            self.occasion = occasion;
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(failure) = self.kernel.failure() {
            bail!("{}", Failure { occasion: Some(self.name_of(self.occasion)), ..failure });
        }
        Ok(())
    }

    /// Returns the error for something that is no rule of the kernel's.
    pub(super) fn failed(&self, what: &str) -> anyhow::Error {
        let occasion = Some(self.name_of(self.occasion));
        let what = what.to_owned();
        anyhow!("{}", Failure { at: self.now, occasion, callback: None, task: None, what })
    }

    /// Fails if any task waits for longer than that.
    pub fn waits_at_most(&self, ns: u64) -> Result<()> {
        let Some((it, since)) = self.waits_longest() else { return Ok(()) };
        ensure!(
            self.now - since <= ns,
            "{} waits for more than {} ms, since {}",
            self.name_of_thread(it.number),
            ns / 1_000_000,
            time(since)
        );
        Ok(())
    }

    /// Fails if a task waits for too long. It looks again when the task that waits for the longest
    /// would have waited for too long, because no other one can have before. Without a scheduler
    /// no task waits for one.
    pub(super) fn watch_waits(&mut self) -> Result<()> {
        let mut since = self.now;
        if self.kernel.is_attached() {
            self.waits_at_most(WATCHDOG_NS)?;
            since = self.waits_longest().map_or(since, |(_, since)| since);
        }
        self.at(since + WATCHDOG_NS + 1, Event::Watchdog);
        Ok(())
    }

    /// Returns the thread that waits for the longest, and since when.
    fn waits_longest(&self) -> Option<(&Thread, u64)> {
        let threads = self.threads.iter();
        let waiting = threads.filter_map(|(task, it)| Some((it, self.kernel.waits_since(*task)?)));
        // Numbers decide between equals, because it is chance where tasks are in memory.
        waiting.min_by_key(|(it, since)| (*since, it.number))
    }

    fn name_of(&self, occasion: Occasion) -> String {
        match occasion {
            Occasion::Outside => "between two events".to_owned(),
            Occasion::Timers => "in a timer".to_owned(),
            Occasion::EndOfWork { cpu, thread } => {
                format!("at the end of work of {} on CPU {cpu}", self.name_of_thread(thread))
            }
            Occasion::OfTask(task, what) => format!("as {} {what}", self.name_of_task(task)),
            Occasion::OfCpu(cpu, what) => format!("as CPU {cpu} {what}"),
            Occasion::Event(event) => self.name_of_event(event),
        }
    }

    fn name_of_event(&self, event: Event) -> String {
        match event {
            Event::Done { cpu, .. } => format!("at the end of work on CPU {cpu}"),
            Event::Schedule(cpu) => format!("as CPU {cpu} schedules"),
            Event::Tick(cpu) => format!("in a tick of CPU {cpu}"),
            Event::Wake(task) => format!("as {} wakes up", self.name_of_task(task)),
            Event::Send(_, cpu) => format!("as something is sent by CPU {cpu}"),
            Event::Arrive { .. } => "as something arrives".to_owned(),
            Event::Give(cpu) => format!("as a realtime task gives CPU {cpu} back"),
            Event::Eject => "as the scheduler is ejected".to_owned(),
            Event::Load => "as the scheduler is loaded".to_owned(),
            Event::Watchdog => "in the watchdog".to_owned(),
        }
    }

    fn name_of_task(&self, task: Task) -> String {
        let thread = self.threads.get(&task);
        thread.map_or("a thread that is gone".to_owned(), |it| self.name_of_thread(it.number))
    }

    fn name_of_thread(&self, number: u64) -> String {
        match self.threads.values().find(|it| it.number == number) {
            Some(it) => format!("thread {number} of {}", it.program.name()),
            None => format!("thread {number}"),
        }
    }
}
