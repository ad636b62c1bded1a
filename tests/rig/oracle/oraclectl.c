// SPDX-License-Identifier: GPL-2.0-only
/*
 * oraclectl - ask the oracle from a shell inside the guest.
 *
 * Reports are made for programs: one line per CPU and privilege level, of
 * space-separated key=value pairs, in a fixed order and with all values in
 * decimal.  Exception vectors that did not occur are left out.  XCR0 is a mask
 * and printed in hexadecimal.
 *
 * Build: gcc -static -O2 -Wall -o oraclectl oraclectl.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"

#define EXIT_USAGE 2
#define EXIT_NO_ORACLE 3

static const char usage[] =
	"Usage: oraclectl COMMAND\n"
	"\n"
	"Reads and controls the instruction counts of an instrumented Bochs.\n"
	"\n"
	"  present           exit status 0 if this machine has the oracle, 3 if not\n"
	"  reset             set all counters of all CPUs to 0\n"
	"  report            take a snapshot and print it\n"
	"  run -- CMD ARGS   reset, run CMD, take a snapshot, print it; the exit status\n"
	"                    is that of CMD, or 128 plus the signal that ended it\n"
	"  trace start|stop  switch the trace on or off (its file: ORACLE_TRACE in the\n"
	"                    environment of Bochs)\n"
	"  mark N            write the number N into a running trace\n"
	"  xcr0              print what XCR0 each CPU has at this moment\n"
	"  checkpoint        from here the machine goes on in copies, if the rig so wants\n"
	"\n"
	"A report has two lines per CPU for the privilege levels and one for the CPU:\n"
	"  cpu=0 level=user retired=N v128_light=N ... avx512=N ... exc14=N\n"
	"  cpu=0 level=kernel ...\n"
	"  cpu=0 level=all halts=N halted_ticks=N ticks=N now=N xsetbv=N\n"
	"XCR0 has one line per CPU:\n"
	"  cpu=0 xcr0=0x2e7\n"
	"\n"
	"Exit status: 2 for a wrong command line, 3 without an oracle, 1 for other errors.\n";

static const struct {
	const char *name;
	unsigned int counter;
} level_counters[] = {
	{ "retired", ORACLE_RETIRED },
	{ "v128_light", ORACLE_V128_LIGHT },
	{ "v128_heavy", ORACLE_V128_HEAVY },
	{ "v256_light", ORACLE_V256_LIGHT },
	{ "v256_heavy", ORACLE_V256_HEAVY },
	{ "v512_light", ORACLE_V512_LIGHT },
	{ "v512_heavy", ORACLE_V512_HEAVY },
	{ "masks", ORACLE_MASKS },
	{ "avx512", ORACLE_AVX512 },
	{ "syscalls", ORACLE_SYSCALLS },
	{ "interrupts", ORACLE_INTERRUPTS },
	{ "soft_interrupts", ORACLE_SOFT_INTERRUPTS },
}, cpu_counters[] = {
	{ "halts", ORACLE_HALTS },
	{ "halted_ticks", ORACLE_HALTED_TICKS },
	{ "ticks", ORACLE_TICKS },
	{ "now", ORACLE_NOW },
	{ "xsetbv", ORACLE_XSETBV },
};

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static void print_level(unsigned int cpu, const char *name, unsigned int level)
{
	printf("cpu=%u level=%s", cpu, name);
	for (unsigned int n = 0; n < ARRAY_SIZE(level_counters); n++)
		printf(" %s=%llu", level_counters[n].name,
		       oracle_read(level + level_counters[n].counter, cpu));
	for (unsigned int vector = 0; vector < ORACLE_VECTORS; vector++) {
		oracle_u64 raised = oracle_read(level + ORACLE_EXCEPTION + vector, cpu);

		if (raised)
			printf(" exc%u=%llu", vector, raised);
	}
	putchar('\n');
}

static void print_cpu(unsigned int cpu)
{
	printf("cpu=%u level=all", cpu);
	for (unsigned int n = 0; n < ARRAY_SIZE(cpu_counters); n++)
		printf(" %s=%llu", cpu_counters[n].name, oracle_read(cpu_counters[n].counter, cpu));
	putchar('\n');
}

/* Prints the snapshot taken last; nothing printed here can change it. */
static void print_report(void)
{
	for (unsigned int cpu = 0; cpu < oracle_cpus(); cpu++) {
		print_level(cpu, "user", ORACLE_USER);
		print_level(cpu, "kernel", ORACLE_KERNEL);
		print_cpu(cpu);
	}
}

