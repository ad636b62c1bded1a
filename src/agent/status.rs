// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler is doing, for one screen: its books, in words and numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::counters::Counted;
use super::light::is_of_c_library;
use super::prospect::Prospect;
use super::trial::Trial;
use super::trial::standing::Known;
use super::{books, cpulist};
use crate::bpf::intf::{
    self, AVX_WAITS_SAMPLED, ROLE_AVX, avx_book, avx_cpu_role, avx_cpu_stats, avx_owner,
    avx_topology,
};
use crate::bpf::names::{by_number, printable, text_of};

const CLASSES: [&str; intf::NR_CLASSES as usize] = by_number([
    (intf::CLASS_DEFAULT, "default"),
    (intf::CLASS_SCALAR, "scalar"),
    (intf::CLASS_AVX, "avx"),
]);
pub const CAUSES: [&str; intf::NR_CAUSES as usize] = by_number([
    (intf::CAUSE_FAULT, "fault"),
    (intf::CAUSE_MIXED, "mixed"),
    (intf::CAUSE_SAMPLE, "sample"),
    (intf::CAUSE_HINT, "hint"),
]);
pub const BOUNDARIES: [&str; intf::NR_BOUNDARIES as usize] = by_number([
    (intf::BOUNDARY_SYSCALL, "syscall"),
    (intf::BOUNDARY_SWITCH, "switch"),
    (intf::BOUNDARY_UNUSED, "unused"),
    (intf::BOUNDARY_TICK, "timeout"),
    (intf::BOUNDARY_HINT, "hint"),
    (intf::BOUNDARY_ALONE, "left alone"),
]);
pub const VERDICTS: [&str; intf::NR_VERDICTS as usize] = by_number([
    (intf::VERDICT_WIDE, "wide"),
    (intf::VERDICT_LIGHT, "light"),
    (intf::VERDICT_DETECTION, "detection"),
    (intf::VERDICT_RESTORE, "restore"),
    (intf::VERDICT_OTHER, "other"),
]);

const AVX: usize = intf::CLASS_AVX as usize;

/// How many rows of each table are on one screen.
const ROWS_SHOWN: usize = 10;

/// A policy that is tried against the one in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    pub generation: u64,
    pub policy: String,
    pub left_s: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub tier: String,
    pub why: String,
    /// The generation of the policy, and its name, if it has one.
    pub generation: u64,
    #[serde(default)]
    pub policy: String,
    /// The time until the policy before comes back, unless this one is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_left_s: Option<u64>,
    /// The policy that is tried against it, and for how much longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
    /// What trials know of AVX cores, if the policy leaves these to trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<Known>,
    /// Whether tasks are compensated for the time that they lose to low clocks of others, and by
    /// what that time is known.
    pub compensates: bool,
    pub clocks: String,
    pub runs_for_s: f64,
    /// How long all CPUs were busy, and how much of that were tasks as AVX tasks, and between such
    /// phases.
    pub busy_s: f64,
    pub avx_s: f64,
    pub scalar_s: f64,
    /// These are estimated by the time for which the clock stays low, which is a knob of the
    /// policy.
    pub low_clock_on_scalar_cpus_s: f64,
    pub low_clock_on_avx_cores_s: f64,
    /// What AVX cores would be worth, while they are for nobody: modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prospect: Option<Prospect>,
    pub cpus: Vec<Cpu>,
    /// CPUs that are present and not online.
    pub offline: Vec<u32>,
    /// Tasks that wait, by the kind of their queue.
    pub queued: BTreeMap<String, u64>,
    /// The waits of the tasks of each class.
    pub waits: BTreeMap<String, Waits>,
    /// The cgroups that did AVX work or lost time to it, those with the most first.
    pub cgroups: Vec<Cgroup>,
    /// The programs that did AVX work or lost time to it, by the names of their first threads,
    /// those with the most first.
    #[serde(default)]
    pub programs: Vec<Program>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    pub cpu: u32,
    pub is_avx_core: bool,
    pub as_avx_core_s: f64,
    pub role_changes: u64,
    /// The core, cache and node of the CPU. Each is named by its first CPU.
    pub core: u32,
    pub llc: u32,
    pub node: u32,
    /// How long it was busy since the machine started.
    pub busy_s: f64,
    /// How long AVX work made its clock low: modelled.
    #[serde(default)]
    pub low_clock_s: f64,
    /// What its counters say, where they tell of wide vectors and nobody else needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}

