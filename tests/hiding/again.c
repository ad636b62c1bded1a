// SPDX-License-Identifier: GPL-2.0-only
/*
 * again ROUNDS: asks for AVX-512 to be hidden, uses it, and asks again at the
 * same place. The scheduler takes the fault as a reason to move the task, and
 * hides nothing where that goes on, as one that knows AVX CPUs would: that is
 * for the first return after the fault only, and not for wherever the next one
 * that could hide something happens to go.
 *
 * Prints what it counted as name=number. Fails if a fault keeps AVX-512 from
 * being hidden later.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "vectors.h"

/* One place: it is by its address that the kernel knows it. */
static __attribute__((noinline)) int is_hidden_on_request(void)
{
	long number = SYS_prctl;

	__asm__ __volatile__("vzeroupper\n\t"
			     "syscall"
			     : "+a"(number)
			     : "D"(PRCTL_HIDE), "S"(0xe0L)
			     : "rcx", "r11", "memory");
	return !(xgetbv(0) & XCR0_AVX512);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	unsigned long hidden = 0, lost = 0;
	uint32_t mask;

	for (unsigned long n = 0; n < rounds; n++) {
		hidden += is_hidden_on_request();
		__asm__ __volatile__("kxnorw %%k1, %%k1, %%k1\n\t"
				     "kmovw %%k1, %0"
				     : "=r"(mask));
		lost += mask != 0xffff;
	}
	printf("rounds=%lu\nhidden=%lu\nregisters_lost=%lu\n", rounds, hidden, lost);
	/* Some are visible because the task was switched in between. */
	return lost || hidden < rounds / 2;
}
