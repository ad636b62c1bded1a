// SPDX-License-Identifier: GPL-2.0-only
//! The parts of the rig that need no guest.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail, ensure};

use super::recovery::{ERROR, STALL};
use crate::commands::mutants;
use crate::ensure_eq;
use crate::rig::cache::{Cache, Key};
use crate::rig::code_lines::code_lines_added;
use crate::rig::console::{time_of, trouble_in};
use crate::rig::kernel::{forget_what_was_written_since, is_build_step, options_missing};
use crate::rig::packages::installed_by;
use crate::rig::process::Tied;
use crate::rig::series::{Source, patches_in};
use crate::rig::warnings::warning_in;

crate::tests! {
    host:
    an_artefact_appears_whole_or_not_at_all(1),
    two_builds_of_one_artefact_are_one(1),
    a_key_tells_contents_and_names_apart(1),
    a_series_writes_only_what_differs(1),
    a_series_that_does_not_apply_changes_nothing(1),
    an_interrupted_build_leaves_no_object_behind(1),
    trouble_is_told_from_chatter(1),
    each_known_bug_can_still_be_seeded(1),
    lists_of_other_programs_are_read_right(1),
    each_line_of_code_that_a_series_adds_is_counted_once(1),
    what_others_take_of_a_cpu_is_not_a_childs_own_time(1),
    who_stops_reading_is_told_of_no_failure(1),
    budgets_leave_half_an_hour_room_for_the_rest(1),
}

/// Of the half hour that `make test` may take on two CPUs, `make check` has two minutes.
fn budgets_leave_half_an_hour_room_for_the_rest() -> Result<()> {
    let sum: u64 = super::all_tests().map(|test| test.budget_s).sum();
    ensure!(sum <= 2 * 28 * 60, "the tests may take {sum} s of two CPUs");
    Ok(())
}

fn each_known_bug_can_still_be_seeded() -> Result<()> {
    mutants::all_can_be_seeded()
}

fn an_artefact_appears_whole_or_not_at_all() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let cache = Cache::at(dir.path().to_owned());
    let key = Key::new().text_part("made of", "this");
    let cut_off = cache.artefact("things", &key, |dir| {
        fs::write(dir.join("half"), "")?;
        bail!("cut off")
    });
    ensure!(cut_off.is_err());
    let made = cache.artefact("things", &key, |dir| {
        ensure!(!dir.join("half").exists(), "a half-made thing was taken up");
        Ok(fs::write(dir.join("whole"), "")?)
    })?;
    ensure!(made.join("whole").exists());
    let again = cache.artefact("things", &key, |_| bail!("made twice"))?;
    ensure_eq!(again, made);
    Ok(())
}

fn two_builds_of_one_artefact_are_one() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let cache = Cache::at(dir.path().to_owned());
    let key = Key::new().text_part("made of", "this");
    let builds = std::sync::atomic::AtomicUsize::new(0);
    let build = || {
        cache.artefact("things", &key, |dir| {
            builds.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(50));
            Ok(fs::write(dir.join("whole"), "")?)
        })
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(build)).collect();
        all.into_iter().try_for_each(|one| match one.join() {
            Ok(result) => result.map(|_| ()),
            Err(_) => bail!("a build panicked"),
        })
    })?;
    ensure_eq!(builds.into_inner(), 1);
    Ok(())
}

fn a_key_tells_contents_and_names_apart() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("a");
    fs::write(&file, "1")?;
    let one = Key::new().dir_part(dir.path())?.hex();
    ensure_eq!(one, Key::new().dir_part(dir.path())?.hex());
    fs::write(&file, "2")?;
    let other_content = Key::new().dir_part(dir.path())?.hex();
    fs::write(&file, "1")?;
    fs::rename(&file, dir.path().join("b"))?;
    let other_name = Key::new().dir_part(dir.path())?.hex();
    ensure!(one != other_content && one != other_name);
    Ok(())
}

/// A tree of two files, and room for patches.
fn small_tree(dir: &Path) -> Result<Source> {
    let source = Source { tree: dir.join("tree"), aside: dir.join("aside") };
    fs::create_dir_all(source.tree.join("kernel"))?;
    fs::create_dir_all(&source.aside)?;
    fs::create_dir_all(dir.join("patches"))?;
    fs::write(source.tree.join("kernel/a.c"), "one\ntwo\nthree\n")?;
    fs::write(source.tree.join("kernel/b.c"), "alpha\nbeta\n")?;
    Ok(source)
}

const CHANGE_BOTH: &str = "\
--- a/kernel/a.c\n+++ b/kernel/a.c\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n\
--- a/kernel/b.c\n+++ b/kernel/b.c\n@@ -1,2 +1,3 @@\n alpha\n+between\n beta\n";
const ADD_ONE: &str = "--- /dev/null\n+++ b/kernel/new.c\n@@ -0,0 +1 @@\n+fresh\n";

