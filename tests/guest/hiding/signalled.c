// SPDX-License-Identifier: GPL-2.0-only
/*
 * signalled ROUNDS: uses AVX-512 while it is hidden. The scheduler has it get a
 * signal with each fault, as soon as it says that it has a handler, so that it is in
 * that first, which makes a system call; and then it comes back to the instruction
 * that faulted.
 *
 * Prints what it counted as name=number. Fails if a mask was lost, or if it does
 * not get on.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vectors.h"

/* Others may come, by chance, but not again and again. */
#define MOST_SIGNALS 100

static volatile unsigned long signals, before;
static unsigned long hidden, lost;

static __attribute__((target("general-regs-only"))) void on_signal(int signal)
{
	static const char words[] = "signalled: does not get on\n";
	long number = SYS_getppid;

	(void)signal;
	__asm__ __volatile__("syscall" : "+a"(number) : : "rcx", "r11", "memory");
	if (++signals - before > MOST_SIGNALS) {
		write(STDERR_FILENO, words, sizeof(words) - 1);
		_exit(1);
	}
}

static void use_after_a_switch(void)
{
	/* Nothing can be hidden while the upper halves are in use. */
	__asm__ __volatile__("vzeroupper");
	sched_yield();
	hidden += !(xgetbv(0) & XCR0_AVX512);
	lost += set_mask() != 0xffff;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	struct sigaction action = { .sa_handler = on_signal };

	/* What starts a program may fault as well, and a signal would end it. */
	use_after_a_switch();
	sigaction(SIGUSR1, &action, NULL);
	prctl(PR_SET_NAME, "has a handler");
	for (unsigned long n = 0; n < rounds; n++) {
		before = signals;
		use_after_a_switch();
	}
	printf("rounds=%lu\nhidden=%lu\nsignals=%lu\nregisters_lost=%lu\n", rounds, hidden, signals,
	       lost);
	return lost != 0;
}
