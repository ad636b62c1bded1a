// SPDX-License-Identifier: GPL-2.0-only
//! Every knob of the scheduler, its default, and how far it can be turned.

use anyhow::{Context, Result};

use super::value::Scale::{Choice, Count, Fraction, FractionOrCpu, Time};
use super::value::Value::{Cpus, List, Number};
use super::value::{FLAG, Knob, NO_NAMES, OF_THE_CPU, names_of};
use super::words::{did_you_mean, quoted};
use crate::bpf::intf::{self, avx_policy};
use crate::bpf::names::by_number;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const S: u64 = 1000 * MS;

/// Returns the policy that suits most machines.
pub fn standard() -> avx_policy {
    avx_policy {
        scalar_penalty_ns: 20 * MS,
        stranded_ns: 50 * MS,
        steal_ns: 5 * MS,
        avx_cores_for: intf::SERVED_ALL.into(),
        classes: intf::CLASSES_AVX512.into(),
        sizing: intf::SIZING_CONTROLLER.into(),
        avx_cpus: 2,
        avx_cpu_list: [0; intf::AVX_LIST_WORDS as usize],
        share_alpha: 32,
        grow_fill: 768,
        shrink_fill: 512,
        window_ns: 50 * MS,
        wait_target_ns: 200 * US,
        grow_dwell_ns: 10 * MS,
        shrink_dwell_ns: 20 * MS,
        shrink_dwell_max_ns: 30 * S,
        placement: intf::PLACEMENT_PACK.into(),
        lend_idle_cores: 1,
        return_method: intf::RETURN_ADAPTIVE.into(),
        avx_slice_ns: 3 * MS,
        return_timeout_ns: 20 * MS,
        worthwhile_ns: 100 * US,
        retry_max_ns: S,
        backoff_min_ns: MS,
        backoff_max_ns: 100 * MS,
        mixed_memory_ns: 200 * MS,
        detection_grace_ns: 100 * MS,
        licence_hold_ns: 670 * US,
        licence_drop: OF_THE_CPU,
        fairness: intf::FAIRNESS_OFF.into(),
        trials: intf::TRIALS_ON.into(),
        quiet_library: 1,
        never_hide: names_of(&[DYNAMIC_LINKER]).unwrap_or(NO_NAMES),
    }
}

/// When the dynamic linker is run by itself, it starts programs of which it is not known what they
/// need.
const DYNAMIC_LINKER: &str = "ld-linux-x86-64";

/// Makes a knob by the member that it turns.
macro_rules! knob {
    ($name:literal, $member:ident, $scale:expr, $help:literal) => {
        Knob {
            name: $name,
            value: Number($scale, |policy| policy.$member, |policy, value| policy.$member = value),
            help: $help,
        }
    };
}

