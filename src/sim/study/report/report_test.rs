// SPDX-License-Identifier: GPL-2.0-only
//! The pages, of outcomes that were made up.

use super::{Made, html, svg, sweep as report_of_sweeps};
use crate::sim::study::comparison::{Comparison, Shape, measure_by_first};
use crate::sim::study::outcome::{ClassShares, GroupOutcome, Outcome, made_up};
use crate::sim::study::parameters::Parameter;
use crate::sim::study::score::Score;
use crate::sim::study::sweep::{self, Best, Drawn, Spread};
use crate::sim::study::watch::{CoreStrip, Done, Strip};
use crate::sim::workload::record::Latency;

const SHAPE: Shape = Shape { sockets: 1, nodes: 1, llcs: 2, cores: 2, threads: 1 };
const EVIL: &str = "<script>alert(\"&'\")</script>";

fn outcome(work: f64, nr_avx: u32) -> Outcome {
    let core = CoreStrip { licences: "..0011220".into(), roles: "---AAAAAA".into() };
    let strip = Strip { from_ms: 0.0, to_ms: 1000.0, cores: vec![core.clone(), core] };
    let shares = ClassShares { busy_core_s: 1.0, by_licence: [0.5, 0.25, 0.25], lost: 0.1 };
    let latency_us =
        Some(Latency { p50: 100.0, p90: 900.0, p99: 5000.0, p999: 60_000.0, max: 70_000.0 });
    let group = GroupOutcome {
        name: EVIL.into(),
        requests_per_s: 100.0 * work,
        work,
        cpus: work,
        unfinished: None,
        latency_us,
        relative: None,
    };
    let part = |work| Done { work, begun: work, ..Done::default() };
    Outcome {
        variant: format!("{EVIL} {work}"),
        parts: [part(work - 0.5), part(work + 0.5)].repeat(10),
        busy_share: 0.9,
        avx_cores: nr_avx,
        role_changes: 3,
        low_cores: 1.5,
        migrations_per_request: 2.5,
        moves: 250,
        wide_faults: 100,
        wide_on_scalar_share: 0.125,
        scalar_cores: shares.clone(),
        avx_class: shares,
        settle_ms: vec![Some(12.0)],
        avx_cores_over_time: vec![(0.0, 0), (500.0, nr_avx)],
        role_changes_over_time: vec![(0.0, 0), (500.0, 3)],
        timelines: [strip.clone(), strip],
        ..made_up(work, vec![group.clone(), group])
    }
}

fn comparison(works: &[f64]) -> Comparison {
    let mut outcomes: Vec<Outcome> = works.iter().map(|work| outcome(*work, 4)).collect();
    measure_by_first(&mut outcomes);
    Comparison {
        kind: "modelled".into(),
        command: format!("scx_avxspec sim run '{EVIL}'"),
        version: "1".into(),
        workload: EVIL.into(),
        about: EVIL.into(),
        model: "m".into(),
        tier: "trap".into(),
        shape: SHAPE,
        seconds: 1,
        seed: 42,
        parameters: vec![Parameter { name: "n".into(), value: "v".into(), source: EVIL.into() }],
        outcomes,
    }
}

fn made() -> Made {
    Made {
        model: "m".into(),
        shape: SHAPE,
        seconds: None,
        seed: 42,
        command: format!("scx_avxspec sim sweep '{EVIL}'"),
        version: "1".into(),
    }
}

fn drawn(relative: &[f64]) -> Drawn {
    let spread = |relative: &[f64]| Spread {
        policy: "p".into(),
        variant: EVIL.into(),
        median: (!relative.is_empty()).then_some(0.75),
        p5: (!relative.is_empty()).then_some(0.5),
        relative: relative.iter().copied().map(Some).collect(),
        latency: Vec::new(),
        settle_ms: Vec::new(),
        sigma: Vec::new(),
        role_changes_10s: Vec::new(),
    };
    let draw = |n: usize| vec![format!("hold={n}"), "move=1".to_owned()];
    Drawn {
        kind: "modelled",
        workload: EVIL.into(),
        draws: relative.len() as u16,
        seconds: 1,
        seed: 42,
        factors: (0..relative.len()).map(draw).collect(),
        policies: vec![spread(&vec![1.0; relative.len()]), spread(relative)],
    }
}

fn partitions(nr: usize) -> Best {
    let score = |work| Score { work, balance: 1.0 };
    let tried: Vec<_> = (0..nr).map(|n| (vec![format!("{EVIL}={n}")], score(n as f64))).collect();
    sweep::best(EVIL, 5, vec![EVIL.into()], score(2.5), &tried, 1.0)
}

/// Of everything that there is a page for.
fn pages() -> [String; 3] {
    [
        html(&comparison(&[2.0, 1.5])),
        report_of_sweeps::draws(&[drawn(&[0.25, 0.75])], &made()),
        report_of_sweeps::partitions(&[partitions(3)], &made()),
    ]
}

