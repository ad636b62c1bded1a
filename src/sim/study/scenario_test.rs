// SPDX-License-Identifier: GPL-2.0-only
//! Whatever happens to a machine, the scheduler does nothing that it must not do, and neither does
//! the model of Linux without it.

use std::fs;

use proptest::prelude::*;

use super::scenario::{COMMAND_BYTES, HEADER_BYTES, Scenario};
use super::trial::{run, run_by};
use crate::sim::kernel::Class;

#[test]
fn nothing_happens_in_an_empty_scenario() {
    run(&Scenario::of(&[])).unwrap();
}

/// What libFuzzer chose for doing something that nothing before it did.
#[test]
fn what_the_fuzzer_found_is_played_again() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");
    let mut files: Vec<_> = fs::read_dir(corpus).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 50, "there are {} files in {corpus}", files.len());
    for file in files {
        let scenario = Scenario::of(&fs::read(&file).unwrap());
        for class in [Class::Ext, Class::Fair] {
            if let Err(error) = run_by(class, &scenario) {
                panic!("{}, {class:?}: {error:#} in {scenario:?}", file.display());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 500,
        ..ProptestConfig::with_cases(100)
    })]

    #[test]
    fn whatever_happens_nothing_is_lost(
        header in any::<[u8; HEADER_BYTES]>(),
        commands in prop::collection::vec(any::<[u8; COMMAND_BYTES]>(), 0..80),
    ) {
        let scenario = Scenario::of(&[&header[..], commands.as_flattened()].concat());
        for class in [Class::Ext, Class::Fair] {
            if let Err(error) = run_by(class, &scenario) {
                prop_assert!(false, "{class:?}: {error:#} in {scenario:?}");
            }
        }
    }
}