/// How long tasks waited in queues before they ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// The upper bound of each bucket, in nanoseconds. A bucket has the waits below its bound, and
    /// not below that of the bucket before. The last one has all longer waits as well.
    pub below_ns: Vec<u64>,
    pub counts: Vec<u64>,
}

/// What is known of a wait by the bucket that it is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Below(Duration),
    /// The wait is in the last bucket, which has no end.
    AtLeast(Duration),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    #[serde(skip)]
    pub id: u64,
    pub path: String,
    pub book: Book,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub name: String,
    pub book: Book,
    /// The file that its light instructions are in, if it mixes them with wide ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light_in: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Book {
    pub avx_s: f64,
    pub scalar_s: f64,
    /// Why its phases began and ended, and what its faults were.
    pub phases: BTreeMap<String, u64>,
    pub ends: BTreeMap<String, u64>,
    pub faults: BTreeMap<String, u64>,
    pub sent_to_avx: u64,
    pub sent_to_scalar: u64,
    /// The time that it lost to clocks that others had made low, and that it is compensated for,
    /// out of the time in which that was watched. This is an estimate.
    pub lost_s: f64,
    pub watched_s: f64,
}

impl Cpu {
    pub fn new(cpu: u32, place: &avx_topology, role: &avx_cpu_role, now_ns: u64) -> Self {
        Self {
            cpu,
            core: place.core,
            llc: place.llc,
            node: place.node,
            is_avx_core: is_avx_core(role),
            as_avx_core_s: seconds(as_avx_core_ns(role, now_ns)),
            role_changes: role.changes,
            ..Self::default()
        }
    }
}

/// The role of each CPU, and a time that is not later than that of reading the roles. It is when
/// the scheduler last read the clock that the times of roles are measured by.
pub struct Roles {
    pub each: Vec<(u32, avx_cpu_role)>,
    pub looked_at: u64,
}

impl Roles {
    /// Reads the time first. A CPU may cease to be an AVX core between the two, and with a later
    /// time it would seem to have been one for longer than what is found the next time.
    pub fn read(
        looked_at: impl FnOnce() -> Result<u64>,
        each: impl FnOnce() -> Result<Vec<(u32, avx_cpu_role)>>,
    ) -> Result<Self> {
        let looked_at = looked_at()?;
        Ok(Self { each: each()?, looked_at })
    }

    pub fn as_avx_core_ns(&self) -> BTreeMap<u32, u64> {
        self.each.iter().map(|(cpu, it)| (*cpu, as_avx_core_ns(it, self.looked_at))).collect()
    }
}

pub fn is_avx_core(role: &avx_cpu_role) -> bool {
    role.role == u64::from(ROLE_AVX)
}

pub fn as_avx_core_ns(role: &avx_cpu_role, now_ns: u64) -> u64 {
    let present = if is_avx_core(role) { now_ns.saturating_sub(role.since) } else { 0 };
    role.avx_ns + present
}

impl Book {
    pub fn new(book: &avx_book) -> Self {
        Self {
            avx_s: seconds(book.avx_ns),
            scalar_s: seconds(book.scalar_ns),
            phases: named(&CAUSES, &book.phases),
            ends: named(&BOUNDARIES, &book.ends),
            faults: named(&VERDICTS, &book.faults),
            sent_to_avx: book.sent_to_avx,
            sent_to_scalar: book.sent_to_scalar,
            lost_s: seconds(book.lost_ns),
            watched_s: seconds(book.watched_ns),
        }
    }

    /// Returns true if it is kept on AVX cores for light instructions more often than it goes there
    /// for wide ones, and is an AVX task for most of its time.
    pub fn mixes(&self) -> bool {
        let phases = |cause| self.phases.get(cause).copied().unwrap_or_default();
        phases("mixed") > phases("fault") && self.avx_s > self.scalar_s
    }

    /// Returns the part of the watched time that was lost.
    pub fn lost_share(&self) -> f64 {
        if self.watched_s > 0.0 { self.lost_s / self.watched_s } else { 0.0 }
    }
}

