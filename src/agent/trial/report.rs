// SPDX-License-Identifier: GPL-2.0-only
//! What came of a trial, in figures and in words.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::programs::{ALL_CGROUPS, Measure, Programs};
use crate::bpf::names::printable;
use crate::trials::{Gain, Judgement};

/// 95 % of a normal distribution are no further off than this.
pub const LIKELY: f64 = 1.96;

/// Nobody reads longer lists.
const ROWS: usize = 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The policy that is tried, and the one in force.
    pub tried: Side,
    pub in_force: Side,
    pub left_s: f64,
    pub window_s: f64,
    pub nr_pairs: u64,
    /// Why the trial is over, if it is.
    pub ended: Option<Ended>,
    /// What came of the trial, as far as that is known.
    pub result: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    pub generation: u64,
    pub policy: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its time is over.
    Over,
    Because(String),
}

/// How much more programs get done under the policy that is tried than under the one in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The geometric mean of all programs, by weight.
    pub all: More,
    /// The programs, the busiest first.
    pub programs: Vec<Compared>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    pub name: String,
    pub cgroup: u64,
    /// The path of the cgroup, unless it is gone.
    #[serde(default)]
    pub path: String,
    pub measure: Measure,
    pub awake_s: f64,
    pub more: More,
}

/// How many percent more, and the limits within which that is, with a probability of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct More {
    pub percent: f64,
    pub from: f64,
    pub to: f64,
}

impl More {
    pub fn of(gain: &Gain, sure: f64) -> Self {
        let percent = |gain: f64| 100.0 * gain.exp_m1();
        let [from, to] = [-sure, sure].map(|sure| percent(gain.mean + sure));
        Self { percent: percent(gain.mean), from, to }
    }

    fn is_known(&self) -> bool {
        self.from > 0.0 || self.to < 0.0
    }
}

impl fmt::Display for More {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:+.1} % ({:+.1} to {:+.1})", self.percent, self.from, self.to)
    }
}

impl Outcome {
    pub fn new(judgement: &Judgement, programs: &Programs) -> Self {
        let more = |gain: &Gain| More::of(gain, judgement.sure(gain, LIKELY));
        let compared = |(number, gain): (&u64, &Gain)| {
            let it = programs.get(*number).filter(|_| gain.error.is_finite())?;
            Some(Compared {
                name: it.name.clone(),
                cgroup: it.owner.cgroup,
                path: String::new(),
                measure: it.measure,
                awake_s: it.awake_ns as f64 / 1e9,
                more: more(gain),
            })
        };
        let all = judgement.programs.iter().chain(&judgement.claims);
        let mut programs: Vec<_> = all.filter_map(compared).collect();
        programs.sort_by(|a, b| b.awake_s.total_cmp(&a.awake_s));
        Self { all: more(&judgement.balance), programs }
    }

    fn names(&self, is_meant: impl Fn(&More) -> bool) -> String {
        let mut names: Vec<&str> = Vec::new();
        for it in self.programs.iter().filter(|it| is_meant(&it.more)) {
            // A program that says itself what it gets done is there twice.
            if !names.contains(&it.name.as_str()) {
                names.push(&it.name);
            }
        }
        names.join(", ")
    }

    /// Returns which of the two policies is better for which programs.
    fn verdict(&self, tried: u64, in_force: u64) -> String {
        let [better, worse] = [self.names(|it| it.from > 0.0), self.names(|it| it.to < 0.0)];
        let clauses = [(tried, better), (in_force, worse)];
        let clauses: Vec<String> = clauses
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(generation, names)| format!("policy {generation} is better for {names}"))
            .collect();
        let nr_open = self.programs.iter().filter(|it| !it.more.is_known()).count();
        match (clauses.is_empty(), nr_open) {
            (true, _) => "no program is known to get more done under one of them".to_owned(),
            (false, 0) => clauses.join("; "),
            (false, nr) => format!("{}; of {nr} more it is not known", clauses.join("; ")),
        }
    }
}

impl Report {
    pub fn name_cgroups(&mut self, paths: &BTreeMap<u64, String>) {
        for it in self.result.iter_mut().flat_map(|it| &mut it.programs) {
            let path = paths.get(&it.cgroup).map(|path| printable(path));
            let unknown = if it.cgroup == ALL_CGROUPS { "(all)" } else { "(gone)" };
            it.path = path.unwrap_or_else(|| unknown.to_owned());
        }
    }
}

