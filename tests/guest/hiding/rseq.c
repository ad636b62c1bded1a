// SPDX-License-Identifier: GPL-2.0-only
/*
 * rseq ROUNDS: a restartable sequence that uses AVX-512. Whoever is rescheduled
 * in its middle starts it over, and so meets the instruction that faulted again,
 * but coming from somewhere else.
 *
 * Prints what it counted as name=number. Fails if a mask was lost.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/rseq.h>

#include "vectors.h"

static unsigned long aborts, hidden, lost;

/* The C library has registered it. */
static struct rseq *own_rseq(void)
{
	return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* Sets a mask inside the sequence, and returns what is in it at the end. */
static uint32_t set_mask_in_sequence(struct rseq *rseq)
{
	uint32_t mask;

	/* 1 to 2 is the sequence, 3 where it is prepared, 4 where an abort goes. */
	__asm__ __volatile__(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n"
		"9: .long 0, 0\n\t"
		".quad 1f, 2f - 1f, 4f\n\t"
		".popsection\n"
		"3: leaq 9b(%%rip), %%rax\n\t"
		"movq %%rax, %[sequence]\n"
		"1: kxnorw %%k1, %%k1, %%k1\n\t"
		"kmovw %%k1, %[mask]\n"
		"2: jmp 5f\n\t"
		".long %c[signature]\n"
		"4: incq %[aborts]\n\t"
		"jmp 3b\n"
		"5:"
		: [sequence] "=m"(rseq->rseq_cs), [aborts] "+m"(aborts), [mask] "=&r"(mask)
		: [signature] "i"(RSEQ_SIG)
		: "rax", "memory", "cc");
	return mask;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;

	if (!__rseq_size) {
		fprintf(stderr, "rseq: nothing is registered\n");
		return 1;
	}
	for (unsigned long n = 0; n < rounds; n++) {
		/* Nothing can be hidden while the upper halves are in use. */
		__asm__ __volatile__("vzeroupper");
		sched_yield();
		hidden += !(xgetbv(0) & XCR0_AVX512);
		lost += set_mask_in_sequence(own_rseq()) != 0xffff;
	}
	printf("rounds=%lu\naborts=%lu\nhidden=%lu\nregisters_lost=%lu\n", rounds, aborts, hidden,
	       lost);
	return lost != 0;
}
