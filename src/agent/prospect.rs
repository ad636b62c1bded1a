// SPDX-License-Identifier: GPL-2.0-only
//! What AVX cores would be worth here, before there are any.
//!
//! As long as the policy says that AVX cores are for nobody, nothing is hidden and no task moves.
//! What is known then is what the ticks saw: how much of the CPUs' work was AVX work, and how much
//! was other work on a CPU that did AVX work shortly before. It is not known in how many pieces the
//! AVX work came. After each piece the clock stays low for a while, and for each piece a task would
//! have to move. For a number of pieces, the gain is what the low clock takes from the other work,
//! less what the moves cost. The two bounds are its least and its greatest value, from no piece at
//! all to as many as there can be. All of it is modelled, by the times and losses that the policy
//! has for the processor.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::policy::named::DEFAULT;
use super::stats::Metrics;
use crate::bpf::intf::{self, avx_policy, avx_tier};
use crate::trials::SHARE_OF_THE_OTHER;

/// No piece of AVX work is shorter, because a processor takes that long to lower its clock.
const SHORTEST_PIECE_NS: f64 = 10_000.0;

/// What a move costs a task, with its cold caches.
const MOVE_NS: f64 = 10_000.0;

/// Fewer looks than these tell nothing.
const LOOKS_LEAST: u64 = 1000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prospect {
    /// It is not known, for this reason.
    NotKnown(String),
    Modelled(Worth),
}

/// Shares of the work that all CPUs do, in whole percent. They are rounded up, and the least gain
/// is rounded down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// CPUs that the default policy would make AVX cores.
    pub avx_cores: u64,
    pub cpus: u64,
    pub avx_work_percent: i64,
    /// The gain would be between these.
    pub least_gain_percent: i64,
    pub most_gain_percent: i64,
}

/// What the model uses besides what was seen.
pub struct Circumstances {
    pub tier: avx_tier,
    /// The default policy, with what the one in force says of this processor.
    pub policy: avx_policy,
    /// How many CPUs become AVX cores at once.
    pub granule: u64,
}

impl Circumstances {
    pub fn new(tier: avx_tier, in_force: &avx_policy, granule: u64) -> Self {
        let policy = avx_policy {
            licence_hold_ns: in_force.licence_hold_ns,
            licence_drop: in_force.licence_drop,
            ..super::policy::standard()
        };
        Self { tier, policy, granule }
    }
}

/// Returns what AVX cores would be worth, by what was counted since they are for nobody.
pub fn prospect(seen: &Metrics, at: &Circumstances) -> Prospect {
    let not_known = |why: &str| Prospect::NotKnown(why.to_owned());
    if at.tier == intf::AVX_TIER_OBSERVE {
        return not_known("AVX work is not looked for in this tier");
    }
    if at.tier == intf::AVX_TIER_HINTS && seen.looks_wide == 0 {
        return not_known("no thread says that it does AVX work, and nothing else tells");
    }
    if seen.looks < LOOKS_LEAST {
        return not_known("too little was seen yet");
    }
    Prospect::Modelled(worth_of(seen, at))
}

fn worth_of(seen: &Metrics, at: &Circumstances) -> Worth {
    let policy = &at.policy;
    let of_all = |looks: u64| looks as f64 / seen.looks as f64;
    let avx_work = of_all(seen.looks_wide);
    let busy_cpus = seen.run_ns as f64 / seen.interval_ns.max(1) as f64;
    let avx_cores = cores_for(avx_work * busy_cpus, seen.nr_cpus, at);

    let whole = f64::from(intf::AVX_WHOLE);
    let pieces = Pieces {
        most: avx_work * 1e9 / SHORTEST_PIECE_NS,
        beside: of_all(seen.looks_beside),
        hold_s: policy.licence_hold_ns as f64 / 1e9,
        drop: policy.licence_drop as f64 / whole,
        moves_s: 2.0 * MOVE_NS / 1e9,
    };
    // Where all CPUs would be AVX cores, nothing is kept apart.
    let keeps_apart = avx_cores < seen.nr_cpus;
    let (least, most) = if keeps_apart { pieces.bounds() } else { (0.0, 0.0) };
    let is_tried = policy.trials == u64::from(intf::TRIALS_ON);
    let least = if is_tried { least * SHARE_OF_THE_OTHER } else { least };
    Worth {
        avx_cores,
        cpus: seen.nr_cpus,
        avx_work_percent: (100.0 * avx_work).ceil() as i64,
        least_gain_percent: (100.0 * least).floor() as i64,
        most_gain_percent: (100.0 * most).ceil() as i64,
    }
}

