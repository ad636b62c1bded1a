// SPDX-License-Identifier: GPL-2.0-only
//! Finds out whether AVX cores pay on this machine. The policy in force is tried against the same
//! policy without AVX cores, again and again as long as the policy says so. The better one is in
//! force.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::More;
use super::machine::{Machine, Measured, Order, after_ns, ns_since};
use super::report::LIKELY;
use crate::agent::policy::InForce;
use crate::bpf::trials::{number_without, without};
use crate::trials::Course;

pub struct Standing {
    course: Course,
    began: Instant,
    /// The policy with AVX cores, as somebody wants it, and the same without.
    with: InForce,
    without: InForce,
    measured: Measured,
    last: Option<Last>,
    /// Why trials failed, if they did.
    failed: Option<String>,
}

/// The last trial that is over.
struct Last {
    /// When it was over, as the course counts time.
    at_ns: u64,
    pays: bool,
    more: Option<More>,
    /// Programs that are left alone, because they say that they get less done with AVX cores.
    left_alone: Vec<String>,
}

/// What trials know of AVX cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// There was no AVX work yet.
    NothingToTry,
    TriesFirst,
    Found(Found),
    /// Trials failed, because of this.
    Failed(String),
}

/// What came of the last trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Whether there have been AVX cores since then.
    pub pays: bool,
    /// How much more all programs get done with AVX cores, by their geometric mean, if it is known.
    pub more: Option<More>,
    /// Programs that get no AVX cores, because they say that they get less done with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_alone: Vec<String>,
    /// How long ago the trial ended, and when the next one is to begin.
    pub ago_s: u64,
    pub next_in_s: u64,
}

impl Standing {
    /// Begins without AVX cores.
    pub fn new(with: InForce, measured: Measured, now: Instant) -> Self {
        let generation = number_without(with.generation);
        Self {
            course: Course::new(with.generation, 0),
            began: now,
            with,
            without: InForce { generation, policy: without(&with.policy), ..with },
            measured,
            last: None,
            failed: None,
        }
    }

    /// Returns the policy with AVX cores or without, as the last trial that is over found it. There
    /// are no AVX cores before the first trial is over, nor after trials failed.
    pub fn in_force(&self) -> InForce {
        let pays = self.last.as_ref().is_some_and(|last| last.pays);
        if pays && self.failed.is_none() { self.with } else { self.without }
    }

    pub fn is_of(&self, policy: &InForce) -> bool {
        self.with.generation == policy.generation
    }

    /// Returns true if there are no AVX cores, and AVX work is waited for.
    pub fn rests(&self) -> bool {
        self.course.rests()
    }

    /// Returns when something is to be done, unless trials rest or failed. While they rest, AVX
    /// work is looked for now and then.
    pub fn due(&self) -> Option<Instant> {
        let due = after_ns(self.began, self.course.due_ns());
        (!self.rests() && self.failed.is_none()).then_some(due)
    }

    pub fn known(&self, now: Instant) -> Known {
        match (&self.failed, &self.last) {
            (Some(error), _) => Known::Failed(error.clone()),
            (None, Some(last)) => {
                let now_ns = ns_since(self.began, now);
                let seconds = |from, to: u64| to.saturating_sub(from) / 1_000_000_000;
                Known::Found(Found {
                    pays: last.pays,
                    more: last.more,
                    left_alone: last.left_alone.clone(),
                    ago_s: seconds(last.at_ns, now_ns),
                    next_in_s: seconds(now_ns, self.course.due_ns()),
                })
            }
            (None, None) if self.rests() => Known::NothingToTry,
            (None, None) => Known::TriesFirst,
        }
    }

    fn found(&self, at_ns: u64, pays: bool) -> Last {
        let judgement = self.course.judgement();
        let more = judgement.map(|it| More::of(&it.balance, it.sure(&it.balance, LIKELY)));
        Last { at_ns, pays, more, left_alone: self.measured.left_alone.clone() }
    }

