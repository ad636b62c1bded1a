// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the patch costs in instructions, counted by the oracle:
 *
 * costs trap: from a first use of AVX-512 to the restarted instruction; needs
 *             a scheduler that hides on request (bare.bpf.c).
 * costs pipe: a byte through a pipe to another process of the same CPU, and back.
 * costs yield: sched_yield() to another process of the same CPU, and back.
 *
 * Prints instructions=NUMBER, the median of many; on one CPU.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../rig/oracle/oracle.h"
#include "vectors.h"

/* One in ten is interrupted by a tick; the median is not. */
#define TURNS 2001

static unsigned long samples[TURNS];

static int by_size(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

static void print_median(void)
{
	qsort(samples, TURNS, sizeof(*samples), by_size);
	printf("instructions=%lu\n", samples[TURNS / 2]);
}

static unsigned long kernel_instructions(void)
{
	return oracle_read(ORACLE_KERNEL + ORACLE_RETIRED, 0);
}

static unsigned long all_instructions(void)
{
	return kernel_instructions() + oracle_read(ORACLE_USER + ORACLE_RETIRED, 0);
}

/* Kernel instructions between a hidden instruction and the one after it. */
static unsigned long trap(void)
{
	syscall(SYS_prctl, PRCTL_HIDE, 0xe0L);
	if (xgetbv(0) & XCR0_AVX512) {
		fprintf(stderr, "nothing is hidden\n");
		exit(1);
	}
	oracle_reset();
	__asm__ __volatile__("vpord %%zmm16, %%zmm16, %%zmm16" : : : "memory");
	oracle_snapshot();
	return kernel_instructions();
}

static void measure_traps(void)
{
	for (int n = 0; n < TURNS; n++)
		samples[n] = trap();
	print_median();
}

/* Pipes to a child that sends back whatever it is sent. */
static void start_echo(int to[2], int from[2])
{
	char byte;

	if (pipe(to) || pipe(from))
		exit(1);
	if (fork())
		return;
	/* The child ends when the parent does. */
	close(to[1]);
	while (read(to[0], &byte, 1) == 1)
		if (write(from[1], &byte, 1) != 1)
			exit(1);
	exit(0);
}

static void measure_pipe(void)
{
	int to[2], from[2];
	char byte = 0;

	start_echo(to, from);
	for (int n = 0; n < TURNS; n++) {
		oracle_reset();
		if (write(to[1], &byte, 1) != 1 || read(from[0], &byte, 1) != 1)
			exit(1);
		oracle_snapshot();
		samples[n] = all_instructions();
	}
	print_median();
}

static void measure_yield(void)
{
	pid_t other = fork();

	if (!other)
		for (;;)
			sched_yield();
	for (int n = 0; n < TURNS; n++) {
		oracle_reset();
		sched_yield();
		oracle_snapshot();
		samples[n] = all_instructions();
	}
	kill(other, SIGKILL);
	print_median();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!oracle_present()) {
		fprintf(stderr, "there is no oracle to count\n");
		return 1;
	}
	if (!strcmp(what, "trap"))
		measure_traps();
	else if (!strcmp(what, "pipe"))
		measure_pipe();
	else
		measure_yield();
	return 0;
}
