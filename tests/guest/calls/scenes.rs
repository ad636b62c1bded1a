// SPDX-License-Identifier: GPL-2.0-only
//! The scenes of scenes.toml, for the kernel that plays them and for its model.

use anyhow::{Context, Result, ensure};
use regex::{Captures, Regex};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenes {
    scene: Vec<Described>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    #[serde(default = "nothing_special")]
    stages: Vec<Stage>,
    thread: Vec<Group>,
}

/// Threads that do the same.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(default = "one")]
    number: usize,
    /// A mask, or 0 for all.
    #[serde(default)]
    cpus: u64,
    #[serde(default)]
    nice: i32,
    /// Not the scheduler's, but SCHED_FIFO from the beginning.
    #[serde(default)]
    realtime: bool,
    steps: String,
    #[serde(default = "one")]
    times: usize,
    #[serde(default)]
    calls: String,
    because: Option<String>,
    /// Where there is an AVX core, if that makes a difference.
    beside: Option<Calls>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    calls: String,
    because: Option<String>,
}

/// What a scene is played on: so many CPUs, and a scheduler.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The scheduler does not look for AVX work.
    Plain,
    /// It does, but there is none; the last CPU is an AVX core.
    AvxCore,
    /// The same, and AVX-512 is hidden.
    Wide,
}

/// A scene on a stage.
#[derive(Debug)]
pub struct Scene {
    pub name: String,
    pub stage: Stage,
    pub threads: Vec<Thread>,
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub cpus: u64,
    pub nice: i32,
    pub realtime: bool,
    /// Words: see scenes.c.
    pub script: String,
    pub expected: Pattern,
}

/// What the callbacks for a thread have to be, from the first step to the last.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

/// On machines with so many CPUs.
pub const CPUS: u32 = 2;

fn nothing_special() -> Vec<Stage> {
    vec![Stage::Plain]
}

fn one() -> usize {
    1
}

impl Stage {
    /// Knobs of the policy.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::AvxCore => &["trials=off", "sizing=static", "avx-cpus=1"],
            Self::Wide => &[
                "trials=off",
                "sizing=static",
                "avx-cpus=1",
                "detection-grace=0s",
                "return=syscall",
            ],
        }
    }
}

impl Pattern {
    /// A regular expression whose letters are callbacks. What is not determined has a reason, and
    /// is bounded.
    fn new(calls: &Calls) -> Result<Self> {
        let Calls { calls, because } = calls;
        ensure!(!calls.contains(['*', '+', '.', '[']), "{calls:?} permits anything");
        let counts = Regex::new(r"\{(\d+)(,?)(\d*)\}")?;
        let is_open = |it: Captures<'_>| !it[2].is_empty() && it[3].is_empty();
        ensure!(!counts.captures_iter(calls).any(is_open), "{calls:?} has no end");
        let is_loose =
            calls.contains(['|', '?']) || counts.captures_iter(calls).any(|it| !it[2].is_empty());
        ensure!(is_loose == because.is_some(), "{calls:?} is loose or not because {because:?}");
        let words = Regex::new("[a-z_]+")?.replace_all(calls, "(?:$0,)").replace(' ', "");
        Ok(Self(Regex::new(&format!("^(?:{words})$"))?))
    }

    fn complaint(&self, calls: &[&str]) -> Option<String> {
        let all: String = calls.iter().map(|call| format!("{call},")).collect();
        (!self.0.is_match(&all)).then(|| format!("not as it should be: {}", calls.join(" ")))
    }
}

impl Thread {
    /// What is wrong with these callbacks, if anything is.
    pub fn complaint(&self, calls: &[&str]) -> Option<String> {
        self.expected.complaint(calls)
    }
}

impl Group {
    fn thread(&self, stage: Stage) -> Result<Thread> {
        let calls = match &self.beside {
            Some(beside) if stage == Stage::AvxCore => beside.clone(),
            _ => Calls { calls: self.calls.clone(), because: self.because.clone() },
        };
        Ok(Thread {
            cpus: self.cpus,
            nice: self.nice,
            realtime: self.realtime,
            script: vec![self.steps.as_str(); self.times].join(" "),
            expected: Pattern::new(&calls)?,
        })
    }
}

impl Described {
    fn on(&self, stage: Stage) -> Result<Scene> {
        let mut threads = Vec::new();
        for group in &self.thread {
            let thread = group.thread(stage).with_context(|| self.name.clone())?;
            threads.extend(std::iter::repeat_n(thread, group.number));
        }
        Ok(Scene { name: format!("{} on {stage:?}", self.name), stage, threads })
    }
}

/// Each on each of its stages.
pub fn all() -> Result<Vec<Scene>> {
    let scenes: Scenes = toml::from_str(include_str!("scenes.toml")).context("scenes.toml")?;
    ensure!(scenes.scene.len() >= 30, "there are {} scenes", scenes.scene.len());
    let on_its_stages =
        |scene: &Described| scene.stages.iter().map(|stage| scene.on(*stage)).collect::<Vec<_>>();
    scenes.scene.iter().flat_map(on_its_stages).collect()
}

#[test]
fn the_whole_sequence_has_to_be_as_it_is_said() {
    let pattern = |calls: &str, because: Option<&str>| {
        Pattern::new(&Calls { calls: calls.to_owned(), because: because.map(str::to_owned) })
    };
    let it = pattern("(a ab){2} a", None).unwrap();
    assert_eq!(it.complaint(&["a", "ab", "a", "ab", "a"]), None);
    let others = ["a ab a", "a ab a ab a a", "ab a ab a a", "a ab a ab ab", "a ab aa b a", ""];
    for other in others {
        let calls: Vec<&str> = other.split_whitespace().collect();
        assert!(it.complaint(&calls).unwrap().ends_with(other), "{other} is taken for it");
    }
    let loose = pattern("a (b)? c{1,2}|d", Some("a matter of chance")).unwrap();
    assert_eq!(loose.complaint(&["a", "c", "c"]), None);
    assert_eq!(loose.complaint(&["d"]), None);
    assert!(loose.complaint(&["a", "b", "b", "c"]).is_some());
    assert!(loose.complaint(&["a", "c", "d"]).is_some());
    for calls in ["a?", "a|b", "a{1,2}"] {
        assert!(pattern(calls, None).is_err(), "{calls} needs no reason");
    }
    assert!(pattern("a{2} b", Some("a reason")).is_err());
    for calls in ["a*", "a+", "a{2,}", ".{1,2}", "[ab]"] {
        assert!(pattern(calls, Some("a reason")).is_err(), "{calls} permits anything");
    }
}
