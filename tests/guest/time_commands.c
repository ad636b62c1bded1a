// SPDX-License-Identifier: GPL-2.0-only
/*
 * time_commands TIMES COMMAND... -- COMMAND...: runs the two in turn, and prints the median
 * of how long each took, in microseconds.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define MOST 1000

extern char **environ;

static unsigned long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000UL + now.tv_nsec / 1000;
}

/* What it prints is of no interest. */
static unsigned long time_of(char *const *command)
{
	posix_spawn_file_actions_t quiet;
	unsigned long begun = now_us();
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, command[0], &quiet, NULL, command, environ) ||
	    waitpid(pid, &status, 0) < 0 || status) {
		fprintf(stderr, "%s failed\n", command[0]);
		exit(1);
	}
	posix_spawn_file_actions_destroy(&quiet);
	return now_us() - begun;
}

static int compare(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	unsigned long times = argc > 2 ? strtoul(argv[1], NULL, 0) : 0, took[MOST];
	char **first = argv + 2, **second = first;

	while (*second && strcmp(*second, "--"))
		second++;
	if (!*second || !times || times > MOST)
		return 2;
	*second++ = NULL;
	for (unsigned long n = 0; n < times; n++)
		took[n] = time_of(n % 2 ? second : first);
	qsort(took, times, sizeof(*took), compare);
	printf("median_us=%lu\nleast_us=%lu\nmost_us=%lu\n", took[times / 2], took[0],
	       took[times - 1]);
	return 0;
}
