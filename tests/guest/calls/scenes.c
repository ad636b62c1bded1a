/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A few threads that follow a script, for which see scenes.toml:
 *
 *     scenes CPUS NICE STEPS [CPUS NICE STEPS]...
 *
 * CPUS is a mask, or 0 for all; NICE is "fifo" for a realtime thread; STEPS are words:
 *
 *     w3        works for 3 ms, with a system call now and then
 *     v3        does 512-bit work for 3 ms on a machine with 50 million instructions a second
 *     s2        sleeps for 2 ms
 *     y         yields
 *     m2 n5     may use the CPUs of mask 2 from now on; has nice 5
 *     f o       is SCHED_FIFO from now on; SCHED_OTHER
 *     -1 +1     takes CPU 1 offline; brings it back
 *     0:n5      the same with thread 0, instead of with oneself
 *
 * Each begins a millisecond after the one before, and from then on their names are scene0,
 * scene1... The first begins a second after the program, and not with a second: what the kernel
 * and the scheduler do once a second would come into each try of a scene, or into none.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* 100 instructions, 500 times a millisecond. */
static void wide_work(double ms)
{
	unsigned long left = 500 * ms;

	/* Not in use is what is zero. */
	__asm__ __volatile__("vpternlogd $255, %%zmm0, %%zmm0, %%zmm0\n\t"
			     "1:\n\t"
			     ".rept 98\n\t"
			     "vpaddq %%zmm0, %%zmm1, %%zmm1\n\t"
			     ".endr\n\t"
			     "decq %0\n\t"
			     "jnz 1b\n\t"
			     "vzeroupper"
			     : "+r"(left)
			     :
			     : "memory", "xmm0", "xmm1");
}

static void confine(pid_t who, unsigned long cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu = 0; cpu < 64; cpu++)
		if (cpus >> cpu & 1)
			CPU_SET(cpu, &set);
	if (sched_setaffinity(who, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

static void be_nice(pid_t who, int nice)
{
	if (setpriority(PRIO_PROCESS, who, nice))
		err(1, "setpriority");
}

static void be_of(pid_t who, int policy)
{
	struct sched_param param = { .sched_priority = policy == SCHED_FIFO };

	if (sched_setscheduler(who, policy, &param))
		err(1, "sched_setscheduler");
}

static void set_online(const char *cpu, const char *state)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%s/online", cpu);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, state, 1) != 1)
		err(1, "%s", path);
	close(fd);
}

/* Of the threads, which each may know. */
static pid_t *pids;

static void step(const char *word)
{
	const char *rest = strchr(word, ':');
	pid_t who = rest ? pids[atoi(word)] : 0;
	double number;

	word = rest ? rest + 1 : word;
	number = atof(word + 1);
	switch (word[0]) {
	case 'w':
		work(number);
		break;
	case 'v':
		wide_work(number);
		break;
	case 's':
		nap(number);
		break;
	case 'y':
		sched_yield();
		break;
	case 'm':
		confine(who, number);
		break;
	case 'n':
		be_nice(who, number);
		break;
	case 'f':
		be_of(who, SCHED_FIFO);
		break;
	case 'o':
		be_of(who, SCHED_OTHER);
		break;
	case '-':
		set_online(word + 1, "0");
		break;
	case '+':
		set_online(word + 1, "1");
		break;
	default:
		errx(2, "there is no step %s", word);
	}
}

/* @ms after @start, when a millisecond begins. */
static struct timespec later(struct timespec start, long ms)
{
	ms += start.tv_nsec / 1000000;
	return (struct timespec){
		.tv_sec = start.tv_sec + ms / 1000,
		.tv_nsec = ms % 1000 * 1000000,
	};
}

static void play(int n, struct timespec start, char **script)
{
	unsigned long cpus = strtoul(script[0], NULL, 0);
	char name[16];

	pids[n] = getpid();
	if (cpus)
		confine(0, cpus);
	if (!strcmp(script[1], "fifo"))
		be_of(0, SCHED_FIFO);
	else
		be_nice(0, atoi(script[1]));
	snprintf(name, sizeof(name), "scene%d", n);
	/* Until then nobody runs, not even who started them. */
	start = later(start, 1000 + n);
	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL))
		err(1, "clock_nanosleep");
	prctl(PR_SET_NAME, name);
	for (char *word = strtok(script[2], " "); word; word = strtok(NULL, " "))
		step(word);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct timespec start;
	int status, failed = 0;

	if (argc < 4 || (argc - 1) % 3)
		errx(2, "usage: scenes CPUS NICE STEPS [CPUS NICE STEPS]...");
	pids = mmap(NULL, argc * sizeof(*pids), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		    -1, 0);
	if (pids == MAP_FAILED || clock_gettime(CLOCK_MONOTONIC, &start))
		err(1, "cannot begin");
	for (int n = 0; 3 * n + 3 < argc; n++)
		if (!fork())
			play(n, start, argv + 3 * n + 1);
	while (wait(&status) >= 0)
		failed |= status;
	return failed != 0;
}
