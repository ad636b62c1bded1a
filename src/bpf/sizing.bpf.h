/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many CPUs are AVX cores.
 *
 * Problem. Each AVX core too many has its clock lowered for nothing, and is one
 * that scalar work avoids; with one too few AVX work waits. The published answer
 * is to give AVX cores the share of the machine that AVX work has of the CPU
 * time, by moving averages. It was reported to choose too many, and to change
 * its mind too often, for three reasons: on a machine that is not full the share
 * of the time is larger than the share of the machine; nothing says that
 * anybody waits; and every fluctuation of the average becomes a change.
 *
 * Mechanism. The controller counts demand in CPUs: AVX work that ran, and AVX
 * work that waited, over the time that passed, as an average over a window. It
 * grows when AVX work waits longer than the policy wants, to what the demand
 * says and by one core at least. It shrinks by one core when the demand would
 * fill those that remain to no more than a part, has done so all through the
 * dwell time, and nobody waits. The gap between the two and the dwell time bound
 * the number of changes whatever the load does: between any two that shrink lies
 * a dwell time, and each growth needs either more demand than ever since or a
 * shrinking before it.
 *
 * The first AVX core is not sized but given, to whoever runs AVX work; who hears
 * of it before does not wait for the next look: see first_need().
 *
 * Limits. The demand of a task that stays an AVX task for too long is counted
 * in full; that is for remigrate.bpf.h to mend.
 */
#ifndef AVXSPEC_SIZING_BPF_H
#define AVXSPEC_SIZING_BPF_H

#include "arithmetic.bpf.h"

/* What happened on all CPUs since the last look. */
struct avx_demand {
	u64 elapsed_ns; /* time on the wall */
	u64 total_ns;	/* time that tasks ran, summed over CPUs */
	u64 avx_ns;	/* ... AVX tasks among them */
	u64 wait_ns;	/* time that AVX tasks waited in queues, summed over tasks */
	u64 nr_waits;	/* ... by so many that began to run */
	u32 nr_cpus;	/* online, and not isolated */
	u32 granule;	/* CPUs of a core: siblings share a clock */
};

/* What sizing remembers from one look to the next. */
struct avx_sizing {
	u64 now;       /* the sum of all times that elapsed */
	u64 grown_at;  /* when the set grew the last time */
	u64 needed_at; /* when it was too small to lose a core, or lost one */
	u64 total;     /* moving averages, in CPU_BUSY: of what ran, */
	u64 avx;       /* ... of AVX work that ran, */
	u64 demand;    /* ... and of AVX work that ran or waited */
	u32 nr_avx;    /* CPUs that are AVX cores */
};

/* One CPU, busy all the time: fine enough for averages over many looks. */
#define CPU_BUSY (1ULL << 20)

/* So much time in so much time. */
static __always_inline u64 cpus_busy(u64 ns, u64 elapsed_ns)
{
	return ns / 1000 * CPU_BUSY / at_least_one(elapsed_ns / 1000);
}

static __always_inline u32 round_up_to_cores(u64 cpus, const struct avx_demand *demand)
{
	u64 granule = at_least_one(demand->granule);

	return at_most((cpus + granule - 1) / granule * granule, demand->nr_cpus);
}

/* @parts of @whole, rounded up. */
static __always_inline u64 share_of(u64 parts, u64 whole)
{
	return (parts + at_least_one(whole) - 1) / at_least_one(whole);
}

/* The CPUs of which AVX work would use no more than @fill (1/1024). */
static __always_inline u64 cpus_for(u64 demand, u64 fill)
{
	return share_of(demand, CPU_BUSY / AVX_WHOLE * fill);
}

/* The published method, as it stands. */
static __always_inline u32 size_by_share(struct avx_sizing *sizing, const struct avx_policy *policy,
					 const struct avx_demand *demand)
{
	u64 total = cpus_busy(demand->total_ns, demand->elapsed_ns);
	u64 avx = cpus_busy(demand->avx_ns, demand->elapsed_ns);

	sizing->total = moving_average(sizing->total, total, policy->share_alpha);
	sizing->avx = moving_average(sizing->avx, avx, policy->share_alpha);
	return round_up_to_cores(share_of(sizing->avx * demand->nr_cpus, sizing->total), demand);
}

/* Whether AVX work waited for longer than it should, and there was enough of it. */
static __always_inline bool is_too_small(const struct avx_sizing *sizing,
					 const struct avx_policy *policy,
					 const struct avx_demand *demand)
{
	return demand->wait_ns > policy->wait_target_ns * demand->nr_waits &&
	       cpus_for(sizing->demand, policy->grow_fill) > sizing->nr_avx;
}

