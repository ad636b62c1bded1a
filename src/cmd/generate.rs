// SPDX-License-Identifier: GPL-2.0-only
//! `generate`: what `make install` and the packages put beside the program, made of the
//! definition of the command line; and what is documentation, but made of the source.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;
use clap_complete::{Shell, generate_to};

use super::{manual, print};
use crate::about::NAME;
use crate::agent::policy;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a manual page for each command.
    Man {
        /// Where; it is made if it is not there.
        #[arg(long, value_name = "DIRECTORY")]
        to: PathBuf,
    },
    /// Write completions for bash, fish and zsh.
    Completions {
        /// Where; it is made if it is not there.
        #[arg(long, value_name = "DIRECTORY")]
        to: PathBuf,
    },
    /// Print docs/policy.md.
    Policy,
}

pub fn run(command: &Command, line: clap::Command) -> Result<()> {
    match command {
        Command::Man { to } => pages(line, to),
        Command::Completions { to } => completions(line, to),
        Command::Policy => print(&policy::reference()),
    }
}

fn pages(line: clap::Command, to: &Path) -> Result<()> {
    make(to)?;
    for (name, text) in manual::pages(line)? {
        let path = to.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn completions(mut line: clap::Command, to: &Path) -> Result<()> {
    make(to)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        generate_to(shell, &mut line, NAME, to)
            .with_context(|| format!("cannot write completions for {shell}"))?;
    }
    Ok(())
}

fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))
}
