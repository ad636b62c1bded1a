// SPDX-License-Identifier: GPL-2.0-only
//! Writes drawn programs as a file that "sim run" takes.

use super::program::{Habit, Phased, Program, Threads, is_open, nr_behind, nr_threads};
use crate::sim::study::comparison::Shape;

pub fn file(programs: &[Program], shape: Shape, seconds: u64, nr_phases: usize) -> String {
    let names: Vec<&str> = programs.iter().map(|it| name_of(it.habit)).collect();
    let mut text = format!("about = \"drawn: {}\"\nseconds = {seconds}\n", names.join(", "));
    if nr_phases > 1 {
        text += &format!("phases_s = [0, {}]\n", number(seconds as f64 / 2.0));
    }
    for (n, program) in (1..).zip(programs) {
        text += &groups(n, program, shape);
    }
    text
}

fn name_of(habit: Habit) -> &'static str {
    match habit {
        Habit::Server => "server",
        Habit::Clients => "clients",
        Habit::Batch => "batch",
        Habit::Vector => "vector",
        Habit::Bursts => "bursts",
        Habit::Pipeline => "pipeline",
        Habit::FanOut => "fan-out",
    }
}

/// Returns the group of a program, or both if it has a second one.
fn groups(n: usize, program: &Program, shape: Shape) -> String {
    let name = format!("{}-{n}", name_of(program.habit));
    let behind = format!("{name}-behind");
    let is_wide = nr_behind(program) == 0 || !program.is_wide_behind;
    let mut steps = begin(program.habit);
    steps.extend(work(program, program.us, is_wide));
    steps.extend((0..nr_behind(program)).map(|_| format!("{{ send = {behind:?} }}")));
    steps.extend(end(program));
    let mut text = group(&name, n, program, shape) + &arrivals(program, shape) + &listed(&steps);
    if nr_behind(program) > 0 {
        let mut steps = vec!["\"wait\"".to_owned()];
        steps.extend(work(program, program.us * program.behind, program.is_wide_behind));
        steps.push("\"done\"".to_owned());
        text += &(group(&behind, n, program, shape) + &queue(program) + &listed(&steps));
    }
    text
}

/// Returns what both groups of a program have in common.
fn group(name: &str, n: usize, program: &Program, shape: Shape) -> String {
    let threads = match program.threads {
        Threads::Some(_) => format!("threads = {}", nr_threads(program, shape)),
        Threads::PerCore => "per = \"core\"".to_owned(),
        Threads::PerCpu(nr) => format!("threads = {nr}\nper = \"cpu\""),
    };
    let process = if program.is_one_process { "one" } else { "each" };
    let weight = match program.nice {
        0 => String::new(),
        nice => format!("# nice {nice}\nweight = {}\n", weight(nice)),
    };
    format!(
        "\n[[group]]\nname = {name:?}\n{threads}\nprocess = {process:?}\n{weight}cgroup = {n}\n"
    )
}

/// Returns the weight of a nice value, as Linux has it: each step is a tenth of the CPU more or
/// less, beside another task.
pub fn weight(nice: i32) -> u32 {
    (100.0 * 1.25_f64.powi(-nice)).round().clamp(1.0, 10_000.0) as u32
}

fn arrivals(program: &Program, shape: Shape) -> String {
    match program.habit {
        Habit::Clients => {
            let nr = (program.clients * f64::from(shape.nr_cpus())).round().max(1.0);
            let think = number(program.us * program.rest);
            let of = format!("clients = {nr}, think_us = {think}, distribution = \"exponential\"");
            format!("arrivals = {{ {of} }}\n{}", queue(program))
        }
        habit if is_open(habit) => {
            // The capacity in a file only counts what the first group does of a request.
            let first = 1.0 / (1.0 + program.behind * nr_behind(program) as f64);
            let loads: Phased = program.loads.iter().map(|load| load * first).collect();
            format!("arrivals = {{ of_capacity = {} }}\n{}", numbers(&loads), queue(program))
        }
        _ => "begin = \"anywhere\"\n".to_owned(),
    }
}

fn queue(program: &Program) -> String {
    format!("queue = {:?}\n", if program.has_queues { "each" } else { "shared" })
}

fn begin(habit: Habit) -> Vec<String> {
    let waits = is_open(habit) || habit == Habit::Clients;
    if waits { vec!["\"wait\"".to_owned()] } else { Vec::new() }
}

fn end(program: &Program) -> Vec<String> {
    let mut steps = vec!["\"done\"".to_owned()];
    match (program.habit, program.syscall_every) {
        (Habit::Bursts, _) => {
            let us = number(program.us * program.rest);
            steps.push(format!("{{ sleep_us = {us}, distribution = \"exponential\" }}"));
        }
        (Habit::Batch | Habit::Vector, Some(every)) => {
            steps.push(format!("{{ do = \"syscall\", every = {every} }}"));
        }
        _ => {}
    }
    steps
}

/// Returns the steps of `us` of work, in pieces that are first scalar and then wide.
fn work(program: &Program, us: f64, is_wide: bool) -> Vec<String> {
    let nr_phases = program.wide_shares.len();
    let shares = if is_wide { program.wide_shares.clone() } else { vec![0.0; nr_phases] };
    let piece = us / program.pieces as f64;
    let scalar: Phased = shares.iter().map(|share| piece * (1.0 - share)).collect();
    let wide: Phased = shares.iter().map(|share| piece * share).collect();
    let form = match program.form {
        "fixed" => String::new(),
        "exponential" => ", distribution = \"exponential\"".to_owned(),
        form => format!(", distribution = {form:?}, spread = 0.5"),
    };
    let mut steps = Vec::new();
    if scalar.iter().any(|us| *us > 0.0) {
        steps.push(format!("{{ work = \"scalar\", us = {}{form} }}", numbers(&scalar)));
    }
    if wide.iter().any(|us| *us > 0.0) {
        let (kind, without) = program.wide;
        let (us, speed_up) = (numbers(&wide), number(program.speed_up));
        let kinds = format!("work = {kind:?}, without = {without:?}");
        steps.push(format!("{{ {kinds}, us = {us}{form}, speed_up = {speed_up} }}"));
    }
    vec![steps; program.pieces].concat()
}

fn listed(steps: &[String]) -> String {
    let lines: String = steps.iter().map(|step| format!("  {step},\n")).collect();
    format!("steps = [\n{lines}]\n")
}

/// Returns one number where all phases have the same, or else a list.
fn numbers(of_phases: &[f64]) -> String {
    let all: Vec<String> = of_phases.iter().map(|it| number(*it)).collect();
    match &all[..] {
        [first, others @ ..] if others.iter().all(|it| it == first) => first.clone(),
        _ => format!("[{}]", all.join(", ")),
    }
}

/// Returns a number with four significant digits, which is more than is known.
fn number(it: f64) -> String {
    if it == 0.0 {
        return "0".to_owned();
    }
    let digits = (3 - it.abs().log10().floor() as i32).max(0);
    let power = 10f64.powi(digits);
    format!("{}", (it * power).round() / power)
}
