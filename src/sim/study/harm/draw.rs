// SPDX-License-Identifier: GPL-2.0-only
//! What is drawn: a machine, and one to three programs on it. docs/simulator.md has the
//! distribution in a table.

use super::dice::Dice;
use super::{fit, text};
use crate::sim::machine::model::Model;
use crate::sim::study::comparison::Shape;

/// A workload, and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    pub name: String,
    /// As a file has it.
    pub text: String,
    pub model: &'static str,
    pub shape: Shape,
    pub seconds: u64,
}

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

const HABITS: [Habit; 10] = [
    Habit::Server,
    Habit::Server,
    Habit::Server,
    Habit::Clients,
    Habit::Batch,
    Habit::Batch,
    Habit::Vector,
    Habit::Bursts,
    Habit::Pipeline,
    Habit::FanOut,
];

/// How much the length of a step varies.
pub const FORMS: [&str; 4] = ["fixed", "exponential", "gamma", "lognormal"];

/// Wide work, and what does the same without AVX-512.
pub const WIDE: [(&str, &str); 4] = [
    ("light512", "scalar"),
    ("light512", "light256"),
    ("heavy512", "scalar"),
    ("heavy512", "heavy256"),
];

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

/// The draw of that number.
pub fn draw(seed: u64, number: u64) -> Draw {
    let mut dice = Dice::of(seed, number);
    let (model, shape) = machine(&mut dice);
    let nr_phases = if dice.is(0.25) { 2 } else { 1 };
    let mut programs: Vec<Program> = Vec::new();
    for _ in 0..dice.choose(&[1, 2, 3]) {
        programs.push(program(&mut dice, nr_phases));
    }
    share_load(&mut programs);
    let shape = fit::fitting(shape, &programs);
    let seconds = fit::seconds(shape, &programs, nr_phases);
    let text = text::file(&programs, shape, seconds, nr_phases);
    Draw { name: format!("harm-{seed}-{number}"), text, model, shape, seconds }
}

/// Where a model does not say how many cores it has.
const CORES_MAX: u16 = 32;
/// On Zen 4 so many have a cache.
const CORES_OF_CACHE: u16 = 8;

fn machine(dice: &mut Dice) -> (&'static str, Shape) {
    let names: Vec<&'static str> = Model::names().collect();
    let model = dice.choose(&names);
    let known = Model::named(model).and_then(|model| model.cores);
    let most = known.and_then(|known| u16::try_from(known).ok()).unwrap_or(CORES_MAX);
    let cores = if dice.is(0.25) { most } else { dice.whole_log_between(1, most) };
    let sockets = dice.choose(&[1, 1, 1, 1, 1, 2, 2, 2, 3, 4]);
    let threads = dice.choose(&[1, 2]);
    let shape = Shape { sockets, nodes: 1, llcs: 1, cores, threads };
    (model, if model == "zen4" { with_caches(shape) } else { shape })
}

/// As many whole caches as there are cores for.
fn with_caches(shape: Shape) -> Shape {
    match shape.cores / CORES_OF_CACHE {
        0 | 1 => shape,
        llcs => Shape { llcs, cores: llcs * CORES_OF_CACHE, ..shape },
    }
}

fn program(dice: &mut Dice, nr_phases: usize) -> Program {
    let habit = dice.choose(&HABITS);
    let nice = if dice.is(0.7) { 0 } else { dice.between(-10.0, 20.0).floor() as i32 };
    Program {
        habit,
        nice,
        threads: threads(habit, dice),
        is_one_process: dice.is(0.5),
        has_queues: dice.is(0.5),
        us: dice.log_between(10.0, 100_000.0),
        behind: dice.log_between(0.1, 2.0),
        form: dice.choose(&FORMS),
        loads: (0..nr_phases).map(|_| dice.between(0.1, 0.95)).collect(),
        wide_shares: wide_shares(habit, dice, nr_phases),
        wide: dice.choose(&WIDE),
        speed_up: dice.log_between(1.0, 3.0),
        pieces: dice.choose(&[1, 1, 2, 4]),
        is_wide_behind: dice.is(0.5),
        syscall_every: dice.is(0.5).then(|| dice.whole_log_between(1, 100).into()),
        rest: dice.log_between(0.3, 30.0),
        clients: dice.log_between(0.1, 8.0),
        fan: dice.choose(&[2, 4, 8]),
    }
}

fn threads(habit: Habit, dice: &mut Dice) -> Threads {
    let some = Threads::Some(dice.log_between(0.02, 1.0));
    let may_be_few = matches!(habit, Habit::Batch | Habit::Vector | Habit::Bursts);
    let whole = dice.choose(&[Threads::PerCore, Threads::PerCpu(1), Threads::PerCpu(2)]);
    if may_be_few && dice.is(0.5) { some } else { whole }
}

/// In each phase; all phases of a program are drawn alike.
fn wide_shares(habit: Habit, dice: &mut Dice, nr_phases: usize) -> Phased {
    let share = |dice: &mut Dice| match habit {
        Habit::Batch => 0.0,
        Habit::Vector if dice.is(0.3) => 1.0,
        Habit::Vector => dice.between(0.1, 1.0),
        _ if dice.is(0.4) => 0.0,
        _ if dice.is(0.15) => 1.0,
        _ => dice.log_between(0.005, 1.0),
    };
    (0..nr_phases).map(|_| share(dice)).collect()
}

/// Requests from outside ask for as much of the machine as was drawn, all programs together.
fn share_load(programs: &mut [Program]) {
    let open = programs.iter().filter(|it| is_open(it.habit)).count().max(1) as f64;
    for program in programs {
        program.loads.iter_mut().for_each(|load| *load /= open);
    }
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

pub fn nr_cpus(shape: Shape) -> u32 {
    u32::from(shape.sockets) * u32::from(shape.cores) * u32::from(shape.threads)
}

/// Of each group.
pub fn nr_threads(program: &Program, shape: Shape) -> u32 {
    let cpus = nr_cpus(shape);
    match program.threads {
        Threads::Some(share) => ((share * f64::from(cpus)).round() as u32).max(1),
        Threads::PerCore => cpus / u32::from(shape.threads),
        Threads::PerCpu(nr) => nr * cpus,
    }
}