fn a_series_writes_only_what_differs() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let source = small_tree(dir.path())?;
    let patches = dir.path().join("patches");
    let read = |name: &str| fs::read_to_string(source.tree.join("kernel").join(name));
    let hold = || source.hold(&patches_in(&patches)?);

    fs::write(patches.join("0001-both.patch"), CHANGE_BOTH)?;
    fs::write(patches.join("0002-new.patch"), ADD_ONE)?;
    ensure_eq!(hold()?, ["kernel/a.c", "kernel/b.c", "kernel/new.c"]);
    ensure_eq!(read("a.c")?, "one\nTWO\nthree\n");
    ensure_eq!(hold()?, [""; 0], "the same series again");

    fs::write(patches.join("0001-both.patch"), CHANGE_BOTH.replace("+between", "+amid"))?;
    ensure_eq!(hold()?, ["kernel/b.c"], "one line changed");
    ensure_eq!(read("b.c")?, "alpha\namid\nbeta\n");

    fs::remove_file(patches.join("0002-new.patch"))?;
    fs::remove_file(patches.join("0001-both.patch"))?;
    hold()?;
    ensure_eq!(read("a.c")?, "one\ntwo\nthree\n", "taken back");
    ensure_eq!(read("b.c")?, "alpha\nbeta\n", "taken back");
    ensure!(!source.tree.join("kernel/new.c").exists());
    Ok(())
}

fn a_series_that_does_not_apply_changes_nothing() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let source = small_tree(dir.path())?;
    let patch = dir.path().join("patches/0001-wrong.patch");
    fs::write(&patch, CHANGE_BOTH.replace(" beta", " gamma"))?;
    let Err(error) = source.hold(&[patch]) else { bail!("a patch that does not fit was applied") };
    ensure!(format!("{error:#}").contains("0001-wrong.patch does not apply"), "{error:#}");
    let a = fs::read_to_string(source.tree.join("kernel/a.c"))?;
    ensure_eq!(a, "one\ntwo\nthree\n");
    Ok(())
}

fn an_interrupted_build_leaves_no_object_behind() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let tree = dir.path().join("tree/kernel");
    fs::create_dir_all(&tree)?;
    let now = SystemTime::now();
    let write = |path: &Path, age_s: u64| -> Result<()> {
        let file = fs::File::create(path)?;
        Ok(file.set_modified(now - Duration::from_secs(age_s))?)
    };
    let mark = dir.path().join("building");
    write(&mark, 100)?;
    write(&tree.join("old.c"), 300)?;
    write(&tree.join("old.o"), 200)?;
    write(&tree.join("half.o"), 50)?;
    forget_what_was_written_since(&mark, &dir.path().join("tree"))?;
    ensure!(tree.join("old.c").exists() && tree.join("old.o").exists());
    ensure!(!tree.join("half.o").exists(), "a half-written object is used");
    Ok(())
}

fn trouble_is_told_from_chatter() -> Result<()> {
    for (line, is_trouble) in [
        ("[    1.5] WARNING: CPU: 0 PID: 1 at kernel/x.c:1", true),
        ("[   12.345678] Kernel panic - not syncing: oh", true),
        ("[   12.345678][    T1] BUG: scheduling while atomic", true),
        ("[    3.1] Oops: 0000 [#1] PREEMPT SMP", true),
        ("[   99.0] INFO: task x:1 blocked for more than 120 s", true),
        ("[    9.1] unchecked MSR access error: RDMSR from 0x1b0 at rIP: 0x1 (f+0x1/0x2)", true),
        ("[    9.2] sched_ext: BPF scheduler \"avxspec\" disabled (runnable task stall)", true),
        ("[    9.2] sched_ext: BPF scheduler \"avxspec\" disabled (scx_bpf_error)", true),
        ("[    9.2] sched_ext: BPF sub-scheduler \"x\" disabled (runtime error)", true),
        ("[    9.2] sched_ext: BPF scheduler \"x\" disabled (disabled by sysrq-S)", false),
        ("[    9.2] sched_ext: BPF scheduler \"x\" disabled (unregistered from user space)", false),
        (
            "[    9.2] sched_ext: BPF scheduler \"x\" disabled (unregistered from the main kernel)",
            false,
        ),
        ("[    0.1] sched_ext: BPF scheduler \"avxspec\" enabled", false),
        ("WARNING: said by a program, not by the kernel", false),
        ("[    3.2] rig: WARNING: command 000 ended at 3.1", false),
    ] {
        ensure_eq!(trouble_in(&format!("{line}\n"), &[]).is_some(), is_trouble, "{line}");
        ensure_eq!(trouble_in(line, &[]), None, "a line that is not finished: {line}");
    }
    let warning = "[    1.5] WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x1/0x2\n";
    ensure_eq!(trouble_in(warning, &["kernel/x.c:1 "]), None);
    ensure!(trouble_in(warning, &["kernel/x.c:12 "]).is_some());
    let stall = "[    9.2] sched_ext: BPF scheduler \"x\" disabled (runnable task stall)\n";
    ensure_eq!(trouble_in(stall, &[STALL]), None);
    ensure!(trouble_in(stall, &[ERROR]).is_some());
    ensure_eq!(time_of("x\n[    2.8] rig: ready at 2.75\ny", "ready"), Some(2.75));
    ensure_eq!(time_of("rig: ready at", "ready"), None);
    Ok(())
}

