/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code of known instruction counts between a RESET and a SNAPSHOT call.
 *
 * ORACLE_BODY(name, text) defines "void name(void *memory)".  The bracket is
 * written in assembler so that nothing but the text stands inside it, save the
 * instruction that loads RAX for SNAPSHOT: it adds 1 to the retired count.
 * %rdi is the memory.  The text may change what a called function may change,
 * vector and mask registers included.
 */
#ifndef ORACLE_SELFTEST_BODIES_H
#define ORACLE_SELFTEST_BODIES_H

#include "oracle.h"

#define ORACLE_BRACKET_OVERHEAD 1

#define ORACLE_BODY(name, text)                                            \
	void name(void *memory);                                           \
	__asm__(".pushsection .text\n\t"                                   \
		".balign 16\n\t"                                           \
		".globl " #name "\n\t"                                     \
		".type " #name ", @function\n" #name ":\n\t"               \
		"endbr64\n\t"		/* kernels built for IBT insist */ \
		"movl $0x101, %eax\n\t" /* ORACLE_OP_RESET */              \
		ORACLE_CALL_ASM "\n\t" text "\n\t"                         \
		"movl $0x102, %eax\n\t" /* ORACLE_OP_SNAPSHOT */           \
		ORACLE_CALL_ASM "\n\t" ORACLE_RETURN "\n\t"                \
		".size " #name ", . - " #name "\n\t"                       \
		".popsection\n")

/* Kernels replace returns by a jump to a thunk; either is outside the bracket. */
#ifndef ORACLE_RETURN
#define ORACLE_RETURN "ret"
#endif

#define ORACLE_REPEAT(count, text) ".rept " #count "\n\t" text "\n\t.endr"

/* 1 + count * (repeats + 2) instructions. */
#define ORACLE_LOOP(count, repeats, text)                     \
	"movl $" #count ", %ecx\n\t"                          \
	"1:\n\t" ORACLE_REPEAT(repeats, text) "\n\t"          \
					      "decl %ecx\n\t" \
					      "jnz 1b"

#endif
