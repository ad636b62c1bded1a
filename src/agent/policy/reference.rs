// SPDX-License-Identifier: GPL-2.0-only
//! All knobs and named policies, for people to read.

use std::fmt::Write;

use super::knobs::{KNOBS, standard};
use super::named::NAMED;
use crate::about::NAME;

/// Returns every knob with its range, its default, and what it is for.
pub fn describe() -> String {
    let policy = standard();
    let mut text = String::new();
    for knob in KNOBS {
        let default = knob.show(&policy);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}={default}  ({})", knob.name, knob.range());
        let _ = writeln!(text, "    {}", knob.help);
    }
    text
}

/// Returns the text of docs/policy.md.
pub fn reference() -> String {
    let policy = standard();
    let mut text = format!(
        "# The policy\n\n\
         Printed by `{NAME} generate policy`. [operating.md](operating.md#words) explains the \
         words.\n\n\
         ## By name\n\n\
         `--policy NAME` starts with one of these, `{NAME} policy use NAME` changes to it while the\n\
         scheduler runs.\n\n\
         | name | what it is for |\n\
         | --- | --- |\n"
    );
    // Writing to a string cannot fail.
    for it in NAMED {
        let _ = writeln!(text, "| `{}` | {} |", it.name, it.purpose);
    }
    let _ = write!(
        text,
        "\n## Knobs\n\n\
         Every decision of the scheduler goes by these knobs. `--set KNOB=VALUE` turns one at the \
         start,\n`{NAME} policy set KNOB=VALUE ...` some of them, all at once, while it runs, and \
         `{NAME} policy show`\nprints where they stand. What is out of range is refused, and \
         changes nothing.\n\n\
         | knob | is | takes | what it is for |\n\
         | --- | --- | --- | --- |\n"
    );
    for knob in KNOBS {
        let value = knob.show(&policy);
        let default = if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") };
        let _ =
            writeln!(text, "| `{}` | {default} | {} | {} |", knob.name, knob.range(), knob.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scx_avxspec generate policy >docs/policy.md` brings it up to date.
    #[test]
    fn the_reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policy.md");
        assert!(
            std::fs::read_to_string(path).unwrap() == reference(),
            "print docs/policy.md again"
        );
    }
}
