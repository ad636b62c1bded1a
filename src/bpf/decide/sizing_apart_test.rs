// SPDX-License-Identifier: GPL-2.0-only
//! Cores that AVX work has to itself, while there are some.

use super::native::size_avx_set;
use crate::agent::policy;
use crate::bpf::intf::{avx_demand, avx_policy, avx_sizing};

use super::sizing_machine_test::{LOOK, Machine, SECOND, STEP, policy_with};

/// So many threads with nothing but wide work and so many without any, on so many cores of this
/// kind: how large the set is after two seconds, and how often it changes in the next ten.
fn beside(policy: avx_policy, granule: u32, wide: usize, scalar: usize) -> (u32, u32) {
    const FOREVER: u64 = 100 * SECOND;
    let mut machine = Machine::new(policy, 20, granule);
    machine.threads(scalar, FOREVER, STEP);
    machine.threads(scalar + wide, STEP, FOREVER);
    machine.run(2 * SECOND);
    let size = machine.sizing.nr_avx;
    (size, machine.run(10 * SECOND).changes)
}

#[test]
fn avx_work_has_cores_to_itself_while_there_are_some() {
    let standard = || policy::standard();
    let sizes = [1, 2, 3, 5, 9, 10, 15, 20].map(|wide| beside(standard(), 2, wide, 0));
    assert_eq!(sizes, [2, 4, 6, 10, 18, 20, 20, 20].map(|size| (size, 0)));
    // While there is a core for everybody that does not depend on others, and then it is less.
    let sizes = [0, 6, 10, 14, 16].map(|scalar| beside(standard(), 2, 4, scalar));
    assert_eq!(sizes, [8, 8, 6, 4, 4].map(|size| (size, 0)));
    let without_siblings = [1, 3, 8].map(|wide| beside(standard(), 1, wide, 0));
    assert_eq!(without_siblings, [1, 3, 8].map(|size| (size, 0)));
}

#[test]
fn avx_work_waits_for_cores_of_its_own_as_for_others() {
    let patient = policy_with(|policy| policy.grow_dwell_ns = 10 * SECOND);
    assert_eq!(beside(patient, 2, 4, 0).0, 4);
}

#[test]
fn cores_that_avx_work_has_to_itself_are_not_given_back() {
    let fuller = policy_with(|policy| {
        policy.grow_fill = 1000;
        policy.shrink_fill = 900;
    });
    assert_eq!(beside(fuller, 2, 3, 2), (6, 0));
}

/// Five CPUs of AVX work were too few to be apart while others took the rest, and others are gone.
#[test]
fn whoever_needs_less_is_given_no_more() {
    let policy = policy_with(|policy| policy.shrink_fill = 900);
    let busy = |cpus: u64| cpus << 20;
    let mut sizing = avx_sizing {
        now: 100 * SECOND,
        nr_avx: 8,
        peak: busy(5),
        spare_ns: SECOND,
        avx: busy(1),
        total: busy(6),
        fair: busy(20),
        recent: busy(20),
        fair_for: 100 * SECOND,
        ..avx_sizing::default()
    };
    let demand = avx_demand {
        elapsed_ns: LOOK,
        total_ns: 6 * LOOK,
        avx_ns: LOOK,
        nr_cpus: 20,
        granule: 2,
        ..avx_demand::default()
    };
    assert_eq!(size_avx_set(&mut sizing, &policy, &demand), 8);
    assert_eq!(sizing.spare_ns, 0, "it was not decided");
}
