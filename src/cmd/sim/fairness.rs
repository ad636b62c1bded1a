// SPDX-License-Identifier: GPL-2.0-only
//! `sim fairness`: how unfairly a machine is shared whose clocks some programs lower.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::choice::Choice;
use super::machine::{Machine, ScaledMachine, headline, outcome_of};
use crate::cmd::{print, print_json};
use crate::sim::score::ratio;
use crate::sim::unfairness::{self, Sharing};

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    machine: ScaledMachine,

    /// How long, in seconds of the machine's time.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// On a machine without AVX-512, where programs use vectors of 256 bits.
    #[arg(long)]
    avx2: bool,

    /// With this knob turned; may be given several times.
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    settings: Vec<String>,

    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    /// Whose figures these are: a model's, always.
    kind: &'static str,
    workload: String,
    shared: Vec<Sharing>,
}

pub fn run(options: &Options) -> Result<()> {
    let setup = options.machine.setup(options.choice.workload()?, options.seconds)?;
    let shared = unfairness::measure(&setup, !options.avx2, &options.settings, outcome_of)?;
    let report = Report { kind: "modelled", workload: setup.workload.name, shared };
    if options.json {
        print_json(&report)
    } else {
        print(&table(&report, &options.machine.machine)?)
    }
}

fn table(report: &Report, machine: &Machine) -> Result<String> {
    let mut text = headline(&report.workload, &machine.model, machine.cores);
    writeln!(text, "{:>10} {:>10} {:>10} {:>10}", "causes", "victims", "unfairness", "error")?;
    for sharing in &report.shared {
        for victim in &sharing.victims {
            let error = ratio(sharing.estimate_error);
            writeln!(
                text,
                "{:>10.4} {:>10.4} {:>10.4} {error:>10}  {}: {}",
                sharing.relative_of_causes,
                victim.relative,
                victim.unfairness,
                sharing.policy,
                victim.group
            )?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Fairness {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn it_says_which_clocks_nobody_knows() {
        let words = ["fairness", "fair-compute", "--model=xeon-w-2104"];
        let options = Fairness::try_parse_from(words).unwrap().options;
        let report = Report { kind: "modelled", workload: "w".to_owned(), shared: Vec::new() };
        let table = table(&report, &options.machine.machine).unwrap();
        assert!(table.starts_with("w, clocks beyond 4 cores are those of 4. All"), "{table}");
    }
}
