// SPDX-License-Identifier: GPL-2.0-only
/*
 * phases THREADS ROUNDS SCALAR WIDE [string|narrow]: threads that alternate so many times
 * between SCALAR iterations of scalar work, WIDE iterations with 512-bit vectors,
 * and a system call. With "string" each round begins with string functions, which
 * the C library has with the encoding of AVX-512 at 256 bits, and with "narrow" with
 * such an instruction here.
 *
 * One iteration is a hundred instructions. Prints a sum that depends on all of it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long rounds, scalar_iterations, wide_iterations;
static int with_strings, with_narrow;

static uint64_t scalar_work(uint64_t value)
{
	for (unsigned long n = 0; n < scalar_iterations; n++)
		__asm__ __volatile__(".rept 49\n\t"
				     "imulq $13, %0, %0\n\t"
				     "addq $7, %0\n\t"
				     ".endr"
				     : "+r"(value));
	return value;
}

/* As libraries do it: nothing is left in the registers. */
static uint64_t wide_work(uint64_t value)
{
	unsigned long left = wide_iterations;

	__asm__ __volatile__("vpbroadcastq %0, %%zmm0\n\t"
			     "vmovdqa64 %%zmm0, %%zmm1\n\t"
			     "1:\n\t"
			     ".rept 49\n\t"
			     "vpmuludq %%zmm0, %%zmm1, %%zmm1\n\t"
			     "vpaddq %%zmm0, %%zmm1, %%zmm1\n\t"
			     ".endr\n\t"
			     "decq %1\n\t"
			     "jnz 1b\n\t"
			     "vmovq %%xmm1, %0\n\t"
			     "vzeroupper"
			     : "+r"(value), "+r"(left)
			     :
			     : "memory", "xmm0", "xmm1");
	return value;
}

static uint64_t string_work(uint64_t value)
{
	char text[512];

	memset(text, 'a' + value % 26, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	return value + strlen(text);
}

static void *work(void *argument)
{
	uint64_t value = (uint64_t)argument;

	for (unsigned long n = 0; n < rounds; n++) {
		if (with_strings)
			value = string_work(value);
		if (with_narrow)
			__asm__ __volatile__("vpaddq %%ymm16, %%ymm16, %%ymm16" ::: "memory");
		value = scalar_work(value);
		if (wide_iterations)
			value = wide_work(value);
		syscall(SYS_getppid);
	}
	return (void *)value;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	pthread_t thread[threads];
	uint64_t sum = 0;
	void *value;

	rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	scalar_iterations = argc > 3 ? strtoul(argv[3], NULL, 0) : 1;
	wide_iterations = argc > 4 ? strtoul(argv[4], NULL, 0) : 1;
	with_strings = argc > 5 && !strcmp(argv[5], "string");
	with_narrow = argc > 5 && !strcmp(argv[5], "narrow");

	for (unsigned long n = 0; n < threads; n++)
		pthread_create(&thread[n], NULL, work, (void *)(n + 1));
	for (unsigned long n = 0; n < threads; n++) {
		pthread_join(thread[n], &value);
		sum += (uint64_t)value;
	}
	printf("sum=%lx\n", sum);
	return 0;
}
