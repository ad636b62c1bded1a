// SPDX-License-Identifier: GPL-2.0-only
//! Names of programs, as the kernel and the policy have them, and as people may see them; and what
//! Rust calls what C numbers.

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

/// What C calls by a number in Rust, by that number: all of them, in whichever order.
pub const fn by_number<T: Copy, const N: usize>(named: [(u32, T); N]) -> [T; N] {
    let mut all = [named[0].1; N];
    let mut is_there = [false; N];
    let mut n = 0;
    while n < N {
        let (number, name) = named[n];
        assert!(!is_there[number as usize]);
        is_there[number as usize] = true;
        all[number as usize] = name;
        n += 1;
    }
    all
}
