// SPDX-License-Identifier: GPL-2.0-only
//! How a machine is run: with AVX-512 or without, and under which policy.

use crate::bpf::intf::avx_policy;
use crate::bpf::trials::are_wanted;
use crate::sim::kernel::Class;
use crate::sim::machine::Topology;

#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub name: String,
    pub about: String,
    pub has_avx512: bool,
    pub class: Class,
    /// Whether the scheduler does something about AVX work, if it pays on such a CPU.
    pub mitigates: bool,
    /// What differs from the standard policy.
    pub settings: Vec<String>,
}

/// The variant with two AVX CPUs. What these are differs between machines.
const TWO_CPUS: &str = "two-siblings";

/// The variants that are compared. The others are measured by the first one.
const OWN: [(&str, &str, bool, bool, &[&str]); 5] = [
    ("off", "without AVX-512", false, false, &[]),
    ("alone", "AVX-512, left alone", true, false, &[]),
    (
        TWO_CPUS,
        "two siblings, back with system calls",
        true,
        true,
        &["trials=off", "sizing=static", "avx-cpus=2", "return=syscall"],
    ),
    (
        "dynamic",
        "where it is used, as published",
        true,
        true,
        &["trials=off", "sizing=share", "placement=first-use", "return=syscall"],
    ),
    ("default", "the default policy", true, true, &[]),
];

impl Variant {
    /// Returns the variants that are compared unless the user chooses others.
    pub fn compared() -> Vec<Variant> {
        let owned = |settings: &[&str]| settings.iter().map(|set| (*set).to_owned()).collect();
        OWN.iter()
            .map(|(name, about, has_avx512, mitigates, settings)| Variant {
                name: (*name).to_owned(),
                about: (*about).to_owned(),
                has_avx512: *has_avx512,
                class: Class::Ext,
                mitigates: *mitigates,
                settings: owned(settings),
            })
            .collect()
    }

    /// Returns the variant that shows what AVX cores do, without the cost of trials.
    fn untried() -> Variant {
        let about = "the default policy, but AVX cores are not tried first".to_owned();
        Self::of_policy("untried", about, vec!["trials=off".to_owned()])
    }

    /// Returns the variant that users have without the scheduler.
    fn of_kernel() -> Variant {
        Variant {
            name: "eevdf".to_owned(),
            about: "Linux's own EEVDF, AVX-512 left alone".to_owned(),
            has_avx512: true,
            class: Class::Fair,
            mitigates: false,
            settings: Vec::new(),
        }
    }

    /// Returns all variants that have a name here.
    pub fn all() -> Vec<Variant> {
        Self::compared().into_iter().chain([Self::untried(), Self::of_kernel()]).collect()
    }

    pub fn named(name: &str) -> Option<Variant> {
        Self::all().into_iter().find(|variant| variant.name == name)
    }

    /// Returns true if trials decide on AVX cores under `policy`, which is that of the variant.
    pub fn is_tried(&self, policy: &avx_policy) -> bool {
        self.mitigates && are_wanted(policy)
    }

    /// Returns what the variant is on this machine.
    pub fn about_on(&self, topology: &Topology) -> String {
        if self.name == TWO_CPUS && !topology.has_siblings() {
            return self.about.replace("two siblings", "two cores");
        }
        self.about.clone()
    }

    /// Returns the default policy with these settings changed.
    pub fn with(settings: &[String]) -> Variant {
        let about = format!("with {}", settings.join(" "));
        Self::of_policy("set", about, settings.to_vec())
    }

    /// Returns the scheduler at work under the standard policy with these settings changed.
    pub fn of_policy(name: &str, about: String, settings: Vec<String>) -> Variant {
        Variant {
            name: name.to_owned(),
            about,
            has_avx512: true,
            class: Class::Ext,
            mitigates: true,
            settings,
        }
    }
}
