// SPDX-License-Identifier: GPL-2.0-only
/*
 * vectors CYCLES THREADS SEED [strict]: threads that put random bits into all vector
 * registers, let something happen to them, and look whether the bits are still
 * there, until AVX-512 was found hidden CYCLES times. What happens: system
 * calls, preemption, signals, fork and vfork with exec.
 *
 * Prints what it counted as name=number. Fails if a register was lost, if
 * something was hidden that must not be, or if something strange occurred.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vectors.h"

enum count {
	CHECKS,	       /* times that all registers were compared */
	HIDDEN,	       /* ... when AVX-512 was hidden just before */
	LOST,	       /* registers that were not what they should be */
	HIDDEN_IN_USE, /* times that something was hidden with ZMM_Hi256 in use */
	HIDDEN_ALIVE,  /* ... with masks and zmm16-31 in use, other than after a system call */
	SIGNALS,       /* handled, all registers overwritten in the handler */
	NOT_INITIAL,   /* signal handlers that began with a register set */
	FORKS,	       /* children that inherited all registers */
	EXECS,	       /* programs that began with all registers in their initial state */
	ODD,	       /* anything else that went wrong */
	NR_COUNTS,
};

static const char *const names[NR_COUNTS] = {
	"checks",  "cycles_checked", "registers_lost", "hidden_in_use", "hidden_alive",
	"signals", "not_initial",    "forks",	       "execs",		"odd",
};

static atomic_ulong counts[NR_COUNTS];
static unsigned long wanted;
/* How many checks may find nothing hidden, for each that does. */
#define PATIENCE 100
#define CHECKS_PER_EXEC 150
static int strict;

static void count(enum count which, unsigned long n)
{
	if (n)
		atomic_fetch_add(&counts[which], n);
}

static int strange(const char *what)
{
	perror(what);
	count(ODD, 1);
	return -1;
}

/* What signal handlers leave in the registers; what one of them found there. */
static struct vectors junk, found_set;

/*
 * A signal handler begins with all registers in their initial state, and what
 * it leaves in them is not to be noticed by those whom it interrupted.
 */
static __attribute__((target("general-regs-only"))) void on_signal(int signal)
{
	static _Thread_local struct vectors found;
	register struct vectors *r13 __asm__("r13") = &found;
	register const struct vectors *r12 __asm__("r12") = &junk;
	uint64_t set = 0;

	(void)signal;
	/* The handler is to be hidden from, and to return to who is not. */
	__asm__ __volatile__(GET_ALL "stmxcsr 2112(%%r13)\n\t" SET_ALL "ldmxcsr 2112(%%r12)\n\t"
				     "vzeroupper\n\t"
				     "movl $39, %%eax\n\t" /* getpid */
				     "syscall\n\t"
			     :
			     : "r"(r12), "r"(r13)
			     : "rax", "rcx", "r11", "memory");
	for (int n = 0; n < 32; n++)
		for (int lane = 0; lane < 8; lane++)
			set |= found.zmm[n][lane];
	for (int n = 0; n < 8; n++)
		set |= found.k[n];
	if (set || found.mxcsr != MXCSR_INITIAL) {
		atomic_fetch_add(&counts[NOT_INITIAL], 1);
		found_set = found;
	}
	atomic_fetch_add(&counts[SIGNALS], 1);
}

/* The system calls are made by between(), in the middle of the check. */
enum what {
	YIELD,
	GETPID,
	SLEEP,
	SIGNAL_MYSELF,
	FORK,
	SPIN,
	SPIN_LONG,
	NR_WHATS,
};

static const char *const what_names[NR_WHATS] = {
	"sched_yield", "getpid",   "nanosleep",		"a signal to itself",
	"fork",	       "spinning", "spinning for long",
};

