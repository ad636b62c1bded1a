/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a nanosecond costs, and when a task is due.
 *
 * Problem. Tasks must share the CPUs in proportion to their weights, a sleeper
 * must not hoard the time it did not use, and no task may wait so long that
 * the kernel's watchdog ends the scheduler. A queue sorted by virtual time
 * alone gives the first two but not the third: one slice of a task with
 * weight 1 costs as much virtual time as a hundred ordinary slices, and next
 * to a task with weight 10000 that is minutes.
 *
 * Mechanism. Each cache has a virtual clock, which follows the tasks that
 * start to run on its CPUs, but goes no faster than it would if each had its share.
 * Each task has a virtual time, which grows by the time it ran,
 * divided by its weight. The distance between the two, bounded on both sides,
 * is the task's lag. Queues are sorted by a time on the wall: a task is due
 * when the clock will have reached its virtual time, estimated from the
 * weight that competes for the CPUs, and in no case later than
 * AVX_WAIT_MAX_NS after it began to wait. An estimate that is off is not lost: what a task
 * got too early stays in its lag and makes it wait longer the next time.
 *
 * Limits. Beyond AVX_WAIT_MAX_NS weights no longer count, so the lightest
 * tasks get a little more than their share when the machine is full. Tasks
 * that may use some CPUs but not all are measured by the clock of all.
 *
 * Everything here is pure: numbers in, verdict out. All times are
 * nanoseconds; virtual times wrap around and are compared by distance.
 */
#ifndef AVXSPEC_FAIRNESS_BPF_H
#define AVXSPEC_FAIRNESS_BPF_H

#include "arithmetic.bpf.h"

/* Who competes for the CPUs that serve a queue, as far as the queue knows. */
struct avx_load {
	u64 nr_waiting;	    /* tasks in the queue */
	u64 weight_waiting; /* the sum of what they count for */
	u64 weight_running; /* the same of what runs on the CPUs */
	u64 nr_cpus;	    /* CPUs that take from the queue */
};

/* When a queued task is due. */
struct avx_due {
	u64 at;	      /* time on the wall */
	bool overdue; /* the longest wait decided, not the weight */
};

/* Virtual time @a lies before @b; holds across the wrap for distances below 2^63. */
static __always_inline bool vtime_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* The virtual time that @ran_ns of a task with @weight cost. */
static __always_inline u64 vtime_cost(u64 ran_ns, u64 weight)
{
	return ran_ns * AVX_WEIGHT_NORMAL / at_least_one(weight);
}

/*
 * The slice shrinks as the queue grows, so that a round through all waiting
 * tasks takes about the same time until the slice reaches its floor.
 */
static __always_inline u64 slice_for(const struct avx_load *load)
{
	u64 nr_cpus = at_least_one(load->nr_cpus), slice;

	if (!load->nr_waiting)
		return AVX_SLICE_MAX_NS;
	slice = AVX_SLICE_MAX_NS * nr_cpus / (load->nr_waiting + nr_cpus);
	return at_least(slice, AVX_SLICE_MIN_NS);
}

/*
 * Bound the lag of a task. A sleeper keeps at most @credit_ns of the time it
 * did not use. A debt beyond the longest wait would never be felt as waiting,
 * only dragged along, so it is forgiven.
 */
static __always_inline u64 vtime_bound(u64 vtime, u64 clock, u64 credit_ns)
{
	if (vtime_before(vtime, clock - credit_ns))
		return clock - credit_ns;
	if (vtime_before(clock + AVX_WAIT_MAX_NS, vtime))
		return clock + AVX_WAIT_MAX_NS;
	return vtime;
}

/* Keep the lag of a task that changes from the clock @from to the clock @to. */
static __always_inline u64 vtime_rebase(u64 vtime, u64 from, u64 to)
{
	return vtime - from + to;
}

/*
 * The clock follows the task that starts to run, by @pace_ns at most, and never goes back.
 * It does not follow a task that runs ahead of its time because it waited for too
 * long: the others would lose what their weights had earned them.
 */
static __always_inline u64 clock_advance(u64 clock, u64 started_vtime, u64 pace_ns, bool overdue)
{
	if (overdue || !vtime_before(clock, started_vtime))
		return clock;
	return clock + at_most(started_vtime - clock, pace_ns);
}

/*
 * What a waiting task counts for in the estimates of others. One that just
 * woke up may sleep again at once: a kernel thread at nice -20 that needs a
 * few microseconds must not let its neighbours expect seconds of competition.
 * One that used up its slice wants another.
 */
static __always_inline u64 lasting_weight(u64 weight, bool just_woken)
{
	return just_woken ? 0 : weight;
}

/* The weight that competes once a task with @weight joins: who has just run is known already. */
static __always_inline u64 competing_weight(const struct avx_load *load, u64 weight)
{
	return at_least(load->weight_waiting + load->weight_running, weight);
}

/* The weight for which the clock is as fast as that on the wall. */
static __always_inline u64 weight_at_par(const struct avx_load *load)
{
	return at_least_one(load->nr_cpus) * AVX_WEIGHT_NORMAL;
}

/*
 * The time on the wall in which the clock covers @vtime_ns. The clock gains a
 * second of virtual time per second if the competing weight is that of one
 * task at nice 0 per CPU, and less in proportion to what competes on top.
 */
static __always_inline u64 wall_time_of(u64 vtime_ns, u64 weight, const struct avx_load *load)
{
	/* In microseconds, for the product must hold a million heavy tasks. */
	return vtime_ns / 1000 * competing_weight(load, weight) / weight_at_par(load) * 1000;
}

/*
 * How far the clock comes in @wall_ns if each gets its share. A light task that runs on one
 * CPU while heavy ones run on others is far ahead of them; if the clock went with it, they
 * would lose all that they are owed.
 */
static __always_inline u64 clock_pace(u64 wall_ns, const struct avx_load *load)
{
	return at_most(wall_ns, AVX_WAIT_MAX_NS) / 1000 * weight_at_par(load) /
	       at_least_one(competing_weight(load, 0)) * 1000;
}

/* When a task that is queued at @now is due; @vtime must be bounded. */
static __always_inline struct avx_due due_of(u64 vtime, u64 clock, u64 now, u64 weight,
					     const struct avx_load *load)
{
	struct avx_due due = { .at = now, .overdue = false };
	u64 wait;

	/* Nothing has to be estimated of the past. */
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
 * The same for a task that waits since @since, and is queued anew, for what it counts for or
 * where it may run has changed: it has had a part of the longest wait.
 */
static __always_inline struct avx_due due_since(struct avx_due due, u64 since)
{
	if (!vtime_before(since + AVX_WAIT_MAX_NS, due.at))
		return due;
	return (struct avx_due){ .at = since + AVX_WAIT_MAX_NS, .overdue = true };
}

#endif /* AVXSPEC_FAIRNESS_BPF_H */
