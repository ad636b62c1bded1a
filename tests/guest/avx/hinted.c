// SPDX-License-Identifier: GPL-2.0-only
/*
 * hinted CPU: says of its work that it is of one kind and the other, in turn, and counts
 * how often it was on CPU and elsewhere meanwhile. At first for itself, without any
 * privilege; then another thread says so for it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../contrib/hints/scx_avxspec_hints.h"

#define NOBODY 65534
#define ROUNDS 20
#define LOOKS 100
#define WORK 200000
#define CHANGES 200
#define SOON 200

struct seen {
	long there;
	long elsewhere;
};

static int avx_cpu;

static void must(int is_true, const char *what)
{
	if (is_true)
		return;
	perror(what);
	exit(1);
}

static void work(void)
{
	for (volatile long n = 0; n < WORK; n++)
		;
}

static void look(struct seen *seen)
{
	if (sched_getcpu() == avx_cpu)
		seen->there++;
	else
		seen->elsewhere++;
}

static void show(const char *name, const struct seen *seen)
{
	printf("%s_there=%ld\n%s_elsewhere=%ld\n", name, seen->there, name, seen->elsewhere);
}

static void for_itself(void)
{
	struct seen avx = { 0, 0 }, scalar = { 0, 0 };
	struct scx_avxspec_hints hints;

	must(scx_avxspec_open_hints(&hints) == 0, "open hints");
	for (int round = 0; round < ROUNDS; round++) {
		must(scx_avxspec_hint(&hints, SCX_AVXSPEC_AVX512) == 0, "hint");
		for (int n = 0; n < LOOKS; n++, work())
			look(&avx);
		must(scx_avxspec_hint(&hints, SCX_AVXSPEC_NONE) == 0, "hint");
		for (int n = 0; n < LOOKS; n++, work())
			look(&scalar);
	}
	/* Nobody waits for a tick to hear of one. */
	for (int n = 0; n < CHANGES; n++) {
		must(scx_avxspec_hint(&hints, SCX_AVXSPEC_AVX512) == 0, "hint");
		must(scx_avxspec_hint(&hints, SCX_AVXSPEC_NONE) == 0, "hint");
	}
	scx_avxspec_close_hints(&hints);
	show("avx", &avx);
	show("scalar", &scalar);
}

/* How often it is asked where the thread is until that is on @avx_cpu, or is not. */
static int looks_until(int there)
{
	int looks = 0;

	while ((sched_getcpu() == avx_cpu) != there)
		looks++;
	return looks;
}

/* How soon it moves: there are far more looks between two ticks. */
static void how_soon(void)
{
	int looks[2 * ROUNDS], late = 0;
	struct scx_avxspec_hints hints;

	must(scx_avxspec_open_hints(&hints) == 0, "open hints");
	for (int n = 0; n < 2 * ROUNDS; n += 2) {
		must(scx_avxspec_hint(&hints, SCX_AVXSPEC_AVX512) == 0, "hint");
		looks[n] = looks_until(1);
		work();
		must(scx_avxspec_hint(&hints, SCX_AVXSPEC_NONE) == 0, "hint");
		looks[n + 1] = looks_until(0);
		work();
	}
	scx_avxspec_close_hints(&hints);
	for (int n = 0; n < 2 * ROUNDS; n++) {
		fprintf(stderr, " %d", looks[n]);
		late += looks[n] > SOON;
	}
	fprintf(stderr, " looks\n");
	printf("soon=%d\nlate=%d\n", 2 * ROUNDS - late, late);
}

/* Heard only if the policy says that heavy AVX2 is AVX work. */
static void of_avx2(void)
{
	struct scx_avxspec_hints hints;
	struct seen avx2 = { 0, 0 };

	must(scx_avxspec_open_hints(&hints) == 0, "open hints");
	must(scx_avxspec_hint(&hints, SCX_AVXSPEC_AVX2_HEAVY) == 0, "hint");
	for (int n = 0; n < LOOKS; n++, work())
		look(&avx2);
	must(scx_avxspec_hint(&hints, SCX_AVXSPEC_NONE) == 0, "hint");
	scx_avxspec_close_hints(&hints);
	show("avx2", &avx2);
}

static struct scx_avxspec_hints of_worker;
static atomic_int is_open, is_over;

static void *worker(void *argument)
{
	must(scx_avxspec_open_hints(&of_worker) == 0, "open hints");
	is_open = 1;
	while (!is_over)
		look(argument);
	return NULL;
}

/* Noticed with a tick, so what counts is where it ends up. */
static void by_another(void)
{
	struct seen seen = { 0, 0 };
	pthread_t thread;

	must(pthread_create(&thread, NULL, worker, &seen) == 0, "thread");
	while (!is_open)
		sched_yield();
	must(scx_avxspec_hint(&of_worker, SCX_AVXSPEC_AVX512) == 0, "hint");
	usleep(200000);
	seen.there = seen.elsewhere = 0;
	usleep(200000);
	is_over = 1;
	pthread_join(thread, NULL);
	show("told", &seen);
}

int main(int argc, char **argv)
{
	avx_cpu = argc > 1 ? atoi(argv[1]) : 0;
	must(setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "become nobody");
	for_itself();
	how_soon();
	of_avx2();
	by_another();
	return 0;
}
