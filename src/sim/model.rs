// SPDX-License-Identifier: GPL-2.0-only
//! The parameters of a modelled processor, and the processors that have a name here.
//!
//! Problem: how a processor lowers its clock for wide vectors is documented for some, measured for
//! few, and guessed for the rest. Results must be repeatable with other numbers.
//!
//! Mechanism: every number is a public field. The presets stand in one table, with their sources.
//!
//! Limits: nothing was measured on these processors for this project. Where a number is an
//! assumption or derived from others, it says so.

use serde::Deserialize;

use crate::bpf::intf::{
    AVX_CLOCK_STEPS, AVX_WHOLE, avx_clock_counters_NO_CLOCK_COUNTERS, avx_clock_step, avx_clocks,
};

/// What instructions a CPU executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Also vectors of 128 bits.
    Scalar,
    Light256,
    Heavy256,
    Light512,
    Heavy512,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::Scalar, Kind::Light256, Kind::Heavy256, Kind::Light512, Kind::Heavy512];

    /// As workloads have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Scalar => "scalar",
            Kind::Light256 => "light256",
            Kind::Heavy256 => "heavy256",
            Kind::Light512 => "light512",
            Kind::Heavy512 => "heavy512",
        }
    }
}

/// Permission for wide vectors. The clock gets lower from each to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Licence {
    L0,
    L1,
    L2,
}

impl Licence {
    pub fn next(self) -> Self {
        match self {
            Licence::L0 => Licence::L1,
            Licence::L1 | Licence::L2 => Licence::L2,
        }
    }
}

/// The clocks while not more than so many cores of a socket are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub up_to_cores: u32,
    /// By licence.
    pub mhz: [u32; 3],
}

/// Of a processor that nobody calibrated.
pub const UNKNOWN_CLOCKS: avx_clocks = avx_clocks {
    counters: avx_clock_counters_NO_CLOCK_COUNTERS as u64,
    nr_steps: 0,
    steps: [avx_clock_step { up_to_cores: 0, lost: [0; 3] }; AVX_CLOCK_STEPS as usize],
};

/// A processor. All times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub name: &'static str,
    /// Where the clocks are from.
    pub source: &'static str,
    /// What Linux says of it in /proc/cpuinfo, by which the scheduler goes.
    pub cpuinfo: &'static str,
    /// That the processor has, if it is one: what clocks more of them would have nobody knows.
    pub cores: Option<u32>,
    /// In the order of the numbers of cores; the last one is also for more cores than it says.
    pub steps: Vec<Step>,
    /// The licence that instructions need, in the order of `Kind`.
    pub demand: [Licence; 5],
    /// How long a core asks for a higher licence before it changes its clock.
    pub request_ns: u64,
    /// The share of the instructions that it dispatches meanwhile.
    pub throttle: f64,
    /// Whether a core is throttled to the end of the request even if no wide instructions are left.
    pub throttles_narrow: bool,
    /// How long a core stands still to change its clock.
    pub halt_ns: u64,
    /// Whether a core that goes from L0 to L2 changes its clock twice.
    pub halts_at_each_licence: bool,
    /// How long a licence outlives the last instruction that needed it.
    pub hold_ns: u64,
    /// Whether a core stands still too if its clock changes because others become active or idle.
    pub count_step_halts: bool,
    /// A core counts as active until it has been idle for so long.
    pub active_window_ns: u64,
    /// What a CPU still gets done, of what it would alone, while its sibling runs too.
    pub smt_share: f64,
}

const US: u64 = 1000;

const SKYLAKE_SP: &str = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 85\nstepping: 4\n\
    flags: avx512f xsavec xgetbv1\n";
const ICE_LAKE: &str = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 126\nstepping: 5\n\
    flags: avx512f xsavec xgetbv1\n";
const SAPPHIRE_RAPIDS: &str = "vendor_id: GenuineIntel\ncpu family: 6\nmodel: 143\nstepping: 8\n\
    flags: avx512f avx_vnni xsavec xgetbv1\n";
const ZEN4: &str = "vendor_id: AuthenticAMD\ncpu family: 25\nmodel: 17\nstepping: 1\n\
    flags: avx512f xsavec xgetbv1\n";

