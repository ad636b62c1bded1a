// SPDX-License-Identifier: GPL-2.0-only
//! The parameters of a modelled processor.
//!
//! Problem: how a processor lowers its clock for wide vectors is documented for some, measured for
//! few, and guessed for the rest. Results must be repeatable with other numbers.
//!
//! Mechanism: every number is a public field. Processors that have a name share all but the clocks,
//! which are in processors.rs.
//!
//! Limits: nothing was measured on these processors for this project. Where a number is an
//! assumption or derived from others, its comment says so.

use serde::Deserialize;

use crate::processors::{PROCESSORS, Processor, Step};

/// What instructions a CPU executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Includes vectors of 128 bits.
    Scalar,
    Light256,
    Heavy256,
    Light512,
    Heavy512,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::Scalar, Kind::Light256, Kind::Heavy256, Kind::Light512, Kind::Heavy512];

    /// Returns the name of this kind in workloads.
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

/// A core's permission for wide vectors. The clock gets lower from each licence to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Licence {
    #[default]
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

/// A processor. All times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub name: &'static str,
    /// Where the clocks are from.
    pub source: &'static str,
    /// What Linux tells about the processor in /proc/cpuinfo, on which the scheduler relies.
    pub cpuinfo: &'static str,
    /// How many cores the processor has, if their number makes a difference: the clocks of more
    /// cores are not known.
    pub cores: Option<u32>,
    /// The steps in ascending order of their numbers of cores. The last one also applies to more
    /// cores than it says.
    pub steps: Vec<Step>,
    /// The licence that instructions need, in the order of `Kind`.
    pub demand: [Licence; 5],
    /// How long a core asks for a higher licence before it changes its clock.
    pub request_ns: u64,
    /// The share of the instructions that a core dispatches while it asks.
    pub throttle: f64,
    /// Whether a core is throttled to the end of the request even if no wide instructions are left.
    pub throttles_narrow: bool,
    /// How long a core stands still to change its clock.
    pub halt_ns: u64,
    /// Whether a core that goes from L0 to L2 changes its clock twice.
    pub halts_at_each_licence: bool,
    /// How long a licence outlives the last instruction that needed it.
    pub hold_ns: u64,
    /// How long before its end the end of a hold is settled: a core that needs the licence after
    /// that has to ask again.
    pub release_ns: u64,
    /// Whether a core also stands still if its clock changes because others become active or idle.
    pub count_step_halts: bool,
    /// A core counts as active until it has been idle for this long.
    pub active_window_ns: u64,
    /// The states in which an idle core sleeps, the shallowest first.
    pub idle_states: [IdleState; 3],
    /// The share of the work that a CPU would do alone that it does while its sibling runs too.
    pub smt_share: f64,
}

/// A state of an idle core. A core that has idled for `from_ns` or longer needs `wake_ns` to wake
/// up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState {
    pub from_ns: u64,
    pub wake_ns: u64,
}

const US: u64 = 1000;

/// Skylake-SP as Travis Downs measured it on a Xeon W-2104, "Gathering Intel on Intel AVX-512
/// Transitions", and as Intel's optimization manual has it. Each processor has its own values of
/// what is empty here.
const SKYLAKE: Model = Model {
    name: "",
    source: "",
    cpuinfo: "",
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
    // Assumption: Downs did not measure heavy instructions. The model lets L1 to L2 follow L0 to
    // L1, with one request for both.
    halts_at_each_licence: true,
    // Downs saw 650 to 680 us; the manual says about 2 ms.
    hold_ns: 670 * US,
    // Downs saw a clock rise some us after wide instructions had begun again, and takes this for a
    // delay of 8 to 10 us. Assumption: a single wide instruction is answered as well, although it
    // is over by then.
    release_ns: 9 * US,
    // Downs: the halt is the same as for licences.
    count_step_halts: true,
    // Assumption: an idle core has to sleep deeply to count as inactive, and short sleeps are not
    // deep. The value is of the order of the 600 us from which Linux's idle driver wants C6 here.
    active_window_ns: 500 * US,
    // C1, C1E and C6 in Linux's drivers/idle/intel_idle.c, for Skylake-SP: how long the driver
    // wants a core to idle at least, and how long it takes waking up to last. Assumption: the
    // driver foresees how long the core will idle.
    idle_states: [
        IdleState { from_ns: 0, wake_ns: 2 * US },
        IdleState { from_ns: 20 * US, wake_ns: 10 * US },
        IdleState { from_ns: 600 * US, wake_ns: 133 * US },
    ],
    // Assumption: two siblings together do 1.2 times the work of one.
    smt_share: 0.6,
};

impl Model {
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROCESSORS.iter().map(|processor| processor.name)
    }

    pub fn named(name: &str) -> Option<Self> {
        let processor = PROCESSORS.iter().find(|processor| processor.name == name)?;
        let Processor { name, source, cpuinfo, cores, .. } = *processor;
        let steps = processor.steps.to_vec();
        let skylake = Model { name, source, cpuinfo, cores, steps, ..SKYLAKE };
        Some(if processor.licences { skylake } else { without_licences(skylake) })
    }

    pub fn demand(&self, kind: Kind) -> Licence {
        self.demand[kind as usize]
    }

    /// Returns how long a core that has idled for `idle_ns` needs to wake up.
    pub fn wakes_in(&self, idle_ns: u64) -> u64 {
        let deepest = self.idle_states.iter().rfind(|state| state.from_ns <= idle_ns);
        deepest.map_or(0, |state| state.wake_ns)
    }

    /// Returns the index of the step for this many active cores.
    pub fn step(&self, active_cores: u32) -> usize {
        let is_enough = |step: &Step| active_cores <= step.up_to_cores;
        self.steps.iter().position(is_enough).unwrap_or(self.steps.len().saturating_sub(1))
    }

    /// Returns the clock of a step with a licence. This is 0 in a model that has no steps.
    pub fn mhz(&self, step: usize, licence: Licence) -> u32 {
        self.steps.get(step).map_or(0, |step| step.mhz[licence as usize])
    }

    /// Returns the clocks with all cores at work, by licence.
    pub fn mhz_of_all(&self) -> [u32; 3] {
        self.steps.last().map_or([0; 3], |step| step.mhz)
    }

    /// Returns the number of cores that the clocks are known for, if this is less than `cores`.
    pub fn known_for_less_than(&self, cores: u32) -> Option<u32> {
        self.cores.filter(|known| *known < cores)
    }

    /// Returns the highest L0 clock, to which rates are relative.
    pub fn top_mhz(&self) -> u32 {
        self.steps.iter().map(|step| step.mhz[Licence::L0 as usize]).max().unwrap_or(0)
    }
}

/// Returns a note that is appended where a processor is modelled with more cores than its clocks
/// are known for. It is empty otherwise.
pub fn guessed_clocks(model: &str, cores: u16) -> String {
    let known = Model::named(model).and_then(|it| it.known_for_less_than(cores.into()));
    known.map_or_else(String::new, |known| {
        format!(", clocks beyond {known} cores are those of {known}")
    })
}

/// Returns the model of a processor on which no instruction needs a licence.
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
    fn clocks_that_nobody_knows_are_told_of() {
        assert_eq!(guessed_clocks("i9-7940x", 14), "");
        assert_eq!(guessed_clocks("i9-7940x", 64), ", clocks beyond 14 cores are those of 14");
        assert_eq!(guessed_clocks("zen4", 64), "");
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
