// SPDX-License-Identifier: GPL-2.0-only
//! Generations of processors: what wide vectors do to their clocks, and what they count.

use crate::agent::counters::{AMDS_FLOATS, Countable, INTELS_FLOATS};

/// The name of the vendor, as the CPU tells it.
pub const INTEL: &str = "GenuineIntel";

/// Processors whose clocks wide vectors lower alike.
pub struct Generation {
    pub name: &'static str,
    vendor: &'static str,
    family: u32,
    models: &'static [u32],
    steppings: std::ops::RangeInclusive<u32>,
    pub loss: Loss,
    /// How much of its clock such a processor loses to wide vectors (1/1024).
    drop: u64,
    pub counts: Counts,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Loss {
    Much,
    Little,
    Hardly,
}

/// What a processor has events for that tell of wide vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counts {
    Nothing,
    /// Cycles at each licence, and floating-point operations of 512 bits.
    Licences,
    /// Floating-point operations of 512 bits alone.
    Floats,
    /// Floating-point operations of 512 bits alone, as AMD counts them.
    FloatsOfAmd,
}

const AMD: &str = "AuthenticAMD";
const ANY: std::ops::RangeInclusive<u32> = 0..=u32::MAX;

/// The loss lies between that of light and of heavy instructions: Travis Downs' Xeon W-2104 loses
/// 12 and 25 %, a Xeon Gold 5120 with all its cores busy 15 and 38 %, a Xeon Gold 6130 18 and 32 %.
const SKYLAKE_DROP: u64 = 256;
/// About 175 MHz of 3 GHz.
const ICE_LAKE_SP_DROP: u64 = 60;
/// Travis Downs, "Ice Lake AVX-512 Downclocking": 100 MHz of 3.7 GHz at most.
const ICE_LAKE_DROP: u64 = 28;

const fn intel(
    name: &'static str,
    models: &'static [u32],
    drop: u64,
    counts: Counts,
) -> Generation {
    let loss = match drop {
        0 => Loss::Hardly,
        1..128 => Loss::Little,
        _ => Loss::Much,
    };
    Generation { name, vendor: INTEL, family: 6, models, steppings: ANY, loss, drop, counts }
}

/// Returns a generation of the model that began as Skylake and was improved twice.
const fn skylake(name: &'static str, steppings: std::ops::RangeInclusive<u32>) -> Generation {
    Generation { steppings, ..intel(name, &[85], SKYLAKE_DROP, Counts::Licences) }
}

const fn amd(name: &'static str, family: u32, models: &'static [u32]) -> Generation {
    let (vendor, steppings, loss, counts) = (AMD, ANY, Loss::Hardly, Counts::FloatsOfAmd);
    Generation { name, vendor, family, models, steppings, loss, drop: 0, counts }
}

/// An empty list of models stands for all of them. The first generation that fits counts.
const GENERATIONS: [Generation; 9] = [
    skylake("Skylake-SP", 0..=4),
    skylake("Cascade Lake", 5..=9),
    skylake("Cooper Lake", 10..=15),
    intel("Ice Lake-SP", &[106, 108], ICE_LAKE_SP_DROP, Counts::Licences),
    intel("Ice Lake", &[125, 126, 140, 141, 167], ICE_LAKE_DROP, Counts::Nothing),
    intel("Sapphire Rapids", &[143, 207], 0, Counts::Floats),
    intel("Granite Rapids", &[173, 174], 0, Counts::Floats),
    amd("Zen 4", 25, &[16, 17, 24, 96, 97, 104, 116, 117, 120, 124, 160]),
    amd("Zen 5", 26, &[]),
];

impl Counts {
    /// Returns the events by the names that perf has for them.
    pub fn events(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::Licences => &["core_power.lvl1_turbo_license", "core_power.lvl2_turbo_license"],
            Self::Floats => &[
                "fp_arith_inst_retired.512b_packed_double",
                "fp_arith_inst_retired.512b_packed_single",
            ],
            Self::FloatsOfAmd => &["fp_ops_retired_by_width.pack_512_uops_retired"],
        }
    }

    fn countable(self) -> Countable {
        let wide_operations = match self {
            Self::Nothing => None,
            Self::Licences | Self::Floats => Some(INTELS_FLOATS),
            Self::FloatsOfAmd => Some(AMDS_FLOATS),
        };
        Countable { licences: self == Self::Licences, wide_operations }
    }
}

impl Generation {
    pub fn of(vendor: &str, family: u32, model: u32, stepping: u32) -> Option<&'static Self> {
        GENERATIONS.iter().find(|it| {
            it.vendor == vendor
                && it.family == family
                && (it.models.is_empty() || it.models.contains(&model))
                && it.steppings.contains(&stepping)
        })
    }

    /// Returns the generation of the first CPU in the text of /proc/cpuinfo.
    pub fn in_text(cpuinfo: &str) -> Option<&'static Self> {
        let number = |name| first_cpu_says(cpuinfo, name).parse().unwrap_or_default();
        let vendor = first_cpu_says(cpuinfo, "vendor_id");
        Self::of(vendor, number("cpu family"), number("model"), number("stepping"))
    }
}