impl Measure {
    fn words(self) -> &'static str {
        match self {
            Self::Activities => "activities",
            Self::Instructions => "instructions",
            Self::CpuTime => "CPU time",
            Self::Metric => "its metric",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tried, in_force, nr_pairs, window_s, .. } = self;
        writeln!(
            out,
            "policy {} ({}) against policy {} ({}), in {nr_pairs} pairs of windows of {window_s:.2} s",
            tried.generation, tried.policy, in_force.generation, in_force.policy
        )?;
        let Some(outcome) = &self.result else {
            return writeln!(
                out,
                "nothing is known: no program ran in six pairs of windows; --for gives it longer"
            );
        };
        let programs = &outcome.programs;
        writeln!(out, "\n{:15} {:>26}  {:12} CGROUP", "PROGRAM", "GETS MORE DONE", "BY")?;
        for it in programs.iter().take(ROWS) {
            let (name, more, by) = (&it.name, it.more.to_string(), it.measure.words());
            writeln!(out, "{name:15} {more:>26}  {by:12} {}", it.path)?;
        }
        if programs.len() > ROWS {
            writeln!(out, "... and {} programs that ran for less", programs.len() - ROWS)?;
        }
        writeln!(out, "{:15} {:>26}\n", "all, by weight", outcome.all.to_string())?;
        if programs.iter().any(|it| it.measure == Measure::CpuTime) {
            writeln!(
                out,
                "CPU time, which counts where instructions are not counted, says nothing of clocks"
            )?;
        }
        writeln!(out, "{}", outcome.verdict(tried.generation, in_force.generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(name: &str, from: f64, to: f64) -> Compared {
        Compared {
            name: name.to_owned(),
            cgroup: 1,
            path: String::new(),
            measure: Measure::Activities,
            awake_s: 1.0,
            more: More { percent: (from + to) / 2.0, from, to },
        }
    }

    fn report(programs: Vec<Compared>) -> Report {
        let side = |generation, policy: &str| Side { generation, policy: policy.to_owned() };
        let all = More { percent: 1.0, from: -1.0, to: 3.0 };
        Report {
            tried: side(8, "static"),
            in_force: side(7, "adaptive"),
            left_s: 0.0,
            window_s: 0.25,
            nr_pairs: 20,
            ended: Some(Ended::Over),
            result: Some(Outcome { all, programs }),
        }
    }

    #[test]
    fn it_says_which_is_better_for_whom() {
        let verdict = |programs| report(programs).to_string().lines().last().unwrap().to_owned();
        let (better, worse) = (compared("nginx", 2.0, 4.0), compared("x264", -9.0, -7.0));
        let open = compared("sh", -1.0, 1.0);
        assert_eq!(
            verdict(vec![better.clone(), worse.clone()]),
            "policy 8 is better for nginx; policy 7 is better for x264"
        );
        assert_eq!(
            verdict(vec![open.clone(), better.clone(), better]),
            "policy 8 is better for nginx; of 1 more it is not known"
        );
        assert_eq!(verdict(vec![worse]), "policy 7 is better for x264");
        assert_eq!(verdict(vec![open]), "no program is known to get more done under one of them");
    }

    #[test]
    fn it_is_a_line_for_each_of_the_busiest() {
        let shown = report(vec![compared("sh", -1.0, 1.0); 23]).to_string();
        let head =
            "policy 8 (static) against policy 7 (adaptive), in 20 pairs of windows of 0.25 s";
        assert!(shown.starts_with(head), "{shown}");
        assert_eq!(shown.lines().filter(|line| line.starts_with("sh ")).count(), 20);
        assert!(shown.contains("... and 3 programs that ran for less\n"), "{shown}");
        assert!(shown.contains("+0.0 % (-1.0 to +1.0)  activities"), "{shown}");
        assert!(!shown.contains("of clocks"), "{shown}");
        let by_time = Compared { measure: Measure::CpuTime, ..compared("sh", 1.0, 2.0) };
        assert!(report(vec![by_time]).to_string().contains("says nothing of clocks"));
        let nothing = Report { result: None, ..report(Vec::new()) }.to_string();
        assert!(nothing.contains("nothing is known"), "{nothing}");
    }

    #[test]
    fn names_of_cgroups_move_no_cursor() {
        let mut it = report(vec![
            compared("sh", 1.0, 2.0),
            Compared { cgroup: 2, ..compared("sh", 1.0, 2.0) },
        ]);
        it.name_cgroups(&BTreeMap::from([(1, "/a\x1b[2Jb".to_owned())]));
        let programs = it.result.unwrap().programs;
        assert_eq!([&programs[0].path, &programs[1].path], ["/a?[2Jb", "(gone)"]);
    }
}
