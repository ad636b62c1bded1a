// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig soak`: what the tests show, for longer.

use std::process::ExitCode;

use anyhow::Result;

use super::results::{Figure, Results};
use crate::suite::{hotplug, stress};

#[derive(clap::Args)]
pub struct Arguments {
    /// Guest minutes of stress
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
    /// Times that a CPU goes and comes back
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub fn soak(arguments: &Arguments) -> Result<ExitCode> {
    let runs = [
        (
            "soak.stress_minutes",
            "guest minutes",
            f64::from(arguments.minutes),
            "no stall, no ejection",
            stress::on_eight_cpus(arguments.minutes * 60, 1),
        ),
        (
            "soak.hotplug_rounds",
            "rounds",
            f64::from(arguments.rounds),
            "a restart after each change",
            hotplug::rounds(arguments.rounds),
        ),
    ];
    let mut fresh = Vec::new();
    for (name, unit, value, bar, result) in runs {
        let verdict = match result {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("failed: {error:#}"),
        };
        println!("{name:28} {value:>12} {unit:14} {bar:28} {verdict}");
        fresh.push(Figure {
            name: name.to_owned(),
            value: Some(value),
            unit: unit.to_owned(),
            bar: bar.to_owned(),
            verdict,
            command: format!(
                "cargo rig soak --minutes {} --rounds {}",
                arguments.minutes, arguments.rounds
            ),
        });
    }
    let all_good = fresh.iter().all(|figure| figure.verdict == "ok");
    Results::record("soak", fresh)?;
    Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
