// SPDX-License-Identifier: GPL-2.0-only
//! How many lines of code a patch series adds.

use std::collections::BTreeMap;

/// What the series adds as a whole: where a later patch removes a line that an
/// earlier one has added, that line is taken away again.
pub fn code_lines_added(series: &[String]) -> usize {
    let mut there: BTreeMap<Line<'_>, usize> = BTreeMap::new();
    for patch in series {
        let (removed, added) = changes_in(patch);
        for line in removed {
            if let Some(times) = there.get_mut(&line) {
                *times = times.saturating_sub(1);
            }
        }
        for line in added {
            *there.entry(line).or_default() += 1;
        }
    }
    there.values().sum()
}

/// A file, and a line of it.
type Line<'a> = (&'a str, &'a str);

/// The lines that a patch removes, and the lines of code that it adds.
fn changes_in(patch: &str) -> (Vec<Line<'_>>, Vec<Line<'_>>) {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let mut path = "";
    let mut in_comment = false;
    for line in patch.lines() {
        if let Some(next) = line.strip_prefix("+++ b/") {
            path = next;
            continue;
        }
        if line.starts_with("@@ ") {
            in_comment = false;
        }
        if let Some(text) = line.strip_prefix('-') {
            removed.push((path, text));
        } else if let Some(text) = line.strip_prefix(['+', ' ']) {
            // A comment may begin or end in a line that was there before.
            in_comment |= text.trim_start().starts_with("/*");
            if line.starts_with('+') && !in_comment && is_code(path, text) {
                added.push((path, text));
            }
            in_comment &= !text.trim_end().ends_with("*/");
        }
    }
    (removed, added)
}

fn is_code(path: &str, line: &str) -> bool {
    // The text of a Kconfig entry's help is indented by a tab and two spaces.
    let is_help = path.ends_with("Kconfig") && line.starts_with("\t  ");
    let text = line.trim();
    path != "MAINTAINERS" && !is_help && !text.is_empty() && !text.starts_with("//")
}
