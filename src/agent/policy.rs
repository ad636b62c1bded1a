// SPDX-License-Identifier: GPL-2.0-only
//! The policy: every knob of the scheduler, what it is unless somebody turns it, and
//! how far it can be turned.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::cpulist;
use crate::bpf::intf::{self, avx_name, avx_policy};

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const S: u64 = 1000 * MS;

/// What suits most machines.
pub fn standard() -> avx_policy {
    avx_policy {
        scalar_penalty_ns: 20 * MS,
        stranded_ns: 50 * MS,
        steal_ns: 5 * MS,
        avx_cores_for: intf::avx_served_SERVED_ALL.into(),
        classes: intf::avx_classes_CLASSES_AVX512.into(),
        sizing: intf::avx_sizing_method_SIZING_CONTROLLER.into(),
        avx_cpus: 2,
        avx_cpu_list: [0; intf::AVX_LIST_WORDS as usize],
        share_alpha: 32,
        grow_fill: 768,
        shrink_fill: 512,
        window_ns: 50 * MS,
        wait_target_ns: 200 * US,
        grow_dwell_ns: 20 * MS,
        shrink_dwell_ns: 200 * MS,
        placement: intf::avx_placement_method_PLACEMENT_PACK.into(),
        return_method: intf::avx_return_method_RETURN_ADAPTIVE.into(),
        avx_slice_ns: 20 * MS,
        return_timeout_ns: 20 * MS,
        worthwhile_ns: 100 * US,
        retry_max_ns: S,
        backoff_min_ns: MS,
        backoff_max_ns: 100 * MS,
        mixed_memory_ns: 200 * MS,
        detection_grace_ns: 100 * MS,
        licence_hold_ns: 670 * US,
        licence_drop: 256,
        move_cost_ns: 10 * US,
        only_where_it_pays: 1,
        quiet_library: 1,
        never_hide: names_of(&[DYNAMIC_LINKER]).unwrap_or(NO_NAMES),
    }
}

/// Run by itself, it starts programs of which nobody knows what they need.
const DYNAMIC_LINKER: &str = "ld-linux-x86-64";

/// What the value of a knob is.
enum Value {
    Number(Scale, fn(&avx_policy) -> u64, fn(&mut avx_policy, u64)),
    List(fn(&avx_policy) -> &Names, fn(&mut avx_policy) -> &mut Names),
    Cpus(fn(&avx_policy) -> &CpuList, fn(&mut avx_policy) -> &mut CpuList),
}

use Value::{Cpus, List, Number};

/// A bit for each CPU.
type CpuList = [u64; intf::AVX_LIST_WORDS as usize];

/// Of programs.
type Names = [avx_name; intf::AVX_NAMES_MAX as usize];

const NO_NAMES: Names =
    [avx_name { words: [0; intf::AVX_NAME_WORDS as usize] }; intf::AVX_NAMES_MAX as usize];

/// What a number is.
enum Scale {
    /// One of these names, which are numbered from 0.
    Choice(&'static [&'static str]),
    Count(RangeInclusive<u64>),
    /// In 1/1024.
    Fraction(RangeInclusive<u64>),
    /// In nanoseconds.
    Time(RangeInclusive<u64>),
}

use Scale::{Choice, Count, Fraction, Time};

struct Knob {
    name: &'static str,
    value: Value,
    help: &'static str,
}

/// A knob by the member that it turns.
macro_rules! knob {
    ($name:literal, $member:ident, $scale:expr, $help:literal) => {
        Knob {
            name: $name,
            value: Number($scale, |policy| policy.$member, |policy, value| policy.$member = value),
            help: $help,
        }
    };
}

