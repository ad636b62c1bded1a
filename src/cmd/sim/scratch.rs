// SPDX-License-Identifier: GPL-2.0-only
//! A directory for files that runs are told of, for as long as they take.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::about::NAME;

pub struct Scratch(PathBuf);

/// One that somebody else left there is not taken.
const TRIES: u32 = 100;

impl Scratch {
    pub fn new() -> Result<Self> {
        let there = std::env::temp_dir();
        let own = |n: u32| there.join(format!("{NAME}-{}-{n}", std::process::id()));
        let create = |path: PathBuf| DirBuilder::new().mode(0o700).create(&path).map(|()| path);
        let mut tried = (0..TRIES).map(|n| create(own(n)));
        let is_taken = |it: &io::Result<PathBuf>| {
            it.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        };
        let found = tried.find(|it| !is_taken(it)).context("all names for one are taken")?;
        found.map(Self).with_context(|| {
            format!("cannot make a directory in {}: name another one in TMPDIR", there.display())
        })
    }

    /// Puts the text into a file of that name.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_it() {
        let (one, other) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        assert_ne!(one.0, other.0);
        let path = one.write("it.toml", "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        drop(one);
        assert!(!path.exists() && other.0.exists());
    }
}
