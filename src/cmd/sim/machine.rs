// SPDX-License-Identifier: GPL-2.0-only
//! The modelled machine, as the command line describes it.

use anyhow::{Context, Result};
use clap::Args;

use crate::sim::engine::COSTS;
use crate::sim::experiment::Setup;
use crate::sim::machine::Topology;
use crate::sim::model::Model;
use crate::sim::workload::Workload;

#[derive(Clone, Debug, Args)]
pub struct Machine {
    /// The processor.
    #[arg(long, default_value = "i9-7940x", value_name = "NAME")]
    pub model: String,

    /// Cores of each processor, all of which work.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,

    /// Threads of each core.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=2))]
    pub threads: u16,

    /// Processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=8))]
    pub sockets: u16,

    /// The same seed gives the same result, to the last digit.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Machine {
    pub fn setup(&self, workload: Workload, seconds: u64) -> Result<Setup> {
        let model = Model::named(&self.model).with_context(|| {
            format!(
                "there is no model {:?}: choose one of {}",
                self.model,
                Model::names().collect::<Vec<_>>().join(", ")
            )
        })?;
        let topology =
            Topology::regular(self.sockets.into(), 1, self.cores.into(), self.threads.into());
        Ok(Setup { workload, model, topology, costs: COSTS, seconds, seed: self.seed })
    }
}