pub fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// Returns the counts that are not zero, by their names.
fn named(names: &[&str], counts: &[u64]) -> BTreeMap<String, u64> {
    let pairs = names.iter().zip(counts);
    pairs.filter(|(_, count)| **count > 0).map(|(name, count)| (name.to_string(), *count)).collect()
}

/// Sums up the waits of each class over all CPUs.
pub fn waits_of(per_cpu: &[avx_cpu_stats]) -> BTreeMap<String, Waits> {
    let of_class = |class: usize| {
        let scale = if class == AVX { 1 } else { u64::from(AVX_WAITS_SAMPLED) };
        let mut waits = Waits::default();
        for bucket in 0..intf::AVX_WAIT_BUCKETS as usize {
            let count: u64 = per_cpu.iter().map(|cpu| cpu.waits[class][bucket]).sum();
            waits.below_ns.push(u64::from(intf::AVX_WAIT_FIRST_NS) << bucket);
            waits.counts.push(count * scale);
        }
        waits
    };
    CLASSES.iter().enumerate().map(|(class, name)| (name.to_string(), of_class(class))).collect()
}

impl Waits {
    /// Adds other waits, which must be in the same buckets.
    pub fn add(&mut self, others: &Self) {
        if self.counts.is_empty() {
            self.clone_from(others);
            return;
        }
        let pairs = self.counts.iter_mut().zip(&others.counts);
        pairs.for_each(|(count, others)| *count += others);
    }

    /// Returns the waits that came since `earlier`, which are all of them if that is empty.
    pub fn since(&self, earlier: &Self) -> Self {
        let old = earlier.counts.iter().copied().chain(iter::repeat(0));
        let counts = self.counts.iter().zip(old).map(|(new, old)| new.saturating_sub(old));
        Self { below_ns: self.below_ns.clone(), counts: counts.collect() }
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns how long the longest of the shortest `percent` of 100 waits was.
    pub fn percentile(&self, percent: u64) -> Option<Length> {
        let needed = (self.total() * percent).div_ceil(100);
        if needed == 0 {
            return None;
        }
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= needed
        })?;
        let end = |bucket: usize| self.below_ns.get(bucket).copied().map(Duration::from_nanos);
        if found + 1 < self.below_ns.len() {
            return end(found).map(Length::Below);
        }
        let begin = found.checked_sub(1).and_then(end).unwrap_or_default();
        Some(Length::AtLeast(begin))
    }
}

/// Returns the books of the cgroups that did AVX work or lost time to it, those with the most
/// first. They have no names yet, because looking for these takes long.
pub fn cgroups_of(ledgers: &[(avx_owner, avx_book)]) -> Vec<Cgroup> {
    let sums = books::summed(ledgers, |owner| owner.cgroup);
    let cgroup = |(id, book)| Cgroup { id, path: String::new(), book: Book::new(&book) };
    the_most_first(sums.into_iter().map(cgroup).collect(), |it: &Cgroup| &it.book)
}

pub fn programs_of(ledgers: &[(avx_owner, avx_book)]) -> Vec<Program> {
    let sums = books::summed(ledgers, |owner| printable(&text_of(&owner.program)));
    let program = |(name, book)| Program { name, book: Book::new(&book), light_in: None };
    the_most_first(sums.into_iter().map(program).collect(), |it: &Program| &it.book)
}

fn the_most_first<T>(mut all: Vec<T>, book: impl Fn(&T) -> &Book) -> Vec<T> {
    let to_tell = |it: &T| book(it).avx_s + book(it).lost_s;
    all.sort_by(|a, b| to_tell(b).total_cmp(&to_tell(a)));
    all
}

impl Program {
    /// Tells why the program is hardly ever elsewhere than on AVX cores.
    fn mixture(&self) -> String {
        let does = format!("{} does all its work on AVX cores, for", self.name);
        let cure = "start it anew if it ran before this scheduler";
        match &self.light_in {
            Some(file) if is_of_c_library(file) => {
                format!("{does} its string functions are AVX-512 as well: {cure}")
            }
            Some(file) => {
                format!("{does} {file} has light instructions of AVX-512 between its wide ones")
            }
            None => format!(
                "{does} it has light instructions of AVX-512 as well: if these are its string \
                 functions, {cure}"
            ),
        }
    }
}

