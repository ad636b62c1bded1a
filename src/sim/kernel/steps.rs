// SPDX-License-Identifier: GPL-2.0-only
//! What programs do, step by step.

use super::Task;
use super::channels::Channel;
use super::engine::{ALMOST_NOTHING, Engine, Thread};
use super::event::Event;
use super::program::{Step, code_of, is_wide};
use crate::sim::machine::hardware::Hardware;

impl<H: Hardware> Engine<H> {
    /// What was under way on the CPU is done.
    pub(super) fn go_on(&mut self, cpu: u32) {
        self.bring_up_to_date(cpu);
        if self.has_waited(cpu) {
            self.execute(cpu);
            return;
        }
        while let Some(task) = self.take_step(cpu) {
            if self.kernel.current(cpu) != Some(task) {
                return;
            }
            if self.running(cpu).is_some_and(|(_, it)| it.kernel_left > 0.0 || it.work_left > 0.0) {
                self.execute(cpu);
                return;
            }
        }
    }

    /// Begins the next step on the CPU, unless the CPU is still at something. Returns the task that
    /// is at it.
    fn take_step(&mut self, cpu: u32) -> Option<Task> {
        let (now, mut given) = (self.now, 0.0);
        let (task, thread) = self.running(cpu)?;
        if thread.kernel_left <= ALMOST_NOTHING {
            thread.kernel_left = 0.0;
            let was_hint = matches!(thread.step, Some(Step::Hint(_)));
            if thread.step.is_none() || thread.work_left <= ALMOST_NOTHING {
                let step = thread.program.next(now);
                thread.step = Some(step);
                thread.work_left = if let Step::Work(_, work) = step { work } else { 0.0 };
                given = thread.work_left;
            }
            let step = thread.step;
            self.given += given;
            if was_hint {
                self.kernel.end_hint(cpu);
            }
            self.begin(cpu, task, step);
        }
        Some(task)
    }

    /// The step is under way from now on. What the kernel has to do with it happens at once.
    fn begin(&mut self, cpu: u32, task: Task, step: Option<Step>) {
        match step {
            Some(Step::Work(kind, _)) => {
                self.kernel.set_wide_registers(task, is_wide(kind));
                if let Some(code) = code_of(kind).filter(|_| self.kernel.is_hidden_from(task)) {
                    self.kernel.fault(cpu, code);
                    self.charge(task, self.costs.fault);
                    self.wide_faults += u64::from(is_wide(kind));
                }
            }
            Some(Step::Syscall) => {
                self.kernel.syscall(cpu);
                self.charge(task, self.costs.syscall);
            }
            Some(Step::Hint(hint)) => {
                self.kernel.hint(cpu, hint);
                self.charge(task, self.costs.syscall);
            }
            Some(Step::Sleep(ns)) => {
                self.at(self.now + ns, Event::Wake(task));
                self.block(cpu);
            }
            Some(Step::Yield) => self.kernel.let_others_run(cpu),
            Some(Step::Wait(channel)) => self.wait(cpu, task, channel),
            Some(Step::Send(channel, 0)) => self.send(channel, Some(cpu)),
            Some(Step::Send(channel, ns)) => self.at(self.now + ns, Event::Send(channel, cpu)),
            Some(Step::Succeed) => {
                if let Some(thread) = self.exit(cpu, task) {
                    self.spawn_on(cpu, thread.program, thread.home);
                }
            }
            Some(Step::Exit) => {
                self.exit(cpu, task);
            }
            None => {}
        }
        self.settle_resched(Some(cpu));
        // A task that faulted and goes on elsewhere has used nothing of its footprint here.
        if matches!(step, Some(Step::Work(..))) && self.kernel.current(cpu) == Some(task) {
            self.fetch(cpu);
        }
    }

    fn wait(&mut self, cpu: u32, task: Task, channel: Channel) {
        match self.channels.take(channel, task) {
            Some(sent_at) => {
                if let Some(thread) = self.threads.get_mut(&task) {
                    thread.program.received(sent_at);
                }
            }
            None => self.block(cpu),
        }
    }

    fn exit(&mut self, cpu: u32, task: Task) -> Option<Thread> {
        self.block(cpu);
        self.past_moves += self.kernel.moves(task);
        let (thread, ran) = (self.threads.remove(&task), self.kernel.ran(task));
        if let Some(thread) = &thread {
            *self.past_ran.entry(thread.home.footprint.program).or_default() += ran;
        }
        self.kernel.exit(task);
        self.caches.forget(task);
        thread
    }

    fn charge(&mut self, task: Task, ns: f64) {
        if let Some(thread) = self.threads.get_mut(&task) {
            thread.kernel_left += ns;
        }
    }
}
