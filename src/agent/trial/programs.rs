// SPDX-License-Identifier: GPL-2.0-only
//! The programs that are compared, and what each is measured by.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bpf::intf::{avx_name, avx_owner, avx_progress};
use crate::bpf::names::{printable, text_of};
use crate::trials::{Sum, Sums};

/// A program is waited for if it sleeps at least once in this much of the time in which it is
/// awake. Only other programs themselves can say what they do between sleeps.
const ACTIVITY_MAX_NS: u64 = 20_000_000;

/// The measure of what a program gets done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// An activity lasts from a wake-up until the task sleeps again.
    Activities,
    Instructions,
    /// CPU time, which tells nothing of how high the clock was.
    CpuTime,
    /// What the program says itself, or what a number from outside says.
    Metric,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub owner: avx_owner,
    pub measure: Measure,
    pub awake_ns: u64,
}

/// No cgroup has this number. It stands for a number from outside, whose cgroup is not known.
pub const ALL_CGROUPS: u64 = 0;

#[derive(Default)]
pub struct Programs {
    /// A program has two numbers if it also says itself what it gets done.
    numbers: BTreeMap<(u64, [u64; 2], bool), u64>,
    known: Vec<Program>,
}

impl Measure {
    /// Returns the measure of a program. There is none yet for a program that has hardly been
    /// awake.
    fn of(progress: &avx_progress) -> Option<Self> {
        let is_busy = progress.awake_ns >= ACTIVITY_MAX_NS;
        match progress.activities.checked_mul(ACTIVITY_MAX_NS) {
            Some(0) if !is_busy => None,
            Some(most_ns) if progress.awake_ns > most_ns && progress.instructions > 0 => {
                Some(Self::Instructions)
            }
            Some(most_ns) if progress.awake_ns > most_ns => Some(Self::CpuTime),
            _ => Some(Self::Activities),
        }
    }

    fn work(self, progress: &avx_progress) -> u64 {
        match self {
            Self::Activities => progress.activities,
            Self::Instructions => progress.instructions,
            Self::CpuTime => progress.ran_ns,
            Self::Metric => progress.said,
        }
    }
}

impl Programs {
    pub fn get(&self, number: u64) -> Option<&Program> {
        self.known.get(usize::try_from(number).ok()?)
    }

    /// Returns what each program has done so far. A program keeps its measure from its beginning to
    /// its end.
    pub fn sums(
        &mut self,
        progress: &[(avx_owner, avx_progress)],
        outside: &[(avx_name, Sum)],
    ) -> Sums {
        let both = |(owner, it): &(avx_owner, avx_progress)| {
            [false, true].map(|is_claim| self.sum(owner, it, is_claim))
        };
        let mut sums: Sums = progress.iter().flat_map(both).flatten().collect();
        for (program, sum) in outside {
            let owner = avx_owner { cgroup: ALL_CGROUPS, program: *program };
            let number = self.number(&owner, true, Some(Measure::Metric));
            sums.extend(number.map(|number| (number, *sum)));
        }
        sums
    }

    /// Returns the owners that are meant by the program with this number. A program that is known
    /// by its name alone may be in several cgroups.
    pub fn owners(&self, number: u64) -> Vec<avx_owner> {
        let Some(Program { owner, .. }) = self.get(number) else { return Vec::new() };
        if owner.cgroup != ALL_CGROUPS {
            return vec![*owner];
        }
        let is_it = |it: &&Program| {
            it.owner.program.words == owner.program.words
                && it.owner.cgroup != ALL_CGROUPS
                && it.measure != Measure::Metric
        };
        self.known.iter().filter(is_it).map(|it| it.owner).collect()
    }

    fn sum(
        &mut self,
        owner: &avx_owner,
        progress: &avx_progress,
        is_claim: bool,
    ) -> Option<(u64, Sum)> {
        let measure = match is_claim {
            true => (progress.said > 0).then_some(Measure::Metric),
            false => Measure::of(progress),
        };
        let number = self.number(owner, is_claim, measure)?;
        let program = self.known.get_mut(usize::try_from(number).ok()?)?;
        program.awake_ns = progress.awake_ns;
        let work = program.measure.work(progress) as f64;
        let awake_ns = progress.awake_ns as f64;
        let weight = if is_claim { 0.0 } else { progress.weight as f64 };
        Some((number, Sum { work, awake_ns, weight }))
    }

