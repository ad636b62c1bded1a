/* SPDX-License-Identifier: GPL-2.0-only */
/* Small arithmetic that several decisions share. */
#ifndef AVXSPEC_ARITHMETIC_BPF_H
#define AVXSPEC_ARITHMETIC_BPF_H

#include "../intf.h"

static __always_inline u64 at_least(u64 n, u64 limit)
{
	return n > limit ? n : limit;
}

static __always_inline u64 at_most(u64 n, u64 limit)
{
	return n < limit ? n : limit;
}

/*
 * Returns the time from @then to @now, or 0: a time that is estimated may be a little before the
 * one from which it is measured.
 */
static __always_inline u64 since(u64 then, u64 now)
{
	return now > then ? now - then : 0;
}

static __always_inline u64 difference(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

static __always_inline u64 at_least_one(u64 n)
{
	return at_least(n, 1);
}

/* Takes one step of a moving average; @weight is that of the newest value, in 1/1024. */
static __always_inline u64 moving_average(u64 average, u64 value, u64 weight)
{
	return (weight * value + (AVX_WHOLE - weight) * average) / AVX_WHOLE;
}

#endif /* AVXSPEC_ARITHMETIC_BPF_H */
