// SPDX-License-Identifier: GPL-2.0-only
//! What comes from outside while programs run: other weights, masks and policies, realtime tasks
//! that take CPUs, and CPUs that go and come, for which the scheduler is loaded anew.

use anyhow::Result;

use super::channels::Channel;
use super::engine::Engine;
use super::event::{Event, Occasion};
use super::{MASK_WORDS, Task};
use crate::sim::machine::hardware::Hardware;

/// How long it takes until the kernel has ejected a scheduler, and until the agent has loaded it
/// again.
const EJECT_NS: u64 = 500_000;
const LOAD_NS: u64 = 20_000_000;

// Only trials and tests do these.
#[cfg_attr(not(test), allow(dead_code))]
impl<H: Hardware> Engine<H> {
    /// Changes the weight of the task at once, as `nice` does.
    pub fn weigh(&mut self, task: Task, weight: u32) {
        self.change_task(task, "gets a weight", |engine| engine.kernel.weigh(task, weight, false));
    }

    /// The task has realtime priority for a moment, if it runs.
    pub fn boost(&mut self, task: Task) {
        self.change_task(task, "is boosted", |engine| {
            engine.kernel.be_realtime(task, true, false);
            engine.kernel.be_realtime(task, false, false);
        });
    }

    /// The task has realtime priority from now on, if it runs; or no longer, if it does not wait.
    #[cfg(test)]
    pub fn be_realtime(&mut self, task: Task, is_realtime: bool) {
        self.change_task(task, "changes its class", |engine| {
            engine.kernel.be_realtime(task, is_realtime, false);
        });
    }

    /// The task has realtime priority from now on, because it asks for that itself.
    #[cfg(test)]
    pub fn ask_for_realtime(&mut self, task: Task) {
        self.change_task(task, "changes its class", |engine| {
            engine.kernel.be_realtime(task, true, true);
        });
    }

    /// The task may use these CPUs from now on.
    pub fn allow(&mut self, task: Task, cpus: &[u64; MASK_WORDS]) {
        self.change_task(task, "gets a mask", |engine| engine.kernel.allow(task, cpus, false));
    }

    /// Changes a task. The CPU where it is may run something else afterwards.
    pub(super) fn change_task(
        &mut self,
        task: Task,
        what: &'static str,
        change: impl FnOnce(&mut Self),
    ) {
        self.is_at(Occasion::OfTask(task, what));
        let cpu = self.kernel.cpu_of(task);
        self.change_cpu(cpu, change);
    }

    fn change_cpu(&mut self, cpu: u32, change: impl FnOnce(&mut Self)) {
        self.bring_up_to_date(cpu);
        change(self);
        self.switched(cpu);
        self.settle_resched(None);
    }

    /// Something comes through the channel, now.
    pub fn send_from_outside(&mut self, channel: Channel) {
        self.is_at(Occasion::Outside);
        self.send(channel, None);
    }

    /// A realtime task runs on the CPU for `ns` nanoseconds.
    pub fn take_cpu(&mut self, cpu: u32, ns: u64) {
        self.is_at(Occasion::OfCpu(cpu, "is taken by a realtime task"));
        self.change_cpu(cpu, |engine| engine.kernel.take_cpu(cpu));
        self.at(self.now + ns, Event::Give(cpu));
    }

    pub(super) fn give_cpu(&mut self, cpu: u32) {
        self.change_cpu(cpu, |engine| engine.kernel.give_cpu(cpu));
    }

    /// A CPU goes or comes. The first one stays.
    pub fn set_online(&mut self, cpu: u32, is_online: bool) {
        if cpu == 0 || self.kernel.is_online(cpu) == is_online {
            return;
        }
        let what = if is_online { "comes online" } else { "goes offline" };
        self.is_at(Occasion::OfCpu(cpu, what));
        self.change_cpu(cpu, |engine| engine.kernel.set_online(cpu, is_online));
        self.at(self.now + EJECT_NS, Event::Eject);
    }

    pub(super) fn eject(&mut self) {
        if self.kernel.is_attached() {
            self.kernel.detach();
            self.settle_resched(None);
            self.at(self.now + LOAD_NS, Event::Load);
        }
    }

    pub(super) fn load(&mut self) -> Result<()> {
        self.kernel.attach_again()?;
        self.settle_resched(None);
        Ok(())
    }
}
