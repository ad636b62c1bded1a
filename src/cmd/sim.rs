// SPDX-License-Identifier: GPL-2.0-only
//! `sim`: policies side by side, on a machine that is a model.

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{print, print_json};
use crate::agent::policy;
use crate::sim::machine::Topology;
use crate::sim::model::Model;
use crate::sim::scenario::{self, Outcome, VARIANTS, Variant};

#[derive(Debug, Args)]
pub struct Options {
    /// The processor.
    #[arg(long, default_value = "i9-7940x", value_name = "NAME")]
    model: String,

    /// Its cores, all of which work.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,

    /// Threads of each core.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=2))]
    threads: u16,

    /// How long, in seconds of the machine's time.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// The same seed gives the same result, to the last digit.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let model = Model::named(&options.model).with_context(|| {
        format!(
            "there is no model {:?}: choose one of {}",
            options.model,
            Model::names().collect::<Vec<_>>().join(", ")
        )
    })?;
    let topology = Topology::regular(1, 1, options.cores.into(), options.threads.into());
    let mut outcomes: Vec<Outcome> = Vec::new();
    if !options.json {
        print("A web server under full load. All figures are modelled.\n")?;
        print(&format!(
            "{:>11} {:>9} {:>9} {:>9}\n",
            "requests/s", "relative", "AVX cores", "changes"
        ))?;
    }
    for variant in &VARIANTS {
        let outcome = variant_on(&model, &topology, variant, options)
            .with_context(|| format!("{}: the model found a mistake", variant.name))?;
        outcomes.push(outcome);
        if !options.json {
            print(&row(&outcomes)?)?;
        }
    }
    if options.json {
        print_json(&outcomes)?;
    }
    Ok(())
}

fn variant_on(
    model: &Model,
    topology: &Topology,
    variant: &Variant,
    options: &Options,
) -> Result<Outcome> {
    let settings: Vec<String> = variant.settings.iter().map(|set| (*set).to_owned()).collect();
    let policy = policy::turned(policy::standard(), &settings)?;
    scenario::nginx(model, topology, variant, &policy, options.seconds, options.seed)
}

/// The last of them, measured by the first.
fn row(outcomes: &[Outcome]) -> Result<String> {
    let (Some(first), Some(last)) = (outcomes.first(), outcomes.last()) else {
        return Ok(String::new());
    };
    ensure!(first.requests_per_s > 0.0, "no request was served: simulate for longer");
    Ok(format!(
        "{:11.1} {:9.4} {:9} {:9}  {}\n",
        last.requests_per_s,
        last.requests_per_s / first.requests_per_s,
        last.avx_cores,
        last.role_changes,
        last.variant
    ))
}
