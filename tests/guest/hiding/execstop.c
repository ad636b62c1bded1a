// SPDX-License-Identifier: GPL-2.0-only
/*
 * execstop CPU: a process that AVX-512 is hidden from executes another program
 * on that CPU, and is stopped in the middle of it for good. Its old registers
 * were never saved and the new ones are not loaded yet, so the CPU stays as it
 * was: reduced, with nobody on it.
 *
 * Says "stopped" when it is so, and waits to be killed.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vectors.h"

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static void execute_when_hidden_from(int cpu)
{
	char *arguments[] = { (char *)"true", NULL };

	run_on(cpu);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		die("ptrace");
	raise(SIGSTOP);
	while (xgetbv(0) & XCR0_AVX512)
		sched_yield();
	execv("/bin/true", arguments);
	die("execv");
}

static void wait_for_stop(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
		fprintf(stderr, "the child did not stop\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int cpu = argc > 1 ? atoi(argv[1]) : 0;
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child)
		execute_when_hidden_from(cpu);
	run_on(cpu ? 0 : 1);
	wait_for_stop(child);
	if (ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) ||
	    ptrace(PTRACE_CONT, child, NULL, NULL))
		die("ptrace");
	wait_for_stop(child);
	puts("stopped");
	fflush(stdout);
	pause();
	return 0;
}
