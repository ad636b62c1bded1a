// SPDX-License-Identifier: GPL-2.0-only
//! What may happen to a machine, written as bytes. Any bytes are a scenario, so that a fuzzer can
//! look for those that break a rule.

use crate::bpf::intf::{
    APERF_AND_MPERF, AVX_HINT_AVX512, AVX_HINT_NONE, AVX_TIER_COUNTERS, AVX_TIER_HINTS,
    AVX_TIER_OBSERVE, AVX_TIER_TRAP, AVX_TIER_XSTATE, CYCLES_BY_LICENCE, NO_CLOCK_COUNTERS,
    avx_clock_counters, avx_tier,
};
use crate::sim::machine::Topology;
use crate::sim::machine::model::Kind;

const US: u64 = 1000;
const MS: u64 = 1000 * US;

/// The bytes of the machine, and of each command, whether or not it needs so many. So the other
/// commands stay the same if one of them is removed.
pub const HEADER_BYTES: usize = 2;
pub const COMMAND_BYTES: usize = 8;

/// The most commands and tasks. More would show nothing more, and take long.
const COMMANDS_MAX: usize = 150;
const TASKS_MAX: usize = 40;

/// Sockets, caches of each socket, cores of each cache, and threads of each core.
const MACHINES: [[usize; 4]; 8] = [
    [1, 1, 1, 1],
    [1, 1, 2, 1],
    [1, 1, 4, 1],
    [1, 1, 2, 2],
    [1, 2, 2, 1],
    [2, 1, 2, 2],
    [2, 2, 2, 1],
    [2, 2, 2, 2],
];

/// Clocks that are always at their highest, or are low for wide vectors and are counted or not.
const CLOCKS: [Option<avx_clock_counters>; 4] =
    [None, Some(NO_CLOCK_COUNTERS), Some(APERF_AND_MPERF), Some(CYCLES_BY_LICENCE)];

const TIERS: [avx_tier; 6] = [
    AVX_TIER_TRAP,
    AVX_TIER_TRAP,
    AVX_TIER_TRAP,
    AVX_TIER_XSTATE,
    AVX_TIER_HINTS,
    AVX_TIER_OBSERVE,
];

/// The tiers of machines on which licences are counted.
const TIERS_BY_LICENCES: [avx_tier; 6] = [
    AVX_TIER_TRAP,
    AVX_TIER_COUNTERS,
    AVX_TIER_COUNTERS,
    AVX_TIER_XSTATE,
    AVX_TIER_HINTS,
    AVX_TIER_OBSERVE,
];

const WEIGHTS: [u32; 8] = [100, 1, 10_000, 100, 3, 1000, 30, 100];

/// Settings of a policy that differ from the standard ones.
const TURNS: [&str; 31] = [
    "avx-cores-for=nobody",
    "avx-cores-for=hinted",
    "avx-cores-for=all",
    "classes=avx512+avx2-heavy",
    "sizing=static",
    "sizing=share",
    "placement=first-use",
    "sizing=list",
    "avx-cpus=0",
    "avx-cpus=1",
    "avx-cpus=3",
    "avx-cpus=99",
    "avx-cpu-list=1",
    "avx-cpu-list=0-2,5",
    "placement=spread",
    "return=syscall",
    "return=switch",
    "return=timeout",
    "avx-slice=100us",
    "return-timeout=100us",
    "return-timeout=1s",
    "scalar-penalty=0ms",
    "scalar-penalty=300ms",
    "stranded=0ms",
    "stranded=500ms",
    "steal=0ms",
    "steal=200ms",
    "shrink-dwell=0ms",
    "grow-dwell=0ms",
    "wait-target=0ms",
    "backoff-min=0ms",
];

