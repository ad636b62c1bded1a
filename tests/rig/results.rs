// SPDX-License-Identifier: GPL-2.0-only
//! Figures that were measured, kept as JSON until they are written down.
//!
//! What a measurement leaves behind below `target` is gone with it, and each machine has
//! its own. `make figures` takes it over into `docs/figures`, where it stays until it is
//! measured again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::rig::in_repository;
use crate::rig::process::text_of;

/// One figure: a stable name, what was measured, what is asked for.
#[derive(Clone, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    /// None where it could not be measured; `verdict` says why.
    pub value: Option<f64>,
    pub unit: String,
    pub bar: String,
    pub verdict: String,
    pub command: String,
    /// Said when it is recorded.
    #[serde(default)]
    pub circumstances: Circumstances,
}

impl Figure {
    /// What came of a measurement that takes `command`; `judge` says what it is worth.
    pub fn measured(
        name: &str,
        unit: &str,
        bar: String,
        command: String,
        measured: Result<f64>,
        judge: impl FnOnce(f64) -> &'static str,
    ) -> Self {
        let (value, verdict) = match measured {
            Ok(value) => (Some(value), judge(value).to_owned()),
            Err(error) => (None, format!("failed: {error:#}")),
        };
        Self {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            bar,
            verdict,
            command,
            circumstances: Circumstances::default(),
        }
    }

    /// The verdict, where anything is asked for.
    pub fn judgement(&self) -> &str {
        if self.value.is_some() && self.bar == NO_BAR { "-" } else { &self.verdict }
    }

    pub fn is_short(&self) -> bool {
        self.verdict == SHORT
    }
}

const SHORT: &str = "short";
const NO_BAR: &str = "none";

/// Why some figures fall short, which is said for as long as they do.
pub struct Reason {
    pub figures: &'static [&'static str],
    pub why: &'static str,
}

/// How to get a figure by `make bench`, and where it should be.
pub struct Bench {
    pub name: &'static str,
    pub unit: &'static str,
    pub bar: Bar,
    pub measure: fn() -> Result<f64>,
}

impl Bench {
    pub fn take(&self) -> Figure {
        let &Self { name, unit, bar, measure } = self;
        let judge = |value| if bar.is_cleared_by(value) { "ok" } else { SHORT };
        let command = format!("make bench ONLY={name}");
        Figure::measured(name, unit, bar.say(), command, measure(), judge)
    }
}

/// What was measured before, if that is kept: figures of the same run need it once.
pub fn once<T>(kept: &OnceLock<T>, measure: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(measured) = kept.get() {
        return Ok(measured);
    }
    let measured = measure()?;
    Ok(kept.get_or_init(|| measured))
}

/// Where a figure should be.
#[derive(Clone, Copy)]
pub enum Bar {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
    /// To be known, or compared with another figure.
    Any,
}

impl Bar {
    fn say(self) -> String {
        match self {
            Bar::AtLeast(bar) => format!("at least {bar}"),
            Bar::AtMost(bar) => format!("at most {bar}"),
            Bar::Within(low, high) => format!("{low} to {high}"),
            Bar::Any => NO_BAR.to_owned(),
        }
    }

    fn is_cleared_by(self, value: f64) -> bool {
        match self {
            Bar::AtLeast(bar) => value >= bar,
            Bar::AtMost(bar) => value <= bar,
            Bar::Within(low, high) => (low..=high).contains(&value),
            Bar::Any => true,
        }
    }
}

/// Where and when, and of what.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Circumstances {
    pub machine: String,
    pub date: String,
    pub commit: String,
}

/// The last figure of each name.
#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub figures: Vec<Figure>,
}

impl Results {
    /// The file that `kind` of measurement ("bench", "soak") leaves behind.
    /// Below the directory that the environment names, or else where `make figures` looks.
    pub fn path(kind: &str) -> PathBuf {
        let dir = std::env::var_os("RIG_RESULTS");
        let dir = dir.map_or_else(|| in_repository("target"), PathBuf::from);
        dir.join(kind).join("results.json")
    }

    /// What was measured before; nothing is a good answer.
    pub fn load(path: &Path) -> Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged: remove it", path.display())),
            Err(_) => Ok(Self::default()),
        }
    }

    /// Takes over fresh figures, each in the place of its namesake.
    pub fn merge(&mut self, fresh: Vec<Figure>) {
        for figure in fresh {
            self.figures.retain(|old| old.name != figure.name);
            self.figures.push(figure);
        }
        self.figures.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Adds a fresh figure to those that `kind` of measurement left before: each at once, so that
    /// none is lost with one that comes later.
    pub fn record(kind: &str, mut fresh: Figure) -> Result<()> {
        fresh.circumstances = Circumstances::now()?;
        let path = Self::path(kind);
        let mut results = Self::load(&path)?;
        results.merge(vec![fresh]);
        results.save(&path)
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path.parent().context("a file has a directory")?)?;
        fs::write(path, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }
}

impl Circumstances {
    fn now() -> Result<Self> {
        let date = text_of(Command::new("date").args(["-u", "+%F"]))?;
        Ok(Self { machine: machine()?, date: date.trim().to_owned(), commit: commit()? })
    }
}

fn machine() -> Result<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("an unnamed CPU", |rest| rest.trim_start_matches(['\t', ' ', ':']));
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let kib: u64 =
        meminfo.split_whitespace().nth(1).and_then(|size| size.parse().ok()).unwrap_or(0);
    let release = fs::read_to_string("/etc/os-release")?;
    let system = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .unwrap_or("an unnamed system");
    Ok(format!(
        "{model}, {} CPUs, {} GiB, {}",
        std::thread::available_parallelism()?,
        kib.div_ceil(1 << 20),
        system.trim_matches('"')
    ))
}

fn commit() -> Result<String> {
    let git = |arguments: &[&str]| {
        text_of(Command::new("git").args(arguments).current_dir(in_repository("")))
    };
    let head = git(&["rev-parse", "--short", "HEAD"])?.trim().to_owned();
    let dirty = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(if dirty { head + " and changes" } else { head })
}
