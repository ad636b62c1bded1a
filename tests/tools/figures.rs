// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig figures`: docs/figures.md, from what was measured last.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use anyhow::Result;

use super::results::{Figure, Results};
use crate::vm::in_repository;

const INTRODUCTION: &str = "\
# Figures

Written by `make figures` from what `make bench`, `make soak` and `make test-kernels`
measured last, which is kept in `docs/figures`.
Machines are shared and noisy: seconds are those of one run.
";

pub fn write() -> Result<ExitCode> {
    let mut text = INTRODUCTION.to_owned();
    for (kind, title) in [
        ("bench", "Measured by `make bench`"),
        ("soak", "Long runs by `make soak`"),
        ("kernels", "Other kernels, by `make test-kernels`"),
    ] {
        let kept = in_repository(&format!("docs/figures/{kind}.json"));
        let mut results = Results::load(&kept)?;
        results.merge(Results::load(&Results::path(kind))?.figures);
        if !results.figures.is_empty() {
            results.save(&kept)?;
            text.push_str(&section(title, &results));
        }
    }
    let path = in_repository("docs/figures.md");
    fs::write(&path, text)?;
    eprintln!("rig: written to {}", path.display());
    Ok(ExitCode::SUCCESS)
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
    text
}

fn row(figure: &Figure) -> String {
    let value = figure.value.map_or("-".to_owned(), significant);
    format!(
        "| `{}` | {value} | {} | {} | {} | `{}` | {} | {} |\n",
        figure.name,
        figure.unit,
        figure.bar,
        figure.verdict,
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
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3e}"),
    }
}