    /// Goes on with trials. If they fail, nothing is known of AVX cores, and there are none.
    pub fn go_on(
        &mut self,
        now: Instant,
        has_avx_work: bool,
        mut obey: impl FnMut(Order<'_>) -> Result<()>,
    ) {
        let now_ns = ns_since(self.began, now);
        if self.failed.is_some() || now_ns < self.course.due_ns() {
            return;
        }
        let mut machine = Machine {
            with: &self.with,
            without: &self.without,
            obey: &mut obey,
            measured: &mut self.measured,
            is_concerned: has_avx_work,
        };
        if let Err(error) = self.course.go_on(now_ns, &mut machine) {
            self.measured.stop();
            let ended = obey(Order::PutIntoForce(&self.without));
            let also =
                ended.err().map_or(String::new(), |it| format!(", and cannot be ended: {it:#}"));
            self.failed = Some(format!("{error:#}{also}"));
            warn!("{}", self.known(now));
            return;
        }
        if let Some(pays) = self.course.decided() {
            self.measured.stop();
            self.last = Some(self.found(now_ns, pays));
            info!("{}", self.known(now));
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToTry => {
                write!(out, "there are no AVX cores, because no AVX work was seen yet")
            }
            Self::TriesFirst => write!(out, "whether AVX cores pay is being tried"),
            Self::Found(found) => write!(out, "{}", found.sentence()),
            Self::Failed(error) => {
                write!(out, "there are no AVX cores, because trials of them failed: {error}")
            }
        }
    }
}

impl Found {
    fn sentence(&self) -> String {
        let Self { pays, more, left_alone, .. } = self;
        let verdict =
            if *pays { "AVX cores pay" } else { "AVX cores do not pay, and there are none" };
        let more = more.map_or("nothing of programs is known".to_owned(), |more| {
            format!("programs get {more} more done with them")
        });
        let [ago, next] = [self.ago_s, self.next_in_s]
            .map(|it| humantime::format_duration(Duration::from_secs(it)));
        let when = if self.ago_s == 0 { "now".to_owned() } else { format!("{ago} ago") };
        let alone = match left_alone.join(", ") {
            names if names.is_empty() => String::new(),
            names => format!("; {names}: left alone, by what they say that they get done"),
        };
        format!("{verdict}: {more}, as a trial found {when}; the next one is in {next}{alone}")
    }
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;
    use crate::agent::policy::standard;
    use crate::agent::trial::outside::Outside;

    fn nothing_measured() -> Measured {
        Measured::new(vec![0], Outside::default())
    }

    /// Notes for each policy that is put into force whether there are AVX cores. Fails if there
    /// are.
    fn obey(in_force: &mut Vec<bool>, order: &Order<'_>) -> Result<()> {
        let Order::PutIntoForce(it) = order else { return Ok(()) };
        let has_avx_cores = it.policy.avx_cores_for != 0;
        in_force.push(has_avx_cores);
        ensure!(!has_avx_cores, "the map is gone");
        Ok(())
    }

    #[test]
    fn there_are_no_avx_cores_before_they_are_tried_nor_after_trials_failed() {
        let began = Instant::now();
        let with = InForce::new(1, standard());
        let mut it = Standing::new(with, nothing_measured(), began);
        let mut in_force = Vec::new();
        for (after_s, has_avx_work) in [(0, true), (1, false), (2, true), (600, true)] {
            let now = began + Duration::from_secs(after_s);
            it.go_on(now, has_avx_work, |order| obey(&mut in_force, &order));
            if after_s == 1 {
                assert_eq!(it.known(now), Known::NothingToTry);
            }
            assert_eq!(it.in_force().policy.avx_cores_for, 0);
        }
        assert_eq!(in_force, [false, true, false]);
        let expected = "there are no AVX cores, because trials of them failed: the map is gone";
        assert_eq!(it.known(began).to_string(), expected);
        assert_eq!(it.due(), None);
    }

    /// This holds also while a trial runs again: what was found last counts as in force.
    #[test]
    fn what_a_trial_found_is_in_force_until_the_next_one_is_over() {
        let began = Instant::now();
        let mut it = Standing::new(InForce::new(1, standard()), nothing_measured(), began);
        for pays in [false, true] {
            it.last = Some(Last { at_ns: 0, pays, more: None, left_alone: Vec::new() });
            assert_eq!(it.in_force().policy.avx_cores_for != 0, pays);
        }
        it.failed = Some("the map is gone".to_owned());
        assert_eq!(it.in_force().policy.avx_cores_for, 0);
    }

    #[test]
    fn what_was_found_is_a_sentence() {
        let more = Some(More { percent: 3.0, from: 2.0, to: 4.0 });
        let found = Found { pays: true, more, left_alone: Vec::new(), ago_s: 12, next_in_s: 90 };
        assert_eq!(
            found.sentence(),
            "AVX cores pay: programs get +3.0 % (+2.0 to +4.0) more done with them, as a trial found \
             12s ago; the next one is in 1m 30s"
        );
        let alone = Found { left_alone: vec!["a".to_owned(), "b".to_owned()], ..found.clone() };
        assert!(
            alone
                .sentence()
                .ends_with("1m 30s; a, b: left alone, by what they say that they get done")
        );
        let nothing = Found { pays: false, more: None, ..found }.sentence();
        assert!(
            nothing.starts_with("AVX cores do not pay, and there are none: nothing of programs")
        );
    }
}
