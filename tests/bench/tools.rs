// SPDX-License-Identifier: GPL-2.0-only
//! What the field's own tools get done, under the kernel's own scheduler and ours in one guest.

use std::sync::OnceLock;

use anyhow::Result;

use crate::rig::results::once;
use crate::rig::{Flavour, Qemu};
use crate::suite::counts::{Counts, counts_of};
use crate::suite::{scheduler_guest, script};

/// The stressors of stress-ng that do little but let each other run.
const STRESSORS: [&str; 5] = ["yield", "futex", "mutex", "pipe", "switch"];

/// Each prints how much was done, in a time or by the time that it took.
const HOW_MUCH: &str = "
    sysbench_threads() {
        sysbench threads --threads=16 --time=1 run |
            sed -n 's/.*total number of events: */sysbench=/p'
    }
    stress() {
        stress-ng --$1 8 --timeout 1 --metrics 2>&1 |
            sed -n \"s/.*metrc.* $1  *\\([0-9][0-9]*\\) .*/$1=\\1/p\"
    }
    messages() {
        hackbench -g 4 -l 100 | awk '/^Time:/ { printf \"hackbench=%d\\n\", 1000000 / $2 }'
    }";

fn measure() -> Result<Counts> {
    let stressors: String = STRESSORS.iter().map(|it| format!("stress {it}; ")).collect();
    let all = |whose: &str| {
        format!("{{ sysbench_threads; messages; {stressors} }} | sed 's/^/{whose}_/'")
    };
    let (kernels, ours) = (all("kernels"), all("ours"));
    let outcome = scheduler_guest(Qemu::cpus(8).counted_time(1), Flavour::Stock)?
        .release("trixie")
        .package("stress-ng")
        .package("sysbench")
        .package("rt-tests")
        .command(&script(&format!(
            "{HOW_MUCH}
             {kernels}
             start_scheduler --force --policy observe
             {ours}
             stop_scheduler"
        )))
        .limit(1800)
        .boot()?;
    counts_of(&outcome, 0)
}

/// Ours by the kernel's own. All figures are of one run.
pub fn ratio(tool: &str) -> Result<f64> {
    static MEASURED: OnceLock<Counts> = OnceLock::new();
    Ok(once(&MEASURED, measure)?.ours_by_kernels(tool))
}
