// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does CPUID fault when a task asks for that, and only then?
 *
 * Prints what is wrong and ends with status 1, or ends with status 0.  Called
 * with the argument "executed" it only says whether CPUID works: that is what
 * the state of a task is after exec.
 *
 * Build: gcc -static -O2 -Wall -o cpuid_faulting cpuid_faulting.c
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define GENERAL_PROTECTION 13
#define CPUID_BYTES 2

/* Bits that CPUID clears in whatever register it writes. */
#define UPPER_HALF 0x5eed5eed00000000UL

struct registers {
	unsigned long rax, rbx, rcx, rdx;
};

static const struct registers before = { UPPER_HALF, UPPER_HALF, UPPER_HALF, UPPER_HALF };

extern const char cpuid_instruction[];

static volatile sig_atomic_t faults;

static void fail(const char *what)
{
	printf("cpuid_faulting: %s\n", what);
	exit(1);
}

static void require(int condition, const char *what)
{
	if (!condition)
		fail(what);
}

/* Leaf 0, with the label that tells where.  noipa: a label stands only once. */
static __attribute__((noipa)) struct registers cpuid(void)
{
	struct registers r = before;

	__asm__ __volatile__(".globl cpuid_instruction\n"
			     "cpuid_instruction: cpuid"
			     : "+a"(r.rax), "+b"(r.rbx), "+c"(r.rcx), "+d"(r.rdx));
	return r;
}

static void skip_cpuid(int signal, siginfo_t *info, void *context)
{
	greg_t *saved = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)signal;
	require(info->si_code == SI_KERNEL, "the signal is not that of a protection fault");
	require(saved[REG_TRAPNO] == GENERAL_PROTECTION, "the fault is not #GP");
	require(saved[REG_ERR] == 0, "the error code of #GP is not 0");
	require(saved[REG_RIP] == (greg_t)cpuid_instruction, "the fault is not at CPUID");
	faults++;
	saved[REG_RIP] += CPUID_BYTES;
}

static void require_that_cpuid_works(void)
{
	int faults_before = faults;
	struct registers r = cpuid();

	require(faults == faults_before, "CPUID faults though the task did not ask for it");
	require(!memcmp(&r.rbx, "Genu\0\0\0\0", 8) && !memcmp(&r.rdx, "ineI\0\0\0\0", 8) &&
			!memcmp(&r.rcx, "ntel\0\0\0\0", 8) && r.rax >> 32 == 0 && r.rax > 0,
		"CPUID does not say what it should");
}

static void require_that_cpuid_faults(void)
{
	int faults_before = faults;
	struct registers r = cpuid();

	require(faults == faults_before + 1, "CPUID does not fault though the task asked for it");
	require(!memcmp(&r, &before, sizeof(r)), "CPUID wrote a register before it faulted");
}

static void set_cpuid(unsigned long enabled)
{
	require(!syscall(SYS_arch_prctl, ARCH_SET_CPUID, enabled),
		"arch_prctl(ARCH_SET_CPUID) is refused");
	require(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == (long)enabled,
		"arch_prctl(ARCH_GET_CPUID) tells otherwise");
}

/* Runs body in a child, which leaves this CPU to us with another state of it. */
static void in_a_child(void (*body)(void), const char *what)
{
	int status;
	pid_t child = fork();

	require(child >= 0, "cannot fork");
	if (child == 0) {
		body();
		exit(0);
	}
	require(waitpid(child, &status, 0) == child && status == 0, what);
}

static void execute_myself(void)
{
	execl("/proc/self/exe", "cpuid_faulting", "executed", NULL);
	fail("cannot execute myself");
}

static void enable_and_try(void)
{
	set_cpuid(1);
	require_that_cpuid_works();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = skip_cpuid, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	require_that_cpuid_works();
	if (argc > 1 && !strcmp(argv[1], "executed"))
		return 0;

	set_cpuid(0);
	require_that_cpuid_faults();
	in_a_child(require_that_cpuid_faults, "a child does not inherit the state");
	in_a_child(execute_myself, "CPUID does not work after exec");
	require_that_cpuid_faults();
	in_a_child(enable_and_try, "a child cannot have CPUID back");
	require_that_cpuid_faults();

	set_cpuid(1);
	require_that_cpuid_works();
	return 0;
}
