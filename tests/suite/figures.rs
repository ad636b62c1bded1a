// SPDX-License-Identifier: GPL-2.0-only
//! What docs/figures.md makes of figures.

use std::fs;

use anyhow::{Context, Result, anyhow, ensure};

use crate::bench;
use crate::bench::figures::{KINDS, NO_REASON, kept, measured, page};
use crate::rig::in_repository;
use crate::rig::results::{Figure, Results};

crate::tests! {
    figures:
    the_page_shows_what_is_kept(1),
    what_failed_is_no_figure(1),
    what_is_short_has_its_reason_for_as_long_as_it_is(1),
    where_there_is_no_bar_there_is_no_verdict(1),
}

fn the_page_shows_what_is_kept() -> Result<()> {
    let mut sections = Vec::new();
    for (kind, title) in KINDS {
        sections.push((title, kept(kind)?));
    }
    let shown = fs::read_to_string(in_repository("docs/figures.md"))?;
    ensure!(shown == page(&sections), "write docs/figures.md again: make figures");
    Ok(())
}

fn what_failed_is_no_figure() -> Result<()> {
    for (kind, _) in KINDS {
        measured(kept(kind)?)?;
    }
    let failed = Figure::measured(
        "new",
        "s",
        "at most 1".to_owned(),
        "make bench ONLY=new".to_owned(),
        Err(anyhow!("nothing came")),
        |_| "ok",
    );
    let figures = vec![figure("old", "at least 1", "ok"), failed];
    let complaint = measured(Results { figures }).err().map(|it| it.to_string());
    let complaint = complaint.context("it is taken for one")?;
    ensure!(complaint.starts_with("new failed: nothing came"), "{complaint}");
    ensure!(complaint.ends_with("make bench ONLY=new"), "{complaint}");
    Ok(())
}

fn figure(name: &str, bar: &str, verdict: &'static str) -> Figure {
    Figure::measured(name, "s", bar.to_owned(), "make bench".to_owned(), Ok(1.0), |_| verdict)
}

fn page_of(figures: Vec<Figure>) -> String {
    page(&[("Measured", Results { figures })])
}

fn what_is_short_has_its_reason_for_as_long_as_it_is() -> Result<()> {
    for reason in bench::reasons() {
        for name in reason.figures {
            let text = page_of(vec![figure(name, "at least 2", "short")]);
            ensure!(text.contains(&format!("- `{name}`: {}.", reason.why)), "{text}");
            let text = page_of(vec![figure(name, "at least 1", "ok")]);
            ensure!(!text.contains(reason.why), "{name} is not short:\n{text}");
            ensure!(bench::names().any(|it| it == *name), "there is no figure {name}");
        }
    }
    let text = page_of(vec![figure("new", "at least 2", "short")]);
    ensure!(text.contains("- `new`: the reason is not known."), "{text}");
    let shown = fs::read_to_string(in_repository("docs/figures.md"))?;
    ensure!(!shown.contains(NO_REASON), "say in the source why what is short is");
    Ok(())
}

fn where_there_is_no_bar_there_is_no_verdict() -> Result<()> {
    let text = page_of(vec![figure("a", "none", "ok"), figure("b", "at least 1", "ok")]);
    ensure!(text.contains("| `a` | 1.00 | s | none | - |"), "{text}");
    ensure!(text.contains("| `b` | 1.00 | s | at least 1 | ok |"), "{text}");
    Ok(())
}
