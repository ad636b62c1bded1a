// SPDX-License-Identifier: GPL-2.0-only
//! What is built once and kept: kernels, emulators, root file systems.
//!
//! Everything lives in `${XDG_CACHE_HOME:-~/.cache}/scx_avxspec`. A finished
//! artefact is a directory named after a [`Key`], the hash of all that went
//! into it. It appears by one rename, so that whatever is found under its name
//! is whole: a build that was interrupted leaves only a `.partial` directory,
//! which the next one throws away. Locks are the kernel's (`flock`), so they
//! die with their holder.

use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

#[derive(Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    pub fn open() -> Result<Self> {
        let base = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
        };
        Ok(Self::at(base.join("scx_avxspec")))
    }

    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// A directory for things that are worked on in place, under a lock.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    /// Waits for the lock `name`, and says so when it has to wait.
    pub fn lock(&self, name: &str) -> Result<File> {
        let path = self.dir("locks")?.join(name);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open the lock {}", path.display()))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            eprintln!("rig: waiting for another build of {name}");
            file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Ok(file)
    }

    /// The artefact `kind/key`; `build` fills its directory if it is not there.
    pub fn artefact(
        &self,
        kind: &str,
        key: &Key,
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let name = key.hex();
        let path = self.dir(kind)?.join(&name);
        if path.exists() {
            return Ok(path);
        }
        let _lock = self.lock(&format!("{kind}-{name}"))?;
        if path.exists() {
            return Ok(path);
        }
        let partial = path.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial)?;
        build(&partial)?;
        fs::write(partial.join("key"), key.text())?;
        fs::rename(&partial, &path)
            .with_context(|| format!("cannot publish {}", path.display()))?;
        Ok(path)
    }
}

/// The names and contents of all that went into an artefact.
#[derive(Clone, Default)]
pub struct Key {
    parts: Vec<(String, String)>,
}

impl Key {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn text_part(mut self, name: &str, value: &str) -> Self {
        self.parts.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file by its content, wherever it lies.
    pub fn file_part(self, path: &Path) -> Result<Self> {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(self.text_part(&name, &hex(&content)))
    }

    /// Every file below `dir`, in the order of their names.
    pub fn dir_part(mut self, dir: &Path) -> Result<Self> {
        for path in files_below(dir)? {
            let name = path.strip_prefix(dir)?.display().to_string();
            let content = fs::read(&path)?;
            self = self.text_part(&name, &hex(&content));
        }
        Ok(self)
    }

    fn text(&self) -> String {
        self.parts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }

    pub fn hex(&self) -> String {
        hex(self.text().as_bytes())[..16].to_owned()
    }
}

pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        let entries =
            fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes `content` only where it differs, so that a build tool that goes by
/// time stamps rebuilds no more than it must. The file is replaced, never
/// written in place: whoever shares its inode keeps the old one.
pub fn write_if_different(path: &Path, content: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(false);
    }
    let parent = path.parent().context("a file has a directory")?;
    fs::create_dir_all(parent)?;
    let mut name = path.file_name().context("a file has a name")?.to_owned();
    name.push(".new");
    let fresh = parent.join(name);
    fs::write(&fresh, content).with_context(|| format!("cannot write {}", fresh.display()))?;
    if let Ok(metadata) = fs::metadata(path) {
        fs::set_permissions(&fresh, metadata.permissions())?;
    }
    fs::rename(&fresh, path)?;
    Ok(true)
}
