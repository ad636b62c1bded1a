// SPDX-License-Identifier: GPL-2.0-only
//! Names of programs, as the kernel and the policy have them, and as people may see them; and the
//! names in Rust for what C numbers.

use super::intf::avx_name;

/// The kernel cuts off what is longer.
pub const LONGEST_NAME: usize = size_of::<avx_name>() - 1;

/// Returns the name as the kernel has it, or none if it is too long for that or has control
/// characters.
pub fn name_of(name: &str) -> Option<avx_name> {
    if name.contains(char::is_control) {
        return None;
    }
    let mut bytes = [0; size_of::<avx_name>()];
    bytes[..LONGEST_NAME].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let words = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    Some(avx_name { words: [words(0), words(size_of::<u64>())] })
}

/// Returns the text up to the first zero. The user that chose the name may have put anything into
/// it.
pub fn text_of(name: &avx_name) -> String {
    let bytes: Vec<u8> = name.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let used = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(used).into_owned()
}

/// Makes a name that anybody may have chosen fit for root's terminal: control characters, which
/// could move the cursor, are replaced.
pub fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

/// Orders values of Rust by the numbers that C has for them. Each number must be there once, in any
/// order.
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
