// SPDX-License-Identifier: GPL-2.0-only
//! The results of a run, in figures. All of them are modelled.

use serde::{Deserialize, Serialize};

use super::setup::Setup;
use super::uncertainty::{T_OF_PARTS, grows, mean, variance};
use super::variant::Variant;
use super::watch::{BATCHES, Class, Done, Strip, Watch};
use crate::sim::workload::record::{Latency, SharedRecord};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub policy: String,
    pub variant: String,
    /// What AVX cores gain, as trials found it, if the policy has trials and they have decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<String>,
    pub settings: Vec<String>,
    pub requests_per_s: f64,
    /// Useful work, as the number of CPUs at full speed that would take as long for it without
    /// AVX-512.
    pub work: f64,
    /// The interval in which the work is with a probability of 95 %, by how much parts of the run
    /// differ.
    pub work_95: [f64; 2],
    /// The work in each of these parts.
    pub work_of_parts: Vec<f64>,
    /// What was done in each part, per nanosecond, from which the uncertainty of a ratio is found.
    #[serde(skip)]
    pub parts: Vec<Done>,
    /// What each thread has drawn beyond the mean in all parts, in the unit of `parts`.
    #[serde(skip)]
    pub luck_of_threads: Vec<f64>,
    /// Whether more requests come from outside than are done, so that more and more wait.
    pub falls_behind: bool,
    /// The score relative to the first policy that is compared.
    pub relative: Option<f64>,
    /// The interval in which `relative` is with a probability of 95 %. The first policy has none
    /// because nothing is uncertain there. Where ever more requests wait there is none because the
    /// parts of a run do not tell.
    pub relative_95: Option<[f64; 2]>,
    /// The latency of the only group of threads. Where there are several groups, each has its own.
    pub latency_us: Option<Latency>,
    /// How much of their time the CPUs were busy.
    pub busy_share: f64,
    /// The number of AVX cores at the end.
    pub avx_cores: u32,
    pub role_changes: u64,
    /// How many busy cores had a low clock at a time, on average. A core that idles loses nothing
    /// by a low clock.
    pub low_cores: f64,
    pub migrations_per_request: f64,
    pub moves: u64,
    /// How often wide work began where it was hidden.
    pub wide_faults: u64,
    /// The share of the work with 512-bit vectors that was done on scalar cores.
    pub wide_on_scalar_share: f64,
    pub scalar_cores: ClassShares,
    pub avx_class: ClassShares,
    /// For each phase but the first: milliseconds until the number of AVX cores stays within one of
    /// what it is at the end of the phase. It is None where that is so from the beginning, because
    /// the policy did not follow, and where it is so only near the end, because the number never
    /// settled.
    pub settle_ms: Vec<Option<f64>>,
    pub groups: Vec<GroupOutcome>,
    /// The number of AVX cores after each change, with its time in milliseconds.
    pub avx_cores_over_time: Vec<(f64, u32)>,
    /// How often CPUs had changed their role after each change, with its time in milliseconds.
    pub role_changes_over_time: Vec<(f64, u64)>,
    /// The timelines of the whole run, and of its end.
    pub timelines: [Strip; 2],
    /// How far the scheduler is wrong about what threads lost that never needed a licence, as a
    /// share of the time that they ran less what they lost to the licences of others. It is None
    /// unless the scheduler compensates.
    pub estimate_error: Option<f64>,
    /// How many events the simulator had to process.
    pub events: u64,
}

/// Shares of the time in which cores of a class were busy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassShares {
    pub busy_core_s: f64,
    pub by_licence: [f64; 3],
    /// The share of their speed that they lost to lower clocks, throttling and halts.
    pub lost: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    pub name: String,
    pub requests_per_s: f64,
    /// The work of the group, in the unit of that of all groups.
    pub work: f64,
    /// The number of CPUs that its threads ran on at a time, on average.
    pub cpus: f64,
    /// How many requests were sent and not done at a time, on average, if they come from outside,
    /// however many wait.
    pub unfinished: Option<f64>,
    /// The latency from the arrival of a request, or from the end of the one before.
    pub latency_us: Option<Latency>,
    /// What it does, or how soon, relative to the first policy, unless it does nothing there.
    pub relative: Option<f64>,
}

impl Outcome {
    /// Returns what ran, with what its trials found.
    pub fn told(&self) -> String {
        let found = self.tried.as_ref().map(|it| format!(", as trials found: {it}"));
        format!("{}{}", self.variant, found.unwrap_or_default())
    }

