// SPDX-License-Identifier: GPL-2.0-only
/*
 * migrate TURNS [AVX_CPU]: a turn is one AVX-512 instruction and one sched_yield().
 * With AVX_CPU the program goes to that CPU and back by itself, as people do it
 * where nobody does it for them; the first CPU that is not AVX_CPU is its own.
 *
 * Prints, of all turns: kernel instructions on all CPUs as the oracle counts them,
 * and how often the kernel says that the program was moved.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"

static int avx_cpu = -1;

static void go_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}

static void turn(void)
{
	if (avx_cpu >= 0)
		go_to(avx_cpu);
	__asm__ __volatile__("vpaddq %%zmm0, %%zmm0, %%zmm0\n\t"
			     "vzeroupper"
			     :
			     :
			     : "memory");
	if (avx_cpu >= 0)
		go_to(avx_cpu == 0);
	sched_yield();
}

int main(int argc, char **argv)
{
	unsigned long turns = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, before;

	if (argc > 2)
		avx_cpu = atoi(argv[2]);
	need_an_oracle();
	be_seen();
	/* What happens once. */
	for (int n = 0; n < 20; n++)
		turn();

	before = migrations();
	oracle_reset();
	for (unsigned long n = 0; n < turns; n++)
		turn();
	oracle_snapshot();
	printf("instructions=%lu\nmigrations=%lu\n", on_all_cpus(ORACLE_KERNEL + ORACLE_RETIRED),
	       migrations() - before);
	return 0;
}
