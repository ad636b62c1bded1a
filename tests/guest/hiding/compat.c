// SPDX-License-Identifier: GPL-2.0-only
/*
 * compat ROUNDS SEED, a program of 32 bits: its signal frames are of another
 * form than those of 64 bits, and their way back to the registers as well.
 *
 * Prints what it counted as name=number. Fails if a register was lost, or hidden
 * while it was alive.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "random.h"

/* All vector registers that 32 bits can name. */
struct vectors {
	uint64_t zmm[8][8];
	uint64_t k[8];
} __attribute__((aligned(64)));

static struct vectors set, got, junk;
static unsigned long hidden_alive, hidden_in_handler, signals, lost;

/* clang-format off */
#define FOR_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define SET(n) "vmovdqu64 " #n "*64(%%esi), %%zmm" #n "\n\t" \
	"kmovq 512+" #n "*8(%%esi), %%k" #n "\n\t"
#define GET(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%%edi)\n\t" \
	"kmovq %%k" #n ", 512+" #n "*8(%%edi)\n\t"
/* clang-format on */

static void randomize(struct vectors *vectors, uint64_t *random)
{
	uint64_t *words = (uint64_t *)vectors;

	for (size_t n = 0; n < sizeof(*vectors) / sizeof(*words); n++)
		words[n] = random_bits(random) | 1;
}

static int is_hidden(uint32_t xcr0)
{
	return !(xcr0 & 0xe0);
}

/* Leaves other masks behind, and something hidden, if it is after a system call. */
static __attribute__((target("general-regs-only"))) void on_signal(int signal)
{
	uint32_t xcr0;

	(void)signal;
	__asm__ __volatile__(FOR_8(SET) "vzeroupper\n\t"
					"movl %[getpid], %%eax\n\t"
					"int $0x80\n\t"
					"xorl %%ecx, %%ecx\n\t"
					"xgetbv"
			     : "=&a"(xcr0)
			     : "S"(&junk), [getpid] "i"(SYS_getpid)
			     : "ecx", "edx", "memory");
	hidden_in_handler += is_hidden(xcr0);
	signals++;
}

/*
 * Sets all registers, has a signal handled, and looks at them. With @narrow the
 * upper halves are in their initial state, but masks are alive all the same.
 */
static uint32_t across_a_signal(int signal, int narrow)
{
	uint32_t xcr0;

	/* ebx belongs to position-independent code. */
	__asm__ __volatile__(FOR_8(SET) "testl %%edx, %%edx\n\t"
					"jz 1f\n\t"
					"vzeroupper\n"
					"1: xchgl %%ebx, %%edx\n\t"
					"movl %[own], %%ebx\n\t"
					"movl %[kill], %%eax\n\t"
					"int $0x80\n\t"
					"movl %%edx, %%ebx\n\t"
					"xorl %%ecx, %%ecx\n\t"
					"xgetbv\n\t" FOR_8(GET) "vzeroupper"
			     : "=&a"(xcr0), "+d"(narrow), "+c"(signal)
			     : "S"(&set),
			       "D"(&got), [own] "m"((pid_t){ getpid() }), [kill] "i"(SYS_kill)
			     : "memory", "cc");
	return xcr0;
}

static void check(uint64_t *random)
{
	int narrow = random_bits(random) % 2;
	/* One of them comes with an rt_sigframe, the other with the older kind. */
	int signal = random_bits(random) % 2 ? SIGUSR1 : SIGUSR2;

	randomize(&set, random);
	randomize(&junk, random);
	hidden_alive += is_hidden(across_a_signal(signal, narrow));
	for (int n = 0; narrow && n < 8; n++)
		memset(&set.zmm[n][2], 0, 48);
	for (int n = 0; n < 8; n++)
		lost += memcmp(set.zmm[n], got.zmm[n], 64) != 0 || set.k[n] != got.k[n];
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	uint64_t random = argc > 2 ? strtoul(argv[2], NULL, 0) * 2 + 1 : 1;
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGUSR2, &action, NULL);
	for (unsigned long n = 0; n < rounds; n++)
		check(&random);
	printf("rounds=%lu\nsignals=%lu\nhidden_alive=%lu\nhidden_in_handler=%lu\nregisters_lost=%"
	       "lu\n",
	       rounds, signals, hidden_alive, hidden_in_handler, lost);
	return lost || hidden_alive || signals != rounds;
}
