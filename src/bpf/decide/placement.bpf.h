/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPUs are AVX cores.
 *
 * Problem. Siblings of a core share its clock, so half a core of AVX work spoils
 * the other half. Tasks that go to an AVX core and back want to stay near their
 * caches. And every CPU that changes its role moves the tasks that are there.
 *
 * Mechanism. The set changes by one CPU at a time: the best of all that may be added or
 * removed. These criteria decide, in this order:
 * - A core that was begun is finished first, both ways.
 * - CPUs are added where AVX work begins in tasks that may not use all CPUs, and the first
 *   AVX core that such tasks may use is kept.
 * - A node where AVX work begins gets its first core, or keeps its last.
 * - The node decides as the policy has it, and after that the last-level cache, so that AVX
 *   cores share caches.
 * - A CPU is preferred if no task on it would have to move.
 * - The number of the CPU decides, so that the answer is the same every time. CPUs with low
 *   numbers are added last, because interrupts prefer them.
 *
 * The published way is available too: a CPU becomes an AVX core when a task on it begins
 * AVX work, as long as there are fewer than there may be, and stays one until no task does
 * AVX work there. This changes the set all the time, and halves of cores lower the clocks of
 * whole ones. That is why it is not the default.
 *
 * Limits. No AVX core moves between nodes once it is placed: a set that was packed and lost a
 * CPU to hotplug is completed where there is room. A set that was listed, or followed its
 * use, stays where it is when another policy chooses as many CPUs.
 */
#ifndef AVXSPEC_PLACEMENT_BPF_H
#define AVXSPEC_PLACEMENT_BPF_H

#include "../intf.h"

/* A CPU that may be added to the set, or removed. */
struct avx_candidate {
	u32 cpu;
	u32 core_cpus; /* usable CPUs of its core, with itself */
	u32 core_avx;  /* CPUs of its core that are AVX cores */
	u32 llc_avx;   /* AVX cores that share its last-level cache */
	u32 node_avx;  /* AVX cores of its node */
	bool confined; /* its core is used by, or kept for, AVX tasks that are confined */
	bool in_use;   /* its node is to have AVX cores, because AVX work began there lately */
	bool busy;     /* a task runs there that would have to move */
};

/* Returns true if the operator chose @cpu, and there are AVX cores at all. */
static __always_inline bool is_listed(const struct avx_policy *policy, u32 cpu)
{
	return policy->avx_cores_for != SERVED_NOBODY && cpu < AVX_LIST_CPUS &&
	       policy->avx_cpu_list[cpu / 64] >> cpu % 64 & 1;
}

/* Returns true if AVX cores are where AVX work begins. */
static __always_inline bool follows_use(const struct avx_policy *policy)
{
	return policy->placement == PLACEMENT_FIRST_USE && policy->sizing != SIZING_LIST;
}

/*
 * Returns how many CPUs change their role together: all siblings, because they share a clock,
 * unless the set follows its use.
 */
static __always_inline u32 granule_of(const struct avx_policy *policy, u32 core_cpus)
{
	return follows_use(policy) ? 1 : core_cpus;
}

/* Returns true if some CPUs of a core are AVX cores, and some are not. */
static __always_inline bool is_half_done(u32 core_avx, u32 core_cpus)
{
	return core_avx && core_avx < core_cpus;
}

/* This is less than any preference. */
#define NOT_ELIGIBLE 0

/* Puts the more significant criteria first, so that CPUs are compared by one number. */
static __always_inline u64 preference(bool half_done, bool for_confined, bool in_need, u32 node,
				      u32 llc, bool idle, u32 cpu)
{
	return (u64)half_done << 63 | (u64)for_confined << 62 | (u64)in_need << 61 |
	       (u64)(node & 0xffff) << 40 | (u64)(llc & 0xffff) << 24 | (u64)idle << 20 |
	       (cpu & 0xffff) << 1 | 1;
}

/* The complement of a number turns the order around. */
static __always_inline u32 fewer(u32 n)
{
	return ~n;
}

/* The candidate with the largest preference is added to the set first. */
static __always_inline u64 preference_to_add(const struct avx_candidate *it, u64 placement)
{
	u32 node = placement == PLACEMENT_PACK ? it->node_avx : fewer(it->node_avx);

	return preference(is_half_done(it->core_avx, it->core_cpus), it->confined,
			  it->in_use && !it->node_avx, node, it->llc_avx, !it->busy, it->cpu);
}

/* The candidate with the largest preference is removed from the set first. */
static __always_inline u64 preference_to_remove(const struct avx_candidate *it, u64 placement)
{
	u32 node = placement == PLACEMENT_PACK ? fewer(it->node_avx) : it->node_avx;
	bool is_last = it->in_use && it->node_avx <= it->core_cpus;

	return preference(is_half_done(it->core_avx, it->core_cpus), !it->confined, !is_last, node,
			  fewer(it->llc_avx), !it->busy, fewer(it->cpu));
}

#endif /* AVXSPEC_PLACEMENT_BPF_H */
