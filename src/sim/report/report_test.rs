// SPDX-License-Identifier: GPL-2.0-only
//! The page, of outcomes that were made up.

use super::html;
use crate::sim::comparison::Comparison;
use crate::sim::outcome::{ClassShares, GroupOutcome, Outcome};
use crate::sim::parameters::Parameter;
use crate::sim::record::Latency;
use crate::sim::watch::{CoreStrip, Strip};

const EVIL: &str = "<script>alert(\"&'\")</script>";

fn outcome(work: f64, nr_avx: u32) -> Outcome {
    let core = CoreStrip { licences: "..0011220".into(), roles: "---AAAAAA".into() };
    let strip = Strip { from_ms: 0.0, to_ms: 1000.0, cores: vec![core.clone(), core] };
    let shares = ClassShares { busy_core_s: 1.0, by_licence: [0.5, 0.25, 0.25], lost: 0.1 };
    let latency_us =
        Some(Latency { p50: 100.0, p90: 900.0, p99: 5000.0, p999: 60_000.0, max: 70_000.0 });
    let group = GroupOutcome { name: EVIL.into(), requests_per_s: 100.0 * work, latency_us };
    Outcome {
        policy: "p".into(),
        variant: format!("{EVIL} {work}"),
        settings: Vec::new(),
        requests_per_s: 100.0 * work,
        work,
        work_95: [work - 0.1, work + 0.1],
        latency_us,
        busy_share: 0.9,
        avx_cores: nr_avx,
        role_changes: 3,
        low_cores: 1.5,
        migrations_per_request: 2.5,
        wide_on_scalar_share: 0.125,
        scalar_cores: shares.clone(),
        avx_class: shares,
        settle_ms: vec![Some(12.0)],
        groups: vec![group.clone(), group],
        avx_cores_over_time: vec![(0.0, 0), (500.0, nr_avx)],
        role_changes_over_time: vec![(0.0, 0), (500.0, 3)],
        timelines: [strip.clone(), strip],
        estimate_error: None,
        events: 1,
    }
}

fn comparison(works: &[f64]) -> Comparison {
    Comparison {
        kind: "modelled".into(),
        command: format!("scx_avxspec sim run '{EVIL}'"),
        version: "1".into(),
        workload: EVIL.into(),
        about: EVIL.into(),
        model: "m".into(),
        tier: "trap".into(),
        sockets: 1,
        cores: 2,
        threads: 1,
        seconds: 1,
        seed: 42,
        parameters: vec![Parameter { name: "n".into(), value: "v".into(), source: EVIL.into() }],
        outcomes: works.iter().map(|work| outcome(*work, 4)).collect(),
    }
}

#[test]
fn nothing_in_it_is_taken_for_html() {
    let page = html(&comparison(&[2.0, 1.5]));
    assert!(!page.contains("<script") && !page.contains("alert(\"") && page.contains("&lt;script"));
    for tag in ["svg", "figure", "table", "tr", "td", "text", "style", "pattern", "h2"] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn every_figure_says_that_it_is_modelled() {
    let page = html(&comparison(&[2.0, 1.5]));
    let figures = page.matches("<figure>").count();
    // Throughput, latencies of two groups, AVX cores, two timelines of two policies.
    assert_eq!(figures, 8);
    assert_eq!(page.matches("<figcaption>Modelled. ").count(), figures);
    assert!(page.contains("seed 42") && page.contains("<code>scx_avxspec sim run"));
    // 1.5 by 2, in the chart and in the table.
    assert!(page.contains(">0.7500</text>") && page.contains("<td>0.7500</td>"));
}

#[test]
fn it_needs_nothing_else() {
    let page = html(&comparison(&[2.0]));
    for foreign in ["http:", "https:", "src=", "href=", "@import"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

/// Where nothing was done there is nothing to divide by.
#[test]
fn a_run_without_results_is_shown_too() {
    let page = html(&comparison(&[0.0, 0.0]));
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    assert!(html(&comparison(&[])).contains("</html>"));
}

#[test]
fn cores_that_are_not_shown_are_told_of() {
    let mut all = comparison(&[2.0]);
    let few = html(&all);
    assert!(few.contains("what each core had for most of each part of 6.250 ms"), "{few}");
    let strip = &mut all.outcomes[0].timelines[0];
    strip.cores = vec![strip.cores[0].clone(); 33];
    let many = html(&all);
    assert!(many.contains("what the first 32 of 33 cores each had for most"), "{many}");
    assert!(many.contains("core 31<") && !many.contains("core 32<"), "{many}");
}