    fn number(
        &mut self,
        owner: &avx_owner,
        is_claim: bool,
        measure: Option<Measure>,
    ) -> Option<u64> {
        let key = (owner.cgroup, owner.program.words, is_claim);
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let measure = measure?;
        let name = printable(&text_of(&owner.program));
        let number = self.known.len() as u64;
        self.known.push(Program { name, owner: *owner, measure, awake_ns: 0 });
        self.numbers.insert(key, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn progress(awake_ms: u64, activities: u64, instructions: u64) -> avx_progress {
        let awake_ns = awake_ms * MS;
        let ran_ns = awake_ns / 2;
        avx_progress { awake_ns, ran_ns, activities, instructions, weight: 100, said: 0 }
    }

    fn owner(cgroup: u64) -> avx_owner {
        avx_owner { cgroup, program: avx_name { words: [u64::from_ne_bytes(*b"nginx\0\0\0"), 0] } }
    }

    #[test]
    fn who_sleeps_is_measured_by_what_it_does_in_between() {
        assert_eq!(Measure::of(&progress(100, 5, 7)), Some(Measure::Activities));
        assert_eq!(Measure::of(&progress(101, 5, 7)), Some(Measure::Instructions));
        assert_eq!(Measure::of(&progress(101, 5, 0)), Some(Measure::CpuTime));
        assert_eq!(Measure::of(&progress(20, 0, 0)), Some(Measure::CpuTime));
        assert_eq!(Measure::of(&progress(19, 0, 9)), None);
        assert_eq!(Measure::of(&progress(0, 1, 0)), Some(Measure::Activities));
    }

    #[test]
    fn a_program_is_one_in_each_cgroup_and_keeps_its_measure() {
        let mut programs = Programs::default();
        assert!(programs.sums(&[(owner(1), progress(1, 0, 0))], &[]).is_empty());
        let sums =
            programs.sums(&[(owner(1), progress(1, 2, 0)), (owner(2), progress(50, 0, 0))], &[]);
        assert_eq!(sums[&0], Sum { work: 2.0, awake_ns: 1e6, weight: 100.0 });
        assert_eq!(sums[&1], Sum { work: 25e6, awake_ns: 50e6, weight: 100.0 });
        let later = programs.sums(&[(owner(1), progress(900, 3, 0))], &[]);
        assert_eq!(later[&0], Sum { work: 3.0, awake_ns: 900e6, weight: 100.0 });
        let names: Vec<_> =
            [0, 1].iter().filter_map(|it| programs.get(*it)).map(|it| it.owner.cgroup).collect();
        assert_eq!(names, [1, 2]);
        assert!(programs.get(2).is_none());
        assert_eq!(programs.get(0).unwrap().name, "nginx");
    }

    #[test]
    fn what_a_program_says_itself_is_another_measure_without_a_say() {
        let mut programs = Programs::default();
        let says = |said| avx_progress { said, ..progress(100, 5, 7) };
        assert_eq!(programs.sums(&[(owner(1), says(0))], &[]).len(), 1);
        let sums = programs.sums(&[(owner(1), says(30))], &[]);
        assert_eq!(sums[&0], Sum { work: 5.0, awake_ns: 100e6, weight: 100.0 });
        assert_eq!(sums[&1], Sum { work: 30.0, awake_ns: 100e6, weight: 0.0 });
        let outside = Sum { work: 9.0, awake_ns: 7.0, weight: 0.0 };
        let sums = programs.sums(&[(owner(2), says(0))], &[(owner(0).program, outside)]);
        assert_eq!(sums[&3], outside);
        assert_eq!(programs.owners(3).iter().map(|it| it.cgroup).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(programs.owners(1).iter().map(|it| it.cgroup).collect::<Vec<_>>(), [1]);
        let measures = [0, 1].map(|it| programs.get(it).unwrap().measure);
        assert_eq!(measures, [Measure::Activities, Measure::Metric]);
    }
}