impl Tried {
    pub fn of(trial: &Trial, now: Instant) -> Self {
        let tried = trial.tried();
        let left_s = trial.left(now).as_secs();
        Self { generation: tried.generation, policy: tried.name.to_owned(), left_s }
    }
}

impl Status {
    /// Tells which policy is in force.
    pub fn policy(&self) -> String {
        format!("policy {}: {}", self.generation, self.policy)
    }

    /// Tells that the policy may not be in force for long, if it is on trial or another one is
    /// tried.
    pub fn trial(&self) -> Option<String> {
        if let Some(Tried { generation, policy, left_s }) = &self.tried {
            let it = format!("policy {generation} ({policy})");
            return Some(format!("by turns with {it}, which is tried for another {left_s} s"));
        }
        let left = self.trial_left_s?;
        Some(format!("on trial: the policy before comes back in {left} s"))
    }

    /// Sets the paths of cgroups. One that has no path any more is gone.
    pub fn name_cgroups(&mut self, paths: &BTreeMap<u64, String>) {
        for it in &mut self.cgroups {
            let path = paths.get(&it.id).map(|path| printable(path));
            it.path = path.unwrap_or_else(|| format!("(gone, {})", it.id));
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let avx_cores = self.cpus.iter().filter(|cpu| cpu.is_avx_core).map(|cpu| cpu.cpu);
        let nr_avx_cores = avx_cores.clone().count();
        writeln!(out, "scx_avxspec {}, tier {}: {}", self.version, self.tier, self.why)?;
        writeln!(out, "{}", self.policy())?;
        if let Some(trial) = self.trial() {
            writeln!(out, "{trial}")?;
        }
        if let Some(known) = &self.trials {
            writeln!(out, "{known}")?;
        }
        writeln!(out, "schedules for {:.0} s", self.runs_for_s)?;
        writeln!(
            out,
            "AVX cores: {} of {} CPUs ({}), {} changes",
            nr_avx_cores,
            self.cpus.len(),
            if nr_avx_cores == 0 { "none".to_owned() } else { cpulist::format(avx_cores) },
            self.cpus.iter().map(|cpu| cpu.role_changes).sum::<u64>(),
        )?;
        writeln!(
            out,
            "work: {:.3} s in all, {:.3} s by AVX tasks, {:.3} s by them between phases",
            self.busy_s, self.avx_s, self.scalar_s
        )?;
        writeln!(
            out,
            "low clock (modelled): {:.3} s on scalar CPUs, {:.3} s on AVX cores",
            self.low_clock_on_scalar_cpus_s, self.low_clock_on_avx_cores_s
        )?;
        if let Some(counted) = licences(&self.cpus) {
            writeln!(out, "{counted}")?;
        }
        if self.compensates {
            writeln!(out, "lost time is made up for, by {}", self.clocks)?;
        }
        if let Some(prospect) = &self.prospect {
            writeln!(out, "{prospect}")?;
        }
        for (class, waits) in &self.waits {
            if let (Some(half), Some(most)) = (waits.percentile(50), waits.percentile(99)) {
                let half = match half {
                    Length::Below(end) => format!("half below {end:.1?}"),
                    Length::AtLeast(begin) => format!("half at least {begin:.1?}"),
                };
                let most = match most {
                    Length::Below(end) => format!("99 of 100 below {end:.1?}"),
                    Length::AtLeast(begin) => format!("1 of 100 at least {begin:.1?}"),
                };
                writeln!(out, "waits of {class} tasks: {}, {half}, {most}", waits.total())?;
            }
        }
        let of_cgroups = self.cgroups.iter().map(|it| (it.path.as_str(), &it.book));
        table(out, "cgroup", of_cgroups)?;
        table(out, "program", self.programs.iter().map(|it| (it.name.as_str(), &it.book)))?;
        for program in self.programs.iter().filter(|it| it.book.mixes()) {
            writeln!(out, "{}", program.mixture())?;
        }
        Ok(())
    }
}

/// Writes a table with the first rows of many, or nothing if there are no rows.
fn table<'a>(
    out: &mut fmt::Formatter<'_>,
    what: &str,
    rows: impl Iterator<Item = (&'a str, &'a Book)>,
) -> fmt::Result {
    for (nth, (name, book)) in rows.take(ROWS_SHOWN).enumerate() {
        if nth == 0 {
            writeln!(
                out,
                "{:>12} {:>12} {:>9} {:>9} {:>9} {:>6}  {what}",
                "AVX s", "between s", "phases", "faults", "lost s", "lost %"
            )?;
        }
        writeln!(
            out,
            "{:12.3} {:12.3} {:9} {:9} {:9.3} {:6.2}  {name}",
            book.avx_s,
            book.scalar_s,
            book.phases.values().sum::<u64>(),
            book.faults.values().sum::<u64>(),
            book.lost_s,
            book.lost_share() * 100.0,
        )?;
    }
    Ok(())
}