/* Whether one core less would do; the last one goes when there is no work at all. */
static __always_inline bool is_too_large(const struct avx_sizing *sizing,
					 const struct avx_policy *policy,
					 const struct avx_demand *demand)
{
	u32 granule = at_least_one(demand->granule);

	if (sizing->nr_avx <= granule)
		return !demand->avx_ns && !demand->nr_waits && !demand->wait_ns;
	return cpus_for(sizing->demand, policy->shrink_fill) <= sizing->nr_avx - granule;
}

/*
 * In a closed system everybody waits while there are too few cores, and the
 * demand seems to be that of all tasks. So the set grows by a quarter at most,
 * and looks whether that was enough.
 */
static __always_inline u32 one_step_larger(const struct avx_sizing *sizing,
					   const struct avx_policy *policy,
					   const struct avx_demand *demand)
{
	u64 step = at_least_one(sizing->nr_avx / 4);
	u64 needed = cpus_for(sizing->demand, policy->grow_fill);

	return round_up_to_cores(at_most(needed, sizing->nr_avx + step), demand);
}

static __always_inline u32 size_by_demand(struct avx_sizing *sizing,
					  const struct avx_policy *policy,
					  const struct avx_demand *demand)
{
	u64 sample = cpus_busy(demand->avx_ns + demand->wait_ns, demand->elapsed_ns);
	u64 weight = AVX_WHOLE * demand->elapsed_ns / (demand->elapsed_ns + policy->window_ns);
	u32 nr_avx = sizing->nr_avx, granule = at_least_one(demand->granule);

	sizing->demand = moving_average(sizing->demand, sample, weight);
	if (!is_too_large(sizing, policy, demand))
		sizing->needed_at = sizing->now;

	if (!nr_avx && demand->avx_ns)
		return round_up_to_cores(1, demand);
	if (is_too_small(sizing, policy, demand)) {
		if (sizing->now - sizing->grown_at < policy->grow_dwell_ns)
			return nr_avx;
		sizing->grown_at = sizing->now;
		return one_step_larger(sizing, policy, demand);
	}
	if (sizing->now - sizing->needed_at < policy->shrink_dwell_ns)
		return nr_avx;
	sizing->needed_at = sizing->now;
	return nr_avx > granule ? nr_avx - granule : 0;
}

/* A regular look: how many CPUs are to be AVX cores from now on. */
static __always_inline u32 size_avx_set(struct avx_sizing *sizing, const struct avx_policy *policy,
					const struct avx_demand *demand)
{
	sizing->now += demand->elapsed_ns;
	if (policy->avx_cores_for == SERVED_NOBODY) {
		sizing->nr_avx = 0;
		return 0;
	}
	switch (policy->sizing) {
	case SIZING_STATIC:
		sizing->nr_avx = at_most(policy->avx_cpus, demand->nr_cpus);
		break;
	case SIZING_LIST:
		break;
	case SIZING_SHARE:
		sizing->nr_avx = size_by_share(sizing, policy, demand);
		break;
	default:
		sizing->nr_avx = size_by_demand(sizing, policy, demand);
	}
	return sizing->nr_avx;
}

/* A task needs an AVX core now, between two looks: how many are there to be. */
static __always_inline u32 first_need(struct avx_sizing *sizing, const struct avx_policy *policy,
				      const struct avx_demand *demand)
{
	bool is_fixed = policy->sizing == SIZING_STATIC || policy->sizing == SIZING_LIST;

	if (!sizing->nr_avx && !is_fixed) {
		sizing->nr_avx = round_up_to_cores(1, demand);
		sizing->needed_at = sizing->now;
	}
	return sizing->nr_avx;
}

/* Why the next CPU gets @role, while so many are AVX cores. */
static __always_inline enum avx_role_cause role_cause(const struct avx_policy *policy,
						      enum avx_role role, u32 nr_avx, u32 granule)
{
	if (policy->sizing == SIZING_LIST)
		return ROLE_FOR_LIST;
	if (policy->sizing == SIZING_STATIC)
		return ROLE_FOR_NUMBER;
	if (role == ROLE_SCALAR)
		return ROLE_SHRINKING;
	/* All CPUs of the first core are for the first one who needs it. */
	return nr_avx < at_least_one(granule) ? ROLE_FIRST_NEED : ROLE_GROWTH;
}

#endif /* AVXSPEC_SIZING_BPF_H */
