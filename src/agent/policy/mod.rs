// SPDX-License-Identifier: GPL-2.0-only
//! The policy: all knobs at once, where it can come from, and what was in force before.

mod file;
pub mod history;
mod knobs;
pub mod named;
mod reference;
mod source;
mod value;
mod words;

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

pub use file::{document, file_of};
pub use history::InForce;
pub use knobs::standard;
pub use reference::{describe, reference};
pub use source::{is_file, load};
use value::{Knob, OF_THE_CPU, cpus_in};

use super::cpulist;
use crate::bpf::intf::{self, avx_policy};
use knobs::KNOBS;
use words::quoted;

/// Returns a policy with some knobs turned, each given as `name=value`.
pub fn turned(mut policy: avx_policy, turns: &[String]) -> Result<avx_policy> {
    for turn in turns {
        let (name, text) = turn.split_once('=').with_context(|| {
            format!("{} is no setting: write it as KNOB=VALUE, see --help-policy", quoted(turn))
        })?;
        knobs::knob(name)?.turn(&mut policy, text)?;
    }
    match knobs::contradiction(&policy) {
        Some(contradiction) => bail!(contradiction.why),
        None => Ok(policy),
    }
}

/// Returns the policy as the scheduler is told it on a CPU that loses `licence_drop` of its clock
/// (1/1024).
pub fn on_cpu(policy: &avx_policy, licence_drop: u64) -> avx_policy {
    let is_open = policy.licence_drop == OF_THE_CPU;
    avx_policy { licence_drop: if is_open { licence_drop } else { policy.licence_drop }, ..*policy }
}

/// A knob and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub knob: String,
    pub value: String,
}

impl Setting {
    /// Returns the setting as `turned` takes it.
    pub fn text(&self) -> String {
        format!("{}={}", self.knob, self.value)
    }
}

pub fn settings(policy: &avx_policy) -> Vec<Setting> {
    let knobs = KNOBS.iter();
    knobs.map(|it| Setting { knob: it.name.to_owned(), value: it.show(policy) }).collect()
}

/// Returns all settings of a policy, as `turned` takes them.
pub fn texts(policy: &avx_policy) -> Vec<String> {
    settings(policy).iter().map(Setting::text).collect()
}

/// Returns whom AVX cores are for. That is nobody if the policy has none on the usable CPUs, which
/// are those that can be AVX cores.
pub fn avx_cores_for(policy: &avx_policy, usable: &BTreeSet<u32>) -> Result<String> {
    let has_none = match policy.sizing as u32 {
        intf::SIZING_STATIC => policy.avx_cpus == 0,
        intf::SIZING_LIST => !cpus_in(&policy.avx_cpu_list).any(|cpu| usable.contains(&cpu)),
        _ => false,
    };
    Ok(if has_none { "nobody".into() } else { knobs::knob("avx-cores-for")?.show(policy) })
}

/// Returns a warning if a policy lists CPUs and none of them can be an AVX core here.
pub fn lists_in_vain(policy: &avx_policy, usable: &BTreeSet<u32>) -> Option<String> {
    let is_list = policy.sizing as u32 == intf::SIZING_LIST;
    let mut listed = cpus_in(&policy.avx_cpu_list).peekable();
    if !is_list || listed.peek().is_none() || listed.any(|cpu| usable.contains(&cpu)) {
        return None;
    }
    let list = cpulist::format(cpus_in(&policy.avx_cpu_list));
    Some(format!(
        "there are no AVX cores: all that avx-cpu-list names ({list}) is offline, isolated or not \
         there"
    ))
}

/// A knob that has another value than before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub knob: String,
    pub from: String,
    pub to: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |value: &str| if value.is_empty() { "nothing" } else { value }.to_owned();
        write!(out, "{}: {} -> {}", self.knob, shown(&self.from), shown(&self.to))
    }
}

/// Returns the differences in the order of the knobs.
pub fn differences(from: &avx_policy, to: &avx_policy) -> Vec<Difference> {
    let difference = |knob: &Knob| {
        let (from, to) = (knob.show(from), knob.show(to));
        (from != to).then(|| Difference { knob: knob.name.to_owned(), from, to })
    };
    KNOBS.iter().filter_map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::intf;

    fn complaint(turns: &[&str]) -> String {
        let turns: Vec<String> = turns.iter().map(|turn| (*turn).to_owned()).collect();
        format!("{:#}", turned(standard(), &turns).unwrap_err())
    }

    #[test]
    fn settings_are_read() {
        let turns = ["sizing=static", "avx-cpus=3", "worthwhile=2ms", "grow-fill=0.9"];
        let policy = turned(standard(), &turns.map(str::to_owned)).unwrap();
        assert_eq!(policy.sizing, u64::from(intf::SIZING_STATIC));
        assert_eq!((policy.avx_cpus, policy.worthwhile_ns, policy.grow_fill), (3, 2_000_000, 922));
        let nobody = turned(policy, &["never-hide=".to_owned()]).unwrap();
        assert!(nobody.never_hide.iter().all(|name| name.words == [0; 2]));
        let spread = turned(policy, &["never-hide= a, b c ,, \t".to_owned()]).unwrap();
        assert_eq!(knobs::knob("never-hide").unwrap().show(&spread), "a,b c");
    }

    #[test]
    fn bad_settings_get_one_sentence() {
        assert!(complaint(&["speed=1"]).contains("no knob \"speed\": --help-policy lists them"));
        assert!(complaint(&["avx-cpu=1"]).contains("did you mean \"avx-cpus\"?"));
        assert!(complaint(&["sizing"]).contains("KNOB=VALUE"));
        assert!(complaint(&["sizing=large"]).contains("static, share, controller, list"));
        assert!(complaint(&["window=2"]).contains("1ms to 1s"));
        assert!(complaint(&["window=2s"]).contains("1ms to 1s"));
        assert!(complaint(&["grow-fill=1.1"]).contains("0.001 to 1.000"));
        assert!(complaint(&["grow-fill=0.4"]).contains("below grow-fill"));
        assert!(complaint(&["backoff-min=1s"]).contains("backoff-max"));
        assert!(complaint(&["never-hide=sixteen-letters!"]).contains("up to 15 bytes"));
        assert!(complaint(&[&format!("never-hide={}", ["a"; 17].join(","))]).contains("16 names"));
    }

    #[test]
    fn differences_are_a_line_each() {
        let turns = ["window=20ms".to_owned(), "never-hide=".to_owned()];
        let policy = turned(standard(), &turns).unwrap();
        let lines: Vec<String> =
            differences(&standard(), &policy).iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["window: 50ms -> 20ms", "never-hide: ld-linux-x86-64 -> nothing"]);
        assert!(differences(&policy, &policy).is_empty());
    }
}
