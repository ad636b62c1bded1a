/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a program says in its file of the CPU that it needs.
 *
 * Problem. The dynamic linker refuses to start what is marked as needing x86-64-v4
 * on a CPU without AVX-512, and takes a CPU for one without while that is hidden.
 *
 * Mechanism. The mark is a property in a note of the program, which a segment of its
 * own leads to: see the supplement for x86-64 of the System V ABI.
 */
#ifndef AVXSPEC_ELF_BPF_H
#define AVXSPEC_ELF_BPF_H

#include "arithmetic.bpf.h"

/* What is looked at of a note; the five properties that there are take 96 bytes. */
#define NOTE_BYTES 256
#define NOTE_WORDS (NOTE_BYTES / 4)

/* Words of a note: three of a header, a name of one, and the properties. */
#define NOTE_NAME_SIZE 0
#define NOTE_SIZE 1
#define NOTE_TYPE 2
#define NOTE_NAME 3
#define NOTE_PROPERTIES 4

#define TYPE_OF_PROPERTIES 5
#define NAME_GNU 0x00554e47

#define X86_ISA_1_NEEDED 0xc0008002
#define X86_ISA_1_V4 (1U << 3)

#define MAX_PROPERTIES 16

static __always_inline u32 note_word(const u32 note[NOTE_WORDS], u32 at)
{
	return note[at & (NOTE_WORDS - 1)];
}

/* Whether a note of so many bytes says so, as far as it was read. */
static __always_inline bool needs_x86_64_v4(const u32 note[NOTE_WORDS], u32 length)
{
	u32 at = NOTE_PROPERTIES, end;

	if (length < NOTE_PROPERTIES * 4 || note[NOTE_NAME_SIZE] != 4 ||
	    note[NOTE_TYPE] != TYPE_OF_PROPERTIES || note[NOTE_NAME] != NAME_GNU)
		return false;

	end = at_most(at_most(length, NOTE_BYTES), NOTE_PROPERTIES * 4ULL + note[NOTE_SIZE]) / 4;
	/* Of each the type, the size, and what it says, padded to eight bytes. */
	for (u32 n = 0; n < MAX_PROPERTIES && at + 2 < end; n++) {
		u32 size = note_word(note, at + 1);

		if (note_word(note, at) == X86_ISA_1_NEEDED)
			return size == 4 && note_word(note, at + 2) & X86_ISA_1_V4;
		at += 2 + ((u32)at_most(size, NOTE_BYTES) + 7) / 8 * 2;
	}
	return false;
}

#endif /* AVXSPEC_ELF_BPF_H */
