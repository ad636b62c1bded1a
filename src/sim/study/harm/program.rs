// SPDX-License-Identifier: GPL-2.0-only
//! What is drawn of a program: what it does, how much of it, and with how many threads.

use crate::sim::study::comparison::Shape;

/// What a program is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Answers requests that come at random, however many wait.
    Server,
    /// Answers clients that wait for it, and think.
    Clients,
    /// Computes all the time.
    Batch,
    /// ... with 512-bit vectors.
    Vector,
    /// Computes, and then sleeps.
    Bursts,
    /// Answers requests, and has a second group go on with each.
    Pipeline,
    /// ... with several parts of each.
    FanOut,
}

/// How many threads there are, for how much of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threads {
    /// A share of one for each CPU, but one at least.
    Some(f64),
    PerCore,
    PerCpu(u32),
}

/// Numbers that may change from phase to phase, of which there are one or two.
pub type Phased = Vec<f64>;

#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub habit: Habit,
    pub nice: i32,
    pub threads: Threads,
    /// Of one process, or each its own.
    pub is_one_process: bool,
    /// Whether what comes waits for each thread, and not for all of them.
    pub has_queues: bool,
    /// Of a request, or a round, without AVX-512; of the second group, as a share of that.
    pub us: f64,
    pub behind: f64,
    pub form: &'static str,
    /// The share of the machine that requests ask for.
    pub loads: Phased,
    /// The share of the work that has wide vectors.
    pub wide_shares: Phased,
    pub wide: (&'static str, &'static str),
    pub speed_up: f64,
    /// In so many pieces.
    pub pieces: usize,
    /// Whether those are in the second group, where there is one.
    pub is_wide_behind: bool,
    /// A system call after so many rounds, of who computes all the time.
    pub syscall_every: Option<u64>,
    /// How long who sleeps or thinks does so, by the length of a request.
    pub rest: f64,
    /// Clients for each CPU.
    pub clients: f64,
    /// Parts of a request that others go on with.
    pub fan: usize,
}

pub fn is_open(habit: Habit) -> bool {
    matches!(habit, Habit::Server | Habit::Pipeline | Habit::FanOut)
}

/// How many of the parts of a request the second group has.
pub fn nr_behind(program: &Program) -> usize {
    match program.habit {
        Habit::Pipeline => 1,
        Habit::FanOut => program.fan,
        _ => 0,
    }
}

/// Of each group.
pub fn nr_threads(program: &Program, shape: Shape) -> u32 {
    let cpus = shape.nr_cpus();
    match program.threads {
        Threads::Some(share) => ((share * f64::from(cpus)).round() as u32).max(1),
        Threads::PerCore => cpus / u32::from(shape.threads),
        Threads::PerCpu(nr) => nr * cpus,
    }
}