pub static KNOBS: &[Knob] = &[
    knob!(
        "avx-cores-for",
        avx_cores_for,
        Choice(&by_number([
            (intf::SERVED_NOBODY, "nobody"),
            (intf::SERVED_HINTED, "hinted"),
            (intf::SERVED_ALL, "all"),
        ])),
        "who gets AVX cores: nobody, so that AVX work is only counted; threads that say what \
         their work is (hinted); or all tasks that do AVX work"
    ),
    knob!(
        "classes",
        classes,
        Choice(&by_number([
            (intf::CLASSES_AVX512, "avx512"),
            (intf::CLASSES_AVX512_AVX2_HEAVY, "avx512+avx2-heavy"),
        ])),
        "what counts as AVX work: 512-bit instructions; or also heavy 256-bit instructions of \
         threads that say that they use them, because nothing else tells of these. In the tier \
         counters it is whatever lowers the clock"
    ),
    knob!(
        "sizing",
        sizing,
        Choice(&by_number([
            (intf::SIZING_STATIC, "static"),
            (intf::SIZING_SHARE, "share"),
            (intf::SIZING_CONTROLLER, "controller"),
            (intf::SIZING_LIST, "list"),
        ])),
        "how the number of AVX cores is decided: static, by avx-cpus; share, by the share of the \
         CPU time that AVX work has; controller, by what AVX work needs so that it neither waits \
         nor shares cores beside idle ones; list, by avx-cpu-list"
    ),
    knob!("avx-cpus", avx_cpus, Count(0..=8192), "how many CPUs are AVX cores, with sizing=static"),
    Knob {
        name: "avx-cpu-list",
        value: Cpus(|policy| &policy.avx_cpu_list, |policy| &mut policy.avx_cpu_list),
        help: "which CPUs are AVX cores, with sizing=list. CPUs of the list that are offline or \
         isolated do not become AVX cores",
    },
    knob!(
        "share-alpha",
        share_alpha,
        Fraction(1..=1024),
        "weight of the newest value in the average of AVX work's share, with sizing=share"
    ),
    knob!(
        "grow-fill",
        grow_fill,
        Fraction(1..=1024),
        "how much of the AVX cores' time AVX work may use before there is one more AVX core"
    ),
    knob!(
        "shrink-fill",
        shrink_fill,
        Fraction(1..=1024),
        "how little of the time of all AVX cores but one AVX work has to use before there is one \
         less. It must be below grow-fill"
    ),
    knob!("window", window_ns, Time(MS..=S), "over how long the demand for AVX cores is averaged"),
    knob!(
        "wait-target",
        wait_target_ns,
        Time(0..=100 * MS),
        "how long AVX work may wait for an AVX core, on average, before there is one more"
    ),
    knob!(
        "grow-dwell",
        grow_dwell_ns,
        Time(0..=10 * S),
        "least time between two growths of the set of AVX cores"
    ),
    knob!(
        "shrink-dwell",
        shrink_dwell_ns,
        Time(0..=10 * S),
        "how long it takes until all AVX cores are given back that are not needed, at first. To \
         give back a part of them takes the longer the smaller the part is"
    ),
    knob!(
        "shrink-dwell-max",
        shrink_dwell_max_ns,
        Time(0..=60 * S),
        "upper bound of shrink-dwell, which grows where AVX cores are needed again soon after \
         they were given back"
    ),
    knob!(
        "placement",
        placement,
        Choice(&by_number([
            (intf::PLACEMENT_PACK, "pack"),
            (intf::PLACEMENT_SPREAD, "spread"),
            (intf::PLACEMENT_FIRST_USE, "first-use"),
        ])),
        "where AVX cores are: pack, on one node while there is room, but while CPUs idle the \
         controller gives each node where AVX work begins one first; spread, evenly over the \
         nodes; first-use, where AVX work begins, until there is none, as published"
    ),
    knob!(
        "lend-idle-cores",
        lend_idle_cores,
        Choice(FLAG),
        "on: other work takes an AVX core on which nothing runs before it shares another core \
         with a sibling, and leaves when AVX work comes or another core idles. off: it takes an \
         AVX core only where no other CPU idles"
    ),
    knob!(
        "scalar-penalty",
        scalar_penalty_ns,
        Time(0..=S),
        "how long other work must have been due before an AVX core treats it like AVX work. \
         Where AVX work has more than its share, with sizing=controller, AVX work has to wait \
         that long instead"
    ),
    knob!(
        "stranded",
        stranded_ns,
        Time(0..=S),
        "how long AVX work must have been due before a scalar CPU takes it"
    ),
    knob!(
        "steal",
        steal_ns,
        Time(0..=S),
        "how long a task must have been due before a CPU of another cache takes it that is not \
         idle"
    ),
    knob!(
        "return",
        return_method,
        Choice(&by_number([
            (intf::RETURN_SYSCALL, "syscall"),
            (intf::RETURN_SWITCH, "switch"),
            (intf::RETURN_TIMEOUT, "timeout"),
            (intf::RETURN_ADAPTIVE, "adaptive"),
        ])),
        "when an AVX task becomes a scalar one: syscall, with its next system call; switch, when \
         it is switched out; timeout, after return-timeout alone; adaptive, with a system call \
         unless it always comes back soon"
    ),
    knob!(
        "avx-slice",
        avx_slice_ns,
        Time(100 * US..=20 * MS),
        "upper bound of the slice of an AVX task"
    ),
    knob!(
        "return-timeout",
        return_timeout_ns,
        Time(100 * US..=10 * S),
        "an AVX task becomes a scalar one after this long without wide vectors, whatever \
         `return` says"
    ),
    knob!(
        "worthwhile",
        worthwhile_ns,
        Time(0..=100 * MS),
        "a task that needs AVX cores again sooner than this, on average over some phases, stays \
         on them, with return=adaptive"
    ),
    knob!(
        "retry-max",
        retry_max_ns,
        Time(MS..=10 * S),
        "the longest time for which such a task stays on AVX cores before it is tried again \
         whether it may leave, with return=adaptive"
    ),
    knob!(
        "backoff-min",
        backoff_min_ns,
        Time(0..=10 * S),
        "how long AVX-512 stays visible to a task after its first light AVX-512 instruction"
    ),
    knob!(
        "backoff-max",
        backoff_max_ns,
        Time(0..=10 * S),
        "upper bound of the time for which AVX-512 stays visible, which doubles with each light \
         AVX-512 instruction that faults"
    ),
    knob!(
        "mixed-memory",
        mixed_memory_ns,
        Time(0..=10 * S),
        "a task that uses light AVX-512 instructions is kept on AVX cores if it used wide ones \
         within this time"
    ),
    knob!(
        "detection-grace",
        detection_grace_ns,
        Time(0..=10 * S),
        "how long nothing is hidden from a program that asks CPUID for the features of the CPU. \
         With 0 nothing notices that it asks"
    ),
    knob!(
        "licence-hold",
        licence_hold_ns,
        Time(0..=10 * MS),
        "how long the clock stays low after the last wide instruction"
    ),
    knob!(
        "licence-drop",
        licence_drop,
        FractionOrCpu(0..=1024),
        "how much of the clock is lost while it is low. With `cpu` it is what is known of this \
         model of CPU"
    ),
    knob!(
        "fairness",
        fairness,
        Choice(&by_number([
            (intf::FAIRNESS_OFF, "off"),
            (intf::FAIRNESS_COMPENSATE, "compensate"),
        ])),
        "compensate: a task that runs while the clock is low because of others, which ran there \
         before or run on the sibling, does not pay for what it loses. off: it does"
    ),
    knob!(
        "trials",
        trials,
        Choice(&by_number([(intf::TRIALS_OFF, "off"), (intf::TRIALS_ON, "on")])),
        "on: there are AVX cores only if programs get more done with them than without. Both are \
         tried for some seconds where there is AVX work, and again after growing pauses"
    ),
    knob!(
        "quiet-library",
        quiet_library,
        Choice(FLAG),
        "on: programs that start get string functions without AVX-512 from the C library, and \
         see AVX-512 themselves, unless they are marked as needing x86-64-v4"
    ),
    Knob {
        name: "never-hide",
        value: List(|policy| &policy.never_hide, |policy| &mut policy.never_hide),
        help: "programs, by their names in /proc/PID/comm, from which AVX-512 is never hidden. Their \
         AVX work is seen in samples only",
    },
];

