/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Linux 6.12 decides about tasks of its fair class by EEVDF (earliest eligible virtual
 * deadline first). These functions take numbers, and return a verdict. The method is described in
 * I. Stoica and H. Abdel-Wahab, "Earliest Eligible Virtual Deadline First", 1995; it is used here
 * as kernel/sched/fair.c has it.
 *
 * A task is owed service if its virtual time is behind the average of the run queue. Such a task
 * has lag, and is eligible. Of the eligible tasks, the one with the earliest deadline runs.
 */
#ifndef SIM_EEVDF_H
#define SIM_EEVDF_H

#include "shim/scx/common.bpf.h"

/* The weight of a task with nice 0, and the same weight as sched_ext scales it. */
#define EEVDF_WEIGHT 1024ULL
#define EEVDF_SCX_WEIGHT 100

/* The slice on one CPU. Linux 6.12 began with 750 us, and later releases of 6.12 have this. */
#define EEVDF_SLICE_NS (700 * 1000ULL)

struct eevdf_entity {
	u64 vruntime;
	u64 deadline;
	u64 weight;
	s64 lag;	     /* when it left the run queue, in virtual time */
	u64 protected_up_to; /* The deadline with which it was picked. */
	bool is_on_queue;    /* It runs, waits, or its dequeue is delayed. */
	bool is_delayed;     /* It sleeps, and stays until it has paid for what it ran too much. */
	bool has_relative_deadline;
};

/* Sums over the tasks of a run queue: their weighted virtual time from @base on, and weight. */
struct eevdf_sum {
	u64 base;
	s64 weighted;
	s64 weight;
};

static inline u64 eevdf_weight_of(u32 scx_weight)
{
	return (scx_weight * EEVDF_WEIGHT + EEVDF_SCX_WEIGHT / 2) / EEVDF_SCX_WEIGHT;
}

/* Returns the slice, which grows with the number of CPUs up to eight. */
static inline u64 eevdf_slice_with(u32 nr_cpus)
{
	u32 factor = 1;

	for (u32 cpus = nr_cpus < 8 ? nr_cpus : 8; cpus > 1; cpus /= 2)
		factor++;
	return EEVDF_SLICE_NS * factor;
}

static inline u64 eevdf_virtual(u64 ns, const struct eevdf_entity *it)
{
	return ns * EEVDF_WEIGHT / it->weight;
}

static inline void eevdf_add(struct eevdf_sum *sum, const struct eevdf_entity *it)
{
	sum->weighted += (s64)(it->vruntime - sum->base) * (s64)it->weight;
	sum->weight += it->weight;
}

/* Returns the average, rounded down so that a task with just this virtual time is eligible. */
static inline u64 eevdf_average(const struct eevdf_sum *sum)
{
	s64 weighted = sum->weighted;

	if (!sum->weight)
		return sum->base;
	if (weighted < 0)
		weighted -= sum->weight - 1;
	return sum->base + weighted / sum->weight;
}

static inline bool eevdf_is_eligible(const struct eevdf_sum *sum, const struct eevdf_entity *it)
{
	return sum->weighted >= (s64)(it->vruntime - sum->base) * sum->weight;
}

static inline bool eevdf_is_before(const struct eevdf_entity *a, const struct eevdf_entity *b)
{
	return (s64)(a->deadline - b->deadline) < 0;
}

/* A task that was picked runs up to its deadline as long as it is eligible (RUN_TO_PARITY). */
static inline bool eevdf_is_protected(const struct eevdf_entity *it)
{
	return it->protected_up_to == it->deadline;
}

/*
 * Returns the lag of @it, but no more than two slices: by so much other tasks that come and go can
 * move the average.
 */
static inline s64 eevdf_lag(const struct eevdf_entity *it, u64 average, u64 slice)
{
	s64 lag = average - it->vruntime, limit = eevdf_virtual(2 * slice, it);

	return lag > limit ? limit : lag < -limit ? -limit : lag;
}

/* Charges @it for @ran_ns. Returns true if it has had its slice, and gets another one. */
static inline bool eevdf_charge(struct eevdf_entity *it, u64 ran_ns, u64 slice)
{
	it->vruntime += eevdf_virtual(ran_ns, it);
	if ((s64)(it->vruntime - it->deadline) < 0)
		return false;
	it->deadline = it->vruntime + eevdf_virtual(slice, it);
	return true;
}

/*
 * @it joins others with the lag that it left with. The average moves towards it when it joins, so
 * that it would have less lag. For this reason it is placed farther away.
 */
static inline void eevdf_place(struct eevdf_entity *it, const struct eevdf_sum *others, u64 slice,
			       bool is_new)
{
	s64 lag = 0;

	if (others->weight)
		lag = it->lag * (others->weight + (s64)it->weight) / others->weight;
	it->vruntime = eevdf_average(others) - lag;
	if (it->has_relative_deadline)
		it->deadline += it->vruntime;
	else
		it->deadline = it->vruntime + eevdf_virtual(slice, it) / (is_new ? 2 : 1);
	it->has_relative_deadline = false;
}

/* @it goes to sleep, or elsewhere. If it goes elsewhere, the rest of its slice goes with it. */
static inline void eevdf_leave(struct eevdf_entity *it, u64 average, u64 slice, bool sleeps)
{
	it->lag = eevdf_lag(it, average, slice);
	it->has_relative_deadline = !sleeps;
	if (!sleeps)
		it->deadline -= it->vruntime;
}

/* Changes the weight of @it: it is owed as much as before, and as much is left of its slice. */
static inline void eevdf_reweigh(struct eevdf_entity *it, u64 average, u64 slice, u64 weight)
{
	s64 old = it->weight, new = weight, left = it->deadline - average;

	if (it->is_on_queue) {
		it->vruntime = average - eevdf_lag(it, average, slice) * old / new;
		it->deadline = average + left * old / new;
	} else {
		it->lag = it->lag * old / new;
	}
	it->weight = weight;
}

#endif /* SIM_EEVDF_H */
