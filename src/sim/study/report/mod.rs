// SPDX-License-Identifier: GPL-2.0-only
//! A comparison as a page of HTML that needs nothing else: no script, no other file.

pub mod harm;
mod svg;
pub mod sweep;

#[cfg(test)]
mod report_test;

use std::fmt::Write;

use self::svg::{CORES_SHOWN, escape};
use super::comparison::{Comparison, Shape};
use super::outcome::{ClassShares, Outcome};
use super::score::ratio;
use super::watch::COLUMNS;
use crate::sim::machine::model::guessed_clocks;
use crate::sim::workload::record::Latency;

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1c1e21;--dim:#5b6068;--bg:#fff;--line:#d5d8dd;--bar:#3567a8;\
--idle:#f1f2f4;--l0:#9cc3e6;--l1:#f0b64f;--l2:#d9603f}\
@media(prefers-color-scheme:dark){:root{--fg:#e6e7ea;--dim:#a3a8b1;--bg:#16181b;--line:#3a3e45;\
--bar:#78a9e6;--idle:#23262b;--l0:#2f5f8c;--l1:#a8761c;--l2:#b5452a}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:960px;\
margin:2em auto;padding:0 1em}\
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}h3{font-size:1em;margin:1.2em 0 .3em}\
figure{margin:1em 0}figcaption,.dim{color:var(--dim);font-size:.9em}\
svg{width:100%;height:auto;display:block}svg text{font:12px system-ui,sans-serif;fill:var(--fg)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}\
td,th{padding:.25em .7em;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}\
th{font-weight:600}td{white-space:nowrap}.words td{white-space:normal}\
td:first-child,th:first-child,.words td,.words th{text-align:left}\
code{font:.9em ui-monospace,monospace;overflow-wrap:anywhere}\
pre{font:.85em/1.4 ui-monospace,monospace;overflow-x:auto}\
.bar{fill:var(--bar)}.mark{stroke:var(--fg);stroke-width:1.6;fill:none}.hollow{fill:var(--bg)}\
.axis{stroke:var(--dim);fill:none}.guide{stroke:var(--line);stroke-dasharray:3 3;fill:none}\
.idle{fill:var(--idle)}.l0{fill:var(--l0)}.l1{fill:url(#h1)}.l2{fill:url(#h2)}.role{fill:var(--fg)}\
.b1{fill:var(--l1)}.b2{fill:var(--l2)}.hatch{stroke:var(--bg);stroke-width:1;fill:none}\
.each{fill:var(--bar);fill-opacity:.35}.hair{stroke:var(--bar);stroke-opacity:.45;fill:none}";

pub fn html(comparison: &Comparison) -> String {
    let title = format!("{}: {}", comparison.workload, comparison.about);
    let made = Made {
        model: comparison.model.clone(),
        shape: comparison.shape,
        seconds: Some(comparison.seconds),
        seed: comparison.seed,
        command: comparison.command.clone(),
        version: comparison.version.clone(),
    };
    let parts = [
        throughput(comparison),
        latency(comparison),
        avx_cores(comparison),
        timelines(comparison),
        numbers(comparison),
        groups(comparison),
        parameters(comparison),
    ];
    page(&title, &introduction(&made), &parts.concat())
}

/// How a page was made: on what machine, and how to make it again.
pub struct Made {
    pub model: String,
    pub shape: Shape,
    /// None where each workload on the page has a time of its own.
    pub seconds: Option<u64>,
    pub seed: u64,
    pub command: String,
    pub version: String,
}

/// Returns a page of HTML. The introduction tells where the figures are from.
fn page(title: &str, introduction: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{0} (modelled)</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{1}<h1>{0}</h1>\n{introduction}{body}</body>\n</html>\n",
        escape(title),
        svg::patterns()
    )
}

fn introduction(made: &Made) -> String {
    let time =
        made.seconds.map_or(String::new(), |seconds| format!(", for {seconds} s of its time"));
    format!(
        "<p><strong>Every figure here is modelled</strong>, not measured: the scheduler's own code \
         ran on a model of a processor, {}, with {}{time}, with seed {}{}.</p>\n{}",
        escape(&made.model),
        made.shape.to_string().replace(" x ", " &times; "),
        made.seed,
        guessed_clocks(&made.model, made.shape.cores),
        made_by(&made.command, &made.version)
    )
}

fn made_by(command: &str, version: &str) -> String {
    format!(
        "<p class=\"dim\">Made by <code>{}</code>, version {}.</p>\n",
        escape(command),
        escape(version)
    )
}

fn figure(chart: &str, caption: &str) -> String {
    format!("<figure>{chart}<figcaption>Modelled. {}</figcaption></figure>\n", escape(caption))
}

fn throughput(comparison: &Comparison) -> String {
    let caption = "Useful work, by that of the first policy; where requests come from outside, \
                   however many wait, it is how much sooner they are done. The whisker is where \
                   the ratio is with a probability of 95 %, by what threads drew and how much 20 \
                   parts of both runs, which have the same seed, are off it.";
    let why = comparison.why_no_interval().map_or(String::new(), |why| format!(" {why}"));
    let caption = format!("{caption}{why}");
    format!("<h2>Throughput</h2>\n{}", figure(&svg::throughput(comparison), &caption))
}

fn latency(comparison: &Comparison) -> String {
    let mut text = String::new();
    let groups = comparison.outcomes.first().map_or(0, |first| first.groups.len());
    for n in 0..groups {
        let rows: Vec<(&str, Latency)> = comparison
            .outcomes
            .iter()
            .filter_map(|it| Some((it.variant.as_str(), it.groups.get(n)?.latency_us?)))
            .collect();
        let name = comparison.outcomes.iter().find_map(|it| it.groups.get(n)).map(|it| &it.name);
        if rows.is_empty() {
            continue;
        }
        let caption = format!(
            "Group {:?}: the median (a disc), the 99th percentile (a diamond) and the longest (a \
             stroke), from the arrival of a request, or the end of the one before.",
            name.map_or("", String::as_str)
        );
        text += &figure(&svg::latency(&rows), &caption);
    }
    if text.is_empty() { text } else { format!("<h2>Latency</h2>\n{text}") }
}

fn avx_cores(comparison: &Comparison) -> String {
    let has_some = |it: &&Outcome| it.avx_cores_over_time.iter().any(|(_, nr)| *nr > 0);
    let outcomes: Vec<&Outcome> = comparison.outcomes.iter().filter(has_some).collect();
    if outcomes.is_empty() {
        return String::new();
    }
    let chart = svg::avx_cores(&outcomes, comparison.seconds as f64 * 1000.0);
    let caption = "How many CPUs were AVX cores. Policies that never had one are left out.";
    format!("<h2>AVX cores over time</h2>\n{}", figure(&chart, caption))
}

fn timelines(comparison: &Comparison) -> String {
    let mut text = "<h2>What each core did</h2>\n".to_owned();
    text += &svg::legend();
    for outcome in &comparison.outcomes {
        let _ = writeln!(text, "<h3>{}</h3>", escape(&outcome.told()));
        let captions = ["The whole run", "The end of it"];
        for (strip, which) in outcome.timelines.iter().zip(captions) {
            let cores = match strip.cores.len() {
                nr if nr > CORES_SHOWN => format!("the first {CORES_SHOWN} of {nr} cores each"),
                _ => "each core".to_owned(),
            };
            let caption = format!(
                "{which}: what {cores} had for most of each part of {:.3} ms, and the AVX cores \
                 underlined.",
                (strip.to_ms - strip.from_ms) / COLUMNS as f64
            );
            text += &figure(&svg::timeline(strip), &caption);
        }
    }
    text
}

fn table(class: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, row: &mut dyn Iterator<Item = &str>| -> String {
        row.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let mut text = format!(
        "<div class=\"scroll\"><table class=\"{class}\">\n<tr>{}</tr>\n",
        cells("th", &mut head.iter().copied())
    );
    for row in rows {
        let _ = writeln!(text, "<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str)));
    }
    text + "</table></div>\n"
}

fn shares(class: &ClassShares) -> String {
    if class.busy_core_s == 0.0 {
        return "-".to_owned();
    }
    let [l0, l1, l2] = class.by_licence.map(|share| format!("{:.1}", 100.0 * share));
    format!("{l0} / {l1} / {l2}")
}

fn numbers(comparison: &Comparison) -> String {
    let percent = |share: f64| format!("{:.2}", 100.0 * share);
    let result = |it: &Outcome| {
        let settle: Vec<String> = it
            .settle_ms
            .iter()
            .map(|ms| ms.map_or("-".to_owned(), |ms| format!("{ms:.0}")))
            .collect();
        vec![
            it.variant.clone(),
            format!("{:.3}", it.work),
            ratio(it.relative),
            ratio(it.uncertainty()),
            it.avx_cores.to_string(),
            it.role_changes.to_string(),
            if settle.is_empty() { "-".to_owned() } else { settle.join(", ") },
            format!("{:.2}", it.migrations_per_request),
            percent(it.busy_share),
        ]
    };
    let clock = |it: &Outcome| {
        vec![
            it.variant.clone(),
            percent(it.wide_on_scalar_share),
            shares(&it.scalar_cores),
            percent(it.scalar_cores.lost),
            shares(&it.avx_class),
            format!("{:.2}", it.low_cores),
        ]
    };
    let rows = |of: &dyn Fn(&Outcome) -> Vec<String>| -> Vec<Vec<String>> {
        comparison.outcomes.iter().map(of).collect()
    };
    format!(
        "<h2>Figures</h2>\n<p class=\"dim\">Modelled. Work is in CPUs at their best that would \
         take as long for it without AVX-512.</p>\n{}<h2>Clocks</h2>\n<p class=\"dim\">Modelled. \
         Licences are shares of the time in which cores were busy; speed is lost to lower clocks, \
         throttling and halts. The last column is a number of cores, on average.</p>\n{}",
        table("", &RESULTS, &rows(&result)),
        table("", &CLOCKS, &rows(&clock))
    )
}

const RESULTS: [&str; 9] = [
    "Policy",
    "Work",
    "Relative",
    "+-",
    "AVX cores",
    "Role changes",
    "Settled, ms",
    "Moves/request",
    "Busy, %",
];

const CLOCKS: [&str; 6] = [
    "Policy",
    "512-bit work on scalar cores, %",
    "Scalar cores in L0 / L1 / L2, %",
    "Their speed lost, %",
    "AVX cores in L0 / L1 / L2, %",
    "Busy cores at a low clock",
];

fn groups(comparison: &Comparison) -> String {
    let mut rows = Vec::new();
    for outcome in comparison.outcomes.iter().filter(|it| it.groups.len() > 1) {
        for group in &outcome.groups {
            let time = |of: fn(&Latency) -> f64| {
                group.latency_us.map_or("-".to_owned(), |it| format!("{:.0}", of(&it)))
            };
            rows.push(vec![
                format!("{}: {}", outcome.variant, group.name),
                format!("{:.1}", group.requests_per_s),
                ratio(group.relative),
                time(|it| it.p50),
                time(|it| it.p90),
                time(|it| it.p99),
                time(|it| it.p999),
                time(|it| it.max),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "Group",
        "Requests/s",
        "Relative",
        "p50, us",
        "p90, us",
        "p99, us",
        "p99.9, us",
        "Longest, us",
    ];
    format!("<h2>Groups</h2>\n<p class=\"dim\">Modelled.</p>\n{}", table("", &head, &rows))
}

fn parameters(comparison: &Comparison) -> String {
    let row = |it: &super::parameters::Parameter| {
        vec![it.name.clone(), it.value.clone(), it.source.clone()]
    };
    let rows: Vec<Vec<String>> = comparison.parameters.iter().map(row).collect();
    let head = ["Parameter", "Value", "Where it is from"];
    format!("<h2>What the model goes by</h2>\n{}", table("words", &head, &rows))
}
