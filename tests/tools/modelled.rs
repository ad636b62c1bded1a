// SPDX-License-Identifier: GPL-2.0-only
//! Figures of `make bench` that come from the simulator's models.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::results::Figure;
use crate::suite::scheduler_program;

/// How to get a figure, and where it should be.
struct Modelled {
    name: &'static str,
    unit: &'static str,
    bar: Bar,
    measure: fn() -> Result<f64>,
}

#[derive(Clone, Copy)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
}

impl Bar {
    fn say(self) -> String {
        match self {
            Bar::AtLeast(bar) => format!("at least {bar}"),
            Bar::AtMost(bar) => format!("at most {bar}"),
            Bar::Within(low, high) => format!("{low} to {high}"),
        }
    }

    fn is_cleared_by(self, value: f64) -> bool {
        match self {
            Bar::AtLeast(bar) => value >= bar,
            Bar::AtMost(bar) => value <= bar,
            Bar::Within(low, high) => (low..=high).contains(&value),
        }
    }
}

const FIGURES: &[Modelled] = &[
    Modelled {
        name: "sim.nginx_default",
        unit: "of scalar, modelled",
        bar: Bar::AtLeast(0.992),
        measure: || ratio(&["run", "nginx"], "default", "off", "/work"),
    },
    Modelled {
        name: "sim.nginx_unmitigated",
        unit: "of scalar, modelled",
        bar: Bar::Within(0.85, 0.91),
        measure: || ratio(&["run", "nginx"], "alone", "off", "/work"),
    },
    Modelled {
        name: "sim.null_model_ratio",
        unit: "of left alone, modelled",
        bar: Bar::Within(0.99, 1.01),
        measure: || ratio(&["run", "nginx", "--model=ice-lake"], "default", "alone", "/work"),
    },
    Modelled {
        name: "sim.x264_ratio",
        unit: "of left alone, modelled",
        bar: Bar::AtLeast(0.99),
        measure: || ratio(&["run", "x264"], "default", "alone", "/work"),
    },
    Modelled {
        name: "sim.low_load_p50_ratio",
        unit: "of left alone, modelled",
        bar: Bar::AtMost(1.0),
        measure: || ratio(LOW_LOAD, "default", "alone", "/latency_us/p50"),
    },
    Modelled {
        name: "sim.low_load_p99_ratio",
        unit: "of left alone, modelled",
        bar: Bar::AtMost(1.0),
        measure: || ratio(LOW_LOAD, "default", "alone", "/latency_us/p99"),
    },
    Modelled {
        name: "sim.low_load_max_ratio",
        unit: "of left alone, modelled",
        bar: Bar::AtMost(1.0),
        measure: || ratio(LOW_LOAD, "default", "alone", "/latency_us/max"),
    },
    Modelled {
        name: "sim.step_settle_ms",
        unit: "ms, modelled",
        bar: Bar::AtMost(50.0),
        measure: step_settle_ms,
    },
    Modelled {
        name: "sim.vs_best_static_min",
        unit: "of the best, modelled",
        bar: Bar::AtLeast(0.995),
        measure: vs_best_static_min,
    },
    Modelled {
        name: "sim.events_per_s",
        unit: "events/s of a CPU",
        bar: Bar::AtLeast(1e6),
        measure: events_per_s,
    },
];

/// Long enough for some percentiles.
const LOW_LOAD: &[&str] = &["run", "nginx-low", "--seconds=20"];

/// Workloads that are to be done as fast as can be.
const FULL_LOAD: [&str; 5] = ["nginx", "x264", "x264-nginx", "x265-nginx", "x265-parsec"];

pub fn names(prefix: &str) -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|it| it.name).filter(move |name| name.starts_with(prefix))
}

pub fn take(name: &str) -> Option<Figure> {
    let it = FIGURES.iter().find(|it| it.name == name)?;
    let judge = |value| if it.bar.is_cleared_by(value) { "ok" } else { "short" };
    let command = format!("make bench ONLY={name}");
    Some(Figure::measured(name, it.unit, it.bar.say(), command, (it.measure)(), judge))
}

fn sim(arguments: &[&str]) -> Result<Value> {
    let output =
        Command::new(scheduler_program()?).arg("sim").args(arguments).arg("--json").output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "sim {}: {error}", arguments.join(" "));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn outcome<'a>(comparison: &'a Value, policy: &str) -> Result<&'a Value> {
    let outcomes = comparison["outcomes"].as_array().context("there are no outcomes")?;
    outcomes
        .iter()
        .find(|it| it["policy"] == policy)
        .with_context(|| format!("there is no outcome of {policy}"))
}

/// Of two policies, in something that both have.
fn ratio(arguments: &[&str], policy: &str, by: &str, what: &str) -> Result<f64> {
    let comparison = sim(arguments)?;
    let value = |policy| -> Result<f64> {
        let value = outcome(&comparison, policy)?.pointer(what).and_then(Value::as_f64);
        value.with_context(|| format!("{policy} has no {what}"))
    };
    Ok(value(policy)? / value(by)?)
}

/// The longest after any step of the load.
fn step_settle_ms() -> Result<f64> {
    let comparison = sim(&["run", "steps"])?;
    let times = outcome(&comparison, "default")?["settle_ms"].as_array().context("no steps")?;
    times.iter().filter_map(Value::as_f64).max_by(f64::total_cmp).context("no step was seen")
}

fn vs_best_static_min() -> Result<f64> {
    let found = sim(&[&["sweep", "static"], &FULL_LOAD[..]].concat())?;
    let all = found.as_array().context("no workloads")?;
    let ratios = all.iter().filter_map(|it| it["default_by_best"].as_f64());
    ratios.min_by(f64::total_cmp).context("nothing was tried")
}

/// In a second of a CPU, which it need not have had to itself.
fn events_per_s() -> Result<f64> {
    let before = seconds_of_children()?;
    let comparison = sim(&["run", "nginx"])?;
    let seconds = seconds_of_children()? - before;
    let outcomes = comparison["outcomes"].as_array().context("there are no outcomes")?;
    let events: f64 = outcomes.iter().filter_map(|it| it["events"].as_f64()).sum();
    Ok(events / seconds)
}

/// CPU time of children that have ended, which Linux tells in hundredths.
fn seconds_of_children() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().context("a process has a name")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let [user, system] = [13, 14].map(|n| fields.get(n).and_then(|it| it.parse::<f64>().ok()));
    Ok((user.context("no user time")? + system.context("no system time")?) / 100.0)
}
