// SPDX-License-Identifier: GPL-2.0-only
//! The text that Prometheus gets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::exposition::{Format, reference, text_of};
use super::families::{self, Facts};
use super::process::Usage;
use super::shown::Row;
use super::snapshot::{Now, Snapshot, Sums, Work};
use super::source::{self, View};
use crate::agent::counters::Counted;
use crate::agent::prospect::{Prospect, Worth};
use crate::agent::stats::Metrics;
use crate::agent::status;
use crate::agent::trial::More;
use crate::agent::trial::standing::{Found, Known};
use crate::bpf::intf::avx_cpu_stats;

/// A life of the scheduler after so many seconds.
fn life(s: u64) -> Snapshot {
    let mut cpu = avx_cpu_stats::default();
    (cpu.direct, cpu.lowered_ns) = (100 * s, 250_000_000 * s);
    for buckets in &mut cpu.waits {
        (buckets[0], buckets[20]) = (3 * s, s);
    }
    let metrics = Metrics { interval_ns: s * 1_000_000_000, ..Metrics::default() };
    let ns = s * 500_000_000;
    let counted = Counted {
        cycles: [4 * s, 2 * s, s],
        cycles_ns: ns,
        wide_operations: 3 * s,
        wide_operations_ns: ns,
    };
    let sums = Sums {
        counters: metrics.with(&[cpu, cpu]),
        waits: status::waits_of(&[cpu, cpu]),
        as_avx_core_ns: [(0, s), (1, 0)].into(),
        counted: [(1, counted)].into(),
        cgroups: [(7, Work { avx_ns: s, scalar_ns: s, lost_ns: s, watched_ns: s })].into(),
    };
    let now = Now {
        clocks: "an estimate".to_owned(),
        tier: "trap",
        generation: 3,
        policy: "fair",
        avx_cores_for: "nobody".into(),
        trial_left: Duration::from_millis(1500),
        policy_refusals: 4,
        policy_reverts: 1,
        cpus: [(0, true), (1, false)].into(),
        avx_cores: 1,
        prospect: Some(Prospect::Modelled(Worth {
            avx_cores: 2,
            cpus: 8,
            avx_work_percent: 3,
            least_gain_percent: -1,
            most_gain_percent: 25,
        })),
        trials: Some(Known::Found(Found {
            pays: true,
            more: Some(More { percent: 3.0, from: -1.0, to: 7.0 }),
            left_alone: Vec::new(),
            ago_s: 1,
            next_in_s: 2,
        })),
    };
    Snapshot { sums, now, restarts: 0 }
}

fn facts(snapshot: Snapshot) -> Facts {
    let work = Work { avx_ns: 1_500_000_000, scalar_ns: 7, ..Work::default() };
    let cgroups = vec![
        Row { name: "/web \"quoted\"\\and\nbroken".to_owned(), work },
        Row { name: "other".to_owned(), work },
    ];
    let view = Arc::new(View { snapshot, cgroups });
    Facts { view, usage: Usage::now(), scrapes: 1, refused: 0 }
}

/// The samples by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        })
        .collect()
}

#[test]
fn each_sample_is_of_a_family_that_is_described() {
    for format in [Format::OpenMetrics, Format::Classic] {
        let text = text_of(facts(life(5)), format).unwrap();
        let known: BTreeSet<String> =
            families::all().iter().flat_map(families::Family::sample_names).collect();
        let told: BTreeSet<String> = samples(&text)
            .keys()
            .map(|series| series.split('{').next().unwrap().to_owned())
            .collect();
        assert_eq!(told, known);
        let described = text.lines().filter(|line| line.starts_with("# HELP ")).count();
        assert_eq!(described, families::all().len());
    }
}