/// Tells what all CPUs counted together, if any did.
fn licences(cpus: &[Cpu]) -> Option<String> {
    let mut sum = Counted::default();
    cpus.iter().filter_map(|cpu| cpu.counted).for_each(|counted| sum += counted);
    let all = sum.cycles.iter().sum::<u64>() as f64;
    let [at_0, at_1, at_2] = sum.cycles.map(|cycles| 100.0 * cycles as f64 / all);
    let cycles = (all > 0.0)
        .then(|| format!("{at_0:.2} % of cycles at licence 0, {at_1:.2} % at 1, {at_2:.2} % at 2"));
    let operations = sum
        .known_wide_operations()
        .map(|count| format!("{count} floating-point operations of 512 bits"));
    let parts: Vec<String> = cycles.into_iter().chain(operations).collect();
    (!parts.is_empty()).then(|| format!("counted: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell as Clock;

    use super::*;
    use crate::bpf::intf::{ROLE_SCALAR, avx_name};

    #[test]
    fn time_as_an_avx_core_goes_on() {
        let avx = u64::from(ROLE_AVX);
        let place = avx_topology::default();
        let role =
            avx_cpu_role { role: avx, since: 7_000_000_000, avx_ns: 500_000_000, changes: 3 };
        let cpu = Cpu::new(4, &place, &role, 9_000_000_000);
        assert_eq!((cpu.is_avx_core, cpu.as_avx_core_s), (true, 2.5));
        let cpu =
            Cpu::new(4, &place, &avx_cpu_role { role: ROLE_SCALAR.into(), ..role }, 9_000_000_000);
        assert_eq!((cpu.is_avx_core, cpu.as_avx_core_s), (false, 0.5));
    }

    /// The CPU is an AVX core from 0 on, and none any more from 10 on. Time passes while something
    /// is read.
    #[test]
    fn time_as_an_avx_core_never_goes_back() {
        let now = Clock::new(0);
        let pass = |ns| now.replace(now.get() + ns);
        let role = || {
            let is_avx = now.get() < 10;
            let (role, avx_ns) = if is_avx { (ROLE_AVX, 0) } else { (ROLE_SCALAR, 10) };
            let role = avx_cpu_role { role: role.into(), since: 0, avx_ns, changes: 1 };
            pass(7);
            Ok(vec![(4, role)])
        };
        let mut last = 0;
        for _ in 0..5 {
            let roles = Roles::read(|| Ok(pass(1)), role).unwrap();
            let told = roles.as_avx_core_ns()[&4];
            assert!(told >= last, "{told} after {last}");
            last = told;
        }
        assert_eq!(last, 10);
    }

    #[test]
    fn percentiles_are_the_ends_of_buckets() {
        let waits = Waits { below_ns: vec![1, 2, 4, 8], counts: vec![50, 49, 1, 0] };
        let length = |percent| waits.percentile(percent).unwrap();
        let below = |ns| Length::Below(Duration::from_nanos(ns));
        assert_eq!(
            [length(50), length(51), length(99), length(100)],
            [below(1), below(2), below(2), below(4)]
        );
        assert_eq!(Waits::default().percentile(50), None);
    }

    #[test]
    fn the_last_bucket_has_no_end() {
        let mut waits = waits_of(&[]).remove("avx").unwrap();
        *waits.counts.last_mut().unwrap() = 1;
        let begin = Duration::from_nanos(*waits.below_ns.last().unwrap() / 2);
        assert_eq!(waits.percentile(50), Some(Length::AtLeast(begin)));
        waits.counts[0] = 50;
        let status = Status { waits: [("avx".to_owned(), waits)].into(), ..Status::default() };
        let shown = status.to_string();
        let line = shown.lines().find(|line| line.starts_with("waits of avx tasks: "));
        assert!(line.unwrap().ends_with(": 51, half below 1.0µs, 1 of 100 at least 536.9ms"));
    }

    #[test]
    fn cgroups_are_named_afterwards_the_busiest_first() {
        let idle = avx_book::default();
        let busy = avx_book { avx_ns: 7, ..idle };
        let owner = |cgroup, letter| avx_owner { cgroup, program: avx_name { words: [letter, 0] } };
        let (a, b) = (u64::from(b'a'), u64::from(b'b'));
        let ledgers =
            [(owner(1, a), idle), (owner(2, a), busy), (owner(2, b), busy), (owner(3, a), idle)];
        let cgroups = cgroups_of(&ledgers);
        let of_both: Vec<f64> = programs_of(&ledgers).iter().map(|it| it.book.avx_s).collect();
        assert_eq!((cgroups[0].book.avx_s, of_both), (seconds(14), vec![seconds(7); 2]));
        let mut status = Status { cgroups, ..Status::default() };
        status.name_cgroups(&[(1, "/".to_owned()), (2, "/web".to_owned())].into());
        let paths: Vec<&str> = status.cgroups.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["/web", "/", "(gone, 3)"]);
    }

    #[test]
    fn names_move_no_cursor() {
        let book = avx_book::default();
        let program = avx_name { words: [u64::from_ne_bytes(*b"a\x1b[2Jb\n\xff"), 0] };
        let ledgers = [(avx_owner { cgroup: 1, program }, book)];
        let (cgroups, programs) = (cgroups_of(&ledgers), programs_of(&ledgers));
        assert_eq!(programs[0].name, "a?[2Jb?\u{fffd}");
        let mut status = Status { cgroups, programs, ..Status::default() };
        status.name_cgroups(&[(1, "/user/\x1b]0;root\x07\u{9b}2J".to_owned())].into());
        assert_eq!(status.cgroups[0].path, "/user/?]0;root??2J");
        let shown = status.to_string();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    }

    #[test]
    fn who_is_to_be_started_anew_is_named() {
        let program = |name: &str, phases: [(&str, u64); 2], avx_s| {
            let phases = phases.map(|(cause, count)| (cause.to_owned(), count)).into();
            let book = Book { phases, avx_s, scalar_s: 1.0, ..Book::default() };
            Program { name: name.to_owned(), book, light_in: None }
        };
        let older = program("older", [("mixed", 7), ("fault", 6)], 1.5);
        let newer = program("newer", [("mixed", 7), ("fault", 7)], 1.5);
        let rare = program("rare", [("mixed", 7), ("sample", 7)], 0.5);
        let status = Status { programs: vec![newer, older, rare], ..Status::default() };
        let shown = status.to_string();
        let named: Vec<&str> =
            shown.lines().filter(|line| line.contains("start it anew")).collect();
        assert!(matches!(named[..], [line] if line.starts_with("older does all its")), "{shown}");
        let mixture = |file: Option<&str>| {
            Program { light_in: file.map(str::to_owned), ..status.programs[1].clone() }.mixture()
        };
        assert!(mixture(None).ends_with(
            "if these are its string functions, start it anew if it ran before this scheduler"
        ));
        assert!(
            mixture(Some("libc.so.6")).contains("its string functions are AVX-512 as well: start")
        );
        assert_eq!(
            mixture(Some("libx265.so.199")),
            "older does all its work on AVX cores, for libx265.so.199 has light instructions of \
             AVX-512 between its wide ones"
        );
    }

    #[test]
    fn what_is_counted_is_summed_up() {
        assert_eq!(licences(&[Cpu::default()]), None);
        let counted = Counted { cycles: [50, 30, 20], cycles_ns: 1, ..Counted::default() };
        let cpu = Cpu { counted: Some(counted), ..Cpu::default() };
        assert_eq!(
            licences(&[cpu.clone(), cpu]).unwrap(),
            "counted: 50.00 % of cycles at licence 0, 30.00 % at 1, 20.00 % at 2"
        );
    }

    #[test]
    fn what_there_was_none_of_is_left_out() {
        let mut book = avx_book::default();
        book.ends[3] = 7;
        let book = Book::new(&book);
        assert_eq!(book.ends, BTreeMap::from([("timeout".to_owned(), 7)]));
        assert!(book.phases.is_empty() && book.faults.is_empty());
    }
}