/// Returns the knob of this name. The error for a mistyped name tells the nearest one.
pub fn knob(name: &str) -> Result<&'static Knob> {
    KNOBS.iter().find(|knob| knob.name == name).with_context(|| {
        let names = KNOBS.iter().map(|knob| knob.name);
        let advice = did_you_mean(name, names).unwrap_or("--help-policy lists them".to_owned());
        format!("there is no knob {}: {advice}", quoted(name))
    })
}

/// Values that two knobs must not have together.
pub struct Contradiction {
    pub knobs: [&'static str; 2],
    is_there: fn(&avx_policy) -> bool,
    pub why: &'static str,
}

const CONTRADICTIONS: [Contradiction; 2] = [
    Contradiction {
        knobs: ["shrink-fill", "grow-fill"],
        is_there: |policy| policy.shrink_fill >= policy.grow_fill,
        why: "shrink-fill must be below grow-fill, or the set of AVX cores would swing",
    },
    Contradiction {
        knobs: ["backoff-min", "backoff-max"],
        is_there: |policy| policy.backoff_min_ns > policy.backoff_max_ns,
        why: "backoff-min must not be above backoff-max",
    },
];

pub fn contradiction(policy: &avx_policy) -> Option<Contradiction> {
    CONTRADICTIONS.into_iter().find(|it| (it.is_there)(policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_within_its_range_and_can_be_said() {
        let policy = standard();
        for knob in KNOBS {
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
                        Count(range) | Fraction(range) | FractionOrCpu(range) | Time(range) => {
                            *range.start()
                        }
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
}