static void describe(struct event *event, enum what what, uint64_t *random)
{
	static const struct timespec moment = { .tv_nsec = 100000 };

	memset(event, 0, sizeof(*event));
	event->load = random_bits(random) % NR_LOADS;
	event->alter = random_bits(random) % 2;
	if (what < SPIN && random_bits(random) % 4 == 0)
		event->linger = (long)(random_bits(random) % 20000);
	switch (what) {
	case YIELD:
		event->number = SYS_sched_yield;
		break;
	case GETPID:
		event->number = SYS_getpid;
		break;
	case SLEEP:
		event->number = SYS_nanosleep;
		event->argument[0] = (long)&moment;
		break;
	case SIGNAL_MYSELF:
		event->number = SYS_tgkill;
		event->argument[0] = getpid();
		event->argument[1] = syscall(SYS_gettid);
		event->argument[2] = SIGUSR1;
		break;
	case FORK:
		event->number = SYS_fork;
		break;
	case SPIN:
		event->number = -(long)(1 + random_bits(random) % 2000);
		break;
	default:
		event->number = -(long)(1 + random_bits(random) % 200000);
	}
}

static enum what choose(uint64_t *random)
{
	uint64_t dice = random_bits(random) % 1000;

	return dice < 350   ? YIELD
	       : dice < 500 ? GETPID
	       : dice < 600 ? SLEEP
	       : dice < 700 ? SIGNAL_MYSELF
	       : dice < 710 ? FORK
	       : dice < 970 ? SPIN
			    : SPIN_LONG;
}

/* Returns the number of registers lost by the caller's child. */
static unsigned long wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return strange("waitpid");
	if (!WIFEXITED(status))
		return strange("a child died");
	return WEXITSTATUS(status);
}

/* What was visible when it had to be, by the rules of the patch. */
static void judge_hiding(const struct event *event, const struct vectors *got)
{
	if ((got->xcr0 & XCR0_AVX512) == XCR0_AVX512)
		return;
	if (event->load == LOAD_ALL && !event->alter)
		count(HIDDEN_IN_USE, 1);
	/* No system call since the registers were set, which nobody hidden from can do. */
	if (event->load == LOAD_HIGH && (event->number < 0 || strict))
		count(HIDDEN_ALIVE, 1);
}

static void check(uint64_t *random)
{
	static _Thread_local struct vectors set, got, expected;
	enum what what = choose(random);
	struct event event;
	unsigned long wrong;

	randomize(&set, random);
	describe(&event, what, random);
	expect(&set, &event, &expected);
	between(&set, &got, &event);

	wrong = differences(&expected, &got, what_names[what]);
	if (what == FORK) {
		if (!event.result)
			_exit(wrong);
		count(FORKS, 1);
		wrong += event.result < 0 ? (unsigned long)strange("fork") : wait_for(event.result);
	}
	count(LOST, wrong);
	count(CHECKS, 1);
	count(HIDDEN, (got.xcr0 & XCR0_AVX512) == 0);
	judge_hiding(&event, &got);
}

/*
 * A program without a C library, so that nothing touches the registers before
 * it looks: exits with 0 if they are all in their initial state.
 */
/* clang-format off */
#define PLAIN_GET_ZMM(n) "vmovdqu64 %zmm" #n ", " #n "*64(%r13)\n\t"
#define PLAIN_GET_K(n) "kmovq %k" #n ", 2048+" #n "*8(%r13)\n\t"
__asm__(".pushsection .rodata\n"
	"looker:\n\t"
	"xorl %ebx, %ebx\n\t"
	"leaq -2200(%rsp), %r13\n\t"
	"andq $-64, %r13\n\t"
	FOR_16(PLAIN_GET_ZMM) FOR_HIGH_16(PLAIN_GET_ZMM) FOR_8(PLAIN_GET_K)
	"movl $264, %ecx\n\t"
	"1: orq -8(%r13,%rcx,8), %rbx\n\t"
	"loop 1b\n\t"
	"xorl %edi, %edi\n\t"
	"testq %rbx, %rbx\n\t"
	"setne %dil\n\t"
	"movl $231, %eax\n\t" /* exit_group */
	"syscall\n"
	"looker_end:\n"
	".popsection\n");
