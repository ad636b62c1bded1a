// SPDX-License-Identifier: GPL-2.0-only
//! Which workload is meant: one that has a name, or one in a file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::sim::Workload;
use crate::sim::workload_file;

#[derive(Debug, Args)]
pub struct Choice {
    /// What the machine is to do: one of those that "sim list" shows.
    #[arg(required_unless_present = "file")]
    workload: Option<String>,

    /// A workload of your own.
    #[arg(long = "workload", id = "file", value_name = "FILE", conflicts_with = "workload")]
    file: Option<PathBuf>,
}

impl Choice {
    pub fn workload(&self) -> Result<Workload> {
        match (&self.workload, &self.file) {
            (Some(name), _) => Workload::named(name),
            (None, Some(file)) => from_file(file),
            (None, None) => bail!("there is no workload: \"sim list\" shows some"),
        }
    }
}

pub fn from_file(file: &Path) -> Result<Workload> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    workload_file::read(&file.display().to_string(), &text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        choice: Choice,
    }

    fn chosen(words: &str) -> Result<String> {
        let command = Command::try_parse_from(words.split(' '))?;
        Ok(command.choice.workload()?.name)
    }

    #[test]
    fn a_workload_has_a_name_or_is_in_a_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sim/workload/shipped/tenants.toml");
        assert_eq!(chosen("sim x264").unwrap(), "x264");
        assert_eq!(chosen(&format!("sim --workload={file}")).unwrap(), file);
        for wrong in ["sim", "sim nope", "sim --workload=/nope.toml", "sim x264 --workload=x.toml"]
        {
            assert!(chosen(wrong).is_err(), "{wrong}");
        }
    }
}
