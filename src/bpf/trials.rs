// SPDX-License-Identifier: GPL-2.0-only
//! Policies that leave it to trials whether there are AVX cores.

use super::intf::{SERVED_ALL, SERVED_NOBODY, TRIALS_ON, TRIALS_WITHOUT, avx_policy};

/// Returns true if trials decide. Where AVX cores are for nobody, or for threads that ask for them,
/// somebody has decided already.
pub fn are_wanted(policy: &avx_policy) -> bool {
    policy.trials == u64::from(TRIALS_ON) && policy.avx_cores_for == u64::from(SERVED_ALL)
}

/// A flag in the number of a policy. People see the two sides of trials as one policy. The BPF
/// programs see two, and look up anew what they know when the number changes.
const WITHOUT: u64 = 1 << 63;

/// Returns the number of the side without AVX cores of a policy with this number.
pub fn number_without(generation: u64) -> u64 {
    generation | WITHOUT
}

/// Returns the number that people know, from that of either side.
pub fn number_of(generation: u64) -> u64 {
    generation & !WITHOUT
}

/// Returns this policy without AVX cores.
pub fn without(policy: &avx_policy) -> avx_policy {
    avx_policy { avx_cores_for: SERVED_NOBODY.into(), trials: TRIALS_WITHOUT.into(), ..*policy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::policy::{standard, turned};

    #[test]
    fn they_decide_by_default_and_where_nobody_has_decided() {
        let wanted = |turns: &[&str]| {
            let turns: Vec<String> = turns.iter().map(|it| (*it).to_owned()).collect();
            are_wanted(&turned(standard(), &turns).unwrap())
        };
        assert!(wanted(&[]));
        for turn in ["trials=off", "avx-cores-for=hinted", "avx-cores-for=nobody"] {
            assert!(!wanted(&[turn]), "{turn}");
        }
        assert!(!are_wanted(&without(&standard())));
    }

    #[test]
    fn both_sides_have_a_number_of_their_own_and_the_same_for_people() {
        assert_ne!(number_without(7), 7);
        assert_eq!([7, number_without(7)].map(number_of), [7, 7]);
    }
}