fn lists_of_other_programs_are_read_right() -> Result<()> {
    ensure_eq!(
        installed_by("Reading...\nInst libc6 (2.36-9 Debian:12 [amd64])\nConf libc6 (2.36-9)\n"),
        [("libc6".to_owned(), "2.36-9".to_owned())]
    );
    ensure!(is_build_step("  CC      kernel/fork.o"));
    ensure!(!is_build_step("make[1]: Entering directory"));
    ensure_eq!(
        options_missing("# why\nCONFIG_A=y\nCONFIG_B=y\n", "CONFIG_A=y\n# CONFIG_B is not set\n"),
        ["CONFIG_B=y"]
    );
    ensure_eq!(
        options_missing("# CONFIG_A is not set\n# CONFIG_B is not set\n", "CONFIG_A=m\n"),
        ["# CONFIG_A is not set"]
    );
    ensure_eq!(
        warning_in("kernel/x.c:12:3: warning: unused variable 'y' [-Wunused-variable]"),
        Some("kernel/x.c: unused variable 'y' [-Wunused-variable]".to_owned())
    );
    ensure_eq!(warning_in("  CC      kernel/warning.o"), None);
    Ok(())
}

fn each_line_of_code_that_a_series_adds_is_counted_once() -> Result<()> {
    let to = |path: &str, hunk: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n{hunk}");
    let lines = |path, hunk| code_lines_added(&[to(path, hunk)]);
    ensure_eq!(lines("a.c", "+\tif (a &&\n+\t    b)\n+\t  foo\n"), 3, "continuation lines");
    ensure_eq!(lines("a.c", "+\n+/*\n+ * Why.\n+ */\n+// How.\n+x;\n"), 1, "comments");
    ensure_eq!(lines("a.c", " /*\n+ * Why.\n  */\n+x;\n"), 1, "one that was there before");
    ensure_eq!(lines("a.c", "-x;\n+x;\n+x;\n"), 2, "equal lines");
    ensure_eq!(lines("arch/x86/Kconfig", "+config A\n+\thelp\n+\t  Why.\n"), 2, "help");
    ensure_eq!(lines("MAINTAINERS", "+F:\ta.c\n"), 0);

    let (add, replace) = (to("a.c", "+x;\n+y;\n"), to("a.c", "-x;\n+z;\n"));
    ensure_eq!(code_lines_added(&[add.clone(), replace]), 2, "a line of the series replaced");
    let elsewhere = to("b.c", "-x;\n+z;\n");
    ensure_eq!(code_lines_added(&[add, elsewhere]), 3, "a line of another file replaced");
    Ok(())
}

/// As `head` does.
fn who_stops_reading_is_told_of_no_failure() -> Result<()> {
    for command in [
        &["policy", "show", "--default"][..],
        &["--help-metrics"],
        &["--help-policy"],
        &["--help-stats"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scx_avxspec"))
            .args(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        drop(child.stdout.take());
        let said = child.wait_with_output()?;
        ensure!(said.status.success() && said.stderr.is_empty(), "{command:?}: {said:?}");
    }
    Ok(())
}

/// Two that want one CPU wait for each other; one that sleeps waits for nobody.
fn what_others_take_of_a_cpu_is_not_a_childs_own_time() -> Result<()> {
    let busy = || {
        Tied::spawn(Command::new("taskset").args([
            "--cpu-list",
            "0",
            "sh",
            "-c",
            "while :; do :; done",
        ]))
    };
    let idle = Tied::spawn(Command::new("sleep").arg("1000"))?;
    let both = [busy()?, busy()?];
    let patience = Instant::now() + Duration::from_secs(60);
    let wait_until_kept_waiting_for = |time: Duration| {
        while both.iter().any(|child| child.kept_waiting() < time) {
            ensure!(Instant::now() < patience, "two on one CPU, and one never waited");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    let mut waited = Duration::ZERO;
    let mut is_asleep = || -> Result<bool> {
        let before = idle.kept_waiting();
        waited += Duration::from_millis(200);
        wait_until_kept_waiting_for(waited)?;
        Ok(idle.kept_waiting() - before < Duration::from_millis(100))
    };
    // It has to start first, for which it may well wait.
    while !is_asleep()? {
        ensure!(Instant::now() < patience, "a sleeper waits for a CPU");
    }
    Ok(())
}