static int run(char **command)
{
	int status;
	pid_t child;

	oracle_reset();
	child = fork();
	if (child < 0) {
		fprintf(stderr, "oraclectl: cannot fork: %s\n", strerror(errno));
		return 1;
	}
	if (child == 0) {
		execvp(command[0], command);
		fprintf(stderr, "oraclectl: cannot run %s: %s\n", command[0], strerror(errno));
		_exit(127);
	}
	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR) {
			fprintf(stderr, "oraclectl: cannot wait for %s: %s\n", command[0],
				strerror(errno));
			return 1;
		}
	}
	oracle_snapshot();
	print_report();
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int trace(const char *what)
{
	oracle_u64 result;

	if (!strcmp(what, "start")) {
		result = oracle_trace_start();
	} else if (!strcmp(what, "stop")) {
		result = oracle_trace_stop();
	} else {
		fprintf(stderr, "oraclectl: trace takes start or stop, not \"%s\"\n", what);
		return EXIT_USAGE;
	}
	if (result == ORACLE_NO_TRACE) {
		fputs("oraclectl: no trace file: Bochs was started without ORACLE_TRACE in its "
		      "environment\n",
		      stderr);
		return 1;
	}
	return 0;
}

static int mark(const char *number)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(number, &end, 0);
	if (errno || end == number || *end) {
		fprintf(stderr, "oraclectl: mark takes a 64-bit number, not \"%s\"\n", number);
		return EXIT_USAGE;
	}
	oracle_mark(value);
	return 0;
}

static void print_xcr0(void)
{
	for (unsigned int cpu = 0; cpu < oracle_cpus(); cpu++)
		printf("cpu=%u xcr0=%#llx\n", cpu, oracle_xcr0(cpu));
}

static int wrong_usage(void)
{
	fputs("oraclectl: no such command or wrong number of arguments; see oraclectl --help\n",
	      stderr);
	return EXIT_USAGE;
}

static int dispatch(int argc, char **argv)
{
	const char *command = argv[1];

	if (argc == 2 && !strcmp(command, "present"))
		return 0;
	if (argc == 2 && !strcmp(command, "reset")) {
		oracle_reset();
		return 0;
	}
	if (argc == 2 && !strcmp(command, "report")) {
		oracle_snapshot();
		print_report();
		return 0;
	}
	if (argc == 2 && !strcmp(command, "xcr0")) {
		print_xcr0();
		return 0;
	}
	if (argc == 2 && !strcmp(command, "checkpoint")) {
		oracle_checkpoint();
		return 0;
	}
	if (argc >= 4 && !strcmp(command, "run") && !strcmp(argv[2], "--"))
		return run(argv + 3);
	if (argc == 3 && !strcmp(command, "trace"))
		return trace(argv[2]);
	if (argc == 3 && !strcmp(command, "mark"))
		return mark(argv[2]);
	return wrong_usage();
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return wrong_usage();
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		fputs(usage, stdout);
		return 0;
	}
	if (!oracle_present()) {
		fputs("oraclectl: this machine has no oracle: it is not a Bochs built with the "
		      "instrumentation library\n",
		      stderr);
		return EXIT_NO_ORACLE;
	}
	return dispatch(argc, argv);
}
