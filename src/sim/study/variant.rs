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
    /// What is not as in the standard policy.
    pub settings: Vec<String>,
}

/// Of two CPUs: what these are is not the same on each machine.
const TWO_CPUS: &str = "two-siblings";

/// What is compared: the first one is what the others are measured by.
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
    /// Unless somebody says what is.
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

    /// What AVX cores do, without what it takes to find out.
    fn untried() -> Variant {
        let about = "the default policy, but AVX cores are not tried first".to_owned();
        Self::of_policy("untried", about, vec!["trials=off".to_owned()])
    }

    /// What users have without the scheduler.
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

    /// That have a name here.
    pub fn all() -> Vec<Variant> {
        Self::compared().into_iter().chain([Self::untried(), Self::of_kernel()]).collect()
    }

    pub fn named(name: &str) -> Option<Variant> {
        Self::all().into_iter().find(|variant| variant.name == name)
    }

    /// Whether trials decide on AVX cores under this policy, which is its own.
    pub fn is_tried(&self, policy: &avx_policy) -> bool {
        self.mitigates && are_wanted(policy)
    }

    /// What it is there.
    pub fn about_on(&self, topology: &Topology) -> String {
        if self.name == TWO_CPUS && !topology.has_siblings() {
            return self.about.replace("two siblings", "two cores");
        }
        self.about.clone()
    }

    /// The default policy, but for these settings.
    pub fn with(settings: &[String]) -> Variant {
        let about = format!("with {}", settings.join(" "));
        Self::of_policy("set", about, settings.to_vec())
    }

    /// The scheduler at work under a policy of which these settings are not the standard ones.
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
