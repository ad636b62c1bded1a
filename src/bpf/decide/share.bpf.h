/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many CPUs AVX work may have while other work waits for them.
 *
 * Problem. AVX cores serve AVX work first, and their number grows as long as AVX work has
 * to wait. So on a machine that is full AVX work would never wait, and all other tasks
 * would wait the longer, whatever the weights say.
 *
 * Mechanism. Where there are CPUs for all, AVX work takes nothing from other tasks, and may
 * have what it needs. Otherwise it may have the part of the machine that its tasks would
 * have if there were no AVX cores: the weight of those that run or wait, relative to that
 * of all tasks. If other tasks want less than the rest, AVX work may have what they leave.
 * There need not be CPUs for all where no other task waits: others may run on AVX cores,
 * while AVX tasks wait in the queues of these. Tasks that run are not looked at. They are
 * taken to be like those of their kind that wait; or, if no AVX work waits at all, like the
 * AVX tasks that waited the last time.
 *
 * Limits. Tasks that may use one CPU only are not looked at where they wait.
 */
#ifndef AVXSPEC_SHARE_BPF_H
#define AVXSPEC_SHARE_BPF_H

#include "arithmetic.bpf.h"

/* One CPU that is busy all the time. The unit is fine enough for averages over many looks. */
#define CPU_BUSY (1ULL << 20)

/* Tasks that wait: their number, and the sum of their weights. */
struct avx_waiting {
	u64 nr;
	u64 weight;
};

/* The tasks of one kind that want to run. */
struct avx_claim {
	struct avx_waiting waiting;
	u64 running; /* in CPU_BUSY */
};

static __always_inline u64 mean_weight(const struct avx_waiting *waiting, u64 otherwise)
{
	return waiting->nr ? at_least_one(waiting->weight / waiting->nr) : at_least_one(otherwise);
}

/* Returns what tasks count for if each counts for @mean. It is small enough to be multiplied. */
static __always_inline u64 claimed(const struct avx_claim *claim, u64 mean)
{
	u64 nr = at_most(claim->waiting.nr, 1 << 20) * AVX_WHOLE;

	return mean * (nr + claim->running / (CPU_BUSY / AVX_WHOLE));
}

/* Returns the CPUs that tasks would use if they could, in CPU_BUSY. */
static __always_inline u64 wanted(const struct avx_claim *claim)
{
	return claim->waiting.nr * CPU_BUSY + claim->running;
}

/*
 * Returns how many of @nr_cpus AVX work may have, in CPU_BUSY. AVX tasks count for @avx_weight
 * each if none of them waits.
 */
static __always_inline u64 fair_cpus(const struct avx_claim *avx, const struct avx_claim *other,
				     u64 avx_weight, u64 nr_cpus)
{
	u64 whole = nr_cpus * CPU_BUSY, others = wanted(other);
	u64 ours, all, part;

	if (!wanted(avx) || wanted(avx) + others <= whole)
		return whole;
	ours = claimed(avx, mean_weight(&avx->waiting, avx_weight));
	all = ours + claimed(other, mean_weight(&other->waiting, AVX_WEIGHT_NORMAL));
	part = ours * AVX_WHOLE / at_least_one(all);
	return at_least(nr_cpus * part * (CPU_BUSY / AVX_WHOLE), since(others, whole));
}

#endif /* AVXSPEC_SHARE_BPF_H */
