// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig soak`: what the tests show, for longer.

use std::process::ExitCode;

use anyhow::Result;

use crate::rig::results::{Figure, Results};
use crate::suite::hiding::{registers, selftests};
use crate::suite::{agent, crowd, hotplug, stress};

#[derive(clap::Args)]
pub struct Arguments {
    /// Guest minutes of stress
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Times that a CPU goes and comes back
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Times that all registers are checked while AVX-512 is hidden, in each mode
    #[arg(long, default_value_t = 26_000, value_parser = clap::value_parser!(u64).range(1..))]
    cycles: u64,
    /// Agents that are killed at any moment, where AVX-512 is hidden
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Only figures whose name begins so
    #[arg(long, default_value = "")]
    only: String,
}

/// One figure of a long run.
struct Run {
    name: &'static str,
    unit: &'static str,
    bar: String,
    /// What the figure is, or why the run failed.
    run: Box<dyn Fn() -> Result<f64>>,
}

fn runs(arguments: &Arguments) -> Vec<Run> {
    let &Arguments { minutes, rounds, cycles, kills, .. } = arguments;
    vec![
        Run {
            name: "soak.stress_minutes",
            unit: "guest minutes",
            bar: "no stall, no ejection".to_owned(),
            run: Box::new(move || {
                stress::on_eight_cpus(minutes * 60, 1).map(|()| f64::from(minutes))
            }),
        },
        Run {
            name: "soak.hotplug_rounds",
            unit: "rounds",
            bar: "a restart after each change".to_owned(),
            run: Box::new(move || hotplug::rounds(rounds).map(|()| f64::from(rounds))),
        },
        Run {
            name: "sched.crowd_of_500_s",
            unit: "guest seconds",
            bar: "all where they may be".to_owned(),
            run: Box::new(|| crowd::on_sixteen_cpus(180, 2).map(|()| 180.0)),
        },
        Run {
            name: "sched.crowd_on_64_cpus_s",
            unit: "guest seconds",
            bar: "all where they may be".to_owned(),
            run: Box::new(|| crowd::on_sixty_four_cpus(10).map(|()| 10.0)),
        },
        Run {
            name: "agent.killed_at_any_moment",
            unit: "agents",
            bar: "the next one runs".to_owned(),
            run: Box::new(|| agent::killed_at_any_moment(100).map(|()| 100.0)),
        },
        Run {
            name: "agent.killed_while_hidden",
            unit: "agents",
            bar: "all visible afterwards".to_owned(),
            run: Box::new(move || {
                agent::killed_while_hidden(kills as usize).map(|()| f64::from(kills))
            }),
        },
        Run {
            name: "patch.cycles_checked",
            unit: "cycles",
            bar: "no register lost".to_owned(),
            run: Box::new(move || registers::check_all_modes(cycles)),
        },
        Run {
            name: "patch.illegal_checked",
            unit: "instructions",
            bar: "one signal each".to_owned(),
            run: Box::new(move || registers::check_illegal(cycles)),
        },
        Run {
            name: "patch.selftests_of_x86",
            unit: "tests",
            bar: "same results while hidden".to_owned(),
            run: Box::new(selftests::of_x86_all),
        },
        Run {
            name: "patch.selftests_of_sched_ext",
            unit: "tests",
            bar: "same results while hidden".to_owned(),
            run: Box::new(selftests::of_sched_ext_all),
        },
    ]
}

pub fn soak(arguments: &Arguments) -> Result<ExitCode> {
    let mut all_good = true;
    for Run { name, unit, bar, run } in runs(arguments) {
        if !name.starts_with(&arguments.only) {
            continue;
        }
        eprintln!("rig: {name} begins");
        let command = format!("cargo rig soak {}", command_line(arguments));
        let figure = Figure::measured(name, unit, bar, command, run(), |_| "ok");
        println!(
            "{name:28} {:>12} {unit:14} {:28} {}",
            figure.value.map_or("-".to_owned(), |value| value.to_string()),
            figure.bar,
            figure.verdict
        );
        all_good &= figure.verdict == "ok";
        Results::record("soak", figure)?;
    }
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn command_line(arguments: &Arguments) -> String {
    let Arguments { minutes, rounds, cycles, kills, .. } = arguments;
    format!("--minutes {minutes} --rounds {rounds} --cycles {cycles} --kills {kills}")
}
