// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig figures`: docs/figures.md, from what was measured last.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::rig::in_repository;
use crate::rig::results::{Figure, Results};

const INTRODUCTION: &str = "\
# Figures

Written by `make figures` from what `make bench`, `make soak` and `make test-kernels`
measured last, which is kept in `docs/figures`.
Machines are shared and noisy: seconds are those of one run.

| column | what it says |
| --- | --- |
| figure | its name, which begins with what it is about: `agent`, `fair` (who pays for low clocks), `patch` (of the kernel), `rig`, `sched` (the scheduler in a virtual machine), `sim` (the simulator), `soak` |
| value, unit | what was measured. What is `of` something is a ratio to it, and what is `modelled` comes from the simulator |
| bar | what is asked for; `none` where the figure is there to be known, or to be compared |
| verdict | `ok`, or `short` where the bar is not reached, with the reason below the table; `-` where there is no bar |
| command | what measures it again |
| date, commit | when it was measured, and what: a commit, or one `and changes` that were not committed yet |
";

/// Of what is short, and not to stay so.
pub const NO_REASON: &str = "the reason is not known";

/// What is measured, and the headings.
pub const KINDS: [(&str, &str); 3] = [
    ("bench", "Measured by `make bench`"),
    ("soak", "Long runs by `make soak`"),
    ("kernels", "Other kernels, by `make test-kernels`"),
];

pub fn write() -> Result<ExitCode> {
    let mut sections = Vec::new();
    for (kind, title) in KINDS {
        let mut results = kept(kind)?;
        results.merge(measured(Results::load(&Results::path(kind))?)?);
        sections.push((title, results));
    }
    // Not before all of them are known to be figures.
    for ((kind, _), (_, results)) in KINDS.iter().zip(&sections) {
        if !results.figures.is_empty() {
            results.save(&place_of(kind))?;
        }
    }
    let path = in_repository("docs/figures.md");
    fs::write(&path, page(&sections))?;
    eprintln!("rig: written to {}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// All of them: what failed is no figure, and does not take the place of one.
pub fn measured(results: Results) -> Result<Vec<Figure>> {
    for Figure { name, value, verdict, command, .. } in &results.figures {
        ensure!(value.is_some(), "{name} {verdict}\nMeasure it again: {command}");
    }
    Ok(results.figures)
}

fn place_of(kind: &str) -> PathBuf {
    in_repository(&format!("docs/figures/{kind}.json"))
}

pub fn kept(kind: &str) -> Result<Results> {
    Results::load(&place_of(kind))
}

/// docs/figures.md, with a section for each title that has results.
pub fn page(sections: &[(&str, Results)]) -> String {
    let filled = sections.iter().filter(|(_, results)| !results.figures.is_empty());
    let sections = filled.map(|(title, results)| section(title, results));
    [INTRODUCTION.to_owned()].into_iter().chain(sections).collect()
}

fn section(title: &str, results: &Results) -> String {
    let machines: BTreeSet<&str> =
        results.figures.iter().map(|figure| figure.circumstances.machine.as_str()).collect();
    let machines: Vec<&str> = machines.into_iter().collect();
    let mut text = format!(
        "\n## {title}\n\nOn {}.\n\n\
         | figure | value | unit | bar | verdict | command | date | commit |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        machines.join("; ")
    );
    for figure in &results.figures {
        text.push_str(&row(figure));
    }
    text + &shortfalls(results)
}

/// With the reasons that are known.
fn shortfalls(results: &Results) -> String {
    let mut unexplained: BTreeSet<&str> =
        results.figures.iter().filter(|it| it.is_short()).map(|it| it.name.as_str()).collect();
    if unexplained.is_empty() {
        return String::new();
    }
    let mut text = "\nWhat is short:\n\n".to_owned();
    let mut add = |names: Vec<&str>, why| {
        if !names.is_empty() {
            text.push_str(&format!("- `{}`: {why}.\n", names.join("`, `")));
        }
    };
    for reason in super::reasons() {
        let names = reason.figures.iter().copied().filter(|name| unexplained.remove(name));
        add(names.collect(), reason.why);
    }
    add(unexplained.into_iter().collect(), NO_REASON);
    text
}

fn row(figure: &Figure) -> String {
    let value = figure.value.map_or("-".to_owned(), significant);
    format!(
        "| `{}` | {value} | {} | {} | {} | `{}` | {} | {} |\n",
        figure.name,
        figure.unit,
        figure.bar,
        figure.judgement(),
        figure.command,
        figure.circumstances.date,
        figure.circumstances.commit
    )
}

/// Three digits are as much as a measurement here is worth; what counts of a ratio
/// near one is how far it is from one.
fn significant(value: f64) -> String {
    match value.abs() {
        size if (0.9..1.1).contains(&size) && size != 1.0 => format!("{value:.4}"),
        size if size == 0.0 || size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size => {
            let leading_zeros = (-size.log10().floor()).max(0.0) as usize;
            format!("{value:.*}", 2 + leading_zeros)
        }
    }
}