/// Returns the least number of AVX cores of which AVX work uses no more than the knob grow-fill
/// allows.
fn cores_for(avx_cpus: f64, nr_cpus: u64, at: &Circumstances) -> u64 {
    let fill = at.policy.grow_fill as f64 / f64::from(intf::AVX_WHOLE);
    let needed = ((avx_cpus / fill).ceil() as u64).min(nr_cpus);
    needed.next_multiple_of(at.granule.max(1)).min(nr_cpus)
}

/// AVX work in pieces, per second of all work.
struct Pieces {
    /// The greatest number of pieces that there can be.
    most: f64,
    /// Other work on the same CPUs.
    beside: f64,
    hold_s: f64,
    drop: f64,
    /// What the moves of each piece cost, there and back.
    moves_s: f64,
}

impl Pieces {
    fn gain(&self, pieces: f64) -> f64 {
        self.drop * self.beside.min(pieces * self.hold_s) - self.moves_s * pieces
    }

    /// Returns the least and the greatest gain. The gain grows with the number of pieces until all
    /// work beside them is at a low clock, and only falls from there on. If each piece costs more
    /// than it gains, it falls from the beginning.
    fn bounds(&self) -> (f64, f64) {
        let all_low = if self.hold_s > 0.0 { self.beside / self.hold_s } else { 0.0 };
        let ends = [0.0, self.gain(self.most), self.gain(self.most.min(all_low))];
        (ends.into_iter().fold(0.0, f64::min), ends.into_iter().fold(0.0, f64::max))
    }
}

impl Prospect {
    pub fn worth(&self) -> Option<&Worth> {
        match self {
            Self::Modelled(worth) => Some(worth),
            Self::NotKnown(_) => None,
        }
    }
}