#[test]
fn it_says_which_clocks_nobody_knows() {
    let shape = Shape { cores: 10, ..SHAPE };
    let made = Made { model: "xeon-w-2104".into(), shape, ..made() };
    let page = report_of_sweeps::draws(&[drawn(&[0.25])], &made);
    assert!(page.contains("with seed 42, clocks beyond 4 cores are those of 4.</p>"));
    assert!(pages().iter().all(|page| !page.contains("clocks beyond")));
}

#[test]
fn nothing_in_it_is_taken_for_html() {
    for page in pages() {
        assert!(!page.contains("<script") && !page.contains("alert(\""));
        assert!(page.contains("&lt;script"));
        for tag in ["svg", "figure", "table", "tr", "td", "text", "style", "pattern", "h2"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}

/// A hair for each draw, and a dot for each parameter that the draw has.
#[test]
fn every_draw_is_shown() {
    let page = report_of_sweeps::draws(&[drawn(&[0.25, 0.5, 0.75])], &made());
    let hairs: Vec<&str> = page.split("class=\"hair\"").skip(1).collect();
    let nr = |of: &str| of.split("/>").next().unwrap().matches('V').count();
    assert_eq!(hairs.iter().map(|of| nr(of)).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(page.matches("class=\"each\"").count(), 2 * 3);
    for cell in ["0.7500", "0.5000", "0.2500"] {
        assert!(page.contains(&format!("<td>{cell}</td>")), "{cell}");
    }
}

/// Of three draws, the one in the middle: the last one's result stays at its own factors.
#[test]
fn a_draw_without_a_result_moves_no_other() {
    let dots = |middle: Option<f64>| -> Vec<String> {
        let mut all = drawn(&[0.25, 0.5, 0.75]);
        all.policies[1].relative[1] = middle;
        let page = report_of_sweeps::draws(&[all], &made());
        let dots = page.split("<circle class=\"each\"").skip(1);
        dots.map(|it| it.split("/>").next().unwrap().to_owned()).collect()
    };
    // For each of two parameters.
    let [with, mut without] = [dots(Some(0.5)), dots(None)];
    assert_eq!((with.len(), without.len()), (2 * 3, 2 * 2));
    without.retain(|dot| !with.contains(dot));
    assert!(without.is_empty(), "{without:?} instead of {with:?}");
}

#[test]
fn draws_keep_their_places() {
    let with = |relative| {
        let mut comparison = comparison(&[2.0, 1.5]);
        comparison.outcomes[1].relative = relative;
        vec![comparison]
    };
    let spreads = sweep::spreads(&[with(Some(0.25)), with(None), with(Some(0.75))]);
    assert_eq!(spreads[1].relative, [Some(0.25), None, Some(0.75)]);
    assert_eq!(spreads[1].median, Some(0.5));
}

/// How many come is chance, and no policy's merit.
#[test]
fn seeds_in_which_more_arrives_are_not_apart() {
    let with = |work: f64, unfinished: Option<f64>| {
        let mut comparison = comparison(&[work, 0.75 * work]);
        for group in comparison.outcomes.iter_mut().flat_map(|it| &mut it.groups) {
            group.unfinished = unfinished;
        }
        comparison.outcomes[1].relative = Some(0.75);
        comparison
    };
    let sigmas = |unfinished| {
        let spreads = sweep::spreads(&[vec![with(2.0, unfinished), with(3.0, unfinished)]]);
        spreads.into_iter().map(|it| it.sigma).collect::<Vec<_>>()
    };
    assert_eq!(sigmas(Some(1.0)), [vec![], vec![0.0]]);
    let closed = sigmas(None).concat();
    assert!(closed.len() == 2 && closed.iter().all(|it| *it > 0.2), "{closed:?}");
}

/// Of the first group, where there are several.
#[test]
fn draws_tell_how_long_requests_take() {
    for spread in sweep::spreads(&[vec![comparison(&[2.0, 1.5])]]) {
        let [latency] = spread.latency[..] else { panic!("{spread:?}") };
        assert_eq!((latency.p50, latency.max), (1.0, 1.0));
    }
}

/// Each workload of a sweep may have a time of its own.
#[test]
fn sweeps_tell_how_long_each_workload_was_run() {
    let long = Drawn { seconds: 6, ..drawn(&[0.5]) };
    let page = report_of_sweeps::draws(&[drawn(&[0.25, 0.75]), long], &made());
    assert!(page.contains("in 2 draws of 1 s, by") && page.contains("in 1 draws of 6 s, by"));
    assert!(!page.contains("of its time"), "{page}");
    let page = report_of_sweeps::partitions(&[partitions(3)], &made());
    assert!(page.contains("3 partitions (dots), for 5 s each, and"), "{page}");
}

/// In the chart; the list has the best ones, and the one with the best balance.
#[test]
fn every_partition_is_shown() {
    let mut best = partitions(40);
    best.balanced_settings = best.tried[39].settings.clone();
    let page = report_of_sweeps::partitions(&[best], &made());
    assert_eq!(page.matches("class=\"each\"").count(), 40);
    // The head, the default policy, and these.
    assert_eq!(page.matches("<tr>").count(), 2 + 12 + 1);
    assert!(page.contains("=0</td>"), "{page}");
    assert!(page.contains("has 0.0641 of the most score"), "{page}");
}

#[test]
fn every_figure_says_that_it_is_modelled() {
    let page = html(&comparison(&[2.0, 1.5]));
    let figures = page.matches("<figure>").count();
    // Throughput, latencies of two groups, AVX cores, two timelines of two policies.
    assert_eq!(figures, 8);
    assert_eq!(page.matches("<figcaption>Modelled. ").count(), figures);
    assert!(page.contains(", with 1 &times; 2 caches &times; 1 cores &times; 1 threads, for 1 s"));
    assert!(page.contains("seed 42") && page.contains("<code>scx_avxspec sim run"));
    // 1.5 by 2, in the chart and in the table.
    assert!(page.contains(">0.7500</text>") && page.contains("<td>0.7500</td>"));
}

#[test]
fn cores_with_a_low_clock_are_no_share() {
    let page = html(&comparison(&[2.0]));
    assert!(page.contains("L1 / L2, %</th><th>Busy cores at a low clock</th>"), "{page}");
    assert!(
        page.contains("The last column is a number of cores") && page.contains("<td>1.50</td>")
    );
}

/// The ratio of the first one to itself is certain.
#[test]
fn whiskers_are_as_long_as_the_table_says() {
    let all = comparison(&[2.0, 1.5, 2.5]);
    assert_eq!(svg::throughput(&all).matches("class=\"mark\"").count(), 2 * 3);
    let around: Vec<_> = all.outcomes.iter().map(|it| it.uncertainty()).collect();
    assert_eq!(around[0], None);
    let page = html(&all);
    assert!(page.contains("<td>1.0000</td><td>-</td>"), "{page}");
    for (relative, around) in [("0.7500", around[1]), ("1.2500", around[2])] {
        let cells = format!("<td>{relative}</td><td>{:.4}</td>", around.unwrap());
        assert!(page.contains(&cells), "{cells}");
    }
}

#[test]
fn it_needs_nothing_else() {
    for page in pages() {
        for foreign in ["http:", "https:", "src=", "href=", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        let figures = page.matches("<figure>").count();
        assert_eq!(page.matches("<figcaption>Modelled. ").count(), figures);
    }
}

/// Where nothing was done there is nothing to divide by.
#[test]
fn a_run_without_results_is_shown_too() {
    let page = html(&comparison(&[0.0, 0.0]));
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    assert!(html(&comparison(&[])).contains("</html>"));
    let empty = report_of_sweeps::draws(&[drawn(&[]), drawn(&[f64::NAN])], &made());
    assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    assert!(empty.contains(&"<td>-</td>".repeat(4)), "{empty}");
    let empty = report_of_sweeps::partitions(&[partitions(0)], &made());
    assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
}

/// No bar, and what the table beside it has.
#[test]
fn what_cannot_be_measured_has_no_bar() {
    let chart = |works: &[f64]| svg::throughput(&comparison(works));
    let (nothing, some) = (chart(&[0.0, 0.0]), chart(&[2.0, 1.5]));
    let count = |chart: &str| [">-</text>", "class=\"bar\""].map(|it| chart.matches(it).count());
    assert_eq!((count(&nothing), count(&some)), ([2, 0], [0, 2]));
    assert!(!nothing.contains("0.0000"), "{nothing}");
}

/// In each chart with a row for each policy.
#[test]
fn names_that_have_no_room_are_cut_short() {
    let mut all = comparison(&[2.0, 1.5]);
    let long = "with sizing=static avx-cpus=1 placement=pack return=syscall avx-slice=3ms <b>";
    all.outcomes[0].variant = "two siblings, back with system calls".to_owned();
    all.outcomes[1].variant = long.to_owned();
    let outcomes: Vec<&Outcome> = all.outcomes.iter().collect();
    let latency = all.outcomes[0].groups[0].latency_us.unwrap();
    let rows = outcomes.iter().map(|it| it.variant.as_str());
    for chart in [
        svg::throughput(&all),
        svg::latency(&rows.clone().map(|name| (name, latency)).collect::<Vec<_>>()),
        svg::spreads(&rows.map(|name| (name, vec![1.0])).collect::<Vec<_>>()),
        svg::avx_cores(&outcomes, 1000.0),
    ] {
        let title = format!("<title>{}</title>with sizing=static avx-cpus=1", svg::escape(long));
        assert!(chart.contains(&title) && !chart.contains("<b>"), "{chart}");
        assert!(chart.contains(">two siblings, back with system calls</text>"), "{chart}");
        let shown = chart.split("</title>").nth(1).unwrap().split("&#8230;</text>").next().unwrap();
        assert!((36..=42).contains(&shown.len()), "{shown:?}");
        assert_eq!(chart.matches("&#8230;").count(), 1);
    }
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
