// SPDX-License-Identifier: GPL-2.0-only
//! Keeps what is in force, what was in force before, and whether it is there to stay. This only
//! decides: the caller reads the clock and tells the kernel.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{differences, named, standard, texts, turned};
use crate::bpf::intf::avx_policy;

/// A policy, with its number since the agent started.
#[derive(Clone, Copy)]
pub struct InForce {
    pub generation: u64,
    /// It is kept because looking for it takes long.
    pub name: &'static str,
    pub policy: avx_policy,
}

impl InForce {
    pub fn new(generation: u64, policy: avx_policy) -> Self {
        Self { generation, name: named::name_of(&policy), policy }
    }
}

/// For how long a policy can be on trial.
pub const TRIAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// How long after a failure the agent tries again to bring a policy back.
pub const RETRY: Duration = Duration::from_secs(5);

/// What somebody wants to be in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Change {
    pub what: What,
    /// True if nothing is to change and the answer only tells what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// After this time the policy before comes back, unless somebody confirms the new one.
    #[serde(default)]
    pub revert_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The policy in force with these knobs turned, each given as KNOB=VALUE.
    Set(Vec<String>),
    /// These settings, and the default of each knob that is left out.
    Use(Vec<String>),
    /// The policy before, unless it has come back by itself.
    Undo,
}

impl What {
    /// Returns a change to the whole of this policy, whatever the defaults of the receiver are.
    pub fn to(policy: &avx_policy) -> Self {
        Self::Use(texts(policy))
    }
}

pub struct History {
    in_force: InForce,
    /// The number of the newest policy, which may only have been tried.
    newest: u64,
    before: Option<avx_policy>,
    /// When the policy before comes back.
    trial_ends: Option<Instant>,
    /// The number of the policy that nobody confirmed, if no other was in force since the one
    /// before it came back.
    unconfirmed: Option<u64>,
    refusals: u64,
    reverts: u64,
}

impl History {
    pub fn new(policy: avx_policy) -> Self {
        let in_force = InForce::new(1, policy);
        Self {
            newest: in_force.generation,
            in_force,
            before: None,
            trial_ends: None,
            unconfirmed: None,
            refusals: 0,
            reverts: 0,
        }
    }

    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    pub fn reverts(&self) -> u64 {
        self.reverts
    }

    /// Returns how much longer the policy in force is on trial.
    pub fn trial_left(&self, now: Instant) -> Option<Duration> {
        self.trial_ends.map(|end| end.saturating_duration_since(now))
    }

    /// Returns what would be in force after a change.
    pub fn after(&self, change: &Change, now: Instant) -> Result<InForce> {
        if let Some(time) = change.revert_after {
            ensure!(
                TRIAL.contains(&time),
                "a policy can be on trial for {} to {}",
                humantime::format_duration(*TRIAL.start()),
                humantime::format_duration(*TRIAL.end()),
            );
        }
        let settles = change.what == What::Undo && change.revert_after.is_none();
        if !settles {
            self.ensure_settled(now)?;
        }
        let policy = match (&change.what, self.unconfirmed) {
            (What::Set(settings), _) => turned(self.in_force.policy, settings)?,
            (What::Use(settings), _) => turned(standard(), settings)?,
            // A client that undoes now means the trial, and came a moment too late.
            (What::Undo, Some(generation)) => bail!(
                "nobody confirmed policy {generation}, so the one before it is back already: \
                 'policy use' and 'policy set' bring another one",
            ),
            (What::Undo, None) => {
                self.before.context("there was no other policy before this one")?
            }
        };
        Ok(self.next(policy))
    }

    fn ensure_settled(&self, now: Instant) -> Result<()> {
        let Some(left) = self.trial_left(now) else { return Ok(()) };
        bail!(
            "policy {} is on trial for another {} s: 'policy confirm' keeps it, 'policy undo' \
             ends it, and then it can be changed",
            self.in_force.generation,
            left.as_secs()
        );
    }

    fn next(&self, policy: avx_policy) -> InForce {
        InForce::new(self.newest + 1, policy)
    }

