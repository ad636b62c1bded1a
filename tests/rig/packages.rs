// SPDX-License-Identifier: GPL-2.0-only
//! Debian packages as material: fetched through apt, unpacked with tar.
//!
//! Nothing here installs anything on the host or needs root. apt resolves
//! against an empty status file, so that a closure is complete whatever the
//! host has; maintainer scripts are not run. A release other than the host's
//! comes from the same mirror, with an apt state of its own in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use super::cache::{self, Cache};
use super::process::{output_of, text_of};

/// One Debian release, seen through apt.
pub struct Apt {
    cache: Cache,
    name: String,
    options: Vec<String>,
}

impl Apt {
    /// The release that the host runs, as its administrator set it up.
    pub fn host(cache: &Cache) -> Self {
        Self { cache: cache.clone(), name: "host".to_owned(), options: Vec::new() }
    }

    /// Any release by its name.
    pub fn release(cache: &Cache, name: &str) -> Result<Self> {
        let _lock = cache.lock(&format!("apt-{name}"))?;
        let dir = cache.dir("apt")?.join(name);
        let sources = dir.join("release.sources");
        let apt = Self {
            cache: cache.clone(),
            name: name.to_owned(),
            options: vec![
                "Dir::Etc::sourceparts=/dev/null".to_owned(),
                format!("Dir::Etc::sourcelist={}", sources.display()),
                format!("Dir::State={}/state", dir.display()),
                format!("Dir::Cache={}/cache", dir.display()),
            ],
        };
        if !sources.exists() {
            fs::create_dir_all(dir.join("state/lists/partial"))?;
            fs::create_dir_all(dir.join("cache/archives/partial"))?;
            let unproved = sources.with_extension("new.sources");
            fs::write(&unproved, release_sources(name)?)?;
            let mut update = apt.get();
            update.arg("-o");
            update.arg(format!("Dir::Etc::sourcelist={}", unproved.display()));
            output_of(update.arg("update"))?;
            fs::rename(&unproved, &sources)?;
        }
        Ok(apt)
    }

    fn get(&self) -> Command {
        let mut command = self.tool("apt-get");
        command.args(["-o", "APT::Sandbox::User=root"]).args(["-o", "Debug::NoLocking=1"]);
        command
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }

    /// The version of `package` that this release has to offer. Every guest asks, and apt takes a
    /// second to answer: it is asked once.
    pub fn candidate(&self, package: &str) -> Result<String> {
        static ANSWERS: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());
        let question = (self.name.clone(), package.to_owned());
        let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get(&question) {
            return Ok(answer.clone());
        }
        let answer = self.ask_for_candidate(package)?;
        answers.insert(question, answer.clone());
        Ok(answer)
    }

    fn ask_for_candidate(&self, package: &str) -> Result<String> {
        let policy = text_of(self.tool("apt-cache").args(["policy", package]))?;
        policy
            .lines()
            .find_map(|line| line.trim().strip_prefix("Candidate: "))
            .filter(|version| *version != "(none)")
            .map(str::to_owned)
            .with_context(|| format!("apt knows no package {package}: run 'apt-get update' first"))
    }

    /// Downloads exactly `package` at `version` into `dir`.
    pub fn download(&self, package: &str, version: &str, dir: &Path) -> Result<PathBuf> {
        let mut get = self.get();
        get.arg("download").arg(format!("{package}={version}"));
        output_of(get.current_dir(dir))?;
        let debs = debs_in(dir)?;
        find_deb(&debs, package, version)
    }

    /// Downloads `packages` and all they depend on into the cache; returns the
    /// .deb files.
    pub fn download_closure(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        let _lock = self.cache.lock(&format!("packages-{}", self.name))?;
        let dir = self.cache.dir("packages")?.join(&self.name);
        fs::create_dir_all(dir.join("archives/partial"))?;
        let status = dir.join("status");
        fs::write(&status, "")?;
        let install = |how: &str| {
            let mut get = self.get();
            get.args(["install", "--yes", "--no-install-recommends", how])
                .arg("-o")
                .arg(format!("Dir::State::status={}", status.display()))
                .arg("-o")
                .arg(format!("Dir::Cache::archives={}/archives/", dir.display()))
                .args(packages);
            get
        };
        // What is in the archive directory already is not fetched again, and
        // so not named: the simulation names all of it.
        let plan = text_of(&mut install("--simulate"))?;
        output_of(&mut install("--download-only"))?;
        let debs = debs_in(&dir.join("archives"))?;
        installed_by(&plan).iter().map(|(name, version)| find_deb(&debs, name, version)).collect()
    }

    /// The file `name`, part of the sources of `package`, which must hash to
    /// `sha256`.
    pub fn source_file(&self, package: &str, name: &str, sha256: &str) -> Result<PathBuf> {
        let _lock = self.cache.lock("sources")?;
        let dir = self.cache.dir("sources")?;
        let path = dir.join(name);
        if !path.exists() {
            let mut get = self.get();
            get.args(["source", "--download-only", package]);
            let fetched = output_of(get.current_dir(&dir));
            // A mirror that lacks the .dsc makes apt fail after it has fetched
            // the tarball; whether that is right is for its hash to say.
            if !path.exists() {
                fetched?;
            }
        }
        let content = fs::read(&path)
            .with_context(|| format!("apt-get source {package} did not bring {name}"))?;
        if cache::hex(&content) != sha256 {
            fs::remove_file(&path)?;
            bail!("{name} is not the file that the rig was made for: its SHA-256 differs");
        }
        Ok(path)
    }
}

/// Names and versions in the "Inst name (version ...)" lines of a simulation.
pub fn installed_by(plan: &str) -> Vec<(String, String)> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("Inst "))
        .filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let version = rest.strip_prefix('(')?.split([' ', ')']).next()?;
            Some((name.to_owned(), version.to_owned()))
        })
        .collect()
}

/// Unpacks a .deb into `root`, following the symbolic links of a merged /usr.
pub fn unpack(deb: &Path, root: &Path) -> Result<()> {
    let mut archive = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start dpkg-deb")?;
    let stream = archive.stdout.take().context("dpkg-deb has an output")?;
    let status = Command::new("tar")
        .args(["--extract", "--keep-directory-symlink", "--no-same-owner"])
        .arg("--directory")
        .arg(root)
        .stdin(stream)
        .status()
        .context("cannot start tar")?;
    ensure!(archive.wait()?.success() && status.success(), "cannot unpack {}", deb.display());
    Ok(())
}

fn release_sources(name: &str) -> Result<String> {
    Ok(format!(
        "Types: deb deb-src\nURIs: {}\nSuites: {name}\nComponents: main\n\
         Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
        mirror()?
    ))
}

/// The Debian mirror that this host is configured for.
fn mirror() -> Result<String> {
    let targets = text_of(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(ORIGIN) $(LABEL)",
        "Created-By: Packages",
    ]))?;
    targets
        .lines()
        .find_map(|line| line.strip_suffix(" Debian Debian"))
        .map(str::to_owned)
        .context("apt has no Debian mirror configured: run 'apt-get update' first")
}

fn debs_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut debs: Vec<PathBuf> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    debs.retain(|path| path.extension().is_some_and(|end| end == "deb"));
    Ok(debs)
}

fn find_deb(debs: &[PathBuf], package: &str, version: &str) -> Result<PathBuf> {
    // A colon in a version is escaped in a file's name.
    let prefix = format!("{package}_{}_", version.replace(':', "%3a"));
    debs.iter()
        .find(|deb| {
            let name = deb.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&prefix)
        })
        .cloned()
        .with_context(|| format!("apt-get did not fetch {package} {version}"))
}