const KNOBS: [Knob; 31] = [
    knob!(
        "avx-cores-for",
        avx_cores_for,
        Choice(&["nobody", "hinted", "all"]),
        "for whom there are AVX cores: nobody, so that AVX work is counted and nothing else is done; \
         threads that say what their work is; or whoever does AVX work"
    ),
    knob!(
        "classes",
        classes,
        Choice(&["avx512", "avx512+avx2-heavy"]),
        "what is AVX work: 512-bit instructions; or heavy 256-bit ones as well, where threads say \
         so, for of these nothing else tells"
    ),
    knob!(
        "sizing",
        sizing,
        Choice(&["static", "share", "controller", "list"]),
        "how many AVX cores: avx-cpus of them; the share of the CPU time that AVX work has; \
         what AVX work needs in order not to wait; or those in avx-cpu-list"
    ),
    knob!("avx-cpus", avx_cpus, Count(0..=8192), "CPUs that are AVX cores, with sizing=static"),
    Knob {
        name: "avx-cpu-list",
        value: Cpus(|policy| &policy.avx_cpu_list, |policy| &mut policy.avx_cpu_list),
        help: "which CPUs are AVX cores, with sizing=list; those that are offline or isolated are not",
    },
    knob!(
        "share-alpha",
        share_alpha,
        Fraction(1..=1024),
        "weight of the newest value, with sizing=share"
    ),
    knob!(
        "grow-fill",
        grow_fill,
        Fraction(1..=1024),
        "how much of the AVX cores' time may be used before there is another"
    ),
    knob!(
        "shrink-fill",
        shrink_fill,
        Fraction(1..=1024),
        "and how little of the others' before there is one less; below grow-fill"
    ),
    knob!("window", window_ns, Time(MS..=S), "over how long demand is averaged"),
    knob!("wait-target", wait_target_ns, Time(0..=100 * MS), "how long AVX work may wait"),
    knob!("grow-dwell", grow_dwell_ns, Time(0..=10 * S), "least time between two growths"),
    knob!("shrink-dwell", shrink_dwell_ns, Time(0..=10 * S), "least time before one core less"),
    knob!(
        "placement",
        placement,
        Choice(&["pack", "spread"]),
        "AVX cores on one node while there is room, or evenly over the nodes"
    ),
    knob!(
        "scalar-penalty",
        scalar_penalty_ns,
        Time(0..=S),
        "how long other work must have been due to be treated like AVX work on an AVX core"
    ),
    knob!(
        "stranded",
        stranded_ns,
        Time(0..=S),
        "how long AVX work must have been due to be taken by a scalar CPU"
    ),
    knob!(
        "steal",
        steal_ns,
        Time(0..=S),
        "how long a task must have been due to be taken by a CPU of another cache that is not idle"
    ),
    knob!(
        "return",
        return_method,
        Choice(&["syscall", "switch", "timeout", "adaptive"]),
        "when an AVX task is scalar again: with its next system call; when it is switched out; \
         with the time-out alone; or with a system call unless it always comes back soon"
    ),
    knob!(
        "avx-slice",
        avx_slice_ns,
        Time(100 * US..=20 * MS),
        "how long an AVX task may run before the next one"
    ),
    knob!(
        "return-timeout",
        return_timeout_ns,
        Time(100 * US..=10 * S),
        "without wide vectors for so long it is, whatever the method"
    ),
    knob!(
        "worthwhile",
        worthwhile_ns,
        Time(0..=100 * MS),
        "a task that is back sooner is better left where it is, with return=adaptive"
    ),
    knob!("retry-max", retry_max_ns, Time(MS..=10 * S), "... and tried again after this"),
    knob!(
        "backoff-min",
        backoff_min_ns,
        Time(0..=10 * S),
        "how long a task stays visible after a light instruction of AVX-512, at first"
    ),
    knob!("backoff-max", backoff_max_ns, Time(0..=10 * S), "... and at most, for it doubles"),
    knob!(
        "mixed-memory",
        mixed_memory_ns,
        Time(0..=10 * S),
        "a task with light instructions is kept on AVX cores if it used wide ones that lately"
    ),
    knob!(
        "detection-grace",
        detection_grace_ns,
        Time(0..=10 * S),
        "how long nothing is hidden from a program that looks for what the CPU has"
    ),
    knob!(
        "licence-hold",
        licence_hold_ns,
        Time(0..=10 * MS),
        "how long the clock stays low after the last wide instruction"
    ),
    knob!("licence-drop", licence_drop, Fraction(0..=1024), "how much of the clock is lost then"),
    knob!("move-cost", move_cost_ns, Time(0..=MS), "what a move costs a task, cold caches and all"),
    knob!(
        "only-where-it-pays",
        only_where_it_pays,
        Choice(&["off", "on"]),
        "programs for which AVX cores cost more, in moves and in waits beside idle CPUs, than they \
         earn are left alone, and tried again now and then"
    ),
    knob!(
        "quiet-library",
        quiet_library,
        Choice(&["off", "on"]),
        "programs that start get string functions without AVX-512 from the C library, and see \
         AVX-512 themselves; but not those that are marked as needing x86-64-v4"
    ),
    Knob {
        name: "never-hide",
        value: List(|policy| &policy.never_hide, |policy| &mut policy.never_hide),
        help: "programs, by their names in /proc/PID/comm, from which AVX-512 is never hidden: \
               their AVX work is seen in samples only",
    },
];

