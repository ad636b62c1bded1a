// SPDX-License-Identifier: GPL-2.0-only
//! What is said of whole machines.

use std::fs;

use super::tree_test::machine;
use super::*;

fn report(name: &str) -> Report {
    Report::of(machine(name).path())
}

/// What is not simply well, by topic.
fn marked(report: &Report, mark: Mark) -> Vec<&str> {
    let marked = report.findings.iter().filter(|finding| finding.mark == mark);
    marked.map(|finding| finding.topic).collect()
}

fn says<'a>(report: &'a Report, topic: &str) -> &'a str {
    &report.findings.iter().find(|finding| finding.topic == topic).unwrap().says
}

#[test]
fn a_skylake_with_the_patch_has_all_there_is() {
    let report = report("skylake-sp");
    assert!(report.would_run, "{report}");
    assert_eq!(report.tier, "trap");
    assert_eq!(marked(&report, Mark::Note), ["counters"]);
    assert!(says(&report, "cpu").contains("Gold 6130 CPU @ 2.10GHz (Skylake-SP)"));
    assert!(
        says(&report, "layout").contains(
            "64 CPUs on 32 cores in 2 sockets, with 2 last-level caches and 2 NUMA nodes"
        )
    );
    assert!(says(&report, "libc").contains("glibc 2.36 has string functions"));
}

#[test]
fn a_stock_kernel_on_cascade_lake_can_be_improved() {
    let report = report("cascade-lake");
    assert!(report.would_run, "{report}");
    assert_eq!(report.tier, "xstate");
    assert_eq!(
        marked(&report, Mark::Note),
        ["options", "patch", "hints", "isolated", "rights", "groups", "tier"]
    );
    assert!(says(&report, "options").contains("CONFIG_FUNCTION_ERROR_INJECTION"));
    assert_eq!(says(&report, "isolated"), "CPUs 18-19,38-39 are isolated");
    assert!(says(&report, "libc").contains("glibc 2.31 do without AVX-512"));
    assert!(says(&report, "tunables").contains("does not change"));
    assert!(says(&report, "groups").ends_with("cpu.max of /kubepods.slice/pod7 and 1 more"));
    let tier = report.findings.last().unwrap();
    assert!(tier.advice.as_ref().unwrap().contains("CONFIG_X86_XFEATURE_HIDING"));
}

#[test]
fn a_laptop_without_sched_ext_is_told_what_it_lacks() {
    let report = report("i9-laptop");
    assert!(!report.would_run);
    assert_eq!(report.tier, "observe");
    assert_eq!(marked(&report, Mark::Problem), ["sched_ext", "options"]);
    assert!(says(&report, "options").contains("CONFIG_SCHED_CLASS_EXT"));
    assert!(says(&report, "cpu").contains("it has no AVX-512"));
    assert!(says(&report, "layout").contains("20 CPUs on 14 cores"));
    assert!(says(&report, "tunables").contains("-AVX512VL,-AVX512F keeps AVX-512 out"));
    assert!(!marked(&report, Mark::Note).contains(&"patch"), "it is of no use there");
}

#[test]
fn another_scheduler_is_in_the_way() {
    let report = report("zen4");
    assert!(!report.would_run);
    assert_eq!(marked(&report, Mark::Problem), ["sched_ext"]);
    assert!(says(&report, "sched_ext").contains("lavd_1.0.10 is already loaded"));
    assert!(says(&report, "cpu").contains("(Zen 4): AVX-512 hardly lowers its clock"));
    assert!(says(&report, "layout").contains("8 last-level caches and 1 NUMA node"));
}

#[test]
fn this_scheduler_is_not_in_its_own_way() {
    let root = machine("skylake-sp");
    let sched_ext = root.path().join("sys/kernel/sched_ext");
    fs::create_dir(sched_ext.join("root")).unwrap();
    fs::write(sched_ext.join("state"), "enabled\n").unwrap();
    fs::write(sched_ext.join("root/ops"), "avxspec_0.1.0_x86_64_unknown_linux_gnu\n").unwrap();
    let report = Report::of(root.path());
    assert!(report.would_run, "{report}");
    assert!(says(&report, "sched_ext").contains("runs already"));
}

#[test]
fn sapphire_rapids_is_left_alone() {
    let report = report("sapphire-rapids");
    assert!(report.would_run, "{report}");
    assert_eq!(report.tier, "observe");
    assert_eq!(marked(&report, Mark::Note), ["cpu", "counters"]);
    assert!(says(&report, "libc").contains("musl"));
    assert!(says(&report, "tunables").contains("means nothing to musl"));
}

#[test]
fn a_container_is_told_what_it_may_not() {
    let report = report("container");
    assert!(!report.would_run);
    assert_eq!(marked(&report, Mark::Problem), ["rights"]);
    assert_eq!(says(&report, "rights"), "root lacks CAP_PERFMON and CAP_BPF here");
    assert!(
        says(&report, "options").contains("neither in /proc/config.gz nor in /boot/config-6.12")
    );
    assert!(says(&report, "memory").contains("64 MiB"));
    assert!(says(&report, "cpu").contains("a little"));
    assert_eq!(report.tier, "xstate");
}

/// As in most virtual machines, whatever processor they say they have.
#[test]
fn counters_that_are_not_to_be_seen_are_no_tier() {
    let root = machine("skylake-sp");
    let cpuinfo = root.path().join("proc/cpuinfo");
    let text = fs::read_to_string(&cpuinfo).unwrap();
    fs::write(&cpuinfo, text.replace(" xsavec", "")).unwrap();
    assert_eq!(Report::of(root.path()).tier, "counters");
    fs::remove_dir_all(root.path().join("sys/bus/event_source/devices/cpu")).unwrap();
    assert_eq!(Report::of(root.path()).tier, "hints");
}

#[test]
fn an_empty_directory_is_no_machine_and_no_crash() {
    let root = tempfile::tempdir().unwrap();
    let report = Report::of(root.path());
    assert!(!report.would_run);
    assert_eq!(marked(&report, Mark::Problem), ["sched_ext", "types"]);
}

#[test]
fn each_finding_is_a_sentence_and_says_what_to_do() {
    for name in ["skylake-sp", "cascade-lake", "i9-laptop", "zen4", "sapphire-rapids", "container"]
    {
        for finding in report(name).findings {
            let text = finding.sentence();
            assert!(!text.contains('\n') && !text.contains("  "), "{text:?}");
            assert!(!finding.says.ends_with('.'), "{text:?}");
            assert_eq!(finding.advice.is_some(), finding.mark != Mark::Ok, "{text:?}");
        }
    }
}

#[test]
fn programs_can_read_it() {
    let json = serde_json::to_value(report("zen4")).unwrap();
    assert_eq!(json["would_run"], false);
    let findings = json["findings"].as_array().unwrap();
    let problem = findings.iter().find(|finding| finding["mark"] == "problem").unwrap();
    assert_eq!(problem["topic"], "sched_ext");
    assert!(problem["advice"].as_str().unwrap().contains("stop it first"));
}
