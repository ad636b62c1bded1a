// SPDX-License-Identifier: GPL-2.0-only
//! Files below a root, which is that of the machine, or of one that is made up.

use std::fs;
use std::path::Path;

/// What a file says, if it can be read; files of the kernel end with a newline that means nothing.
pub fn text_at(root: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(file)).ok()?;
    Some(text.trim_end().to_owned())
}
