// SPDX-License-Identifier: GPL-2.0-only
/*
 * serve [OPTIONS]: threads that serve requests beside processes that compute all the time.
 *
 * Each thread has its own Poisson arrivals: it sleeps until the next one, unless that is past,
 * and then computes for an exponential time. A latency is counted from the arrival to the end of
 * the work, so a thread that is late for one request is late for the next one as well.
 *
 * Work is counted in rounds of a loop, as many as fit into a microsecond when all CPUs are busy,
 * which may share the time of one: whoever is interrupted has as much left as before.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_SERVERS 64
#define MAX_JOBS 256
#define NS 1000000000ULL

static const char usage[] =
	"serve [OPTIONS]: tells how late requests were done, and what jobs beside them got\n"
	"  -s N   threads that serve (4)\n"
	"  -t MS  for how long (1000)\n"
	"  -g US  mean time between two requests of a thread (266)\n"
	"  -w US  mean work of a request (25)\n"
	"  -W N   after which 512-bit instructions follow for an Nth of it (none)\n"
	"  -j N   processes that compute all the time (0)\n"
	"  -n N   ... at this nice value\n";

static struct {
	unsigned servers, jobs, wide;
	uint64_t ms, gap_us, work_us;
	int nice_of_jobs;
} o = { .servers = 4, .ms = 1000, .gap_us = 266, .work_us = 25 };

static uint64_t rounds_per_ms;
static long calibrated_us;
static uint64_t begun, end;

struct server {
	pthread_t thread;
	unsigned seed;
	uint64_t *late_ns;
	size_t done, room;
};

static struct server servers[MAX_SERVERS];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

__attribute__((noinline)) static void compute(uint64_t rounds)
{
	while (rounds--)
		__asm__ volatile("");
}

__attribute__((noinline)) static void compute_wide(uint64_t rounds)
{
	for (; rounds > 1; rounds -= 2)
		__asm__ volatile(".byte 0x62,0xf1,0x7d,0x48,0xfe,0xc0" /* vpaddd zmm0,zmm0,zmm0 */
				 ::
					 : "xmm0");
	__asm__ volatile("vzeroupper");
}

static double exponential(unsigned *seed)
{
	return -log((rand_r(seed) + 1.0) / (RAND_MAX + 2.0));
}

static void sleep_until(int timer, uint64_t at)
{
	struct itimerspec when = { .it_value = { at / NS, at % NS } };
	uint64_t expired;

	timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
	if (read(timer, &expired, sizeof(expired)) != sizeof(expired))
		exit(1);
}

static void do_request(uint64_t rounds)
{
	compute(rounds);
	if (o.wide)
		compute_wide(rounds / o.wide);
}

static void *serve(void *argument)
{
	struct server *server = argument;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t arrival = begun;

	for (;;) {
		arrival += exponential(&server->seed) * o.gap_us * 1000;
		if (arrival >= end)
			break;
		if (arrival > now())
			sleep_until(timer, arrival);
		do_request(exponential(&server->seed) * o.work_us * rounds_per_ms / 1000);
		if (server->done < server->room)
			server->late_ns[server->done++] = now() - arrival;
	}
	return NULL;
}

static pid_t jobs[MAX_JOBS];

/* What those that have ended got. */
static long used_by_jobs_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	return used.ru_utime.tv_sec * 1000000 + used.ru_utime.tv_usec;
}

static void start_jobs(unsigned n, int nice)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		jobs[i] = fork();
		if (jobs[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setpriority(PRIO_PROCESS, 0, nice))
			exit(1);
		for (;;)
			compute(1000000);
	}
}

static void end_jobs(unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		kill(jobs[i], SIGKILL);
		waitpid(jobs[i], NULL, 0);
	}
}

static void calibrate(void)
{
	unsigned others = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	const uint64_t rounds = 4000000;
	uint64_t before;

	start_jobs(others, 0);
	usleep(50000);
	before = now();
	compute(rounds);
	rounds_per_ms = rounds * 1000000 / (now() - before);
	end_jobs(others);
	calibrated_us = used_by_jobs_us();
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void tell(void)
{
	static uint64_t *all;
	size_t n = 0;
	unsigned i;

	for (i = 0; i < o.servers; i++)
		n += servers[i].done;
	all = malloc((n + 1) * sizeof(*all));
	n = 0;
	for (i = 0; i < o.servers; i++) {
		memcpy(all + n, servers[i].late_ns, servers[i].done * sizeof(*all));
		n += servers[i].done;
	}
	qsort(all, n, sizeof(*all), by_size);
	printf("done=%zu\n", n);
	if (n)
		printf("p50_ns=%lu\np99_ns=%lu\n", all[n / 2], all[n * 99 / 100]);
	printf("took_ns=%lu\n", now() - begun);
	printf("jobs_us=%ld\n", used_by_jobs_us() - calibrated_us);
}

static void read_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "s:t:g:w:W:j:n:")) > 0) {
		unsigned long n = optarg ? strtoul(optarg, NULL, 10) : 0;

		switch (c) {
		case 's':
			o.servers = n;
			break;
		case 't':
			o.ms = n;
			break;
		case 'g':
			o.gap_us = n;
			break;
		case 'w':
			o.work_us = n;
			break;
		case 'W':
			o.wide = n;
			break;
		case 'j':
			o.jobs = n;
			break;
		case 'n':
			o.nice_of_jobs = n;
			break;
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (!o.servers || o.servers > MAX_SERVERS || o.jobs > MAX_JOBS || !o.gap_us) {
		fputs(usage, stderr);
		exit(2);
	}
}

static void start_server(struct server *server, unsigned seed)
{
	server->seed = seed;
	server->room = 2 * o.ms * 1000 / o.gap_us + 1000;
	server->late_ns = calloc(server->room, sizeof(*server->late_ns));
	pthread_create(&server->thread, NULL, serve, server);
}

int main(int argc, char **argv)
{
	unsigned i;

	read_options(argc, argv);
	calibrate();
	start_jobs(o.jobs, o.nice_of_jobs);
	/* Jobs settle, and a program that has just begun is at its end of no turn. */
	usleep(100000);
	begun = now();
	end = begun + o.ms * 1000000;
	for (i = 0; i < o.servers; i++)
		start_server(&servers[i], i + 1);
	for (i = 0; i < o.servers; i++)
		pthread_join(servers[i].thread, NULL);
	end_jobs(o.jobs);
	tell();
	return 0;
}