impl fmt::Display for Prospect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotKnown(why) => {
                write!(out, "AVX cores: it is not known whether they pay: {why}")
            }
            Self::Modelled(it) if it.avx_work_percent == 0 => {
                write!(out, "AVX cores would not pay (modelled): no AVX work was seen")
            }
            Self::Modelled(it) if it.avx_cores == it.cpus => write!(
                out,
                "AVX cores would not pay (modelled): {} % of the work is AVX work, and takes all CPUs",
                it.avx_work_percent
            ),
            Self::Modelled(it) => write!(
                out,
                "{DEFAULT} would gain {} to {} % (modelled): AVX cores: {} of {}, for {} % of the work",
                it.least_gain_percent,
                it.most_gain_percent,
                it.avx_cores,
                it.cpus,
                it.avx_work_percent
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::policy::{self, on_cpu};
    use proptest::prelude::*;

    /// Returns the standard policy on a processor that loses a quarter of its clock.
    fn standard() -> avx_policy {
        on_cpu(&policy::standard(), 256)
    }

    /// Returns what was seen on 8 CPUs that were half busy. `wide` and `beside` are the thousandths
    /// of the looks that saw AVX work, and work beside it.
    fn seen(wide: u64, beside: u64) -> Metrics {
        Metrics {
            interval_ns: 10_000_000_000,
            run_ns: 40_000_000_000,
            nr_cpus: 8,
            looks: 100_000,
            looks_wide: 100 * wide,
            looks_beside: 100 * beside,
            ..Metrics::default()
        }
    }

    fn trap() -> Circumstances {
        Circumstances::new(intf::AVX_TIER_TRAP, &standard(), 1)
    }

    fn worth(seen: &Metrics, at: &Circumstances) -> Worth {
        prospect(seen, at).worth().unwrap().clone()
    }

    fn is_not_known(seen: &Metrics, tier: avx_tier) -> bool {
        prospect(seen, &Circumstances { tier, ..trap() }).worth().is_none()
    }

    #[test]
    fn what_nobody_can_see_is_not_known() {
        let nothing = seen(0, 0);
        assert!(is_not_known(&nothing, intf::AVX_TIER_OBSERVE));
        assert!(is_not_known(&nothing, intf::AVX_TIER_HINTS));
        assert!(!is_not_known(&seen(1, 1), intf::AVX_TIER_HINTS));
        let few = Metrics { looks: 999, ..seen(100, 100) };
        assert!(is_not_known(&few, intf::AVX_TIER_TRAP));
        let told = prospect(&few, &trap()).to_string();
        assert_eq!(told, "AVX cores: it is not known whether they pay: too little was seen yet");
    }

    #[test]
    fn without_avx_work_nothing_is_gained() {
        let nothing = worth(&seen(0, 0), &trap());
        assert_eq!((nothing.avx_cores, nothing.avx_work_percent), (0, 0));
        assert_eq!((nothing.least_gain_percent, nothing.most_gain_percent), (0, 0));
        let told = prospect(&seen(0, 0), &trap()).to_string();
        assert_eq!(told, "AVX cores would not pay (modelled): no AVX work was seen");
    }

    /// A tenth of the work of four CPUs is AVX work, for which one AVX core is enough. All the rest
    /// may run at three quarters of the clock, and a piece in each hold time costs 20 us.
    #[test]
    fn the_most_is_what_a_low_clock_takes_from_the_rest_less_the_moves() {
        let it = worth(&seen(100, 900), &trap());
        assert_eq!((it.avx_cores, it.avx_work_percent), (1, 10));
        let expected: f64 = 0.25 * 0.9 - 0.9 / 670e-6 * 20e-6;
        assert_eq!(it.most_gain_percent, (100.0 * expected).ceil() as i64);
        let told = prospect(&seen(100, 900), &trap()).to_string();
        assert_eq!(
            told,
            "adaptive would gain 0 to 20 % (modelled): AVX cores: 1 of 8, for 10 % of the work"
        );
    }

    #[test]
    fn cores_are_enough_and_come_as_they_are_placed() {
        assert_eq!(worth(&seen(300, 0), &trap()).avx_cores, 2);
        let pairs = Circumstances { granule: 2, ..trap() };
        assert_eq!(worth(&seen(100, 0), &pairs).avx_cores, 2);
        // Where all CPUs would be AVX cores, there is nothing to gain or to lose.
        let all = Metrics { run_ns: 80_000_000_000, ..seen(900, 100) };
        let it = worth(&all, &trap());
        assert_eq!((it.avx_cores, it.most_gain_percent, it.least_gain_percent), (8, 0, 0));
        let told = prospect(&all, &trap()).to_string();
        assert!(told.ends_with(": 90 % of the work is AVX work, and takes all CPUs"), "{told}");
    }

    #[test]
    fn a_processor_that_keeps_its_clock_gains_nothing() {
        for it in [
            avx_policy { licence_drop: 0, ..standard() },
            avx_policy { licence_hold_ns: 0, ..standard() },
        ] {
            let at = Circumstances::new(intf::AVX_TIER_TRAP, &it, 1);
            let worth = worth(&seen(100, 900), &at);
            assert_eq!(worth.most_gain_percent, 0);
            assert!(worth.least_gain_percent < 0);
        }
    }

    /// The moves of the shortest pieces cost twice the time of these. Where trials decide, only the
    /// share of that remains for which trials have AVX cores.
    #[test]
    fn what_does_not_pay_is_tried_only() {
        let free = avx_policy { licence_drop: 0, ..standard() };
        let kept = Circumstances::new(intf::AVX_TIER_TRAP, &free, 1);
        assert_eq!(worth(&seen(319, 600), &kept).least_gain_percent, -1);
        let policy = avx_policy { trials: intf::TRIALS_OFF.into(), ..kept.policy };
        let paid = Circumstances { policy, ..kept };
        assert_eq!(worth(&seen(319, 600), &paid).least_gain_percent, -64);
    }

    proptest! {
        /// This holds for numbers that make no sense as well.
        #[test]
        fn bounds_are_in_order_and_finite(
            looks in 1000..u64::MAX / 4,
            wide in 0.0..1.0f64,
            beside in 0.0..1.0f64,
            interval_ns in 0..u64::MAX,
            run_ns in 0..u64::MAX,
            nr_cpus in 0..9000u64,
            hold_ns in 0..10_000_000u64,
            drop in 0..=1024u64,
            granule in 0..4u64,
        ) {
            let part = |of: f64| (looks as f64 * of) as u64;
            let seen = Metrics {
                looks,
                looks_wide: part(wide),
                looks_beside: part(beside * (1.0 - wide)),
                interval_ns,
                run_ns,
                nr_cpus,
                ..Metrics::default()
            };
            let policy = avx_policy {
                licence_hold_ns: hold_ns,
                licence_drop: drop,
                ..standard()
            };
            let at = Circumstances::new(intf::AVX_TIER_TRAP, &policy, granule);
            let it = worth(&seen, &at);
            prop_assert!(it.least_gain_percent <= 0 && it.most_gain_percent >= 0);
            prop_assert!(it.most_gain_percent <= 100 && it.avx_work_percent <= 100);
            prop_assert!(it.avx_cores <= nr_cpus);
        }
    }
}