#[test]
fn numbers_are_in_seconds_and_labels_are_escaped() {
    let text = text_of(facts(life(4)), Format::OpenMetrics).unwrap();
    let samples = samples(&text);
    assert_eq!(samples["avxspec_lowered_seconds_total"], 2.0);
    assert_eq!(samples["avxspec_direct_total"], 800.0);
    assert_eq!(samples["avxspec_policy_info{policy=\"fair\",avx_cores_for=\"nobody\"}"], 1.0);
    assert_eq!(samples["avxspec_policy_trial_left_seconds"], 1.5);
    assert_eq!(samples["avxspec_policy_switches_total"], 2.0);
    assert_eq!(samples["avxspec_policy_refusals_total"], 4.0);
    assert_eq!(samples["avxspec_policy_reverts_total"], 1.0);
    assert_eq!(samples["avxspec_cpu_is_avx_core{cpu=\"0\"}"], 1.0);
    assert_eq!(samples["avxspec_cpu_is_avx_core{cpu=\"1\"}"], 0.0);
    let path = "/web \\\"quoted\\\"\\\\and\\nbroken";
    assert_eq!(samples[&format!("avxspec_cgroup_avx_seconds_total{{cgroup=\"{path}\"}}")], 1.5);
    assert!(text.contains("# UNIT avxspec_lowered_seconds seconds\n"));
    assert!(text.contains(
        "# HELP avxspec_lowered_seconds time at a low clock of scalar CPUs, modelled.\n"
    ));
}

#[test]
fn what_cpus_count_is_told_as_far_as_it_is_known() {
    let series = |life| samples(&text_of(facts(life), Format::OpenMetrics).unwrap());
    let told = series(life(4));
    assert_eq!(told["avxspec_cpu_licence_cycles_total{cpu=\"1\",licence=\"1\"}"], 8.0);
    assert_eq!(told["avxspec_cpu_wide_operations_total{cpu=\"1\"}"], 12.0);
    assert_eq!(told["avxspec_cpu_counted_seconds_total{cpu=\"1\",counters=\"licences\"}"], 2.0);
    let mut unknown = life(4);
    unknown.sums.counted = [(1, Counted::default())].into();
    let told = series(unknown);
    assert!(told.keys().all(|name| !name.contains("counted") && !name.contains("licence_")));
}

#[test]
fn trials_are_told_once_one_is_over() {
    let series = |life| samples(&text_of(facts(life), Format::OpenMetrics).unwrap());
    let told = series(life(4));
    assert_eq!(told["avxspec_trial_avx_cores_pay"], 1.0);
    let gain = |bound| told[&format!("avxspec_trial_gain_ratio{{bound=\"{bound}\"}}")];
    assert_eq!(["least", "mean", "most"].map(gain), [-0.01, 0.03, 0.07]);
    let mut unknown = life(4);
    unknown.now.trials = Some(Known::TriesFirst);
    assert!(
        series(unknown)
            .keys()
            .all(|name| !name.contains("trial_avx") && !name.contains("gain_ratio"))
    );
}

#[test]
fn prospects_are_told_as_far_as_they_are_known() {
    let series = |life| samples(&text_of(facts(life), Format::OpenMetrics).unwrap());
    let told = series(life(4));
    assert_eq!(told["avxspec_prospect_avx_cores_modelled"], 2.0);
    assert_eq!(told["avxspec_prospect_gain_modelled_ratio{bound=\"least\"}"], -0.01);
    assert_eq!(told["avxspec_prospect_gain_modelled_ratio{bound=\"most\"}"], 0.25);
    let mut unknown = life(4);
    unknown.now.prospect = Some(Prospect::NotKnown("nobody tells".to_owned()));
    let told = series(unknown);
    assert!(told.keys().all(|name| !name.contains("prospect")));
}

