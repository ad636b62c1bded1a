/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the file of a program says about the CPU that it needs.
 *
 * Problem. On a CPU without AVX-512, the dynamic linker refuses to start a program that is
 * marked as needing x86-64-v4. While AVX-512 is hidden, it takes the CPU for one without.
 *
 * Mechanism. The mark is a property in a note of the program. A segment of its own leads to
 * the note: see the supplement for x86-64 of the System V ABI.
 */
#ifndef AVXSPEC_ELF_BPF_H
#define AVXSPEC_ELF_BPF_H

#include "arithmetic.bpf.h"

/* How many bytes of a note are looked at; the five properties that exist take 96 bytes. */
#define NOTE_BYTES 256
#define NOTE_WORDS (NOTE_BYTES / 4)

/* Indices of the words of a note: a header of three, a name of one, and the properties. */
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

/* Returns true if a note of @length bytes says that x86-64-v4 is needed, as far as it was read. */
static __always_inline bool needs_x86_64_v4(const u32 note[NOTE_WORDS], u32 length)
{
	u32 at = NOTE_PROPERTIES, end;

	if (length < NOTE_PROPERTIES * 4 || note[NOTE_NAME_SIZE] != 4 ||
	    note[NOTE_TYPE] != TYPE_OF_PROPERTIES || note[NOTE_NAME] != NAME_GNU)
		return false;

	end = at_most(at_most(length, NOTE_BYTES), NOTE_PROPERTIES * 4ULL + note[NOTE_SIZE]) / 4;
	/* Each property has a type, a size, and a value that is padded to eight bytes. */
	for (u32 n = 0; n < MAX_PROPERTIES && at + 2 < end; n++) {
		u32 size = note_word(note, at + 1);

		if (note_word(note, at) == X86_ISA_1_NEEDED)
			return size == 4 && note_word(note, at + 2) & X86_ISA_1_V4;
		at += 2 + ((u32)at_most(size, NOTE_BYTES) + 7) / 8 * 2;
	}
	return false;
}

#endif /* AVXSPEC_ELF_BPF_H */
