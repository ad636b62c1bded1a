// SPDX-License-Identifier: GPL-2.0-only
//! What is drawn for a program: what it does, how much of it, and with how many threads.

use crate::sim::study::comparison::Shape;

/// What a program is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Answers requests that come at random, however many wait.
    Server,
    /// Answers clients that wait for the answer, and then think.
    Clients,
    /// Computes all the time.
    Batch,
    /// Computes all the time, with 512-bit vectors.
    Vector,
    /// Computes, and then sleeps.
    Bursts,
    /// Answers requests, and has a second group go on with each.
    Pipeline,
    /// Answers requests, and has a second group go on with several parts of each.
    FanOut,
}

/// How many threads there are, by the size of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threads {
    /// A share of one thread for each CPU, but at least one thread.
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
    /// Whether all threads are of one process. Otherwise each has its own.
    pub is_one_process: bool,
    /// Whether requests wait at a queue of each thread, and not at one for all of them.
    pub has_queues: bool,
    /// The work of a request or of a round, without AVX-512, and that of the second group as a
    /// share of it.
    pub us: f64,
    pub behind: f64,
    pub form: &'static str,
    /// The share of the machine that requests ask for.
    pub loads: Phased,
    /// The share of the work that has wide vectors.
    pub wide_shares: Phased,
    pub wide: (&'static str, &'static str),
    pub speed_up: f64,
    /// The number of pieces that the work is cut into.
    pub pieces: usize,
    /// Whether the wide vectors are in the second group, where there is one.
    pub is_wide_behind: bool,
    /// After how many rounds a program that computes all the time makes a system call.
    pub syscall_every: Option<u64>,
    /// How long a program sleeps or a client thinks, relative to the length of a request.
    pub rest: f64,
    /// Clients for each CPU.
    pub clients: f64,
    /// Parts of a request that the second group goes on with.
    pub fan: usize,
}

pub fn is_open(habit: Habit) -> bool {
    matches!(habit, Habit::Server | Habit::Pipeline | Habit::FanOut)
}

/// Returns how many parts of a request the second group has.
pub fn nr_behind(program: &Program) -> usize {
    match program.habit {
        Habit::Pipeline => 1,
        Habit::FanOut => program.fan,
        _ => 0,
    }
}

/// Returns the number of threads of each group.
pub fn nr_threads(program: &Program, shape: Shape) -> u32 {
    let cpus = shape.nr_cpus();
    match program.threads {
        Threads::Some(share) => ((share * f64::from(cpus)).round() as u32).max(1),
        Threads::PerCore => cpus / u32::from(shape.threads),
        Threads::PerCpu(nr) => nr * cpus,
    }
}