    pub fn new(setup: &Setup, variant: &Variant, watch: Watch, records: &[SharedRecord]) -> Self {
        let seconds = watch.measured_ns() as f64 / 1e9;
        let cpu_ns = watch.measured_ns() * setup.topology.cpus.len() as u64;
        let done: u64 = watch.groups.iter().map(|it| it.done).sum();
        let parts = parts(&watch.batches, watch.measured_ns() as f64);
        let work_of_parts: Vec<f64> = parts.iter().map(|part| part.work).collect();
        let (work, work_95) = mean_and_interval(&work_of_parts);
        let wide = watch.scalar.wide + watch.avx.wide;
        let groups = setup.workload.groups.iter().zip(records);
        let groups = groups.zip(watch.groups.iter().zip(&watch.ran_of_groups));
        Self {
            policy: variant.name.clone(),
            variant: variant.about_on(&setup.topology),
            tried: None,
            settings: variant.settings.clone(),
            requests_per_s: done as f64 / seconds,
            work,
            work_95,
            work_of_parts,
            falls_behind: falls_behind(&parts),
            parts,
            luck_of_threads: per_part(&watch),
            relative: None,
            relative_95: None,
            latency_us: match records {
                [only] => only.borrow().latency.latency(),
                _ => None,
            },
            busy_share: watch.ran as f64 / cpu_ns as f64,
            avx_cores: watch.avx_cores.last().map_or(0, |(_, nr)| *nr),
            role_changes: watch.role_changes.last().map_or(0, |(_, nr)| *nr),
            low_cores: seconds_low(&[watch.scalar, watch.avx]) / seconds,
            migrations_per_request: watch.moves as f64 / done.max(1) as f64,
            moves: watch.moves,
            wide_faults: watch.wide_faults,
            wide_on_scalar_share: if wide > 0.0 { watch.scalar.wide / wide } else { 0.0 },
            scalar_cores: shares(&watch.scalar),
            avx_class: shares(&watch.avx),
            settle_ms: settle_times(&setup.workload.phases, &watch.avx_cores, watch.measured_ns()),
            groups: groups
                .map(|((group, record), (sums, ran))| GroupOutcome {
                    name: group.name.clone(),
                    requests_per_s: sums.done as f64 / seconds,
                    work: sums.work / watch.measured_ns() as f64,
                    cpus: *ran as f64 / watch.measured_ns() as f64,
                    unfinished: sums.unfinished.map(|ns| ns / watch.measured_ns() as f64),
                    latency_us: record.borrow().latency.latency(),
                    relative: None,
                })
                .collect(),
            avx_cores_over_time: in_ms(&watch.avx_cores),
            role_changes_over_time: in_ms(&watch.role_changes),
            estimate_error: watch.estimate_error,
            events: watch.events,
            timelines: watch.into_strips(),
        }
    }

    /// Returns half of the interval in which its relative work is.
    pub fn uncertainty(&self) -> Option<f64> {
        self.relative_95.map(|[low, high]| (high - low) / 2.0)
    }
}

fn falls_behind(parts: &[Done]) -> bool {
    grows(&parts.iter().map(|part| part.unfinished).collect::<Vec<_>>())
}

fn in_ms<T: Copy>(course: &[(u64, T)]) -> Vec<(f64, T)> {
    course.iter().map(|(ns, it)| (*ns as f64 / 1e6, *it)).collect()
}

fn shares(class: &Class) -> ClassShares {
    let busy: u64 = class.by_licence.iter().sum();
    let share = |ns: f64| if busy > 0 { ns / busy as f64 } else { 0.0 };
    ClassShares {
        busy_core_s: busy as f64 / 1e9,
        by_licence: class.by_licence.map(|ns| share(ns as f64)),
        lost: share(class.lost),
    }
}

/// Returns the seconds above the lowest licence, summed up over cores.
fn seconds_low(classes: &[Class]) -> f64 {
    let ns: u64 = classes.iter().flat_map(|class| &class.by_licence[1..]).sum();
    ns as f64 / 1e9
}

/// Returns the rates within each part, from sums at the ends of the parts.
fn parts(sums: &[Done], ns: f64) -> Vec<Done> {
    let part = |two: &[Done]| {
        let rate = |of: fn(&Done) -> f64| (of(&two[1]) - of(&two[0])) * BATCHES as f64 / ns;
        Done {
            work: rate(|it| it.work),
            open_work: rate(|it| it.open_work),
            unfinished: rate(|it| it.unfinished),
            begun: rate(|it| it.begun),
            luck: rate(|it| it.luck),
        }
    };
    sums.windows(2).map(part).collect()
}

/// Returns what threads have drawn beyond the mean, relative to the length of a part.
fn per_part(watch: &Watch) -> Vec<f64> {
    let ns = watch.measured_ns() as f64 / BATCHES as f64;
    watch.luck.iter().map(|luck| luck / ns).collect()
}

fn mean_and_interval(rates: &[f64]) -> (f64, [f64; 2]) {
    let mean = mean(rates);
    let half = T_OF_PARTS * (variance(rates) / rates.len() as f64).sqrt();
    (mean, [mean - half, mean + half])
}

