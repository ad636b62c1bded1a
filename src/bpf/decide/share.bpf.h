/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many CPUs AVX work may have while other work waits for them.
 *
 * Problem. AVX cores serve AVX work first, and there are more of them as long as it has
 * to wait. So on a machine that is full it would never wait, and everybody else would
 * wait all the longer, whatever their weights say.
 *
 * Mechanism. Where there are CPUs for all, AVX work takes nothing from anyone, and may
 * have what it needs. Otherwise it may have the part of the machine that its tasks would
 * have if there were no AVX cores: what those count for that run and wait, of what all
 * do; and what others do not want. That nobody else waits does not tell that there are
 * CPUs for all: others may run on AVX cores, in whose queues AVX tasks wait meanwhile.
 * Those that run are not looked at, and taken to be like those of their kind that wait;
 * or that waited the last time, for AVX work that does not wait at all.
 *
 * Limits. Tasks that may use one CPU only are not looked at where they wait.
 */
#ifndef AVXSPEC_SHARE_BPF_H
#define AVXSPEC_SHARE_BPF_H

#include "arithmetic.bpf.h"

/* One CPU, busy all the time: fine enough for averages over many looks. */
#define CPU_BUSY (1ULL << 20)

/* Tasks that wait: how many, and what they count for in all. */
struct avx_waiting {
	u64 nr;
	u64 weight;
};

/* Those of one kind that want to run. */
struct avx_claim {
	struct avx_waiting waiting;
	u64 running; /* in CPU_BUSY */
};

static __always_inline u64 mean_weight(const struct avx_waiting *waiting, u64 otherwise)
{
	return waiting->nr ? at_least_one(waiting->weight / waiting->nr) : at_least_one(otherwise);
}

/* What they count for if each counts for @mean: small enough to be multiplied. */
static __always_inline u64 claimed(const struct avx_claim *claim, u64 mean)
{
	u64 nr = at_most(claim->waiting.nr, 1 << 20) * AVX_WHOLE;

	return mean * (nr + claim->running / (CPU_BUSY / AVX_WHOLE));
}

/* The CPUs that they would use if they could. */
static __always_inline u64 wanted(const struct avx_claim *claim)
{
	return claim->waiting.nr * CPU_BUSY + claim->running;
}

/* Of @nr_cpus, in CPU_BUSY, where AVX tasks count for @avx_weight each if none waits. */
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
