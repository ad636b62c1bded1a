// SPDX-License-Identifier: GPL-2.0-only
/*
 * looks_later: does AVX work until AVX-512 is hidden from it between its phases, and then
 * looks for it as libraries do, one that is loaded late among them. Prints what it found.
 */
#include <cpuid.h>
#include <stdio.h>
#include <unistd.h>

#include "../hiding/vectors.h"

#define ROUNDS 5000

/* As libraries do it: nothing is left in the registers. */
static void wide_work(void)
{
	unsigned long left = 20000;

	__asm__ __volatile__("vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0\n\t"
			     "1:\n\t"
			     ".rept 9\n\t"
			     "vpaddq %%zmm0, %%zmm0, %%zmm0\n\t"
			     ".endr\n\t"
			     "decq %0\n\t"
			     "jnz 1b\n\t"
			     "vzeroupper"
			     : "+r"(left)
			     :
			     : "xmm0");
}

int main(void)
{
	unsigned int eax, ebx, ecx, edx;
	int is_hidden = 0;

	for (int round = 0; round < ROUNDS && !is_hidden; round++) {
		wide_work();
		getppid();
		is_hidden = !sees_avx512();
	}
	__cpuid(1, eax, ebx, ecx, edx);
	printf("hidden=%d found=%d\n", is_hidden, sees_avx512());
	return 0;
}
