// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counting how often each place in the kernel is reached, by all CPUs.
 *
 * The file is the one that the environment variable ORACLE_PROFILE names when Bochs
 * starts. Each call SNAPSHOT adds to it a line "profile", and one of an address and
 * a number for each place reached since the last call RESET, in hexadecimal and
 * decimal. An instruction counts where the next one is: so a function has the call
 * that led to it instead of the return out of it, and its first address the number
 * of its calls.
 */
#include "bochs.h"
#include "cpu/cpu.h"
#include "profile.h"

/* More places than a kernel has instructions that anybody executes between two calls. */
#define PLACES (1 << 20)

struct place {
	bx_address rip; /* 0 if it is free */
	Bit64u count;
};

bool profile_on;

static FILE *file;
static struct place places[PLACES];

void profile_init(void)
{
	const char *path = getenv("ORACLE_PROFILE");

	if (path)
		file = fopen(path, "w");
	profile_on = file;
}

void profile_exit(void)
{
	if (file)
		fclose(file);
	file = NULL;
	profile_on = false;
}

void profile_reached(bx_address rip)
{
	/* Multiplied by the golden ratio, neighbours are far from each other. */
	Bit64u at = rip * 0x9e3779b97f4a7c15ULL >> 44;

	/* User space has the lower half of all addresses. */
	if (!(rip >> 63))
		return;
	while (places[at].rip && places[at].rip != rip)
		at = (at + 1) % PLACES;
	places[at].rip = rip;
	places[at].count++;
}

void profile_reset(void)
{
	memset(places, 0, sizeof(places));
}

void profile_write(void)
{
	fprintf(file, "profile\n");
	for (Bit64u at = 0; at < PLACES; at++)
		if (places[at].count)
			fprintf(file, FMT_LL "x " FMT_LL "u\n", (Bit64u)places[at].rip,
				places[at].count);
	fflush(file);
}
