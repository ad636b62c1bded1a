// SPDX-License-Identifier: GPL-2.0-only
//! Names of programs, as the kernel and the policy have them, and as people may see them.

use super::intf::avx_name;

/// Up to the first zero. Whoever chose it may have put anything into it.
pub fn text_of(name: &avx_name) -> String {
    let bytes: Vec<u8> = name.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let used = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(used).into_owned()
}

/// A name that anybody may have chosen, for root's terminal: nothing that moves a cursor gets out.
pub fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}
