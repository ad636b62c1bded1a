// SPDX-License-Identifier: GPL-2.0-only
//! Reads files that a user names. What is no regular file is not read, no more is taken into memory
//! than a file may have and one byte, and nothing waits.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};

pub fn read(path: &Path, largest_kib: u64) -> Result<Vec<u8>> {
    let file = open(path)?;
    ensure!(file.metadata()?.is_file(), "it is no regular file");
    let mut content = Vec::new();
    file.take(largest_kib * 1024 + 1).read_to_end(&mut content).context("cannot read it")?;
    let is_small = content.len() as u64 <= largest_kib * 1024;
    ensure!(is_small, "it is larger than {largest_kib} KiB");
    Ok(content)
}

pub fn read_text(path: &Path, largest_kib: u64) -> Result<String> {
    String::from_utf8(read(path, largest_kib)?).ok().context("it is no text in UTF-8")
}

/// Opens a file. It does not wait for the other end of a pipe, at which there may be nobody.
fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("there is no such file"),
        _ => error.into(),
    })
}
