/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How large something was lately, on average. What is longer ago counts for less, with the
 * half-life of Linux's PELT, which is 32 times 1,024 us.
 */
#ifndef SIM_AVERAGE_H
#define SIM_AVERAGE_H

#include "shim/scx/common.bpf.h"

#define HALF_LIFE_BITS 25
#define AVERAGE_BITS 20

struct sim_average {
	u64 value; /* in 1 / 2^AVERAGE_BITS, as it was at @at */
	u64 at;
	u64 level; /* what it approaches since then */
};

/*
 * Returns 1/2 to the power of @ns / half-life, in 1/2^31, for less than a half-life. This is a
 * cubic polynomial that has the right value and slope at both ends.
 */
static inline u64 half_to_the(u64 ns)
{
	u64 x = ns << (31 - HALF_LIFE_BITS);
	/* ln 2, 0.232867 and 0.039720 of 2^31. */
	u64 slope = 1488522236, curve = 500078075, bend = 85298050;

	return (1ULL << 31) - (x * (slope - (x * (curve - (x * bend >> 31)) >> 31)) >> 31);
}

static inline u64 decayed(u64 value, u64 ns)
{
	u64 halvings = ns >> HALF_LIFE_BITS;

	if (halvings >= 40)
		return 0;
	value >>= halvings;
	return (u64)((unsigned __int128)value * half_to_the(ns & ((1ULL << HALF_LIFE_BITS) - 1)) >>
		     31);
}

static inline u64 average_at(const struct sim_average *it, u64 now)
{
	u64 level = it->level << AVERAGE_BITS;

	return level > it->value ? level - decayed(level - it->value, now - it->at)
				 : level + decayed(it->value - level, now - it->at);
}

static inline void set_level(struct sim_average *it, u64 now, u64 level)
{
	it->value = average_at(it, now);
	it->at = now;
	it->level = level;
}

/* Returns the average, rounded down. */
static inline u64 whole_average(const struct sim_average *it, u64 now)
{
	return average_at(it, now) >> AVERAGE_BITS;
}

#endif /* SIM_AVERAGE_H */
