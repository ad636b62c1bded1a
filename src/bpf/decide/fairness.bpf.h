/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a nanosecond costs, and when a task is due.
 *
 * Problem. Tasks must share the CPUs in proportion to their weights, a sleeper
 * must not save the time it did not use, and no task may wait so long that
 * the kernel's watchdog ends the scheduler. A queue sorted by virtual time
 * alone gives the first two but not the third: one slice of a task with
 * weight 1 costs as much virtual time as a hundred ordinary slices, and next
 * to a task with weight 10000 that is minutes.
 *
 * Mechanism. Each cache has a virtual clock. While a task waits for its CPUs the clock goes on
 * with the time of all tasks that run there, divided by the weight of all that run or wait; while
 * none does it stands. Each task has a virtual time, which grows by the time it ran while
 * the clock went on, divided by its weight. So all that the clock owes in an interval is
 * what tasks are charged in it, and a task that has its share stays where the clock is.
 * The distance between the two, bounded on both sides,
 * is the task's lag. Queues are sorted by a time on the wall: a task is due
 * when the clock will have reached its virtual time, estimated from the
 * weight that competes for the CPUs, and in no case later than
 * AVX_WAIT_MAX_NS after it began to wait. An estimate that is off is not lost: what a task
 * got too early stays in its lag and makes it wait longer the next time.
 *
 * Limits. Beyond AVX_WAIT_MAX_NS weights no longer count, so the lightest
 * tasks get a little more than their share when the machine is full. What a task has that
 * may have more than its share, because the others cannot use it, is its debt, until it sleeps
 * for long or the bound is reached. Tasks that may use some CPUs but not all are measured by the
 * clock of all.
 *
 * Everything here is pure: numbers in, verdict out. All times are
 * nanoseconds; virtual times wrap around and are compared by distance.
 */
#ifndef AVXSPEC_FAIRNESS_BPF_H
#define AVXSPEC_FAIRNESS_BPF_H

#include "arithmetic.bpf.h"

/* What competes for the CPUs that serve a queue. */
struct avx_load {
	u64 weight;  /* of all that wait for the CPUs, or run there */
	u64 nr_cpus; /* CPUs that take from the queue */
};

/* When a queued task is due. */
struct avx_due {
	u64 at;	      /* time on the wall */
	bool overdue; /* the longest wait decided, not the weight */
};

/* Returns true if the virtual time @a lies before @b, also across a wrap: within 2^63. */
static __always_inline bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Returns the virtual time that @ran_ns of a task with @weight cost. */
static __always_inline u64 vtime_cost(u64 ran_ns, u64 weight)
{
	return ran_ns * AVX_WEIGHT_NORMAL / at_least_one(weight);
}

/*
 * Returns what a task is granted at a time on @nr_cpus CPUs. It grows with the machine as EEVDF's
 * base slice does, because the fewer CPUs there are, the more often a task that wakes up finds
 * no idle CPU and waits for the end of a turn.
 */
static __always_inline u64 request_on(u64 nr_cpus)
{
	u64 steps = nr_cpus < 2 ? 1 : nr_cpus < 4 ? 2 : nr_cpus < 8 ? 3 : 4;

	return steps * AVX_REQUEST_STEP_NS;
}

/* Returns the length of a turn that begins while @nr_waiting tasks wait. */
static __always_inline u64 slice_for(u64 nr_waiting, u64 request)
{
	return nr_waiting ? request : AVX_SLICE_MAX_NS;
}

/*
 * Bounds the lag of a task. It is owed no more than one @request by its weight. A debt beyond
 * the longest wait is forgiven, because the task would never wait for it, only carry it along.
 */
static __always_inline u64 vtime_bound(u64 vtime, u64 clock, u64 weight, u64 request)
{
	u64 credit = vtime_cost(request, weight);

	if (vtime_before(vtime, clock - credit))
		return clock - credit;
	if (vtime_before(clock + AVX_WAIT_MAX_NS, vtime))
		return clock + AVX_WAIT_MAX_NS;
	return vtime;
}

/*
 * Returns the virtual time of a task that went to sleep when its clock was at @slept_at. The task
 * keeps what it was owed then, earns nothing by sleeping, and owes less the further the clock has
 * gone on.
 */
static __always_inline u64 vtime_after_sleep(u64 vtime, u64 slept_at, u64 clock)
{
	if (vtime_before(vtime, slept_at))
		return vtime - slept_at + clock;
	return vtime_before(vtime, clock) ? clock : vtime;
}

/* Keeps the lag of a task that changes from the clock @from to the clock @to. */
static __always_inline u64 vtime_rebase(u64 vtime, u64 from, u64 to)
{
	return vtime - from + to;
}

/*
 * Returns the time on the wall in which the clock covers @vtime_ns once a task with @weight has
 * joined; a task that has just run is in the load already. The clock gains a second of virtual
 * time per second if the competing weight is that of one task at nice 0 per CPU, and less in
 * proportion to what competes on top.
 */
static __always_inline u64 wall_time_of(u64 vtime_ns, u64 weight, const struct avx_load *load)
{
	u64 at_par = at_least_one(load->nr_cpus) * AVX_WEIGHT_NORMAL;

	/* In microseconds, because the product must hold a million heavy tasks. */
	return vtime_ns / 1000 * at_least(load->weight, weight) / at_par * 1000;
}

/*
 * Returns how far the clock goes in @ns, in which @nr_running CPUs run tasks and @weight is that of
 * all tasks that run or wait: what the CPUs do is shared by weight. So the tasks that run are
 * charged as much, by weight, as all tasks are owed for the same time.
 */
static __always_inline u64 vtime_gained(u64 ns, u64 nr_running, u64 weight)
{
	return ns * nr_running * AVX_WEIGHT_NORMAL / at_least_one(weight);
}

/* Returns when a task that is queued at @now is due; @vtime must be bounded. */
static __always_inline struct avx_due due_of(u64 vtime, u64 clock, u64 now, u64 weight,
					     const struct avx_load *load)
{
	struct avx_due due = { .at = now, .overdue = false };
	u64 wait;

	/* The past needs no estimate. */
	if (vtime_before(vtime, clock)) {
		due.at -= at_most(clock - vtime, AVX_SLICE_MAX_NS);
		return due;
	}

	wait = wall_time_of(vtime - clock, weight, load);
	due.overdue = wait > AVX_WAIT_MAX_NS;
	due.at += at_most(wait, AVX_WAIT_MAX_NS);
	return due;
}

/*
 * Limits @due for a task that has waited since @since and is queued anew, because its weight or
 * its CPUs have changed: it has had a part of the longest wait.
 */
static __always_inline struct avx_due due_since(struct avx_due due, u64 since)
{
	if (!vtime_before(since + AVX_WAIT_MAX_NS, due.at))
		return due;
	return (struct avx_due){ .at = since + AVX_WAIT_MAX_NS, .overdue = true };
}

#endif /* AVXSPEC_FAIRNESS_BPF_H */
