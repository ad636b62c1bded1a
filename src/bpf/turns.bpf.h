/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock of each cache, and what tasks pay by it. How fast it goes and what is due when is
 * decided by fairness.bpf.h.
 */
#ifndef AVXSPEC_TURNS_BPF_H
#define AVXSPEC_TURNS_BPF_H

#include "decide/fairness.bpf.h"
#include "decide/queues.bpf.h"
#include "state.bpf.h"

/* Returns the weight of all tasks that wait for the CPUs of a shared queue, or run there. */
static __always_inline u64 weight_at(const struct queue_ctx *clock)
{
	return clock->weight_waiting + clock->weight_running;
}

/* Returns what competes for the CPUs of a queue. The weight is that of a shared queue. */
static __always_inline struct avx_load load_of(const struct queue_ctx *queue)
{
	return (struct avx_load){
		.weight = weight_at(queue),
		.nr_cpus = at_least_one(queue->nr_cpus),
	};
}

/*
 * Advances @clock to @now, as is necessary before anything changes on which its pace depends. The
 * clock stands while no task waits, because no task takes anything from another then. Each
 * interval is added by the one CPU that claims it.
 */
static void advance(struct queue_ctx *clock, u64 now)
{
	u64 at = clock->clock_at, ns = now - at;

	if (!clock->weight_waiting || !vtime_before(at, now) ||
	    __sync_val_compare_and_swap(&clock->clock_at, at, now) != at)
		return;
	__sync_fetch_and_add(&clock->contended_ns, ns);
	__sync_fetch_and_add(&clock->clock, vtime_gained(ns, clock->nr_running, weight_at(clock)));
}

/* A task of @weight that goes by @clock begins to wait. */
static __always_inline void begins_to_wait(struct task_ctx *tctx, struct queue_ctx *clock,
					   u64 weight, u64 now)
{
	tctx->weight_queued = weight;
	/* Before the weight, or a CPU in between would add the time in which no task waited. */
	if (!clock->weight_waiting)
		clock->clock_at = now;
	__sync_fetch_and_add(&clock->weight_waiting, weight);
}

/* A task that added @weight to what waits by @clock does so no longer. */
static __always_inline void stops_waiting(struct queue_ctx *clock, u64 weight, u64 now)
{
	advance(clock, now);
	__sync_fetch_and_sub(&clock->weight_waiting, weight);
}

/* A CPU, which is this one or locked by it, runs a task of @weight, or with 0 none of ours. */
static __always_inline void count_running(struct cpu_ctx *cctx, u64 weight, u64 now)
{
	u64 before = cctx->runner.weight;
	struct queue_ctx *clock;

	if (weight == before)
		return;
	clock = lookup_queue(shared_queue(cctx->llc));
	if (!clock)
		return;
	advance(clock, now);
	__sync_fetch_and_add(&clock->weight_running, weight - before);
	if (!before)
		__sync_fetch_and_add(&clock->nr_running, 1);
	else if (!weight)
		__sync_fetch_and_sub(&clock->nr_running, 1);
	cctx->runner.weight = weight;
}

/*
 * A task begins to run here. Its cache's clock is noted with the CPU and not with the task, because
 * a switch looks up the CPU anyway.
 */
static __always_inline void note_clock(struct cpu_ctx *cctx, u64 now)
{
	struct queue_ctx *clock = lookup_queue(shared_queue(cctx->llc));

	if (!clock)
		return;
	advance(clock, now);
	cctx->clock = clock->clock;
	cctx->contended = clock->contended_ns;
}

/* The task woke up when its clock was at @clock. */
static __always_inline void end_sleep(struct task_ctx *tctx, u64 clock)
{
	if (tctx->slept_at)
		tctx->vtime = vtime_after_sleep(tctx->vtime, tctx->slept_at, clock);
	tctx->slept_at = 0;
}

/*
 * A task that ran here does not pay for what others waited for before it began, and if it slept
 * before, it slept until then.
 */
static __always_inline void skip_to_begin(struct task_ctx *tctx, const struct cpu_ctx *cctx)
{
	if (tctx->clock != shared_queue(cctx->llc))
		return;
	if (vtime_before(tctx->contended, cctx->contended))
		tctx->contended = cctx->contended;
	if (!vtime_before(cctx->clock, tctx->slept_at))
		end_sleep(tctx, cctx->clock);
}

/*
 * Charges @p for what it ran since it last paid, but for no longer than other tasks waited
 * meanwhile, because it took the rest from no task.
 */
static void settle(const struct task_struct *p, struct task_ctx *tctx, struct queue_ctx *clock,
		   u64 now)
{
	u64 ran = p->se.sum_exec_runtime - tctx->settled, contended;

	advance(clock, now);
	end_sleep(tctx, clock->clock);
	if (ran) {
		contended = clock->contended_ns - tctx->contended;
		tctx->vtime += vtime_cost(at_most(ran, contended), p->scx.weight);
		tctx->settled += ran;
		tctx->ran_until = now;
	}
	tctx->contended = clock->contended_ns;
	tctx->vtime = vtime_bound(tctx->vtime, clock->clock, p->scx.weight, request_ns());
}

/*
 * @p, which ran here, goes to sleep. It pays now, because when it wakes up it could not be known
 * whether other tasks waited while it ran or while it slept.
 */
static void settle_to_sleep(struct task_struct *p, const struct cpu_ctx *cctx, u64 now)
{
	struct task_ctx *tctx = lookup_task(p);
	struct queue_ctx *clock = tctx ? lookup_queue(tctx->clock) : NULL;

	if (!clock)
		return;
	skip_to_begin(tctx, cctx);
	settle(p, tctx, clock, now);
	tctx->slept_at = clock->clock;
}

/* Gives @p back @ns of what it paid. All tasks of its clock are owed less for that. */
static void grant(const struct task_struct *p, struct task_ctx *tctx, u64 ns)
{
	struct queue_ctx *clock = lookup_queue(tctx->clock);

	tctx->vtime -= vtime_cost(ns, p->scx.weight);
	if (clock)
		__sync_fetch_and_sub(&clock->clock, vtime_gained(ns, 1, weight_at(clock)));
}

/* Measures the task, which has paid, by the clock @id from now on. */
static void move_to_clock(struct task_ctx *tctx, u64 id, const struct queue_ctx *old,
			  struct queue_ctx *clock, u64 now)
{
	advance(clock, now);
	tctx->vtime = vtime_rebase(tctx->vtime, old->clock, clock->clock);
	tctx->contended = clock->contended_ns;
	tctx->clock = id;
}

#endif /* AVXSPEC_TURNS_BPF_H */