/// Returns how much of its clock the CPU loses to wide vectors (1/1024), by the text of
/// /proc/cpuinfo. A CPU that is not known is taken to lose as much as Skylake.
pub fn licence_drop(cpuinfo: &str) -> u64 {
    Generation::in_text(cpuinfo).map_or(SKYLAKE_DROP, |it| it.drop)
}

/// Returns what the CPU has events for.
pub fn countable(cpuinfo: &str) -> Countable {
    Generation::in_text(cpuinfo).map_or(Countable::default(), |it| it.counts.countable())
}

/// Returns the first value with this name in the text of `/proc/cpuinfo`.
pub fn first_cpu_says<'a>(cpuinfo: &'a str, name: &str) -> &'a str {
    let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map_or("", |(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::counters::LICENCES;

    fn name_of(vendor: &str, family: u32, model: u32, stepping: u32) -> Option<&'static str> {
        Generation::of(vendor, family, model, stepping).map(|it| it.name)
    }

    #[test]
    fn what_is_lost_goes_by_the_generation() {
        let text = |model| {
            format!(
                "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\nstepping\t: 4\n"
            )
        };
        assert_eq!(
            [85, 106, 126, 143, 1].map(|model| licence_drop(&text(model))),
            [256, 60, 28, 0, 256]
        );
        assert_eq!(licence_drop(""), 256);
        let of = |model| Generation::in_text(&text(model)).unwrap().loss;
        assert!(of(85) == Loss::Much && of(126) == Loss::Little && of(143) == Loss::Hardly);
    }

    /// The events that matter here, as perf of Linux 6.12 lists them in
    /// tools/perf/pmu-events/arch/x86.
    const RECORDED: &str = include_str!("../../../tests/suite/fixtures/events.json");

    #[test]
    fn events_are_those_of_the_recorded_lists() {
        let lists: serde_json::Value = serde_json::from_str(RECORDED).unwrap();
        let code = |event: &serde_json::Value, key: &str| {
            let digits = event[key].as_str().unwrap().trim_start_matches("0x");
            u64::from_str_radix(digits, 16).unwrap()
        };
        // Several masks of one event count whatever fits any of them.
        let config = |list: &str, names: &[&str]| {
            let events = lists[list].as_array().unwrap().iter();
            let is_meant = |event: &serde_json::Value| {
                names.contains(&event["EventName"].as_str().unwrap().to_lowercase().as_str())
            };
            let configs: Vec<u64> = events
                .filter(|event| is_meant(event))
                .map(|event| code(event, "UMask") << 8 | code(event, "EventCode"))
                .collect();
            assert_eq!(configs.len(), names.len(), "{names:?} of {list}");
            configs.into_iter().fold(0, |all, config| all | config)
        };
        for list in ["skylakex", "cascadelakex", "icelakex"] {
            for (number, known) in LICENCES.into_iter().enumerate() {
                let name = format!("core_power.lvl{number}_turbo_license");
                assert_eq!(config(list, &[&name]), known, "{name} of {list}");
            }
            config(list, Counts::Licences.events());
            assert_eq!(config(list, Counts::Floats.events()), INTELS_FLOATS);
        }
        for list in ["sapphirerapids", "emeraldrapids", "graniterapids"] {
            assert_eq!(config(list, Counts::Floats.events()), INTELS_FLOATS);
            assert!(!lists[list].to_string().contains("TURBO_LICENSE"));
        }
        for list in ["amdzen4", "amdzen5"] {
            assert_eq!(config(list, Counts::FloatsOfAmd.events()), AMDS_FLOATS);
        }
    }

    #[test]
    fn generations_are_told_apart() {
        assert_eq!(name_of(INTEL, 6, 85, 4), Some("Skylake-SP"));
        assert_eq!(name_of(INTEL, 6, 85, 7), Some("Cascade Lake"));
        assert_eq!(name_of(INTEL, 6, 85, 11), Some("Cooper Lake"));
        assert_eq!(name_of(INTEL, 6, 106, 6), Some("Ice Lake-SP"));
        assert_eq!(name_of(INTEL, 6, 143, 8), Some("Sapphire Rapids"));
        assert_eq!(name_of(AMD, 25, 17, 1), Some("Zen 4"));
        assert_eq!(name_of(AMD, 26, 2, 1), Some("Zen 5"));
        assert_eq!(name_of(AMD, 25, 1, 1), None, "Zen 3 is no Zen 4");
        assert_eq!(name_of(AMD, 6, 85, 4), None);
        assert_eq!(name_of(INTEL, 6, 186, 2), None);
    }
}
