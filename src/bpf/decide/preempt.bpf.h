/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a task that comes takes the CPU at once from the one that runs there.
 *
 * Problem. A task that wakes up has waited for an event and most often needs little. If it
 * waits for the end of the turn of whoever runs, each of its events costs a turn, however
 * little claim that one has. But if each wake-up interrupts, tasks with the same claim
 * interrupt each other all the time.
 *
 * Mechanism. What a task gets makes it due later, the more so the less it weighs: one that
 * runs is due when it would be if it had to queue now. It makes room for a task that is due
 * before that. One that has just begun is left alone for a while by those that weigh no more
 * than it does, so that each has time for what most requests need, as long as it has had no more
 * than it is owed. A background job is in nobody's way: most often it has had more, and whoever
 * weighs more interrupts it in any case, once each time that it wakes up.
 *
 * Limits. The clock of a queue is taken to be as fast as that of the wall. Where that is
 * wrong a CPU decides in vain, for what it decides goes by the clock of the queue.
 */
#ifndef AVXSPEC_PREEMPT_BPF_H
#define AVXSPEC_PREEMPT_BPF_H

#include "fairness.bpf.h"

/* The task that runs on a CPU, or ran there the last time. */
struct avx_runner {
	u64 since;  /* or 0 if others have the CPU */
	u64 due_at; /* when it was due before it began */
	u64 weight; /* or 0 if none runs there */
};

/* When it is due again, if it has run up to @now. */
static __always_inline u64 due_again(const struct avx_runner *it, u64 now)
{
	return it->due_at + vtime_cost(since(it->since, now), it->weight);
}

/* Whether it has not had yet the @request that is granted at a time. */
static __always_inline bool has_just_begun(const struct avx_runner *it, u64 now, u64 request)
{
	return since(it->since, now) < request;
}

/*
 * Whether one with @weight leaves it alone yet, which has just begun and is owed what it has: it
 * is due @again.
 */
static __always_inline bool is_protected(const struct avx_runner *it, u64 now, u64 again,
					 u64 weight, u64 request)
{
	return weight <= it->weight && has_just_begun(it, now, request) &&
	       !vtime_before(now, again);
}

/* Whether it makes room at @now for a task with @weight that is due at @due_at. */
static __always_inline bool makes_room(const struct avx_runner *it, u64 now, u64 due_at, u64 weight,
				       u64 request)
{
	u64 again = due_again(it, now);

	return it->since && vtime_before(due_at, again) &&
	       !is_protected(it, now, again, weight, request);
}

#endif /* AVXSPEC_PREEMPT_BPF_H */