impl Knob {
    fn show(&self, policy: &avx_policy) -> String {
        match &self.value {
            Number(scale, get, _) => scale.show(get(policy)),
            List(get, _) => get(policy).iter().map_while(text_of).collect::<Vec<_>>().join(","),
            Cpus(get, _) => cpulist::format(cpus_in(get(policy))),
        }
    }

    fn turn(&self, policy: &mut avx_policy, text: &str) -> Result<()> {
        let refused =
            |expected| anyhow::anyhow!("{} cannot be {text:?}: it takes {expected}", self.name);
        match &self.value {
            Number(scale, _, set) => set(policy, scale.parse(text).map_err(refused)?),
            List(_, names) => {
                let given: Vec<&str> = text.split(',').filter(|name| !name.is_empty()).collect();
                *names(policy) = names_of(&given).with_context(|| self.range()).map_err(refused)?;
            }
            Cpus(_, list) => {
                let given = cpulist::parse(text, intf::AVX_LIST_CPUS);
                let given = given.with_context(|| self.range()).map_err(refused)?;
                *list(policy) = list_with(&given);
            }
        }
        Ok(())
    }

    fn range(&self) -> String {
        match &self.value {
            Number(scale, ..) => scale.range(),
            List(..) => format!(
                "up to {} names of up to {LONGEST_NAME} bytes, with commas between them",
                intf::AVX_NAMES_MAX
            ),
            Cpus(..) => format!("CPUs below {}, as in 0-3,8", intf::AVX_LIST_CPUS),
        }
    }
}

fn cpus_in(list: &CpuList) -> impl Iterator<Item = u32> {
    (0..intf::AVX_LIST_CPUS).filter(|cpu| list[*cpu as usize / 64] >> (cpu % 64) & 1 == 1)
}

fn list_with(cpus: &BTreeSet<u32>) -> CpuList {
    let mut list = [0; intf::AVX_LIST_WORDS as usize];
    cpus.iter().for_each(|cpu| list[*cpu as usize / 64] |= 1 << (cpu % 64));
    list
}

/// The kernel cuts off what is longer.
const LONGEST_NAME: usize = size_of::<avx_name>() - 1;

fn names_of(names: &[&str]) -> Option<Names> {
    let mut all = NO_NAMES;
    for (n, name) in names.iter().enumerate() {
        let mut bytes = [0; size_of::<avx_name>()];
        bytes[..LONGEST_NAME].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let words =
            |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        *all.get_mut(n)? = avx_name { words: [words(0), words(size_of::<u64>())] };
    }
    Some(all)
}

/// Nothing of a name that is not used.
fn text_of(name: &avx_name) -> Option<String> {
    let bytes: Vec<u8> = name.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0');
    (!text.is_empty()).then(|| text.to_owned())
}

impl Scale {
    fn parse(&self, text: &str) -> Result<u64> {
        let (value, range) = match self {
            Choice(names) => {
                let position = names.iter().position(|name| *name == text);
                let position = position.with_context(|| format!("one of {}", names.join(", ")))?;
                return Ok(position as u64);
            }
            Count(range) => (text.parse().ok(), range),
            Fraction(range) => {
                let whole = u64::from(intf::AVX_WHOLE);
                let parsed = text.parse::<f64>().ok().filter(|value| (0.0..=1.0).contains(value));
                (parsed.map(|value| (value * whole as f64).round() as u64), range)
            }
            Time(range) => {
                let parsed = humantime::parse_duration(text).ok();
                (parsed.and_then(|time| u64::try_from(time.as_nanos()).ok()), range)
            }
        };
        value.filter(|value| range.contains(value)).with_context(|| self.range())
    }

    fn show(&self, value: u64) -> String {
        match self {
            Choice(names) => names[value as usize].to_owned(),
            Count(_) => value.to_string(),
            Fraction(_) => {
                format!("{:.3}", value as f64 / f64::from(intf::AVX_WHOLE))
            }
            Time(_) => humantime::format_duration(Duration::from_nanos(value)).to_string(),
        }
    }

