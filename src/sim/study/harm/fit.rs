// SPDX-License-Identifier: GPL-2.0-only
//! Finds how large a machine, and how long a run, takes the simulator about a second.

use super::program::{Habit, Program, is_open, nr_behind, nr_threads};
use crate::sim::study::comparison::Shape;

/// The number of events that the simulator processes in a second or less.
const EVENTS: f64 = 1_000_000.0;

/// The events of each CPU in a second: there are ticks, and what the scheduler's timers do.
const EVENTS_OF_CPU: f64 = 2000.0;
/// The events of a request: it arrives, wakes a thread, is done, and waits in between.
const EVENTS_OF_REQUEST: f64 = 8.0;
/// The events of a piece: it is scalar and wide work, with a fault in between.
const EVENTS_OF_PIECE: f64 = 3.0;

/// The time before anything is measured, in seconds.
const WARM_UP_S: f64 = 0.5;
const SECONDS_MAX: f64 = 8.0;

/// The number of cores that share a last-level cache on Zen 4.
pub const CORES_OF_CACHE: u16 = 8;

/// The fewest cores: with fewer, a task has no other core to go to.
const CORES_MIN: u16 = 2;

/// Returns the largest machine up to this one on which a second is not too much. First the cores
/// are halved, again and again, and then there are fewer sockets and threads.
pub fn fitting(shape: Shape, programs: &[Program]) -> Shape {
    let mut fitting = shape;
    while events_per_s(fitting, programs) * (1.0 + WARM_UP_S) > EVENTS {
        fitting = match fitting {
            Shape { llcs: 2.., .. } => {
                let llcs = fitting.llcs / 2;
                Shape { llcs, cores: llcs * CORES_OF_CACHE, ..fitting }
            }
            Shape { cores, .. } if cores > CORES_MIN => {
                Shape { cores: (cores / 2).max(CORES_MIN), ..fitting }
            }
            Shape { sockets: 2.., .. } => Shape { sockets: fitting.sockets - 1, ..fitting },
            Shape { threads: 2.., .. } => Shape { threads: 1, ..fitting },
            _ => return fitting,
        };
    }
    fitting
}

/// Returns the length of a run. It is longer where little happens, and at least one second for each
/// phase.
pub fn seconds(shape: Shape, programs: &[Program], nr_phases: usize) -> u64 {
    let fits = EVENTS / events_per_s(shape, programs) - WARM_UP_S;
    fits.clamp(nr_phases as f64, SECONDS_MAX) as u64
}

fn events_per_s(shape: Shape, programs: &[Program]) -> f64 {
    let cpus = f64::from(shape.nr_cpus());
    let asked: f64 = programs.iter().map(|it| cpus_asked(it, shape)).sum();
    let left = (cpus / asked).min(1.0);
    let of_programs = programs.iter().map(|it| {
        let groups = 1.0 + nr_behind(it) as f64;
        let of_round = groups * (EVENTS_OF_REQUEST + it.pieces as f64 * EVENTS_OF_PIECE);
        let us = it.us * (1.0 + it.behind * nr_behind(it) as f64);
        left * cpus_asked(it, shape) * 1e6 / us * of_round
    });
    cpus * EVENTS_OF_CPU + of_programs.sum::<f64>()
}

fn cpus_asked(program: &Program, shape: Shape) -> f64 {
    let cpus = f64::from(shape.nr_cpus());
    let threads = f64::from(nr_threads(program, shape)).min(cpus);
    match program.habit {
        habit if is_open(habit) => cpus * program.loads.iter().copied().fold(0.0, f64::max),
        Habit::Bursts => threads / (1.0 + program.rest),
        _ => threads,
    }
}
