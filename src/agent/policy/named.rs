// SPDX-License-Identifier: GPL-2.0-only
//! Policies that have a name. Each is an entry of `NAMED`.

use anyhow::{Context, Result};

use super::words::{did_you_mean, quoted};
use super::{differences, standard, turned};
use crate::bpf::intf::avx_policy;

pub struct Named {
    pub name: &'static str,
    /// The knobs that differ from their defaults.
    settings: &'static [&'static str],
    /// What it is for.
    pub purpose: &'static str,
}

/// The policy that is in force unless somebody chooses another.
pub const DEFAULT: &str = "adaptive";

pub static NAMED: &[Named] = &[
    Named {
        name: DEFAULT,
        settings: &[],
        purpose: "for most machines: as many AVX cores as AVX work needs, if trials on the machine \
                  as it runs say that programs get more done with them, and otherwise none",
    },
    Named {
        name: "fault-migrate",
        settings: &["trials=off", "sizing=share", "return=syscall"],
        purpose: "the plain mechanism, for every program: as many AVX cores as AVX work has a \
                  share of the CPU time, and tasks leave them with their next system call",
    },
    Named {
        name: "static",
        settings: &["trials=off", "sizing=static"],
        purpose: "the same number of AVX cores at all times, which the knob avx-cpus sets",
    },
    Named {
        name: "fair",
        settings: &["trials=off", "fairness=compensate", "sizing=static", "avx-cpus=0"],
        purpose: "for machines that tenants share: no task is moved because of AVX work, and a \
                  task that loses time because others made the clock low gets that much more time",
    },
    Named {
        name: "hints",
        settings: &["avx-cores-for=hinted"],
        purpose: "AVX cores for threads that say what their work is, while AVX work of all other \
                  threads is treated as if there were none",
    },
    Named {
        name: "observe",
        settings: &["avx-cores-for=nobody"],
        purpose: "AVX work is counted and nothing is done about it: a start where it is not known \
                  yet whether AVX cores pay",
    },
];

impl Named {
    pub fn policy(&self) -> Result<avx_policy> {
        let settings: Vec<String> = self.settings.iter().map(|set| (*set).to_owned()).collect();
        turned(standard(), &settings).with_context(|| format!("the policy {} is wrong", self.name))
    }
}

pub fn find(name: &str) -> Option<&'static Named> {
    NAMED.iter().find(|it| it.name == name)
}

pub fn named(name: &str) -> Result<&'static Named> {
    find(name).with_context(|| format!("there is no policy {}: {}", quoted(name), advice(name)))
}

/// Returns advice for a name that was mistyped.
pub fn advice(name: &str) -> String {
    let all = || format!("choose one of {}", names().collect::<Vec<_>>().join(", "));
    did_you_mean(name, names()).unwrap_or_else(all)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    NAMED.iter().map(|it| it.name)
}

/// Returns the name of a policy, or "custom" if it has none.
pub fn name_of(policy: &avx_policy) -> &'static str {
    let is_it = |it: &&Named| it.policy().is_ok_and(|it| differences(&it, policy).is_empty());
    NAMED.iter().find(is_it).map_or("custom", |it| it.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_is_valid_and_none_is_another() {
        for it in NAMED {
            assert_eq!(name_of(&it.policy().unwrap()), it.name);
            assert!(!it.purpose.contains(['\n', '.']), "{}", it.purpose);
        }
        assert_eq!(names().collect::<BTreeSet<_>>().len(), NAMED.len());
        assert_eq!(name_of(&standard()), DEFAULT);
        let custom = turned(standard(), &["avx-cpus=3".to_owned()]).unwrap();
        assert_eq!(name_of(&custom), "custom");
    }

    #[test]
    fn who_mistypes_a_name_is_told_the_nearest() {
        let complaint = |name| format!("{:#}", named(name).err().unwrap());
        assert!(complaint("adaptiv").contains("did you mean \"adaptive\"?"));
        assert!(complaint("").contains("choose one of adaptive, fault-migrate"));
    }
}
