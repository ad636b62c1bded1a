// SPDX-License-Identifier: GPL-2.0-only
//! Whether AVX cores pay on this machine, by trials of the policy in force against the same without
//! AVX cores, which are repeated as long as the policy says so. Whatever is better is in force.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::machine::{Machine, Measured, after_ns, ns_since};
use super::report::{LIKELY, More};
use crate::agent::policy::InForce;
use crate::bpf::intf::{SERVED_ALL, SERVED_NOBODY, avx_policy};
use crate::trials::Course;

pub struct Standing {
    course: Course,
    began: Instant,
    /// With AVX cores, as somebody wants it, and without.
    with: InForce,
    without: InForce,
    measured: Measured,
    found: Option<Found>,
    /// What it needs is not to be had.
    has_given_up: bool,
}

/// What came of the last trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Whether there are AVX cores since.
    pub pays: bool,
    /// What all programs get done with AVX cores, by their geometric mean, if it is known.
    pub more: Option<More>,
    pub asked_again_in_s: u64,
}

/// Whether the policy leaves it to trials.
pub fn is_wanted(policy: &avx_policy) -> bool {
    policy.trials == 1 && policy.avx_cores_for == u64::from(SERVED_ALL)
}

impl Standing {
    /// The one without AVX cores has this number, and is in force at first.
    pub fn new(with: InForce, generation: u64, cpus: Vec<u32>, now: Instant) -> Self {
        let policy = avx_policy { avx_cores_for: SERVED_NOBODY.into(), ..with.policy };
        Self {
            course: Course::new(generation, 0),
            began: now,
            with,
            without: InForce { generation, policy, ..with },
            measured: Measured::new(cpus),
            found: None,
            has_given_up: false,
        }
    }

    pub fn is_of(&self, policy: &InForce) -> bool {
        self.with.generation == policy.generation
    }

    /// It waits for AVX work, and there are no AVX cores.
    pub fn rests(&self) -> bool {
        self.course.rests()
    }

    /// Unless it rests: AVX work is looked for now and then.
    pub fn due(&self) -> Option<Instant> {
        let due = after_ns(self.began, self.course.due_ns());
        (!self.rests() && !self.has_given_up).then_some(due)
    }

    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// Returns whether it gives up, and the policy is to be put into force.
    pub fn go_on(
        &mut self,
        now: Instant,
        has_avx_work: bool,
        put_into_force: impl FnMut(&InForce) -> Result<()>,
    ) -> bool {
        let now_ns = ns_since(self.began, now);
        if self.has_given_up || now_ns < self.course.due_ns() {
            return false;
        }
        let mut machine = Machine {
            with: &self.with,
            without: &self.without,
            put_into_force,
            measured: &mut self.measured,
            is_concerned: has_avx_work,
        };
        if let Err(error) = self.course.go_on(now_ns, &mut machine) {
            warn!("whether AVX cores pay is not tried any more: {error:#}");
            self.measured.stop();
            self.has_given_up = true;
            return true;
        }
        if let Some(pays) = self.course.decided() {
            self.measured.stop();
            let asked_again_in_s = (self.course.due_ns() - now_ns) / 1_000_000_000;
            let judgement = self.course.judgement();
            let more = judgement.map(|it| More::of(&it.balance, it.sure(&it.balance, LIKELY)));
            let found = Found { pays, more, asked_again_in_s };
            info!("{}", found.sentence());
            self.found = Some(found);
        }
        false
    }
}

impl Found {
    pub fn sentence(&self) -> String {
        let Self { pays, more, asked_again_in_s } = self;
        let verdict =
            if *pays { "AVX cores pay" } else { "AVX cores do not pay, and there are none" };
        let more = more.map_or("nothing of programs is known".to_owned(), |more| {
            format!("programs get {more} more done with them")
        });
        let again = humantime::format_duration(Duration::from_secs(*asked_again_in_s));
        format!("{verdict}: {more}, as a trial says, which is repeated after {again}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::policy::{standard, turned};

    #[test]
    fn it_is_for_who_wants_it_and_serves_all() {
        let is_wanted = |turns: &[&str]| {
            let turns: Vec<String> = turns.iter().map(|it| (*it).to_owned()).collect();
            is_wanted(&turned(standard(), &turns).unwrap())
        };
        assert!(is_wanted(&["trials=on"]));
        for turns in [&["trials=off"][..], &["trials=on", "avx-cores-for=hinted"]] {
            assert!(!is_wanted(turns), "{turns:?}");
        }
    }

    #[test]
    fn what_was_found_is_a_sentence() {
        let more = Some(More { percent: 3.0, from: 2.0, to: 4.0 });
        let found = Found { pays: true, more, asked_again_in_s: 90 };
        assert_eq!(
            found.sentence(),
            "AVX cores pay: programs get +3.0 % (+2.0 to +4.0) more done with them, as a trial says, \
             which is repeated after 1m 30s"
        );
        let nothing = Found { pays: false, more: None, ..found }.sentence();
        assert!(
            nothing.starts_with("AVX cores do not pay, and there are none: nothing of programs")
        );
    }
}
