// SPDX-License-Identifier: GPL-2.0-only
/*
 * afterwards ROUNDS [strings]: wide work at first, to be known for it, and then only
 * scalar work and system calls; with "strings" each round begins with string functions,
 * which the C library has with the encoding of AVX-512 at 256 bits.
 *
 * Prints what the rounds took, but for the first hundred: user and kernel instructions on all CPUs,
 * #UD, and how many instructions with the encoding of AVX-512 were executed on the last CPU.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measure.h"

/* Those with high numbers become AVX cores first. */
static unsigned long avx512_on_last_cpu(void)
{
	return oracle_read(ORACLE_USER + ORACLE_AVX512, oracle_cpus() - 1);
}

#define ITERATIONS 1000

static unsigned long scalar_work(unsigned long value)
{
	for (int n = 0; n < ITERATIONS; n++)
		__asm__ __volatile__("imulq $13, %0, %0\n\t"
				     "addq $7, %0"
				     : "+r"(value));
	return value;
}

static unsigned long string_work(unsigned long value)
{
	char text[512];

	memset(text, 'a' + value % 26, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	return value + strlen(text);
}

static unsigned long work(unsigned long value, unsigned long rounds, int with_strings)
{
	for (unsigned long n = 0; n < rounds; n++) {
		if (with_strings)
			value = string_work(value);
		value = scalar_work(value);
		syscall(SYS_getppid);
	}
	return value;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, value = argc;
	int with_strings = argc > 2;

	need_an_oracle();
	be_seen();
	value = work(value, 100, with_strings);
	oracle_reset();
	value = work(value, rounds, with_strings);
	oracle_snapshot();
	printf("value=%lu\ninstructions=%lu\nfaults=%lu\non_last_cpu=%lu\n", value,
	       on_all_cpus(ORACLE_USER + ORACLE_RETIRED) +
		       on_all_cpus(ORACLE_KERNEL + ORACLE_RETIRED),
	       on_all_cpus(ORACLE_USER + ORACLE_EXCEPTION + 6), avx512_on_last_cpu());
	return 0;
}
