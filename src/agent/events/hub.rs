// SPDX-License-Identifier: GPL-2.0-only
//! Hands each event to all clients that follow. Nothing waits for a slow one: an event that finds
//! no room in a follower's queue is lost to that follower, which is told how many it lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use crossbeam::channel::{Receiver, Sender, bounded};

use super::{Event, Kind, Wanted};
use crate::agent::status::seconds;

/// How many clients may follow at once.
const FOLLOWERS_MAX: usize = 16;

/// How many events a follower may be behind.
const QUEUE: usize = 4096;

const TOO_SLOW: &str = "who follows is too slow";
const NO_ROOM: &str = "the buffer was full";

/// The followers, and what they are told. This outlives the restarts of the scheduler.
pub struct Hub {
    begun_ns: u64,
    followers: Mutex<Followers>,
}

#[derive(Default)]
struct Followers {
    next: u64,
    all: BTreeMap<u64, Follower>,
}

struct Follower {
    wanted: Wanted,
    is_welcome: bool,
    queue: Sender<Event>,
    lost: u64,
}

/// A client that follows, until this is dropped.
pub struct Following {
    hub: Arc<Hub>,
    number: u64,
    queue: Receiver<Event>,
}

impl Hub {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { begun_ns: now_ns(), followers: Mutex::default() })
    }

    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    fn now_s(&self) -> f64 {
        seconds(now_ns().saturating_sub(self.begun_ns))
    }

    fn followers(&self) -> MutexGuard<'_, Followers> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the follower that came last, of those that still follow.
    pub fn newest(&self) -> Option<u64> {
        self.followers().all.last_key_value().map(|(number, _)| *number)
    }

    pub fn follow(self: &Arc<Self>, wanted: Wanted) -> Result<Following> {
        let mut followers = self.followers();
        ensure!(
            followers.all.len() < FOLLOWERS_MAX,
            "{FOLLOWERS_MAX} follow already: end one of them first"
        );
        let (sender, queue) = bounded(QUEUE);
        let number = followers.next;
        followers.next += 1;
        followers
            .all
            .insert(number, Follower { wanted, is_welcome: false, queue: sender, lost: 0 });
        Ok(Following { hub: self.clone(), number, queue })
    }

    /// Tells new followers which policy is in force, and from now on what happens.
    pub fn welcome(&self, generation: u64) {
        let policy = Event::policy(self.now_s(), generation, "since before");
        for follower in self.followers().all.values_mut().filter(|it| !it.is_welcome) {
            follower.is_welcome = true;
            follower.offer(&policy);
        }
    }

    /// Lets the followers go, because nothing can be told any more. They may come again. A follower
    /// that is not welcome yet stays, because it is about to get an answer.
    pub fn dismiss(&self) {
        self.followers().all.retain(|_, follower| !follower.is_welcome);
    }

    pub fn publish(&self, event: &Event) {
        for follower in self.followers().all.values_mut() {
            follower.offer(event);
        }
    }

    /// Tells how many events the BPF programs had no room for.
    pub fn publish_missed(&self, count: u64) {
        if count > 0 {
            self.publish(&Event::lost(self.now_s(), count, NO_ROOM));
        }
    }

    pub fn publish_policy(&self, generation: u64, settings: &[String]) {
        self.publish(&Event::policy(self.now_s(), generation, &settings.join(" ")));
    }

    pub fn publish_loaded(&self, why: &str) {
        self.publish(&Event::of_agent(self.now_s(), Kind::Loaded, why));
    }
}

impl Follower {
    fn offer(&mut self, event: &Event) {
        if !self.is_welcome || !self.wanted.has(event) {
            return;
        }
        // What was lost before is told first, because otherwise the order would be wrong.
        if self.lost > 0 && self.send(Event::lost(event.at_s, self.lost, TOO_SLOW)) {
            self.lost = 0;
        }
        if self.lost > 0 || !self.send(event.clone()) {
            self.lost += 1;
        }
    }

    fn send(&self, event: Event) -> bool {
        self.queue.try_send(event).is_ok()
    }
}

impl Following {
    /// Returns the next event, if there is one in that time, or else how many were lost.
    pub fn next(&self, patience: Duration) -> Option<Event> {
        self.queue.recv_timeout(patience).ok().or_else(|| self.take_lost())
    }

    /// Returns true if nothing will come any more.
    pub fn is_over(&self) -> bool {
        !self.hub.followers().all.contains_key(&self.number)
    }

    /// Returns an event that tells of those that were lost, if any were. No other event came
    /// meanwhile that would have been preceded by it.
    fn take_lost(&self) -> Option<Event> {
        let at_s = self.hub.now_s();
        let mut followers = self.hub.followers();
        let lost = std::mem::take(&mut followers.all.get_mut(&self.number)?.lost);
        (lost > 0).then(|| Event::lost(at_s, lost, TOO_SLOW))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.hub.followers().all.remove(&self.number);
    }
}

/// Reads the clock that the BPF programs read for events.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    u64::try_from(now.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(now.tv_nsec).unwrap_or_default()
}
