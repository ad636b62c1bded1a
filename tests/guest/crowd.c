// SPDX-License-Identifier: GPL-2.0-only
/*
 * crowd TASKS SECONDS [HOTPLUG]: so many threads, five to a process, that work, sleep,
 * confine themselves to other CPUs, run as realtime tasks for a while, and move from
 * control group to control group, at random. With HOTPLUG, a number of milliseconds,
 * a CPU goes or comes that often, never the first half of them.
 *
 * Each thread looks again and again on which CPU it is. It alone changes its mask, and
 * each mask has a CPU that stays, so any CPU that is not in the mask is one where the
 * thread must not be.
 *
 * Prints what was done, how often a thread was where it must not be, and for how long
 * the most neglected thread got nothing done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 5
#define GROUPS 4
#define CHECKS_PER_WORK 50
#define GROUP "/sys/fs/cgroup/crowd%lu"

/* Shared by all processes. */
struct tally {
	atomic_ulong works, checks, outside, masks, sleeps, realtimes, moves, hotplugs;
	atomic_ulong longest_ms;
	atomic_bool is_over;
};

static struct tally *tally;
static unsigned long nr_cpus, nr_staying;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*state >> 33) % limit;
}

static int is_outside(const cpu_set_t *mask)
{
	return !CPU_ISSET(sched_getcpu(), mask);
}

static void work(const cpu_set_t *mask, unsigned long turns)
{
	for (int check = 0; check < CHECKS_PER_WORK; check++) {
		for (volatile unsigned long turn = 0; turn < turns; turn++)
			;
		tally->outside += is_outside(mask);
	}
	tally->checks += CHECKS_PER_WORK;
	tally->works++;
}

/* One CPU, a few, or nearly all; one of them stays. */
static void confine(cpu_set_t *mask, uint64_t *seed)
{
	uint64_t members = random_below(seed, 3), cpu;

	CPU_ZERO(mask);
	CPU_SET(random_below(seed, nr_staying), mask);
	for (cpu = 0; cpu < nr_cpus && members; cpu++)
		if (random_below(seed, 8) < (members == 1 ? 2 : 7))
			CPU_SET(cpu, mask);
	if (sched_setaffinity(0, sizeof(*mask), mask))
		die("cannot set the affinity");
	tally->masks++;
}

static void be_realtime(const cpu_set_t *mask, unsigned long turns)
{
	struct sched_param first = { .sched_priority = 1 }, none = {};

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("cannot become a realtime task");
	work(mask, turns);
	if (sched_setscheduler(0, SCHED_OTHER, &none))
		die("cannot become an ordinary task again");
	tally->realtimes++;
}

static void move(uint64_t *seed)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), GROUP "/cgroup.procs", random_below(seed, GROUPS));
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		die(path);
	close(fd);
	tally->moves++;
}

static void note_gap(uint64_t ms)
{
	unsigned long longest = tally->longest_ms;

	while (ms > longest && !atomic_compare_exchange_weak(&tally->longest_ms, &longest, ms))
		;
}

static void *be_one_of_many(void *argument)
{
	uint64_t seed = (uint64_t)argument, before = now_ms(), slept;
	cpu_set_t mask;

	confine(&mask, &seed);
	while (!tally->is_over) {
		slept = 0;
		switch (random_below(&seed, 40)) {
		case 0:
			confine(&mask, &seed);
			break;
		case 1:
			move(&seed);
			break;
		case 2:
			be_realtime(&mask, 2000);
			break;
		case 3 ... 30:
			slept = 1 + random_below(&seed, 20);
			usleep(slept * 1000);
			tally->sleeps++;
			break;
		default:
			work(&mask, random_below(&seed, 1000));
		}
		note_gap(now_ms() - before - slept);
		before = now_ms();
	}
	return NULL;
}

static void be_a_process(uint64_t seed)
{
	pthread_t threads[THREADS];

	for (uint64_t n = 0; n < THREADS; n++)
		if (pthread_create(&threads[n], NULL, be_one_of_many, (void *)(seed * THREADS + n)))
			die("cannot start a thread");
	for (int n = 0; n < THREADS; n++)
		pthread_join(threads[n], NULL);
	exit(0);
}

static void make_groups(void)
{
	char path[64];

	for (unsigned long n = 0; n < GROUPS; n++) {
		snprintf(path, sizeof(path), GROUP, n);
		if (mkdir(path, 0755) && errno != EEXIST)
			die(path);
	}
}

static void turn(unsigned long cpu, const char *state)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%lu/online", cpu);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, state, 1) != 1)
		die(path);
	close(fd);
	tally->hotplugs++;
}

static void watch_over(unsigned long seconds, unsigned long hotplug_ms)
{
	uint64_t end = now_ms() + seconds * 1000, seed = 1;

	while (now_ms() < end) {
		unsigned long cpu = nr_staying + random_below(&seed, nr_cpus - nr_staying);

		usleep((hotplug_ms ?: 1000) * 1000);
		if (!hotplug_ms)
			continue;
		turn(cpu, "0");
		usleep(hotplug_ms * 1000);
		turn(cpu, "1");
	}
}

/* A look that finds nothing wrong anywhere would find nothing wrong here. */
static void look_where_it_is_known(void)
{
	cpu_set_t mask;

	CPU_ZERO(&mask);
	CPU_SET(1, &mask);
	sched_setaffinity(0, sizeof(mask), &mask);
	if (is_outside(&mask))
		die("on another CPU than the only one");
	CPU_ZERO(&mask);
	CPU_SET(0, &mask);
	if (!is_outside(&mask))
		die("cannot tell CPUs apart");
	sched_setaffinity(0, sizeof(mask), &mask);
}

int main(int argc, char **argv)
{
	unsigned long tasks = argc > 1 ? strtoul(argv[1], NULL, 0) : 10;
	unsigned long seconds = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	unsigned long hotplug_ms = argc > 3 ? strtoul(argv[3], NULL, 0) : 0;
	int status, failed = 0;

	nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	nr_staying = nr_cpus / 2;
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (tally == MAP_FAILED)
		die("no memory");
	make_groups();
	look_where_it_is_known();

	for (unsigned long n = 0; n < tasks / THREADS; n++) {
		pid_t pid = fork();

		if (pid < 0)
			die("cannot fork");
		if (!pid)
			be_a_process(n + 1);
	}
	watch_over(seconds, hotplug_ms);
	tally->is_over = 1;
	while (wait(&status) > 0)
		failed |= status;
	printf("works=%lu\nchecks=%lu\noutside=%lu\nmasks=%lu\nsleeps=%lu\nrealtimes=%lu\n"
	       "moves=%lu\nhotplugs=%lu\nlongest_ms=%lu\n",
	       tally->works, tally->checks, tally->outside, tally->masks, tally->sleeps,
	       tally->realtimes, tally->moves, tally->hotplugs, tally->longest_ms);
	return failed ? 1 : 0;
}
