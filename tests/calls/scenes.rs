// SPDX-License-Identifier: GPL-2.0-only
//! The scenes of scenes.toml, for the kernel that plays them and for its model.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenes {
    pub scene: Vec<Scene>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    pub name: String,
    /// Whether the scheduler looks for AVX work.
    #[serde(default)]
    pub classifies: bool,
    /// Knobs of the policy.
    #[serde(default)]
    pub settings: Vec<String>,
    pub thread: Vec<Thread>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// A mask, or 0 for all.
    #[serde(default)]
    pub cpus: u64,
    #[serde(default)]
    pub nice: i32,
    /// Words: w3 works for 3 ms, s2 sleeps for 2 ms, y yields.
    pub steps: String,
    /// How often.
    pub times: usize,
    /// Which callback follows which, as "first>second", from the first step on: in every run...
    pub always: String,
    /// ... and in some.
    #[serde(default)]
    pub sometimes: String,
}

/// On machines with so many CPUs.
pub const CPUS: u32 = 2;

/// What comes before the first callback.
const BEGIN: &str = "begin";

pub fn all() -> Result<Scenes> {
    toml::from_str(include_str!("scenes.toml")).context("scenes.toml")
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

pub fn successions(calls: &[&str]) -> BTreeSet<String> {
    let before = std::iter::once(&BEGIN).chain(calls);
    before.zip(calls).map(|(first, second)| format!("{first}>{second}")).collect()
}

impl Thread {
    pub fn words(&self) -> Vec<&str> {
        let once: Vec<&str> = self.steps.split(' ').collect();
        once.repeat(self.times)
    }

    /// What is wrong with these callbacks, if anything is.
    pub fn complaint(&self, calls: &[&str]) -> Option<String> {
        let (found, always) = (successions(calls), words(&self.always));
        let known: BTreeSet<String> = &always | &words(&self.sometimes);
        let missing: Vec<&String> = always.difference(&found).collect();
        let strange: Vec<&String> = found.difference(&known).collect();
        let is_right = missing.is_empty() && strange.is_empty() && !always.is_empty();
        (!is_right).then(|| format!("missing {missing:?}, strange {strange:?}, found {found:?}"))
    }
}

#[test]
fn what_is_missing_and_what_is_strange_is_told() {
    let thread = |always: &str| Thread {
        cpus: 0,
        nice: 0,
        steps: "w1".to_owned(),
        times: 1,
        always: always.to_owned(),
        sometimes: "b>b".to_owned(),
    };
    let it = thread("begin>a a>b b>a");
    assert_eq!(it.complaint(&["a", "b", "a", "b"]), None);
    assert_eq!(it.complaint(&["a", "b", "b", "a"]), None);
    assert!(it.complaint(&["a", "b"]).unwrap().contains("missing [\"b>a\"]"));
    assert!(it.complaint(&["a", "b", "a", "c"]).unwrap().contains("strange [\"a>c\"]"));
    assert!(thread("").complaint(&[]).is_some(), "nothing was recorded of it");
}
