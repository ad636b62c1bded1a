// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig mutants`: seed each known bug, see the test named for it fail.
//!
//! They are listed in tests/mutants, in a file for each area. A mutant is killed
//! when the tree with the bug still builds and the test that names it fails; first
//! the test has to pass without any bug. A survivor means that the test cannot fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::rig::cache::{files_below, write_if_different};
use crate::rig::process::{output_of, tail};
use crate::rig::{in_repository, kernel};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only mutants whose name contains one of these
    words: Vec<String>,
    /// Show them, with the tests that kill them, and seed none
    #[arg(long)]
    list: bool,
}

#[derive(Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    name: String,
    file: PathBuf,
    find: String,
    replace: String,
    /// "unit NAME" or "rig NAME", as cargo test knows it.
    killed_by: String,
}

impl List {
    fn read() -> Result<Self> {
        let mut all = Self { mutant: Vec::new() };
        for file in files_below(&in_repository("tests/mutants"))? {
            let text = fs::read_to_string(&file)?;
            let of_an_area: Self =
                toml::from_str(&text).with_context(|| file.display().to_string())?;
            all.mutant.extend(of_an_area.mutant);
        }
        Ok(all)
    }
}

impl Mutant {
    /// What `source` is with this bug.
    fn seed(&self, source: &str) -> Result<String> {
        let Self { name, file, find, replace, .. } = self;
        let places = source.matches(find).count();
        ensure!(places == 1, "{name}: {find:?} is found {places} times in {}", file.display());
        Ok(source.replacen(find, replace, 1))
    }
}

/// The sources change, and mutants are seldom run: whether each can still be seeded.
pub fn all_can_be_seeded() -> Result<()> {
    let mut names = BTreeSet::new();
    for mutant in List::read()?.mutant {
        let path = in_repository("").join(&mutant.file);
        let source =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(mutant.seed(&source)? != source, "{} changes nothing", mutant.name);
        split(&mutant.killed_by)?;
        ensure!(names.insert(mutant.name.clone()), "two mutants are called {}", mutant.name);
    }
    Ok(())
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let list = List::read()?;
    let chosen: Vec<&Mutant> =
        list.mutant.iter().filter(|mutant| is_meant(&mutant.name, &arguments.words)).collect();
    ensure!(!chosen.is_empty(), "no mutant's name contains {:?}", arguments.words.join(" or "));
    if arguments.list {
        chosen.iter().for_each(|mutant| println!("{:50} {}", mutant.name, mutant.killed_by));
        return Ok(ExitCode::SUCCESS);
    }

    let tree = Tree::copy()?;
    let judges: BTreeSet<&str> = chosen.iter().map(|mutant| mutant.killed_by.as_str()).collect();
    for judge in judges {
        eprintln!("rig: without a bug: {judge}");
        let output = tree.test(judge)?;
        ensure!(output.status.success(), "{judge} fails without a bug:\n{}", words_of(&output));
    }
    let mut survivors = 0;
    for mutant in &chosen {
        let verdict = match tree.kills(mutant) {
            Ok(true) => "killed",
            Ok(false) => "SURVIVED",
            Err(error) => {
                eprintln!("rig: mutant {}: {error:#}", mutant.name);
                "NO VERDICT"
            }
        };
        println!("{verdict:10} {:40} {}", mutant.name, mutant.killed_by);
        survivors += usize::from(verdict != "killed");
    }
    println!("{} passed, {survivors} failed", chosen.len() - survivors);
    Ok(if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_meant(name: &str, words: &[String]) -> bool {
    words.is_empty() || words.iter().any(|word| name.contains(word))
}

/// A copy of the repository to seed bugs in, with build output of its own.
struct Tree {
    dir: PathBuf,
    target: PathBuf,
}

impl Tree {
    /// What is there from an earlier run is kept as far as it is the same. Whatever is not is
    /// written anew, and so is newer than what was built of it, bugs and all.
    fn copy() -> Result<Self> {
        let dir = in_repository("target/mutants/tree");
        fs::create_dir_all(&dir)?;
        let mut stale: BTreeSet<PathBuf> = files_below(&dir)?.into_iter().collect();
        let files = output_of(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(in_repository("")),
        )?;
        for name in files.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = Path::new(std::str::from_utf8(name)?);
            let (source, target) = (in_repository("").join(name), dir.join(name));
            stale.remove(&target);
            if write_if_different(&target, &fs::read(&source)?)? {
                fs::set_permissions(&target, fs::metadata(&source)?.permissions())?;
            }
        }
        for file in stale {
            fs::remove_file(file)?;
        }
        Ok(Self { dir, target: in_repository("target/mutants/target") })
    }

    /// Whether the test named for this mutant fails because of it.
    fn kills(&self, mutant: &Mutant) -> Result<bool> {
        let path = self.dir.join(&mutant.file);
        let sound = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", mutant.file.display()))?;
        fs::write(&path, mutant.seed(&sound)?)?;
        let verdict = self.verdict(&mutant.killed_by);
        fs::write(&path, sound)?;
        verdict
    }

    fn verdict(&self, judge: &str) -> Result<bool> {
        let built = self.cargo(judge, &["--no-run"], &[])?;
        ensure!(built.status.success(), "it does not build:\n{}", words_of(&built));
        let output = self.test(judge)?;
        // What a test builds itself fails later, and is no verdict either.
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let is_built = said.iter().all(|text| !text.contains(kernel::DOES_NOT_BUILD));
        ensure!(is_built, "{}", words_of(&output));
        Ok(!output.status.success())
    }

    fn test(&self, judge: &str) -> Result<Output> {
        let (_, name) = split(judge)?;
        let output = self.cargo(judge, &[], &["--exact", name])?;
        let ran = String::from_utf8_lossy(&output.stdout).contains("running 1 test");
        ensure!(ran, "there is no test {judge:?}:\n{}", words_of(&output));
        Ok(output)
    }

    fn cargo(&self, judge: &str, flags: &[&str], rest: &[&str]) -> Result<Output> {
        let target = match split(judge)?.0 {
            "unit" => ["--bin", "scx_avxspec"],
            "rig" => ["--test", "rig"],
            other => bail!("a judge is \"unit NAME\" or \"rig NAME\", not {other:?}"),
        };
        Command::new("cargo")
            .args(["test", "--release", "--locked"])
            .args(target)
            .args(flags)
            .arg("--")
            .args(rest)
            .current_dir(&self.dir)
            .env("CARGO_TARGET_DIR", &self.target)
            // A bug is small, and most of what is built is as before.
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
            .output()
            .context("cannot start cargo")
    }
}

fn split(judge: &str) -> Result<(&str, &str)> {
    judge.split_once(' ').with_context(|| format!("{judge:?} is not \"unit NAME\" or \"rig NAME\""))
}

fn words_of(output: &Output) -> String {
    format!(
        "{}\n{}",
        tail(&String::from_utf8_lossy(&output.stdout), 20),
        tail(&String::from_utf8_lossy(&output.stderr), 20)
    )
}
