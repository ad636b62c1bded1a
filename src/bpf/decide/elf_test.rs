// SPDX-License-Identifier: GPL-2.0-only
//! What the notes of programs say, against notes as linkers write them.

use proptest::prelude::*;

use super::native::needs_x86_64_v4;
use crate::bpf::intf::NOTE_WORDS;

const WORDS: usize = NOTE_WORDS as usize;

const GNU: u32 = u32::from_le_bytes(*b"GNU\0");
const PROPERTIES: u32 = 5;

const NO_COPY_ON_PROTECTED: u32 = 2;
const FEATURE_1_AND: u32 = 0xc000_0002;
const ISA_1_NEEDED: u32 = 0xc000_8002;
const ISA_1_USED: u32 = 0xc001_0002;
const V4: u32 = 8;

/// A note with properties, each of a type and of some words, and padded to eight bytes.
fn note(properties: &[(u32, &[u32])]) -> Vec<u32> {
    let body: Vec<u32> = properties
        .iter()
        .flat_map(|(kind, words)| {
            let padding = words.len() % 2;
            let head = [*kind, 4 * words.len() as u32];
            head.into_iter().chain(words.iter().copied()).chain(std::iter::repeat_n(0, padding))
        })
        .collect();
    [4, 4 * body.len() as u32, PROPERTIES, GNU].into_iter().chain(body).collect()
}

fn needs_v4(note: &[u32]) -> bool {
    let mut words = [0; WORDS];
    words[..note.len()].copy_from_slice(note);
    needs_x86_64_v4(&words, 4 * note.len() as u32)
}

#[test]
fn a_mark_is_found_wherever_it_is() {
    assert!(needs_v4(&note(&[(ISA_1_NEEDED, &[V4])])));
    assert!(needs_v4(&note(&[(FEATURE_1_AND, &[3]), (ISA_1_NEEDED, &[0xf])])));
    assert!(needs_v4(&note(&[
        (NO_COPY_ON_PROTECTED, &[]),
        (1, &[0x10, 0]),
        (FEATURE_1_AND, &[3]),
        (ISA_1_NEEDED, &[V4]),
        (ISA_1_USED, &[0]),
    ])));
}

#[test]
fn what_uses_avx512_need_not_need_it() {
    assert!(!needs_v4(&note(&[(ISA_1_USED, &[V4])])));
    assert!(!needs_v4(&note(&[(FEATURE_1_AND, &[V4]), (ISA_1_NEEDED, &[7]), (ISA_1_USED, &[V4])])));
    assert!(!needs_v4(&note(&[])));
}

#[test]
fn other_notes_say_nothing() {
    let marked = note(&[(ISA_1_NEEDED, &[V4])]);
    for word in [0, 2, 3] {
        let mut other = marked.clone();
        other[word] += 1;
        assert!(!needs_v4(&other), "{other:x?}");
    }
    for length in 0..marked.len() - 1 {
        assert!(!needs_v4(&marked[..length]), "{length}");
    }
}

proptest! {
    /// A size that leads out of the note, or back into it, leads nowhere.
    #[test]
    fn no_note_leads_out_of_itself(words: [u32; WORDS], length: u32, size: u32) {
        let mut note = words;
        needs_x86_64_v4(&note, length);
        note[..6].copy_from_slice(&[4, size, PROPERTIES, GNU, FEATURE_1_AND, words[5]]);
        needs_x86_64_v4(&note, length);
    }

    #[test]
    fn a_mark_is_found_behind_any_others(others in prop::collection::vec(0usize..5, 0..6), v: u32) {
        let words = [1; 5];
        let before = others.iter().map(|size| (FEATURE_1_AND, &words[..*size]));
        let mark = [v];
        let all: Vec<_> = before.chain([(ISA_1_NEEDED, &mark[..])]).collect();
        prop_assert_eq!(needs_v4(&note(&all)), v & V4 != 0);
    }
}
