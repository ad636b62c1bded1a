// SPDX-License-Identifier: GPL-2.0-only
/*
 * again ROUNDS [ticks]: asks for AVX-512 to be hidden, uses it, and asks again at
 * the same place. The scheduler takes the fault as a reason to move the task, and
 * hides nothing where that goes on, as one that knows AVX CPUs would: that is
 * for the first return after the fault only, and not for wherever the next one
 * that could hide something happens to go; nor for a system call that returns to
 * the instruction that faulted, for who makes one has got on.
 *
 * With "ticks" it asks for nothing: the scheduler hides at each switch, and so at
 * an interrupt, once the task has been visible where it went on.
 *
 * Prints what it counted as name=number. Fails if a fault keeps AVX-512 from
 * being hidden later.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "vectors.h"

/* Far longer than it takes until there is an interrupt. */
#define MOST_LOOKS 50000000UL

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

/* What faults is what comes first after the request. */
static __attribute__((noinline)) uint32_t set_mask_on_request(void)
{
	long number = SYS_prctl;
	uint32_t mask;

	__asm__ __volatile__("vzeroupper\n\t"
			     "syscall\n\t"
			     "kxnorw %%k1, %%k1, %%k1\n\t"
			     "kmovw %%k1, %1"
			     : "+a"(number), "=r"(mask)
			     : "D"(PRCTL_HIDE), "S"(0xe0L)
			     : "rcx", "r11", "memory");
	return mask;
}

/* An interrupt does not hide what is in use. */
static int is_hidden_by_a_tick(void)
{
	unsigned long looks = 0;

	__asm__ __volatile__("xrstor64 (%0)" : : "r"(&initial_image), "a"(0xe0), "d"(0));
	while (xgetbv(0) & XCR0_AVX512) {
		if (++looks == MOST_LOOKS)
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	int by_ticks = argc > 2 && !strcmp(argv[2], "ticks");
	unsigned long hidden = 0, lost = 0;

	for (unsigned long n = 0; n < rounds; n++) {
		int is_hidden = by_ticks ? is_hidden_by_a_tick() : is_hidden_on_request();

		hidden += is_hidden;
		lost += set_mask() != 0xffff;
		/* It took long to find out, and will the next time. */
		if (by_ticks && !is_hidden)
			break;
	}
	for (unsigned long n = 0; n < rounds && !by_ticks; n++)
		lost += set_mask_on_request() != 0xffff;
	printf("rounds=%lu\nhidden=%lu\nregisters_lost=%lu\n", rounds, hidden, lost);
	/* Some are visible because the task was switched in between. */
	return lost || hidden < (by_ticks ? rounds : rounds / 2);
}
