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
#include <sched.h>
#include <semaphore.h>
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
#define MAX_WORKERS 16
#define NS 1000000000ULL

static const char usage[] =
	"serve [OPTIONS]: tells how late requests were done, and what jobs beside them got\n"
	"  -s N   threads that serve (4)\n"
	"  -t MS  for how long (1000)\n"
	"  -g US  mean time between two requests of a thread (266)\n"
	"  -w US  mean work of a request (25)\n"
	"  -W N   after which 512-bit instructions follow for an Nth of it (none)\n"
	"  -f N   hand each request to so many workers of the thread, in equal parts (none)\n"
	"  -l N   do an Nth of each request with a lock that all threads share (none)\n"
	"  -j N   processes that compute all the time (0)\n"
	"  -n N   ... at this nice value\n"
	"  -i     ... that are SCHED_IDLE\n";

static struct {
	unsigned long servers, ms, gap_us, work_us, wide, workers, locked, jobs, nice_of_jobs;
	int idle_jobs;
} o = { .servers = 4, .ms = 1000, .gap_us = 266, .work_us = 25 };

static unsigned long *const numbers[128] = {
	['s'] = &o.servers, ['t'] = &o.ms,   ['g'] = &o.gap_us,
	['w'] = &o.work_us, ['W'] = &o.wide, ['f'] = &o.workers,
	['l'] = &o.locked,  ['j'] = &o.jobs, ['n'] = &o.nice_of_jobs,
};

static uint64_t rounds_per_ms;
static uint64_t begun, end;

struct server {
	pthread_t thread;
	unsigned seed;
	uint64_t *late_ns;
	size_t done, room;
	/* How many workers have not done their part of a request yet, and how much that is. */
	unsigned open;
	uint64_t rounds;
	int has_ended;
	sem_t is_done;
	struct worker {
		pthread_t thread;
		struct server *server;
		sem_t is_wanted;
	} workers[MAX_WORKERS];
};

static struct server servers[MAX_SERVERS];

static uint64_t time_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

static uint64_t now(void)
{
	return time_of(CLOCK_MONOTONIC);
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

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct server *server = worker->server;

	for (;;) {
		sem_wait(&worker->is_wanted);
		if (server->has_ended)
			return NULL;
		compute(server->rounds);
		if (__atomic_sub_fetch(&server->open, 1, __ATOMIC_ACQ_REL) == 0)
			sem_post(&server->is_done);
	}
}

static void start_workers(struct server *server)
{
	unsigned i;

	sem_init(&server->is_done, 0, 0);
	for (i = 0; i < o.workers; i++) {
		server->workers[i].server = server;
		sem_init(&server->workers[i].is_wanted, 0, 0);
		pthread_create(&server->workers[i].thread, NULL, work, &server->workers[i]);
	}
}

static void end_workers(struct server *server)
{
	unsigned i;

	server->has_ended = 1;
	for (i = 0; i < o.workers; i++) {
		sem_post(&server->workers[i].is_wanted);
		pthread_join(server->workers[i].thread, NULL);
	}
}

static void hand_out(struct server *server, uint64_t rounds)
{
	unsigned i;

	server->open = o.workers;
	server->rounds = rounds / o.workers;
	for (i = 0; i < o.workers; i++)
		sem_post(&server->workers[i].is_wanted);
	sem_wait(&server->is_done);
}

static uint64_t compute_locked(uint64_t rounds)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	compute(rounds);
	pthread_mutex_unlock(&lock);
	return rounds;
}

static void do_request(struct server *server, uint64_t rounds)
{
	uint64_t locked = o.locked ? compute_locked(rounds / o.locked) : 0;

	if (o.workers)
		hand_out(server, rounds - locked);
	else
		compute(rounds - locked);
	if (o.wide)
		compute_wide(rounds / o.wide);
}

static void *serve(void *argument)
{
	struct server *server = argument;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t arrival = begun;

	start_workers(server);
	for (;;) {
		arrival += exponential(&server->seed) * o.gap_us * 1000;
		if (arrival >= end)
			break;
		if (arrival > now())
			sleep_until(timer, arrival);
		do_request(server, exponential(&server->seed) * o.work_us * rounds_per_ms / 1000);
		if (server->done < server->room)
			server->late_ns[server->done++] = now() - arrival;
	}
	end_workers(server);
	return NULL;
}

static pid_t jobs[MAX_JOBS];

/* Of CPUs. */
static uint64_t used_by_jobs(unsigned n)
{
	uint64_t used = 0;
	clockid_t clock;
	unsigned i;

	for (i = 0; i < n; i++)
		if (!clock_getcpuclockid(jobs[i], &clock))
			used += time_of(clock);
	return used;
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
		if (o.idle_jobs && sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){ 0 }))
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
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void tell(uint64_t servers_ns, uint64_t jobs_ns)
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
	printf("servers_ns=%lu\njobs_ns=%lu\n", servers_ns, jobs_ns);
}

static void refuse(void)
{
	fputs(usage, stderr);
	exit(2);
}

static void read_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "s:t:g:w:W:f:l:j:n:i")) > 0) {
		if (c == 'i')
			o.idle_jobs = 1;
		else if (numbers[c & 127])
			*numbers[c & 127] = strtoul(optarg, NULL, 10);
		else
			refuse();
	}
	if (!o.servers || o.servers > MAX_SERVERS || o.jobs > MAX_JOBS || !o.gap_us ||
	    o.workers > MAX_WORKERS)
		refuse();
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
	uint64_t servers_ns, jobs_ns;
	unsigned i;

	read_options(argc, argv);
	calibrate();
	start_jobs(o.jobs, o.nice_of_jobs);
	/* Jobs settle, and a program that has just begun is at its end of no turn. */
	usleep(100000);
	servers_ns = time_of(CLOCK_PROCESS_CPUTIME_ID);
	jobs_ns = used_by_jobs(o.jobs);
	begun = now();
	end = begun + o.ms * 1000000;
	for (i = 0; i < o.servers; i++)
		start_server(&servers[i], i + 1);
	for (i = 0; i < o.servers; i++)
		pthread_join(servers[i].thread, NULL);
	servers_ns = time_of(CLOCK_PROCESS_CPUTIME_ID) - servers_ns;
	jobs_ns = used_by_jobs(o.jobs) - jobs_ns;
	end_jobs(o.jobs);
	tell(servers_ns, jobs_ns);
	return 0;
}
