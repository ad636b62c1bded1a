// SPDX-License-Identifier: GPL-2.0-only
/*
 * sees: prints whether the program sees AVX-512, in a constructor and in main(), and
 * what the C library says of it, which looked before them.
 */
#include <stdio.h>
#include <sys/platform/x86.h>

#include "../hiding/vectors.h"

static int before_main;

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
