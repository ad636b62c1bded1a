// SPDX-License-Identifier: GPL-2.0-only
//! How a machine is run: with AVX-512 or without, and under which policy.

use crate::bpf::intf::{avx_tier, avx_tier_AVX_TIER_OBSERVE, avx_tier_AVX_TIER_TRAP};

#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub name: String,
    pub about: String,
    pub has_avx512: bool,
    pub tier: avx_tier,
    /// What is not as in the standard policy.
    pub settings: Vec<String>,
}

/// What is compared: the first one is what the others are measured by.
const OWN: [(&str, &str, bool, avx_tier, &[&str]); 4] = [
    ("off", "without AVX-512", false, avx_tier_AVX_TIER_OBSERVE, &[]),
    ("alone", "AVX-512, left alone", true, avx_tier_AVX_TIER_OBSERVE, &[]),
    (
        "static",
        "two siblings, back with system calls",
        true,
        avx_tier_AVX_TIER_TRAP,
        &["sizing=static", "avx-cpus=2", "return=syscall"],
    ),
    ("default", "the default policy", true, avx_tier_AVX_TIER_TRAP, &[]),
];

impl Variant {
    pub fn all() -> Vec<Variant> {
        let owned = |settings: &[&str]| settings.iter().map(|set| (*set).to_owned()).collect();
        OWN.iter()
            .map(|(name, about, has_avx512, tier, settings)| Variant {
                name: (*name).to_owned(),
                about: (*about).to_owned(),
                has_avx512: *has_avx512,
                tier: *tier,
                settings: owned(settings),
            })
            .collect()
    }

    pub fn named(name: &str) -> Option<Variant> {
        Self::all().into_iter().find(|variant| variant.name == name)
    }

    /// The default policy, but for these settings.
    pub fn with(settings: &[String]) -> Variant {
        Variant {
            name: "set".to_owned(),
            about: format!("with {}", settings.join(" ")),
            has_avx512: true,
            tier: avx_tier_AVX_TIER_TRAP,
            settings: settings.to_vec(),
        }
    }
}