/// Returns the settle time of each phase but the first, from the times at which the number of AVX
/// cores changed.
fn settle_times(phases: &[u64], changes: &[(u64, u32)], end: u64) -> Vec<Option<f64>> {
    let ends = phases.iter().skip(1).copied().chain([end]);
    let within = phases.iter().copied().zip(ends).skip(1).filter(|(begin, _)| *begin < end);
    within
        .map(|(begin, until)| Some(settled_after(changes, begin, until.min(end))? as f64 / 1e6))
        .collect()
}

/// The share of a phase within which the number has to settle. A number that still goes up and down
/// later is where it ends by chance.
const SETTLED_WITHIN: f64 = 0.9;

fn settled_after(changes: &[(u64, u32)], begin: u64, end: u64) -> Option<u64> {
    let until_end = || changes.iter().take_while(|(at, _)| *at <= end);
    let last = until_end().last().map_or(0, |(_, nr)| *nr);
    let was_far = |two: &[(u64, u32)]| two[0].1.abs_diff(last) > 1;
    let seen: Vec<(u64, u32)> = until_end().copied().collect();
    let settled = seen.windows(2).filter(|two| was_far(two)).map(|two| two[1].0).max();
    let after = settled?.checked_sub(begin)?;
    (after as f64 <= SETTLED_WITHIN * (end - begin) as f64).then_some(after)
}

/// Returns the outcome of a policy that did so much work, and of which nothing else is known.
#[cfg(test)]
pub fn made_up(work: f64, groups: Vec<GroupOutcome>) -> Outcome {
    let shares = ClassShares { busy_core_s: 0.0, by_licence: [0.0; 3], lost: 0.0 };
    let strip = Strip { from_ms: 0.0, to_ms: 0.0, cores: Vec::new() };
    Outcome {
        policy: "p".to_owned(),
        variant: "it".to_owned(),
        tried: None,
        settings: Vec::new(),
        requests_per_s: groups.iter().map(|group| group.requests_per_s).sum(),
        work,
        work_95: [work; 2],
        work_of_parts: Vec::new(),
        parts: Vec::new(),
        luck_of_threads: Vec::new(),
        falls_behind: false,
        relative: None,
        relative_95: None,
        latency_us: None,
        busy_share: 0.0,
        avx_cores: 0,
        role_changes: 0,
        low_cores: 0.0,
        migrations_per_request: 0.0,
        moves: 0,
        wide_faults: 0,
        wide_on_scalar_share: 0.0,
        scalar_cores: shares.clone(),
        avx_class: shares,
        settle_ms: Vec::new(),
        groups,
        avx_cores_over_time: Vec::new(),
        role_changes_over_time: Vec::new(),
        timelines: [strip.clone(), strip],
        estimate_error: None,
        events: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_settles_when_it_stays_within_one_of_the_end() {
        let changes = [(0, 0), (110, 2), (120, 7), (130, 5), (190, 6), (205, 3), (230, 1)];
        assert_eq!(settled_after(&changes, 100, 200), Some(20));
        assert_eq!(settled_after(&changes, 200, 300), Some(30));
        let phases = [0, 100, 200, 400];
        assert_eq!(settle_times(&phases, &changes, 300), [Some(20.0 / 1e6), Some(30.0 / 1e6)]);
    }

    #[test]
    fn who_does_not_follow_does_not_settle() {
        let changes = [(0, 0), (110, 4), (130, 5)];
        assert_eq!(settled_after(&changes[..1], 100, 200), None);
        assert_eq!(settled_after(&changes, 200, 300), None);
        assert_eq!(settle_times(&[0, 100, 200], &changes, 300), [Some(10.0 / 1e6), None]);
    }

    #[test]
    fn who_changes_all_the_time_never_settles() {
        let swings = |until| (0..until).map(|n| (n * 10, 4 * (n as u32 % 2))).collect::<Vec<_>>();
        assert_eq!(settled_after(&swings(19), 100, 200), Some(80));
        assert_eq!(settled_after(&swings(20), 100, 200), Some(90));
        assert_eq!(settled_after(&[swings(20), vec![(191, 0)]].concat(), 100, 200), None);
        // This holds however soon the phase ends after the policy began to follow.
        assert_eq!(settled_after(&[(0, 0), (195, 4)], 100, 200), None);
    }

    #[test]
    fn the_interval_is_as_wide_as_parts_differ() {
        let rates = |done: fn(u32) -> u32| -> Vec<f64> {
            let done = (0..=20).map(|n| Done { work: f64::from(done(n)), ..Done::default() });
            parts(&done.collect::<Vec<_>>(), 200.0).iter().map(|part| part.work).collect()
        };
        assert_eq!(mean_and_interval(&rates(|n| n * 10)), (1.0, [1.0, 1.0]));
        let (mean, [low, high]) = mean_and_interval(&rates(|n| n / 2 * 20));
        assert_eq!(mean, 1.0);
        // The deviation of the parts is 1.026, and that of their mean is this divided by the root
        // of 20.
        assert!((high - low - 2.0 * 2.093 * 1.026 / 20f64.sqrt()).abs() < 1e-3, "{low} {high}");
    }
}
