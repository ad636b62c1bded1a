// SPDX-License-Identifier: GPL-2.0-only
//! The series as a maintainer gets it.

use anyhow::{Result, ensure};

use crate::rig::series::patches_in;
use crate::rig::{Kernel, all_series, in_repository};

crate::tests! {
    hiding:
    checkpatch_finds_nothing(3),
}

/// The series for every kernel, by the script of the one that the tests run on.
fn checkpatch_finds_nothing() -> Result<()> {
    for dir in all_series() {
        let series = patches_in(&in_repository(dir))?;
        ensure!(!series.is_empty(), "there is no series in {dir}");
        for patch in series {
            let flags = ["--strict", "--no-tree", "--quiet"];
            let said = Kernel::run_script("scripts/checkpatch.pl", &flags, &patch)?;
            let words = String::from_utf8_lossy(&said.stdout);
            ensure!(said.status.success() && words.is_empty(), "{}: {words}", patch.display());
        }
    }
    Ok(())
}