#[test]
fn histograms_end_without_bound() {
    let samples = samples(&text_of(facts(life(1)), Format::OpenMetrics).unwrap());
    let bucket =
        |class, le| format!("avxspec_wait_seconds_bucket{{le=\"{le}\",class=\"{class}\"}}");
    assert_eq!(samples[&bucket("avx", "+Inf")], 8.0);
    assert_eq!(samples["avxspec_wait_seconds_count{class=\"avx\"}"], 8.0);
    assert_eq!(samples["avxspec_wait_seconds_count{class=\"default\"}"], 8.0 * 64.0);
    let finite =
        samples.keys().filter(|it| it.contains("_bucket") && it.contains("\"avx\"")).count();
    assert_eq!(finite, 21);
}

#[test]
fn the_older_format_names_families_as_their_samples() {
    let text = text_of(facts(life(1)), Format::Classic).unwrap();
    assert!(text.contains("# TYPE avxspec_direct_total counter\n"));
    assert!(text.contains("# TYPE avxspec_info gauge\n"));
    assert!(text.contains("# TYPE avxspec_wait_seconds histogram\n"));
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
}

/// Of two texts no counter is less in the later one, and none is gone.
fn assert_monotonic(earlier: &str, later: &str) {
    let later = samples(later);
    let is_counter = |series: &str| {
        let name = series.split('{').next().unwrap();
        ["_total", "_bucket", "_count", "_sum"].iter().any(|suffix| name.ends_with(suffix))
    };
    for (series, value) in samples(earlier).iter().filter(|(series, _)| is_counter(series)) {
        assert!(later[series] >= *value, "{series} fell from {value} to {}", later[series]);
    }
}

#[test]
fn counters_go_on_when_the_scheduler_is_loaded_anew() {
    let (mut exporter, mut source) = source::channel();
    source.patience = Duration::from_secs(60);
    let patience = source.patience;
    let mut seen = Vec::new();
    // Within a life the sums grow, and with each one they begin at zero again.
    for lived in [[2, 5], [0, 1], [1, 9]] {
        for s in lived {
            std::thread::sleep(std::time::Duration::from_millis(210));
            std::thread::scope(|scope| {
                let asker = scope.spawn(|| source.view().unwrap());
                let asked = exporter.requests().recv_timeout(patience).unwrap();
                exporter.answer(&asked, Ok(life(s)));
                let view = asker.join().unwrap();
                let facts = Facts { view, ..facts(life(0)) };
                seen.push(text_of(facts, Format::OpenMetrics).unwrap());
            });
        }
        exporter.keep(life(lived[1]).sums);
        exporter.restarted();
    }
    seen.windows(2).for_each(|pair| assert_monotonic(&pair[0], &pair[1]));
    let last = samples(seen.last().unwrap());
    assert_eq!(last["avxspec_direct_total"], f64::from((5 + 1 + 9) * 200));
    assert_eq!(
        (last["avxspec_attached_seconds_total"], last["avxspec_restarts_total"]),
        (15.0, 2.0)
    );
}

#[test]
fn names_are_as_prometheus_has_them() {
    let families = families::all();
    let names: BTreeSet<&str> = families.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names.len(), families.len(), "a name is there twice");
    for family in families {
        let name = &family.name;
        assert!(name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'), "{name}");
        assert!(!name.ends_with("_ns") && !family.help.contains("nanosec"), "{name}");
        assert!(!family.help.contains(['\n', '\\', '|']), "{name}");
    }
}

/// `scx_avxspec --help-metrics >docs/metrics.md` makes it so.
#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    assert!(fs::read_to_string(path).unwrap() == reference(), "print docs/metrics.md again");
}

/// For promtool: WRITE_SAMPLE=directory writes a text in each format there.
#[test]
fn a_sample_can_be_written() {
    let Ok(directory) = std::env::var("WRITE_SAMPLE") else { return };
    for (format, name) in [(Format::OpenMetrics, "open.txt"), (Format::Classic, "classic.txt")] {
        let text = text_of(facts(life(5)), format).unwrap();
        fs::write(Path::new(&directory).join(name), text).unwrap();
    }
}