/// Settings of a policy about the time that low clocks take.
const FAIRNESS: [&[&str]; 4] = [
    &[],
    &["fairness=compensate"],
    &["fairness=compensate", "licence-drop=0.5"],
    &["fairness=compensate", "licence-hold=0s"],
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Habit {
    Busy(Kind),
    /// Works, and then sleeps for so many times as long.
    Sleeper(Kind, u64),
    /// Scalar and wide work in turns, with a system call.
    Alternates,
    /// The C library's string functions beside wide work.
    Mixes,
    Yields,
    /// Waits for what another one sends, works, and sends it on.
    Passes,
    /// Hints of wide work, and of none.
    Hints,
    /// Ends after some rounds.
    Ends,
    /// Ends after some rounds, and another one takes its place.
    IsSucceeded,
}

const HABITS: [Habit; 13] = [
    Habit::Busy(Kind::Scalar),
    Habit::Busy(Kind::Heavy512),
    Habit::Busy(Kind::Light256),
    Habit::Sleeper(Kind::Scalar, 1),
    Habit::Sleeper(Kind::Scalar, 10),
    Habit::Sleeper(Kind::Light512, 3),
    Habit::Alternates,
    Habit::Mixes,
    Habit::Yields,
    Habit::Passes,
    Habit::Hints,
    Habit::Ends,
    Habit::IsSucceeded,
];

/// The length of one step of a habit.
const LENGTHS_NS: [u64; 6] = [10 * US, 50 * US, 200 * US, MS, 5 * MS, 20 * MS];

/// The hints between which tasks alternate.
pub const HINTS: [u64; 2] = [AVX_HINT_AVX512 as u64, AVX_HINT_NONE as u64];

/// A command to the machine. Tasks are numbered in their order, and numbers beyond the last begin
/// with the first again. A task that is boosted has realtime priority for a moment, if it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Spawn { habit: Habit, step_ns: u64, weight: u32, cpus: u64, is_thread: bool },
    Weigh { task: usize, weight: u32 },
    Boost { task: usize },
    Allow { task: usize, cpus: u64 },
    Policy(Vec<&'static str>),
    Take { cpu: u32, ns: u64 },
    Online { cpu: u32, is_online: bool },
    Send,
    Run(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub machine: [usize; 4],
    /// How clocks are counted. With None they are always at their highest.
    pub clocks: Option<avx_clock_counters>,
    pub tier: avx_tier,
    pub commands: Vec<Command>,
}

struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    /// Returns the next byte, or 0 after the last one.
    fn next(&mut self) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0))
    }

    fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.next() % from.len()].clone()
    }

    /// Returns a mask of CPUs, which often has all of them.
    fn cpus(&mut self) -> u64 {
        match (self.next(), self.next()) {
            (low, high) if high >= 128 => (low | (high & 127) << 8) as u64,
            _ => u64::MAX,
        }
    }
}

impl Scenario {
    pub fn of(bytes: &[u8]) -> Self {
        let (first, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES));
        let mut header = Bytes(first.iter());
        let mut commands: Vec<Command> = rest
            .chunks(COMMAND_BYTES)
            .take(COMMANDS_MAX)
            .map(|bytes| command(&mut Bytes(bytes.iter())))
            .collect();
        let mut nr_tasks = 0;
        commands.retain(|command| {
            nr_tasks += usize::from(matches!(command, Command::Spawn { .. }));
            nr_tasks <= TASKS_MAX || !matches!(command, Command::Spawn { .. })
        });
        let (of_machine, of_tier) = (header.next(), header.next());
        let machine = MACHINES[of_machine % MACHINES.len()];
        let clocks = CLOCKS[of_machine / MACHINES.len() % CLOCKS.len()];
        let tiers = if clocks == Some(CYCLES_BY_LICENCE) { &TIERS_BY_LICENCES } else { &TIERS };
        Self { machine, clocks, tier: tiers[of_tier % tiers.len()], commands }
    }

    pub fn topology(&self) -> Topology {
        let [sockets, llcs, cores, threads] = self.machine;
        Topology::regular(sockets, llcs, cores, threads)
    }
}

fn command(bytes: &mut Bytes<'_>) -> Command {
    match bytes.next() % 16 {
        0..=3 => Command::Spawn {
            habit: bytes.choose(&HABITS),
            step_ns: bytes.choose(&LENGTHS_NS),
            weight: bytes.choose(&WEIGHTS),
            cpus: bytes.cpus(),
            is_thread: bytes.next() % 2 == 1,
        },
        4 => Command::Weigh { task: bytes.next(), weight: bytes.choose(&WEIGHTS) },
        5 | 6 => Command::Allow { task: bytes.next(), cpus: bytes.cpus() },
        7 | 8 => {
            let nr = bytes.next() % 5;
            let mut turns = [0; 4].map(|_| bytes.choose(&TURNS))[..nr].to_vec();
            turns.extend(bytes.choose(&FAIRNESS));
            Command::Policy(turns)
        }
        9 | 10 => {
            let cpu = bytes.next() as u32;
            Command::Take { cpu, ns: bytes.choose(&[100 * US, MS, 10 * MS, 90 * MS]) }
        }
        11 => Command::Online { cpu: bytes.next() as u32, is_online: bytes.next() % 2 == 1 },
        12 if bytes.next() % 2 == 1 => Command::Boost { task: bytes.next() },
        12 => Command::Send,
        _ => Command::Run(bytes.choose(&[
            20 * US,
            300 * US,
            2 * MS,
            7 * MS,
            30 * MS,
            30 * MS,
            110 * MS,
            400 * MS,
            1500 * MS,
            4000 * MS,
        ])),
    }
}
