/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preemption of the task that runs on a CPU by one that arrives.
 *
 * Problem. A task that wakes up has waited for an event and most often needs little. If it
 * waits until the turn of the running task ends, each of its events costs a turn, however
 * little that task is owed. But if each wake-up preempts, tasks that are owed the same
 * preempt each other all the time.
 *
 * Mechanism. What a task gets makes it due later, the more so the less it weighs. A running
 * task is due when it would be if it had to queue now, and makes room for a task that is due
 * before that. A task that has just begun is left alone for one request by those that weigh no
 * more, so that it has time for what most requests need, as long as it has had no more than it
 * is owed. A background job is in no task's way: most often it has had more than it is owed,
 * and a task that weighs more preempts it in any case, once each time that it wakes up.
 *
 * Limits. The clock of a queue is taken to be as fast as the wall clock. Where it is not, a CPU
 * is asked to choose in vain, because it chooses by the clock of the queue.
 */
#ifndef AVXSPEC_PREEMPT_BPF_H
#define AVXSPEC_PREEMPT_BPF_H

#include "fairness.bpf.h"

/* The task that runs on a CPU, or ran there the last time. */
struct avx_runner {
	u64 since;  /* when it began, or 0 if a task of another class has the CPU */
	u64 due_at; /* when it was due before it began */
	u64 weight; /* its weight, or 0 if no task of ours runs there */
};

/* Returns when the running task is due again if it stops at @now. */
static __always_inline u64 due_again(const struct avx_runner *it, u64 now)
{
	return it->due_at + vtime_cost(since(it->since, now), it->weight);
}

/* Returns true if the running task has not used up one @request. */
static __always_inline bool has_just_begun(const struct avx_runner *it, u64 now, u64 request)
{
	return since(it->since, now) < request;
}

/*
 * Returns true if a task with @weight has to leave the running one alone, because that has just
 * begun and has had no more than it is owed. It is due @again.
 */
static __always_inline bool is_protected(const struct avx_runner *it, u64 now, u64 again,
					 u64 weight, u64 request)
{
	return weight <= it->weight && has_just_begun(it, now, request) &&
	       !vtime_before(now, again);
}

/* Returns true if the running task makes room at @now for one with @weight, due at @due_at. */
static __always_inline bool makes_room(const struct avx_runner *it, u64 now, u64 due_at, u64 weight,
				       u64 request)
{
	u64 again = due_again(it, now);

	return it->since && vtime_before(due_at, again) &&
	       !is_protected(it, now, again, weight, request);
}

#endif /* AVXSPEC_PREEMPT_BPF_H */
