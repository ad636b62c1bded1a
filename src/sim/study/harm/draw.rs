// SPDX-License-Identifier: GPL-2.0-only
//! Draws a machine, and one to three programs on it. docs/simulator.md has the distribution in a
//! table.

use super::dice::Dice;
use super::program::{Habit, Phased, Program, Threads, is_open};
use super::{fit, text};
use crate::sim::machine::model::Model;
use crate::sim::study::comparison::Shape;

/// A workload, and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    pub name: String,
    /// The text of its file.
    pub text: String,
    pub model: &'static str,
    pub shape: Shape,
    pub seconds: u64,
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

/// How the length of a step varies.
const FORMS: [&str; 4] = ["fixed", "exponential", "gamma", "lognormal"];

/// Wide work, and what does the same without AVX-512.
const WIDE: [(&str, &str); 4] = [
    ("light512", "scalar"),
    ("light512", "light256"),
    ("heavy512", "scalar"),
    ("heavy512", "heavy256"),
];

/// Returns the draw of a number.
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

/// The most cores where a model does not say how many it has.
const CORES_MAX: u16 = 32;

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

/// Divides the cores into as many whole caches as there are cores for.
fn with_caches(shape: Shape) -> Shape {
    match shape.cores / fit::CORES_OF_CACHE {
        0 | 1 => shape,
        llcs => Shape { llcs, cores: llcs * fit::CORES_OF_CACHE, ..shape },
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

/// Draws the shares of wide work in each phase. All phases of a program are drawn alike.
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

/// Divides the loads by the number of open programs, so that requests from outside to all programs
/// together ask for about as much of the machine as was drawn for one.
fn share_load(programs: &mut [Program]) {
    let open = programs.iter().filter(|it| is_open(it.habit)).count().max(1) as f64;
    for program in programs {
        program.loads.iter_mut().for_each(|load| *load /= open);
    }
}
