// SPDX-License-Identifier: GPL-2.0-only
//! Which workload is meant: one that has a name, or one in a file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::files;
use crate::sim::Workload;
use crate::sim::workload_file;

const LARGEST_KIB: u64 = 1024;

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
    let text = files::read_text(file, LARGEST_KIB)
        .with_context(|| format!("cannot read {}", file.display()))?;
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
    fn what_is_no_workload_is_not_read_for_ever() {
        let told = |file: &str| format!("{:#}", from_file(Path::new(file)).err().unwrap());
        assert_eq!(told("/dev/zero"), "cannot read /dev/zero: it is no regular file");
        assert_eq!(told("/nowhere"), "cannot read /nowhere: there is no such file");
        let large = tempfile::NamedTempFile::new().unwrap();
        large.as_file().set_len(1 << 42).unwrap();
        let told = told(large.path().to_str().unwrap());
        assert!(told.ends_with("it is larger than 1024 KiB"), "{told}");
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
