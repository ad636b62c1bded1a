// SPDX-License-Identifier: GPL-2.0-only
//! What tasks send to each other, or are sent from outside: requests, pieces of work, bytes in a
//! pipe. The task that waits first is served first, and what was sent first is taken first.

use std::collections::VecDeque;

use super::Task;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel(usize);

#[derive(Default)]
pub struct Channels(Vec<Queue>);

/// At least one of the two is empty.
#[derive(Default)]
struct Queue {
    /// When each of them was sent.
    sent: VecDeque<u64>,
    waiting: VecDeque<Task>,
}

impl Channels {
    pub fn open(&mut self) -> Channel {
        self.0.push(Queue::default());
        Channel(self.0.len() - 1)
    }

    /// Returns the task that has it now, if one waited.
    pub fn send(&mut self, channel: Channel, now: u64) -> Option<Task> {
        let queue = self.0.get_mut(channel.0)?;
        let task = queue.waiting.pop_front();
        if task.is_none() {
            queue.sent.push_back(now);
        }
        task
    }

    /// Returns when that was sent which the task has now. If there is nothing, the task waits.
    pub fn take(&mut self, channel: Channel, task: Task) -> Option<u64> {
        let queue = self.0.get_mut(channel.0)?;
        let sent = queue.sent.pop_front();
        if sent.is_none() {
            queue.waiting.push_back(task);
        }
        sent
    }

    pub fn nr_sent(&self) -> usize {
        self.0.iter().map(|queue| queue.sent.len()).sum()
    }
}