/* clang-format on */
extern const char looker[], looker_end[];

#define LOOKER "/tmp/looker"
#define LOOKER_BASE 0x400000UL

/* The smallest ELF file that Linux executes. */
static void write_looker(void)
{
	struct {
		uint8_t ident[16];
		uint16_t type, machine;
		uint32_t version;
		uint64_t entry, phoff, shoff;
		uint32_t flags;
		uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
		uint32_t p_type, p_flags;
		uint64_t offset, vaddr, paddr, filesz, memsz, align;
	} header = {
		.ident = { 0x7f, 'E', 'L', 'F', 2, 1, 1 },
		.type = 2,
		.machine = 62,
		.version = 1,
		.entry = LOOKER_BASE + sizeof(header),
		.phoff = 64,
		.ehsize = 64,
		.phentsize = 56,
		.phnum = 1,
		.p_type = 1,
		.p_flags = 5,
		.vaddr = LOOKER_BASE,
		.paddr = LOOKER_BASE,
		.filesz = sizeof(header) + (looker_end - looker),
		.memsz = sizeof(header) + (looker_end - looker),
		.align = 4096,
	};
	FILE *file = fopen(LOOKER, "w");

	if (!file || !fwrite(&header, sizeof(header), 1, file) ||
	    !fwrite(looker, looker_end - looker, 1, file) || fchmod(fileno(file), 0755) ||
	    fclose(file)) {
		perror(LOOKER);
		exit(1);
	}
}

/*
 * vfork, and exec while everything is in use, or after a switch that may have hidden it;
 * the parent notices nothing.
 */
static void check_exec(uint64_t *random)
{
	int narrow = random_bits(random) % 2;
	static _Thread_local struct vectors set;
	char *arguments[] = { (char *)LOOKER, NULL };
	register const struct vectors *r12 __asm__("r12") = &set;
	pid_t child;

	randomize(&set, random);
	child = vfork();
	if (!child) {
		__asm__ __volatile__(SET_ALL : : "r"(r12) : "memory");
		if (narrow) {
			__asm__ __volatile__("vzeroupper");
			syscall(SYS_sched_yield);
		}
		execv(LOOKER, arguments);
		_exit(1);
	}
	count(EXECS, 1);
	count(NOT_INITIAL, child < 0 ? (unsigned long)strange("vfork") : wait_for(child));
}

static void *work(void *seed)
{
	uint64_t random = (uint64_t)seed;

	for (int n = 0; atomic_load(&counts[HIDDEN]) < wanted && !atomic_load(&counts[ODD]) &&
			atomic_load(&counts[CHECKS]) < PATIENCE * wanted;
	     n++) {
		/* Not at random, which would be never in a short run now and then. */
		if (n % CHECKS_PER_EXEC == 0)
			check_exec(&random);
		check(&random);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct itimerval often = { .it_interval = { .tv_usec = 7000 },
				   .it_value = { .tv_usec = 7000 } };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	uint64_t seed = argc > 3 ? strtoul(argv[3], NULL, 0) * 2 + 1 : 1;
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t thread[threads];

	strict = argc > 4;
	wanted = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	write_looker();
	randomize(&junk, &seed);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);

	for (int n = 0; n < threads; n++)
		pthread_create(&thread[n], NULL, work, (void *)random_bits(&seed));
	for (int n = 0; n < threads; n++)
		pthread_join(thread[n], NULL);

	if (counts[NOT_INITIAL])
		differences(&(struct vectors){ .mxcsr = MXCSR_INITIAL }, &found_set,
			    "a signal handler or a new program");
	for (int n = 0; n < NR_COUNTS; n++)
		printf("%s=%lu\n", names[n], counts[n]);
	return counts[LOST] || counts[HIDDEN_IN_USE] || counts[HIDDEN_ALIVE] ||
	       counts[NOT_INITIAL] || counts[ODD];
}
