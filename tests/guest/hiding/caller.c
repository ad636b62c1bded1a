// SPDX-License-Identifier: GPL-2.0-only
/*
 * caller FILE: for ever 512-bit work, a system call, always from the same place, and a look
 * at XCR0. At the beginning of FILE is the number of looks at which AVX-512 was missing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vectors.h"

#define AVX512 0xe0

static void wide_work(void)
{
	unsigned long left = 1000;

	__asm__ __volatile__("vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0\n\t"
			     "1:\n\t"
			     ".rept 99\n\t"
			     "vpaddq %%zmm0, %%zmm0, %%zmm1\n\t"
			     ".endr\n\t"
			     "decq %0\n\t"
			     "jnz 1b\n\t"
			     "vzeroupper"
			     : "+r"(left)
			     :
			     : "memory", "xmm0", "xmm1");
}

int main(int argc, char **argv)
{
	volatile uint64_t *missing;
	int file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;

	if (file < 0 || ftruncate(file, sizeof(*missing))) {
		perror(argc == 2 ? argv[1] : "a file is wanted");
		return 1;
	}
	missing = mmap(NULL, sizeof(*missing), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (missing == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (;;) {
		wide_work();
		syscall(SYS_getppid);
		if (!(xgetbv(0) & AVX512))
			++*missing;
	}
}
