// SPDX-License-Identifier: GPL-2.0-only
//! Who pays for a low clock, by the kernel's own account of who ran.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::phases_guest;
use crate::suite::counts::counts_of;
use crate::suite::{Test, script};
use crate::vm::{Bochs, Flavour};

pub const TESTS: &[Test] = &[Test {
    name: "avx::who_comes_after_wide_work_gets_what_it_lost",
    budget_s: 120,
    body: who_comes_after_gets_what_it_lost,
}];

/// On one CPU wide work and a loop take turns. Licences are held for as long as a turn, so that
/// the loop always has the low clock, and a quarter of its time is lost.
fn who_comes_after_gets_what_it_lost() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(1), Flavour::Patched)?
        .command(&script(
            "start_scheduler --policy fair --set licence-hold=10ms --set licence-drop=0.25
             mkdir /sys/fs/cgroup/loops /sys/fs/cgroup/wide
             phases 1 1000000000 20 200 & phases=$!
             echo $phases >/sys/fs/cgroup/wide/cgroup.procs
             busy_loops 1
             echo $loops >/sys/fs/cgroup/loops/cgroup.procs
             # During the next seconds, by the kernel's account.
             share() {
                 loop=$(cpu_ns $loops) all=$(cpu_ns $wide)
                 sleep 3
                 echo $1=$(($(cpu_ns $loops) - loop))
                 echo $1_wide=$(($(cpu_ns $wide) - all))
             }
             sleep 0.5
             wide=$(ls /proc/$phases/task | tail -n 1)
             share on
             scx_avxspec status --json >/tmp/status.json
             scx_avxspec policy set fairness=off >&2
             share off
             kill $phases $loops
             stop_scheduler",
        ))
        .collect("/tmp/status.json")
        .limit(600)
        .boot()?;
    outcome.all_succeeded()?;
    let counts = counts_of(&outcome, 0)?;
    let ratio = |name: &str| counts[name] as f64 / counts[&format!("{name}_wide")] as f64;
    let (on, off) = (ratio("on"), ratio("off"));
    ensure!((1.15..1.5).contains(&on), "the loop ran {on} times as long, and should 1 / 0.75");
    ensure!((0.9..1.1).contains(&off), "the loop ran {off} times as long with fairness=off");

    let status: Value = serde_json::from_slice(&outcome.file("/tmp/status.json")?)?;
    ensure!(status["compensates"] == true, "{status}");
    ensure!(status["clocks"] == "an estimate with licence-drop", "{status}");
    let cgroups = status["cgroups"].as_array().context("no cgroups")?;
    let of = |path: &str| -> Result<(f64, f64)> {
        let book = cgroups.iter().find(|it| it["path"] == path).map(|it| &it["book"]);
        let number = |name| book.and_then(|book| book[name].as_f64()).context("no book");
        Ok((number("lost_s")?, number("watched_s")?))
    };
    let (lost, watched) = of("/loops")?;
    ensure!(watched > 1.0, "the loop was watched for {watched} s");
    ensure!((0.1..=0.25).contains(&(lost / watched)), "of {watched} s it lost {lost} s");
    let (lost, watched) = of("/wide")?;
    ensure!(lost / watched < 0.02, "who made the clock low lost {lost} s of {watched} s");
    Ok(())
}
