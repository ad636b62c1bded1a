// SPDX-License-Identifier: GPL-2.0-only
//! `sim`: policies side by side, on a machine that is a model.

mod choice;
mod fairness;
mod harm;
mod harm_run;
mod import;
mod jobs;
mod list;
mod machine;
mod progress;
mod run;
mod sweep;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use serde::Serialize;

use self::machine::{Machine, headline, outcome_of, warm_up_ns};
use super::{print, print_json};
use crate::sim::Workload;
use crate::sim::comparison::measure_by_first;
use crate::sim::outcome::Outcome;
use crate::sim::variant::Variant;

/// Compare policies by simulation, on a modelled machine; needs no privilege and changes nothing.
///
/// The scheduler's own code decides, on a processor that is a model: all figures are modelled, none
/// is measured. Without a command it runs a web server under all policies, in short.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    quick: Quick,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show which workloads, policies and models there are.
    List,
    /// Run a workload under several policies.
    Run(run::Options),
    /// Make a workload of a trace of real programs.
    Import(import::Options),
    /// Show how unfairly a machine is shared whose clocks some programs of a workload lower.
    ///
    /// Each kind of programs is run by itself first, so the workload needs at least one group that
    /// lowers the clocks and one that does not, and neither kind may send to the other. Groups for
    /// which requests arrive from outside, however many wait, count by how soon these are done.
    Fairness(fairness::Options),
    /// Look for workloads in which a policy harms somebody.
    ///
    /// Machines and workloads are drawn at random, as docs/simulator.md tells, and each is run under
    /// all policies. A group of tasks is harmed if it gets less than under the better policy of the
    /// baseline, which leaves AVX-512 alone: less work done, or its requests later. It is not if it
    /// had more than its weight's share of the CPUs there and still has that share. Where a group
    /// seems to be harmed the workload is run again with other seeds, and these alone are believed.
    Harm(harm::Options),
    /// Run workloads many times, with other parameters or policies.
    #[command(subcommand)]
    Sweep(sweep::Command),
}

#[derive(Debug, Args)]
struct Quick {
    #[command(flatten)]
    machine: Machine,

    /// How long, in seconds of the machine's time.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    match &options.command {
        Some(Command::List) => list::run(),
        Some(Command::Run(options)) => run::run(options),
        Some(Command::Import(options)) => import::run(options),
        Some(Command::Fairness(options)) => fairness::run(options),
        Some(Command::Harm(options)) => harm::run(options),
        Some(Command::Sweep(command)) => sweep::run(command),
        None => compare(&options.quick),
    }
}

fn compare(options: &Quick) -> Result<()> {
    let mut setup = options.machine.setup(Workload::named("nginx")?, options.seconds)?;
    let variants = Variant::compared();
    setup.warm_up_ns = warm_up_ns(&variants)?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    if !options.json {
        let Machine { model, cores, .. } = &options.machine;
        print(&headline("A web server under full load", model, *cores))?;
        print(&format!(
            "{:>11} {:>9} {:>9} {:>9} {:>6}\n",
            "requests/s", "relative", "AVX cores", "changes", "low"
        ))?;
    }
    for variant in &variants {
        outcomes.push(outcome_of(&setup, variant)?);
        if !options.json {
            print(&row(&outcomes)?)?;
        }
    }
    if options.json { print_json(&Report::of(outcomes)) } else { Ok(()) }
}

#[derive(Serialize)]
struct Report {
    /// Whose figures these are: a model's, always.
    kind: &'static str,
    outcomes: Vec<Outcome>,
}

impl Report {
    fn of(mut outcomes: Vec<Outcome>) -> Self {
        measure_by_first(&mut outcomes);
        Self { kind: "modelled", outcomes }
    }
}

/// The last of them, measured by the first.
fn row(outcomes: &[Outcome]) -> Result<String> {
    let (Some(first), Some(last)) = (outcomes.first(), outcomes.last()) else {
        return Ok(String::new());
    };
    ensure!(first.requests_per_s > 0.0, "no request was served: simulate for longer");
    Ok(format!(
        "{:11.1} {:9.4} {:9} {:9} {:6.2}  {}\n",
        last.requests_per_s,
        last.requests_per_s / first.requests_per_s,
        last.avx_cores,
        last.role_changes,
        last.low_cores,
        last.told()
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::sim::Setup;
    use crate::sim::outcome::made_up;
    use crate::sim::workload_file;

    #[derive(Parser)]
    struct Sim {
        #[command(flatten)]
        quick: Quick,
    }

    fn machine(words: &str) -> Machine {
        Sim::try_parse_from(words.split(' ')).unwrap().quick.machine
    }

    #[test]
    fn figures_as_json_are_said_to_be_modelled() {
        let report = Report::of(vec![made_up(2.0, Vec::new()), made_up(1.0, Vec::new())]);
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(json["kind"], "modelled");
        assert_eq!(json["outcomes"][1]["relative"], 0.5);
    }

    #[test]
    fn each_headline_says_which_clocks_nobody_knows() {
        assert_eq!(headline("it", "i9-7940x", 10), "it. All figures are modelled.\n");
        assert_eq!(
            headline("it", "xeon-w-2104", 10),
            "it, clocks beyond 4 cores are those of 4. All figures are modelled.\n"
        );
    }

    #[test]
    fn two_cpus_are_siblings_where_cores_have_two() {
        let row = |words: &str| {
            let setup = machine(words).setup(Workload::named("nginx").unwrap(), 1).unwrap();
            outcome_of(&setup, &Variant::named("two-siblings").unwrap()).unwrap().variant
        };
        assert_eq!(row("sim --cores=2"), "two siblings, back with system calls");
        assert_eq!(row("sim --cores=3 --threads=1"), "two cores, back with system calls");
    }

    #[test]
    fn who_asks_for_too_much_has_found_no_mistake_of_the_model() {
        let with = |lines: &str| {
            let text = format!("about = \"much\"\n[[group]]\nname = \"it\"\n{lines}\n");
            workload_file::read("much", &text).unwrap()
        };
        let work = "{ work = \"scalar\", us = 0.1 }, \"done\"";
        let threads = format!("threads = 10000\nper = \"cpu\"\nsteps = [{work}]");
        let requests = format!("arrivals = {{ of_capacity = 0.5 }}\nsteps = [\"wait\", {work}]");
        for (lines, expected) in [
            (threads, "200000 threads are too many: choose fewer for each group, or a"),
            (requests, "60000000 requests a second for group \"it\" are too many: choose a"),
        ] {
            let machine = machine("sim");
            let before = machine.setup(with(&lines), 1).unwrap_err();
            let setup = machine.setup(Workload::named("nginx").unwrap(), 1).unwrap();
            let setup = Setup { workload: with(&lines), ..setup };
            let then = outcome_of(&setup, &Variant::all()[0]).unwrap_err();
            for error in [before, then] {
                assert!(format!("{error:#}").starts_with(expected), "{error:#}");
            }
        }
    }
}