/// Skylake-SP as Travis Downs measured it on a Xeon W-2104, "Gathering Intel on Intel AVX-512
/// Transitions", and as Intel's optimization manual has it. The steps come with the presets.
const SKYLAKE: Model = Model {
    name: "",
    source: "",
    cpuinfo: SKYLAKE_SP,
    cores: None,
    steps: Vec::new(),
    // Heavy is floating point, integer multiplication and FMA.
    demand: [Licence::L0, Licence::L0, Licence::L1, Licence::L1, Licence::L2],
    // Downs saw 8 to 20 us; the manual says up to 500 us.
    request_ns: 9 * US,
    throttle: 0.25,
    // Assumption, and an upper bound for short bursts: Downs saw throttling only where a wide
    // instruction was among the about 80 in flight.
    throttles_narrow: true,
    // Downs saw 8 to 11 us, on the way down and up.
    halt_ns: 10 * US,
    // Assumption: Downs did not measure heavy instructions. As if L0 to L1 and L1 to L2 followed
    // each other, with one request for both.
    halts_at_each_licence: true,
    // Downs saw 650 to 680 us; the manual says about 2 ms.
    hold_ns: 670 * US,
    // Downs: the halt is the same as for licences.
    count_step_halts: true,
    // Assumption: an idle core has to sleep deeply to count as inactive, and short sleeps are not
    // deep. Of the order of the 600 us for which Linux's idle driver wants C6 here.
    active_window_ns: 500 * US,
    // Assumption: two siblings together do 1.2 times the work of one.
    smt_share: 0.6,
};

struct Preset {
    name: &'static str,
    /// What is in the name that it gives itself, if its clocks are known well enough.
    calls_itself: Option<&'static str>,
    /// None where the number makes no difference.
    cores: Option<u32>,
    steps: &'static [Step],
    /// Whether the clock depends on the licence.
    licences: bool,
    /// Where the clocks are from.
    source: &'static str,
    cpuinfo: &'static str,
}

/// For any number of cores.
const ANY: u32 = u32::MAX;

const fn step(up_to_cores: u32, l0: u32, l1: u32, l2: u32) -> Step {
    Step { up_to_cores, mhz: [l0, l1, l2] }
}

const NULL_MODEL: &str = "A null model: there is nothing to gain, and nothing may be lost. The \
    numbers have no meaning but that they are all the same. Real ones lose little: Travis Downs, \
    \"Ice Lake AVX-512 Downclocking\", found 100 MHz at most on a client processor.";

const PRESETS: [Preset; 7] = [
    Preset {
        name: "xeon-w-2104",
        calls_itself: Some("W-2104"),
        cores: Some(4),
        steps: &[step(ANY, 3200, 2800, 2400)],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "Measured by Travis Downs, \"Gathering Intel on Intel AVX-512 Transitions\". It has \
                 four cores and no turbo.",
    },
    Preset {
        name: "gold-5120",
        calls_itself: Some("Gold 5120 "),
        cores: Some(14),
        steps: &[
            step(2, 3200, 3100, 2900),
            step(4, 3000, 2800, 2500),
            step(8, 2900, 2600, 2200),
            step(12, 2700, 2400, 1900),
            step(ANY, 2600, 2200, 1600),
        ],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "Published are the shares of L0 that L1 and L2 have: 97 and 91 % with 1 or 2 cores \
                 active, 85 and 62 % with 13 or 14. Assumption: L0 is 3.2 and 2.6 GHz there, with \
                 which the shares come out in whole multiples of 100 MHz. The columns between are \
                 interpolated evenly and rounded down to such multiples, with the numbers of cores \
                 of the Xeon Gold 6130.",
    },
    Preset {
        name: "gold-6130",
        calls_itself: Some("Gold 6130 "),
        cores: Some(16),
        steps: &[
            step(2, 3700, 3600, 3500),
            step(4, 3500, 3300, 3100),
            step(8, 3400, 2900, 2400),
            step(12, 3100, 2600, 2100),
            step(ANY, 2800, 2300, 1900),
        ],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "L0 and L2 at third hand, but for all cores active: these two are also in \
                 Gottschlag, Machauer, Khalil and Bellosa, \"Fair Scheduling for AVX2 and AVX-512 \
                 Workloads\". L1 is derived: midway, rounded down to 100 MHz.",
    },
    Preset {
        name: "i9-7940x",
        calls_itself: Some("i9-7940X"),
        cores: Some(14),
        steps: &[step(ANY, 3800, 3300, 2500)],
        licences: true,
        cpuinfo: SKYLAKE_SP,
        source: "Ioannis Papamanoglou, \"Constructing a Library for Mitigating AVX-Induced \
                 Performance Degradation\", with idle states disabled, so that all 14 cores counted \
                 as active. What fewer active cores get is not known: the same, here, though the \
                 processor has a higher turbo.",
    },
    Preset {
        name: "ice-lake",
        calls_itself: None,
        cores: None,
        steps: &[step(ANY, 3000, 3000, 3000)],
        licences: false,
        source: NULL_MODEL,
        cpuinfo: ICE_LAKE,
    },
    Preset {
        name: "sapphire-rapids",
        calls_itself: None,
        cores: None,
        steps: &[step(ANY, 3000, 3000, 3000)],
        licences: false,
        source: NULL_MODEL,
        cpuinfo: SAPPHIRE_RAPIDS,
    },
    Preset {
        name: "zen4",
        calls_itself: None,
        cores: None,
        steps: &[step(ANY, 3000, 3000, 3000)],
        licences: false,
        source: NULL_MODEL,
        cpuinfo: ZEN4,
    },
];