    fn range(&self) -> String {
        match self {
            Choice(names) => names.join(", "),
            Count(range) | Fraction(range) | Time(range) => {
                format!("{} to {}", self.show(*range.start()), self.show(*range.end()))
            }
        }
    }
}

/// A policy with some knobs turned, each as `name=value`.
pub fn turned(mut policy: avx_policy, turns: &[String]) -> Result<avx_policy> {
    for turn in turns {
        let (name, text) = turn.split_once('=').with_context(|| {
            format!("{turn:?} is no setting: write it as KNOB=VALUE, see --help-policy")
        })?;
        let Some(knob) = KNOBS.iter().find(|knob| knob.name == name) else {
            bail!("there is no knob {name:?}: --help-policy lists them");
        };
        knob.turn(&mut policy, text)?;
    }
    ensure!(
        policy.shrink_fill < policy.grow_fill,
        "shrink-fill must be below grow-fill, or the set of AVX cores would swing"
    );
    ensure!(
        policy.backoff_min_ns <= policy.backoff_max_ns,
        "backoff-min must not be above backoff-max"
    );
    Ok(policy)
}

/// A knob and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub knob: String,
    pub value: String,
}

pub fn settings(policy: &avx_policy) -> Vec<Setting> {
    let setting = |knob: &Knob| Setting { knob: knob.name.to_owned(), value: knob.show(policy) };
    KNOBS.iter().map(setting).collect()
}

/// A policy, and how many there were before it.
#[derive(Clone, Copy)]
pub struct InForce {
    pub generation: u64,
    pub policy: avx_policy,
}

/// Every knob with its range, what it is by default, and what it is for.
pub fn describe() -> String {
    let policy = standard();
    let mut text = String::new();
    for knob in &KNOBS {
        let default = knob.show(&policy);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}={default}  ({})", knob.name, knob.range());
        let _ = writeln!(text, "    {}", knob.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(turns: &[&str]) -> String {
        let turns: Vec<String> = turns.iter().map(|turn| (*turn).to_owned()).collect();
        format!("{:#}", turned(standard(), &turns).unwrap_err())
    }

    #[test]
    fn every_default_is_within_its_range_and_can_be_said() {
        let policy = standard();
        for knob in &KNOBS {
            let text = knob.show(&policy);
            let mut same = policy;
            knob.turn(&mut same, &text).unwrap();
            assert_eq!(knob.show(&same), text, "{}", knob.name);
        }
    }

    #[test]
    fn every_knob_turns_its_own_member() {
        for (n, knob) in KNOBS.iter().enumerate() {
            let mut policy = standard();
            let text = match &knob.value {
                Number(scale, get, _) => {
                    let first = match scale {
                        Choice(_) => 0,
                        Count(range) | Fraction(range) | Time(range) => *range.start(),
                    };
                    let is_first = get(&policy) == first;
                    scale.show(if is_first { first + 1 } else { first })
                }
                List(..) => "this,that".to_owned(),
                Cpus(..) => "1-3,1023".to_owned(),
            };
            knob.turn(&mut policy, &text).unwrap();
            assert_eq!(knob.show(&policy), text, "{}", knob.name);
            for (m, other) in KNOBS.iter().enumerate().filter(|(m, _)| *m != n) {
                assert_eq!(other.show(&policy), other.show(&standard()), "{n} turned {m}");
            }
        }
    }

    #[test]
    fn settings_are_read() {
        let turns = ["sizing=static", "avx-cpus=3", "worthwhile=2ms", "grow-fill=0.9"];
        let policy = turned(standard(), &turns.map(str::to_owned)).unwrap();
        assert_eq!(policy.sizing, u64::from(intf::avx_sizing_method_SIZING_STATIC));
        assert_eq!((policy.avx_cpus, policy.worthwhile_ns, policy.grow_fill), (3, 2 * MS, 922));
        let nobody = turned(policy, &["never-hide=".to_owned()]).unwrap();
        assert!(nobody.never_hide.iter().all(|name| text_of(name).is_none()));
    }

    #[test]
    fn bad_settings_get_one_sentence() {
        assert!(complaint(&["speed=1"]).contains("no knob \"speed\""));
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
}
