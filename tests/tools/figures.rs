// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig figures`: docs/figures.md, from what was measured last.

use std::fs;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use super::results::{Figure, Results};
use crate::vm::in_repository;

const INTRODUCTION: &str = "\
# Figures

Written by `make figures` from what `make bench`, `make soak` and `make test-kernels`
measured last.
Machines are shared and noisy: seconds are those of one run.
";

pub fn write() -> Result<ExitCode> {
    let mut text = INTRODUCTION.to_owned();
    for (kind, title) in [
        ("bench", "Measured by `make bench`"),
        ("soak", "Long runs by `make soak`"),
        ("kernels", "Other kernels, by `make test-kernels`"),
    ] {
        let results = Results::load(&Results::path(kind))?;
        ensure!(
            kind != "bench" || !results.figures.is_empty(),
            "nothing was measured yet: run 'make bench' first"
        );
        if !results.figures.is_empty() {
            text.push_str(&section(title, &results));
        }
    }
    let path = in_repository("docs/figures.md");
    fs::write(&path, text)?;
    eprintln!("rig: written to {}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn section(title: &str, results: &Results) -> String {
    let mut text = format!(
        "\n## {title}\n\nOn {}, {}, at commit {}.\n\n\
         | figure | value | unit | bar | verdict | command |\n\
         | --- | --- | --- | --- | --- | --- |\n",
        results.machine, results.date, results.commit
    );
    for figure in &results.figures {
        text.push_str(&row(figure));
    }
    text
}

fn row(figure: &Figure) -> String {
    let value = figure.value.map_or("-".to_owned(), significant);
    format!(
        "| `{}` | {value} | {} | {} | {} | `{}` |\n",
        figure.name, figure.unit, figure.bar, figure.verdict, figure.command
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
