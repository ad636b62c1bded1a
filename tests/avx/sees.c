// SPDX-License-Identifier: GPL-2.0-only
/*
 * sees: prints whether the program sees AVX-512, in a constructor and in main(), and
 * what the C library says of it, which looked before them.
 */
#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/platform/x86.h>

#define XFEATURES_AVX512 0xe0

static int before_main;

static int sees_avx512(void)
{
	uint32_t low, high;

	__asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & XFEATURES_AVX512) == XFEATURES_AVX512;
}

__attribute__((constructor)) static void look(void)
{
	before_main = sees_avx512();
}

int main(void)
{
	printf("constructor=%d main=%d library=%d\n", before_main, sees_avx512(),
	       CPU_FEATURE_ACTIVE(AVX512F) ? 1 : 0);
	return 0;
}
