// SPDX-License-Identifier: GPL-2.0-only
//! Who pays for a low clock, by the kernel's own account of who ran.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{phases_guest, status};
use crate::ensure_eq;
use crate::rig::{Bochs, Flavour, Guest, Kernel, Qemu, in_repository, program};
use crate::suite::counts::counts_of;
use crate::suite::{scheduler_guest, script};

crate::tests! {
    avx:
    who_comes_after_wide_work_gets_what_it_lost(26),
    counters_tell_how_low_clocks_are(30),
}

/// Of cycles at each licence, and of APERF and MPERF.
pub const LICENCES: &str = "fake_clocks:0,fake_clocks:1,fake_clocks:2";
const CLOCKS: &str = "fake_clocks:3,fake_clocks:4";

/// Counters that count what the test says.
pub fn with_fake_counters(guest: Guest, flavour: Flavour) -> Result<Guest> {
    let sources = in_repository("tests/guest/avx");
    let module = Kernel::get(flavour)?.module(&sources, "counters_module", "fake_clocks")?;
    Ok(guest.file("/fake_clocks.ko", &module))
}

/// On one CPU wide work and a loop take turns. Licences are held for as long as a turn, so that
/// the loop always has the low clock, and a quarter of its time is lost.
fn who_comes_after_wide_work_gets_what_it_lost() -> Result<()> {
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
             wide=$(ls /proc/$phases/task | sort -n | tail -n 1)
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

    let status = status(&outcome, "/tmp/status.json")?;
    ensure!(status["compensates"] == true, "{status}");
    ensure!(status["clocks"] == "an estimate with licence-drop", "{status}");
    let (lost, watched) = lost_and_watched(&status, "/loops")?;
    ensure!(watched > 1.0, "the loop was watched for {watched} s");
    ensure!((0.1..=0.25).contains(&(lost / watched)), "of {watched} s it lost {lost} s");
    let (lost, watched) = lost_and_watched(&status, "/wide")?;
    ensure!(lost / watched < 0.02, "who made the clock low lost {lost} s of {watched} s");
    Ok(())
}

/// Seconds of a cgroup.
fn lost_and_watched(status: &Value, path: &str) -> Result<(f64, f64)> {
    let cgroups = status["cgroups"].as_array().context("no cgroups")?;
    let book = cgroups.iter().find(|it| it["path"] == path).map(|it| &it["book"]);
    let number = |name| book.and_then(|book| book[name].as_f64()).context("no book");
    Ok((number("lost_s")?, number("watched_s")?))
}

/// A loop shares a CPU with one that says that it does AVX work, and so pays for all that is
/// counted. For half of the time the clock is three quarters of what it should be; and then, as
/// APERF and MPERF have it, seven eighths all the time. They are open while they are needed, and
/// nobody is told of them where they have gone meanwhile.
fn counters_tell_how_low_clocks_are() -> Result<()> {
    let guest = scheduler_guest(Qemu::cpus(1), Flavour::Stock)?;
    let start = "start_scheduler --force --policy fair --set licence-drop=0.25 --clock-counters";
    let outcome = with_fake_counters(guest, Flavour::Stock)?
        .program(&program::compile(&in_repository("tests/guest/avx/hinted_loop.c"))?)
        .command(&script(&format!(
            "insmod /fake_clocks.ko cycles=500,0,375,1000
             mkdir /sys/fs/cgroup/loops /sys/fs/cgroup/wide /sys/fs/cgroup/later
             busy_loops 1
             echo $loops >/sys/fs/cgroup/loops/cgroup.procs
             # look FILE: at what is lost while one loop says that it lowers the clock
             look() {{
                 hinted_loop & wide=$!
                 echo $wide >/sys/fs/cgroup/wide/cgroup.procs
                 sleep 3
                 scx_avxspec status --json >$1
                 kill $wide
             }}
             {start} {LICENCES}
             look /tmp/licences.json
             stop_scheduler
             {start} {CLOCKS}
             sleep 1
             echo 500,0,375,875 >/sys/module/fake_clocks/parameters/cycles
             echo $loops >/sys/fs/cgroup/later/cgroup.procs
             look /tmp/clocks.json
             tell_counters on
             scx_avxspec policy set fairness=off >&2
             wait_until 10 has_counters 0
             tell_counters off
             scx_avxspec policy set fairness=compensate >&2
             tell_counters again
             stop_scheduler
             wait_until 10 has_counters 0
             tell_counters stopped
             {start} {CLOCKS}
             scx_avxspec policy set fairness=off >&2
             wait_until 10 has_counters 0
             rmmod fake_clocks || fail the module stays
             scx_avxspec policy set fairness=compensate >&2
             scx_avxspec status --json >/tmp/without.json
             stop_scheduler
             kill $loops
             scx_avxspec --force --clock-counters nobody:1,nobody:2 2>&1 |
                 grep -c 'there are no counters of .nobody. here' | sed s/^/refused=/",
        )))
        .collect("/tmp/licences.json")
        .collect("/tmp/clocks.json")
        .collect("/tmp/without.json")
        .boot()?;
    outcome.all_succeeded()?;
    let counts = counts_of(&outcome, 0)?;
    for (when, open) in [("on", 2), ("off", 0), ("again", 2), ("stopped", 0), ("refused", 1)] {
        ensure_eq!(counts[when], open, "{when}");
    }
    let without = status(&outcome, "/tmp/without.json")?;
    ensure!(without["clocks"] == "an estimate with licence-drop", "{without}");
    let found = [
        ("/tmp/licences.json", "/loops", "the cycles at each licence, with licence-drop"),
        ("/tmp/clocks.json", "/later", "APERF and MPERF"),
    ];
    for (file, victim, source) in found {
        let status = status(&outcome, file)?;
        ensure!(status["clocks"] == source, "{status}");
        let (lost, watched) = lost_and_watched(&status, victim)?;
        ensure!(watched > 0.8, "{source}: the loop was watched for {watched} s");
        // An eighth, and less where the host keeps ticks from the guest; a quarter if nobody counted.
        let share = lost / watched;
        ensure!((0.07..0.15).contains(&share), "{source}: the loop lost {share}");
        let (lost, watched) = lost_and_watched(&status, "/wide")?;
        ensure!(lost / watched < 0.01, "{source}: who lowers the clock lost {lost} s");
    }
    Ok(())
}
