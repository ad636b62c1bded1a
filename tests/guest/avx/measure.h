/* SPDX-License-Identifier: GPL-2.0-only */
/* What test programs measure of themselves, counted by the oracle and the kernel. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdio.h>
#include <stdlib.h>

#include "../../rig/oracle/oracle.h"

static inline void need_an_oracle(void)
{
	if (oracle_present())
		return;
	fprintf(stderr, "there is no oracle to count\n");
	exit(1);
}

/* A counter of the last snapshot, summed over all CPUs. */
static inline unsigned long on_all_cpus(unsigned int counter)
{
	unsigned long sum = 0;

	for (unsigned int cpu = 0; cpu < oracle_cpus(); cpu++)
		sum += oracle_read(counter, cpu);
	return sum;
}

/* How often the kernel says that this program was moved. */
static inline unsigned long migrations(void)
{
	FILE *file = fopen("/proc/self/sched", "r");
	unsigned long count;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "se.nr_migrations : %lu", &count) == 1) {
			fclose(file);
			return count;
		}
	fprintf(stderr, "the kernel does not count migrations\n");
	exit(1);
}

/*
 * Wide work for long enough to be seen by a scheduler that looks every now and then.
 * Zeros need not count as something in use.
 */
static inline void be_seen(void)
{
	for (unsigned long n = 0; n < 1000000; n++)
		__asm__ __volatile__("vpternlogq $0xff, %%zmm0, %%zmm0, %%zmm0" : : : "memory");
	__asm__ __volatile__("vzeroupper" : : : "memory");
}

#endif
