/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A few threads that follow a script, for which see scenes.toml:
 *
 *     scenes CPUS NICE STEPS [CPUS NICE STEPS]...
 *
 * CPUS is a mask, or 0 for all; STEPS are words: w3 works for 3 ms, s2 sleeps for 2 ms,
 * and y yields. All begin at once, and from then on their names are scene0, scene1...
 */
#define _GNU_SOURCE
#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu_ms(void)
{
	struct timespec ran;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
	return ran.tv_sec * 1e3 + ran.tv_nsec / 1e6;
}

static void work(double ms)
{
	double end = cpu_ms() + ms;

	while (cpu_ms() < end)
		;
}

static void nap(double ms)
{
	struct timespec time = { .tv_nsec = ms * 1e6 };

	nanosleep(&time, NULL);
}

static void step(const char *word)
{
	double ms = atof(word + 1);

	switch (word[0]) {
	case 'w':
		work(ms);
		break;
	case 's':
		nap(ms);
		break;
	case 'y':
		sched_yield();
		break;
	default:
		errx(2, "there is no step %s", word);
	}
}

static void confine(unsigned long cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu = 0; cpu < 64; cpu++)
		if (cpus >> cpu & 1)
			CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

static void play(int n, int start, char **script)
{
	unsigned long cpus = strtoul(script[0], NULL, 0);
	char name[16], nothing;

	if (cpus)
		confine(cpus);
	if (setpriority(PRIO_PROCESS, 0, atoi(script[1])))
		err(1, "setpriority");
	snprintf(name, sizeof(name), "scene%d", n);
	/* Nothing comes, but the end of all that is there. */
	if (read(start, &nothing, 1))
		err(1, "read");
	prctl(PR_SET_NAME, name);
	for (char *word = strtok(script[2], " "); word; word = strtok(NULL, " "))
		step(word);
	_exit(0);
}

int main(int argc, char **argv)
{
	int pipes[2], status, failed = 0;

	if (argc < 4 || (argc - 1) % 3)
		errx(2, "usage: scenes CPUS NICE STEPS [CPUS NICE STEPS]...");
	if (pipe(pipes))
		err(1, "pipe");
	for (int n = 0; 3 * n + 3 < argc; n++) {
		if (fork())
			continue;
		close(pipes[1]);
		play(n, pipes[0], argv + 3 * n + 1);
	}
	/* They are where they wait by then. */
	nap(50);
	close(pipes[1]);
	while (wait(&status) >= 0)
		failed |= status;
	return failed != 0;
}