impl Model {
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.name)
    }

    pub fn named(name: &str) -> Option<Self> {
        let preset = PRESETS.iter().find(|preset| preset.name == name)?;
        let Preset { name, source, cpuinfo, cores, .. } = *preset;
        let steps = preset.steps.to_vec();
        let skylake = Model { name, source, cpuinfo, cores, steps, ..SKYLAKE };
        Some(if preset.licences { skylake } else { without_licences(skylake) })
    }

    /// Of a processor that calls itself so.
    pub fn of_processor(name: &str) -> Option<Self> {
        let is_it = |it: &&Preset| it.calls_itself.is_some_and(|part| name.contains(part));
        PRESETS.iter().find(is_it).and_then(|preset| Self::named(preset.name))
    }

    pub fn demand(&self, kind: Kind) -> Licence {
        self.demand[kind as usize]
    }

    /// Which of the steps it is with so many active cores.
    pub fn step(&self, active_cores: u32) -> usize {
        let is_enough = |step: &Step| active_cores <= step.up_to_cores;
        self.steps.iter().position(is_enough).unwrap_or(self.steps.len().saturating_sub(1))
    }

    /// 0 in a model that has no steps.
    pub fn mhz(&self, step: usize, licence: Licence) -> u32 {
        self.steps.get(step).map_or(0, |step| step.mhz[licence as usize])
    }

    /// By licence, with all cores at work.
    pub fn mhz_of_all(&self) -> [u32; 3] {
        self.steps.last().map_or([0; 3], |step| step.mhz)
    }

    /// How many cores its clocks are known for, if it is not for as many.
    pub fn known_for_less_than(&self, cores: u32) -> Option<u32> {
        self.cores.filter(|known| *known < cores)
    }

    /// What the scheduler is told of a processor that was calibrated.
    pub fn known_clocks(&self) -> avx_clocks {
        let whole = u64::from(AVX_WHOLE);
        let lost = |step: &Step, licence| {
            whole - whole * u64::from(step.mhz[licence]) / u64::from(step.mhz[0]).max(1)
        };
        let mut clocks = UNKNOWN_CLOCKS;
        for (to, step) in clocks.steps.iter_mut().zip(&self.steps) {
            to.up_to_cores = step.up_to_cores.into();
            to.lost = [0, lost(step, 1), lost(step, 2)];
            clocks.nr_steps += 1;
        }
        clocks
    }

    /// What rates are relative to.
    pub fn top_mhz(&self) -> u32 {
        self.steps.iter().map(|step| step.mhz[Licence::L0 as usize]).max().unwrap_or(0)
    }
}

/// No instruction asks for anything.
fn without_licences(model: Model) -> Model {
    Model { demand: [Licence::L0; 5], ..model }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_no_others() {
        for name in Model::names() {
            assert_eq!(Model::named(name).unwrap().name, name);
        }
        assert_eq!(Model::names().count(), 7);
        assert_eq!(Model::named("pentium"), None);
    }

    #[test]
    fn more_cores_or_a_higher_licence_never_raise_the_clock() {
        for model in Model::names().filter_map(Model::named) {
            for step in &model.steps {
                assert!(step.mhz.is_sorted_by(|low, high| low >= high), "{model:?}");
            }
            for two in model.steps.windows(2) {
                assert!(two[0].up_to_cores < two[1].up_to_cores, "{model:?}");
                assert!((0..3).all(|licence| two[0].mhz[licence] >= two[1].mhz[licence]));
            }
        }
    }

    #[test]
    fn published_shares_of_the_gold_5120_come_out() {
        let model = Model::named("gold-5120").unwrap();
        let percent = |cores, licence| {
            let mhz = |licence| f64::from(model.mhz(model.step(cores), licence));
            (100.0 * mhz(licence) / mhz(Licence::L0)).round()
        };
        assert_eq!((percent(1, Licence::L1), percent(2, Licence::L2)), (97.0, 91.0));
        assert_eq!((percent(13, Licence::L1), percent(14, Licence::L2)), (85.0, 62.0));
    }

    #[test]
    fn all_cores_of_a_processor_are_at_the_last_of_its_steps() {
        for model in Model::names().filter_map(Model::named) {
            let step = model.step(model.cores.unwrap_or(1));
            assert_eq!(model.steps[step].mhz, model.mhz_of_all(), "{model:?}");
        }
        let known = |name, cores| Model::named(name).unwrap().known_for_less_than(cores);
        assert_eq!((known("gold-6130", 16), known("gold-6130", 17)), (None, Some(16)));
        assert_eq!(known("zen4", 256), None);
    }

    #[test]
    fn the_step_goes_by_the_number_of_cores() {
        let model = Model::named("gold-6130").unwrap();
        let l0 = |cores| model.mhz(model.step(cores), Licence::L0);
        let found = [0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 99].map(l0);
        let expected = [3700, 3700, 3700, 3500, 3500, 3400, 3400, 3100, 3100, 2800, 2800, 2800];
        assert_eq!(found, expected);
        assert_eq!(model.top_mhz(), 3700);
    }
}