    /// Takes a number for a policy that is tried by turns with the one in force.
    fn number(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Returns the policy to be tried against the one in force, which stays in force.
    pub fn tries(&mut self, settings: &[String], now: Instant) -> Result<InForce> {
        self.ensure_settled(now)?;
        let tried = self.next(turned(standard(), settings)?);
        ensure!(
            !differences(&self.in_force.policy, &tried.policy).is_empty(),
            "this is the policy in force: there is nothing to compare it with"
        );
        self.number();
        Ok(tried)
    }

    /// Puts a policy into force. If it is on trial or differs from the policy in force, 'undo'
    /// brings back the latter. Otherwise 'undo' brings back what it would have brought back before.
    pub fn enter(&mut self, next: InForce, revert_after: Option<Duration>, now: Instant) {
        let is_other = !differences(&self.in_force.policy, &next.policy).is_empty();
        if is_other || revert_after.is_some() {
            self.before = Some(self.in_force.policy);
            self.unconfirmed = None;
        }
        self.in_force = next;
        self.newest = next.generation;
        self.trial_ends = revert_after.map(|time| now + time);
    }

    pub fn refused(&mut self) {
        self.refusals += 1;
    }

    pub fn confirm(&mut self) -> Result<()> {
        let is_on_trial = self.trial_ends.take().is_some();
        ensure!(is_on_trial, "policy {} is not on trial", self.in_force.generation);
        Ok(())
    }

    /// Returns the policy that has to come back now, because nobody confirmed the one in force.
    pub fn due(&self, now: Instant) -> Option<InForce> {
        let is_over = self.trial_ends.is_some_and(|end| end <= now);
        self.before.filter(|_| is_over).map(|policy| self.next(policy))
    }

    /// Notes that the policy before came back.
    pub fn reverted(&mut self, back: InForce, now: Instant) {
        let generation = self.in_force.generation;
        self.enter(back, None, now);
        self.unconfirmed = Some(generation);
        self.reverts += 1;
    }

    /// Has the policy before come back later, because it could not come back now.
    pub fn try_again(&mut self, now: Instant) {
        self.trial_ends = Some(now + RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A history with a clock that is set by hand.
    struct Agent {
        history: History,
        now: Instant,
    }

    impl Agent {
        fn new() -> Self {
            Self { history: History::new(standard()), now: Instant::now() }
        }

        fn change(&mut self, what: What, revert_after: Option<Duration>) -> Result<()> {
            let change = Change { what, dry_run: false, revert_after };
            let next = self.history.after(&change, self.now)?;
            self.history.enter(next, revert_after, self.now);
            Ok(())
        }

        fn set(&mut self, cpus: u64) -> Result<()> {
            self.change(What::Set(vec![format!("avx-cpus={cpus}")]), None)
        }

        fn try_out(&mut self, cpus: u64) -> Result<()> {
            self.change(What::Set(vec![format!("avx-cpus={cpus}")]), Some(MINUTE))
        }

        fn undo(&mut self) -> Result<()> {
            self.change(What::Undo, None)
        }

        fn wait(&mut self, time: Duration) {
            self.now += time;
            if let Some(back) = self.history.due(self.now) {
                self.history.reverted(back, self.now);
            }
        }

        /// Returns the generation and one of its knobs.
        fn state(&self) -> (u64, u64) {
            let it = self.history.in_force();
            (it.generation, it.policy.avx_cpus)
        }
    }

    fn why(result: Result<()>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn what_is_tried_has_a_number_and_is_not_in_force() {
        let mut agent = Agent::new();
        let settings = ["avx-cpus=5".to_owned()];
        let tried = agent.history.tries(&settings, agent.now).unwrap();
        assert_eq!((tried.generation, tried.policy.avx_cpus), (2, 5));
        assert_eq!(agent.state().0, 1);
        agent.set(6).unwrap();
        assert_eq!(agent.state(), (3, 6));
        assert!(
            why(agent.history.tries(&["avx-cpus=6".to_owned()], agent.now).map(|_| ()))
                .contains("nothing to compare")
        );
        assert!(agent.history.tries(&["avx-cpus=many".to_owned()], agent.now).is_err());
        agent.try_out(7).unwrap();
        assert_eq!(agent.state(), (4, 7));
        assert!(why(agent.history.tries(&settings, agent.now).map(|_| ())).contains("on trial"));
    }

    #[test]
    fn undo_brings_back_and_undo_of_undo_returns() {
        let mut agent = Agent::new();
        assert!(why(agent.undo()).contains("no other policy before"));
        agent.set(5).unwrap();
        agent.set(6).unwrap();
        assert_eq!(agent.state(), (3, 6));
        agent.undo().unwrap();
        assert_eq!(agent.state(), (4, 5));
        agent.undo().unwrap();
        assert_eq!(agent.state(), (5, 6));
        // A policy that is set once more is nothing to undo.
        agent.set(6).unwrap();
        agent.undo().unwrap();
        assert_eq!(agent.state(), (7, 5));
    }

    #[test]
    fn a_policy_that_is_used_is_not_mixed_with_the_one_before() {
        let mut agent = Agent::new();
        agent.set(5).unwrap();
        agent.change(What::Use(vec!["sizing=share".to_owned()]), None).unwrap();
        assert_eq!(agent.state(), (3, standard().avx_cpus));
    }

    #[test]
    fn what_nobody_confirms_is_reverted_once() {
        let mut agent = Agent::new();
        agent.try_out(5).unwrap();
        agent.wait(MINUTE - Duration::from_secs(1));
        assert_eq!(agent.state(), (2, 5));
        agent.wait(Duration::from_secs(1));
        assert_eq!((agent.state(), agent.history.reverts()), ((3, 2), 1));
        agent.wait(2 * MINUTE);
        assert_eq!((agent.state(), agent.history.reverts()), ((3, 2), 1));
        assert!(why(agent.undo()).starts_with("nobody confirmed policy 2, so the one before it"));
        // A change that changes nothing does not bring it back either.
        agent.set(2).unwrap();
        assert!(why(agent.undo()).starts_with("nobody confirmed policy 2, so the one before it"));
        agent.set(6).unwrap();
        agent.undo().unwrap();
        assert_eq!(agent.state(), (6, 2));
    }

    #[test]
    fn what_is_confirmed_stays() {
        let mut agent = Agent::new();
        assert!(agent.history.confirm().is_err());
        agent.try_out(5).unwrap();
        agent.history.confirm().unwrap();
        agent.wait(2 * MINUTE);
        assert_eq!(agent.state(), (2, 5));
        assert!(agent.history.confirm().is_err());
    }

    #[test]
    fn a_trial_is_not_disturbed_but_undone() {
        let mut agent = Agent::new();
        agent.try_out(5).unwrap();
        agent.wait(Duration::from_secs(18));
        for told in [
            why(agent.set(6)),
            why(agent.try_out(6)),
            why(agent.change(What::Use(vec![]), None)),
            why(agent.change(What::Undo, Some(MINUTE))),
        ] {
            assert!(told.starts_with("policy 2 is on trial for another 42 s: "), "{told}");
        }
        agent.undo().unwrap();
        agent.wait(2 * MINUTE);
        assert_eq!((agent.state(), agent.history.reverts()), ((3, 2), 0));
    }

    #[test]
    fn an_undo_can_be_on_trial() {
        let mut agent = Agent::new();
        agent.set(5).unwrap();
        agent.change(What::Undo, Some(MINUTE)).unwrap();
        assert_eq!(agent.state(), (3, 2));
        agent.wait(MINUTE);
        assert_eq!((agent.state(), agent.history.reverts()), ((4, 5), 1));
    }

    /// This holds even if the policy on trial does not differ from the one before.
    #[test]
    fn a_trial_of_what_is_in_force_ends_like_any_other() {
        let mut agent = Agent::new();
        agent.set(5).unwrap();
        agent.try_out(5).unwrap();
        agent.wait(MINUTE);
        assert_eq!((agent.state(), agent.history.reverts()), ((4, 5), 1));
    }

    #[test]
    fn what_could_not_come_back_is_tried_again_later() {
        let mut agent = Agent::new();
        agent.try_out(5).unwrap();
        agent.now += MINUTE;
        agent.history.try_again(agent.now);
        assert!(agent.history.due(agent.now).is_none());
        agent.wait(RETRY);
        assert_eq!(agent.state(), (3, 2));
    }

    #[test]
    fn a_trial_has_a_length() {
        let mut agent = Agent::new();
        for time in [Duration::ZERO, Duration::from_secs(86401), Duration::MAX] {
            let told = why(agent.change(What::Use(vec![]), Some(time)));
            assert_eq!(told, "a policy can be on trial for 1s to 1day");
        }
        assert_eq!(agent.state(), (1, 2));
    }

    fn setting() -> impl Strategy<Value = String> {
        prop_oneof![
            (0..9999u32).prop_map(|n| format!("avx-cpus={n}")),
            (0..2000u32).prop_map(|n| format!("window={n}ms")),
            (0..1200u32).prop_map(|n| format!("shrink-fill={}", f64::from(n) / 1000.0)),
            "\\PC{0,20}",
        ]
    }

    fn what() -> impl Strategy<Value = What> {
        let settings = || prop::collection::vec(setting(), 0..4);
        prop_oneof![
            settings().prop_map(What::Set),
            settings().prop_map(What::Use),
            Just(What::Undo),
        ]
    }

    proptest! {
        /// Whatever is asked for is granted as a whole, or nothing changes.
        #[test]
        fn what_is_refused_changes_nothing(
            wishes in prop::collection::vec((what(), prop::option::of(0..100_000u64)), 1..20),
        ) {
            let mut agent = Agent::new();
            for (what, trial) in wishes {
                let before = *agent.history.in_force();
                let left = agent.history.trial_left(agent.now);
                let granted = agent.change(what, trial.map(Duration::from_secs)).is_ok();
                let now = agent.history.in_force();
                prop_assert_eq!(now.generation, before.generation + u64::from(granted));
                if !granted {
                    prop_assert!(differences(&before.policy, &now.policy).is_empty());
                    prop_assert_eq!(agent.history.trial_left(agent.now), left);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let mut agent = Agent::new();
        agent.set(5).unwrap();
        assert!(agent.change(What::Use(vec!["avx-cpus=many".to_owned()]), None).is_err());
        assert!(agent.change(What::Set(vec!["shrink-fill=1".to_owned()]), Some(MINUTE)).is_err());
        assert_eq!((agent.state(), agent.history.trial_left(agent.now)), ((2, 5), None));
    }
}
