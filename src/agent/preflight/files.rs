// SPDX-License-Identifier: GPL-2.0-only
//! Reads files below a root directory, which is that of the machine, or of one that is made up.

use std::fs;
use std::path::Path;

/// Returns what a file says, if it can be read. Blanks at its end are cut off, because files of the
/// kernel end with a newline that means nothing.
pub fn text_at(root: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(file)).ok()?;
    Some(text.trim_end().to_owned())
}
