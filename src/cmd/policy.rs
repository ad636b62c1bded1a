// SPDX-License-Identifier: GPL-2.0-only
//! `policy`: what is in force, and something else instead, while the scheduler runs.

use anyhow::{Result, bail};
use clap::Subcommand;

use super::print;
use crate::agent::control::{self, Answer, Request};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print each knob and where it stands.
    Show,
    /// Turn knobs, all at once; what they are is in --help-policy.
    Set {
        #[arg(value_name = "KNOB=VALUE", required = true)]
        settings: Vec<String>,
    },
}

pub fn run(command: &Command) -> Result<()> {
    let request = match command {
        Command::Show => Request::Show,
        Command::Set { settings } => Request::Set(settings.clone()),
    };
    match (command, control::ask(&request)?) {
        (Command::Set { .. }, Answer::InForce { generation, .. }) => {
            print(&format!("policy {generation} is in force\n"))
        }
        (Command::Show, Answer::InForce { generation, settings }) => {
            let lines = settings.iter().map(|set| format!("{}={}\n", set.knob, set.value));
            print(&format!("# policy {generation}\n{}", lines.collect::<String>()))
        }
        (_, other) => bail!("this is no policy: {other:?}"),
    }
}
