// SPDX-License-Identifier: GPL-2.0-only
//! Loads a policy by its name, or from a file.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::words::quoted;
use super::{file, named};
use crate::bpf::intf::avx_policy;
use crate::files;

const LARGEST_KIB: u64 = 64;

/// Loads a policy. A name comes first: a file of the same name can be given as ./NAME.
pub fn load(name_or_file: &str) -> Result<avx_policy> {
    if let Some(it) = named::find(name_or_file) {
        return it.policy();
    }
    if !is_file(name_or_file) {
        let (what, advice) = (quoted(name_or_file), named::advice(name_or_file));
        bail!("there is neither a policy nor a file {what}: {advice}");
    }
    let what = || format!("cannot use the policy file {name_or_file}");
    file::parse(&files::read(Path::new(name_or_file), LARGEST_KIB).with_context(what)?)
        .with_context(what)
}

/// Returns true if this is a file, or looks like one that is missing.
pub fn is_file(text: &str) -> bool {
    let looks_like_one = text.contains('/') || text.ends_with(".toml");
    looks_like_one || !matches!(Path::new(text).try_exists(), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::policy::settings;
    use std::fs::{self, File};
    use std::os::unix::net::UnixListener;

    fn complaint(of: &Path) -> String {
        format!("{:#}", load(of.to_str().unwrap()).err().unwrap())
    }

    #[test]
    fn a_name_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine");
        fs::write(&path, "base = 'static'\n").unwrap();
        let from_file = load(path.to_str().unwrap()).unwrap();
        assert_eq!(settings(&from_file), settings(&load("static").unwrap()));
        fs::write(&path, "base = 'static'\nspeed = 1\n").unwrap();
        let told = complaint(&path);
        assert!(told.starts_with("cannot use the policy file /"), "{told}");
        assert!(told.contains("/mine: line 2: there is no knob \"speed\""), "{told}");
    }

    #[test]
    fn what_is_neither_is_told_so() {
        let told = complaint(Path::new("statik"));
        assert!(told.starts_with("there is neither a policy nor a file \"statik\": "), "{told}");
        assert!(told.ends_with("did you mean \"static\"?"), "{told}");
        for path in ["/nowhere/static", "nowhere.toml", "/dev/null/x"] {
            let told = complaint(Path::new(path));
            assert!(told.starts_with("cannot use the policy file "), "{told}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let socket = dir.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [dir.path(), &pipe, Path::new("/dev/zero"), Path::new("/dev/null")] {
            assert!(complaint(path).ends_with("it is no regular file"), "{}", complaint(path));
        }
        assert!(complaint(&socket).contains("cannot use the policy file"));
        let loop_ = dir.path().join("loop");
        std::os::unix::fs::symlink(&loop_, &loop_).unwrap();
        assert!(complaint(&loop_).contains("cannot use the policy file"));
    }

    #[test]
    fn no_more_than_the_limit_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        fs::write(&path, "#".repeat(64 * 1024)).unwrap();
        assert!(load(path.to_str().unwrap()).is_ok());
        fs::write(&path, "#".repeat(64 * 1024 + 1)).unwrap();
        assert!(complaint(&path).contains("larger than 64 KiB"));
        fs::write(&path, vec![b'#'; 100 << 20]).unwrap();
        assert!(complaint(&path).contains("larger than 64 KiB"));
        // This file is longer than any memory.
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        assert!(complaint(&path).contains("larger than 64 KiB"));
    }
}
