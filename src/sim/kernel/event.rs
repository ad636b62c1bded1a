// SPDX-License-Identifier: GPL-2.0-only
//! What happens on a machine, and what it is at then.

use super::Task;
use super::channels::Channel;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// What is under way on a CPU is done, if its plan is still this one.
    Done {
        cpu: u32,
        plan: u64,
    },
    Schedule(u32),
    Tick(u32),
    Wake(Task),
    /// A thread on this CPU sends something.
    Send(Channel, u32),
    Arrive {
        source: usize,
        channel: Channel,
    },
    /// The realtime task on this CPU is done.
    Give(u32),
    /// The scheduler goes, and is loaded again later.
    Eject,
    Load,
    Watchdog,
}

/// What the machine is at. Threads are named by their numbers, because they may be gone when that
/// is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Occasion {
    Outside,
    Timers,
    Event(Event),
    EndOfWork { cpu: u32, thread: u64 },
    OfTask(Task, &'static str),
    OfCpu(u32, &'static str),
}
