/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Preemption: which CPU is asked to choose anew when a task arrives and finds no idle CPU.
 *
 * A waker that is about to sleep makes room by itself. Otherwise the CPU where the task ran last is
 * asked first, because its caches hold the task's data, and then the CPU, of a few, whose task is
 * due last. On an AVX core other work has to make room for AVX work whenever it was due, and AVX
 * work for other work as late as the AVX core would take that. fairness.bpf.h decides which task
 * is due first.
 */
#ifndef AVXSPEC_ROOM_BPF_H
#define AVXSPEC_ROOM_BPF_H

#include "decide/preempt.bpf.h"
#include "reach.bpf.h"
#include "state.bpf.h"
#include "waiting.bpf.h"

/* Returns true if @p has waited for an event and may preempt, as SCHED_BATCH and _IDLE may not. */
static __always_inline bool wakes_up(const struct task_struct *p, u64 enq_flags)
{
	return enq_flags & SCX_ENQ_WAKEUP && p->policy != SCHED_BATCH && p->policy != SCHED_IDLE;
}

/*
 * Returns true if @p, which is no AVX task, ran on this AVX core and has to leave it. Most often
 * AVX work arrived in the middle of its turn, and @p takes the rest of the turn along.
 */
static __always_inline bool leaves_avx_core(struct task_struct *p)
{
	s32 cpu = bpf_get_smp_processor_id();

	return nr_avx_cpus && scx_bpf_task_cpu(p) == cpu && is_avx_cpu(cpu);
}

/*
 * Returns true if the task that runs here can be believed to be about to sleep. An interrupt
 * handler that wakes up a task claims that of the task that it interrupts. Most often that one did
 * not begin because it woke up, or has run past a tick since.
 */
static bool is_about_to_sleep(const struct cpu_ctx *cctx)
{
	const struct task_struct *curr = bpf_get_current_task_btf();

	return cctx->woke_up && curr->se.sum_exec_runtime == cctx->ran_before &&
	       !(curr->flags & PF_EXITING);
}

/*
 * Returns true if @p, which finds no idle CPU, may wait here until its waker sleeps, because no
 * other task waits. A waker that goes on after all makes room at the next tick. Global, so that the
 * verifier checks it once.
 */
__noinline bool may_follow_waker(struct task_struct *p __arg_trusted)
{
	const struct task_ctx *tctx = nr_avx_cpus ? lookup_task(p) : NULL;
	s32 cpu = bpf_get_smp_processor_id();
	const struct cpu_ctx *cctx = lookup_cpu(cpu);

	if (!cctx || !is_about_to_sleep(cctx) || !is_allowed_on(p, cpu))
		return false;
	if (cctx->runs_avx || cctx->role == ROLE_AVX || (tctx && tctx->habit.class == CLASS_AVX))
		return false;
	return !has_waiting(shared_queue(cctx->llc)) && !has_waiting(private_queue(cpu)) &&
	       !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);
}

/* How many CPUs are looked at besides the one where the task ran last. */
#define MAX_LOOKS_FOR_ROOM 6

/*
 * For how long other work has to have been due to preempt what runs on this CPU. It is 0 unless
 * that is AVX work on an AVX core and AVX work has no more than its share.
 */
static __always_inline u64 penalty_on(const struct cpu_ctx *cctx)
{
	bool is_in_place = cctx->runs_avx && cctx->role == ROLE_AVX;
	const struct avx_policy *policy = is_in_place && !sizing.has_more ? current_policy() : NULL;

	return policy ? policy->scalar_penalty_ns : 0;
}

/* A task that arrives, and the best CPU for it of those looked at. */
struct avx_search {
	u64 now;
	u64 due_at;
	u64 weight;
	bool is_avx;
	s32 cpu; /* whose task is due last, or negative */
	u64 due_again;
};

/* Returns true if the task on a CPU has to make room, and when that task is due again. */
static __always_inline bool has_room(const struct cpu_ctx *cctx, const struct avx_search *it,
				     u64 *due)
{
	u64 due_at = it->due_at;

	/* A CPU that was asked is about to choose anyway. */
	if (!cctx || cctx->asked || (it->is_avx && cctx->role != ROLE_AVX))
		return false;
	if (it->is_avx && !cctx->runs_avx && !sizing.has_more) {
		*due = it->now + AVX_WAIT_MAX_NS;
		return true;
	}
	if (!it->is_avx)
		due_at += penalty_on(cctx);
	if (!makes_room(&cctx->runner, it->now, due_at, it->weight, request_ns()))
		return false;
	*due = due_again(&cctx->runner, it->now);
	return true;
}

/* Global, so that the verifier checks it once and not for each CPU that is looked at. */
__noinline int look_for_room_on(struct avx_search *it __arg_nonnull, s32 cpu)
{
	u64 due;

	if (!has_room(lookup_cpu(cpu), it, &due))
		return 0;
	if (it->cpu >= 0 && !vtime_before(it->due_again, due))
		return 0;
	it->cpu = cpu;
	it->due_again = due;
	return 0;
}

static void ask_for_room(s32 cpu, bool is_avx)
{
	struct cpu_ctx *cctx = lookup_cpu(cpu);

	if (!cctx)
		return;
	cctx->asked = true;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	if (is_avx)
		stat_add(preempted, 1);
	else
		stat_add(wakeup_kicks, 1);
}

/* The CPUs that take from the queue where @p waits. */
static __always_inline const struct cpumask *cpus_to_ask(struct task_struct *p, bool is_avx)
{
	const struct cpu_ctx *first;

	if (is_avx)
		return allowed_in(p, ROLE_AVX);
	first = lookup_cpu(llc_of(p));
	return first ? allowed_of(p, first->llc_cpus) : NULL;
}

/*
 * Preempts a task for @p, which is due at @due_at and may move, but never on @spared, because that
 * CPU has just chosen its next task. The caller has tried the CPU where @p ran last, unless @p is
 * an AVX task. Global, so that the verifier checks it once.
 */
__noinline int make_room_for(struct task_struct *p __arg_trusted, u64 now, u64 due_at, bool is_avx,
			     s32 spared)
{
	struct avx_search it = {
		.now = now,
		.due_at = due_at,
		.weight = p->scx.weight,
		.is_avx = is_avx,
		.cpu = -1,
	};
	s32 prev = scx_bpf_task_cpu(p);
	const struct cpumask *mask;
	u32 n;

	if (is_avx && prev != spared && is_allowed_on(p, prev))
		look_for_room_on(&it, prev);
	mask = it.cpu < 0 ? cpus_to_ask(p, is_avx) : NULL;
	bpf_for(n, 0, at_most(MAX_LOOKS_FOR_ROOM, nr_online_cpus - 1)) {
		s32 cpu = mask ? (s32)bpf_cpumask_any_distribute(mask) : -1;

		if (cpu < 0)
			break;
		if (cpu != spared)
			look_for_room_on(&it, cpu);
	}
	if (it.cpu >= 0)
		ask_for_room(it.cpu, is_avx);
	return 0;
}

/* Returns true if no task that waits for @cpu is due before @due_at. */
static __always_inline bool is_first_for(s32 cpu, const struct cpu_ctx *cctx, u64 now, u64 due_at)
{
	s64 due = due_at - now;

	return due <= head_due_in(shared_queue(cctx->llc), cpu, now) &&
	       due <= head_due_in(private_queue(cpu), cpu, now);
}

/* What room_where_it_was() found out about the CPU where a task ran last. */
enum avx_room {
	NO_ROOM,
	ROOM_ASKED_FOR, /* the CPU was kicked, and may choose another task than this one */
	ROOM_AT_ONCE,	/* the CPU could only choose this task, and is not asked */
};

/*
 * Looks for room for @p, which wakes up and is no AVX task, on the CPU where it ran last. It never
 * returns ROOM_AT_ONCE where there is AVX work, because ops.dispatch(), which accounts for AVX work
 * that leaves, would not be called. Global, so that the verifier checks it once.
 */
__noinline u32 room_where_it_was(struct task_struct *p __arg_trusted, bool may_move, u64 now,
				 u64 due_at)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	u64 penalty;

	if (!cctx || cctx->asked)
		return NO_ROOM;
	penalty = may_move ? penalty_on(cctx) : 0;
	if (!makes_room(&cctx->runner, now, due_at + penalty, p->scx.weight, request_ns()) ||
	    !is_allowed_on(p, cpu))
		return NO_ROOM;
	if (cctx->runs_avx || cctx->role == ROLE_AVX || !is_first_for(cpu, cctx, now, due_at) ||
	    scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu)) {
		ask_for_room(cpu, false);
		return ROOM_ASKED_FOR;
	}
	cctx->asked = true;
	stat_add(wakeup_kicks, 1);
	return ROOM_AT_ONCE;
}

/* Returns true if the task on @cpu would be due before all that wait there if it queued now. */
static bool goes_on_first(s32 cpu, const struct cpu_ctx *cctx)
{
	const struct queue_ctx *shared = lookup_queue(shared_queue(cctx->llc));
	const struct queue_ctx *private = lookup_queue(private_queue(cpu));
	u64 again;

	if (!shared || !private || !(shared->nr_waiting | private->nr_waiting))
		return shared && private;
	again = due_again(&cctx->runner, scx_bpf_now());
	return is_first_of(shared, again) && is_first_of(private, again);
}

/* A task begins to run on this CPU. @tag says in which queue it waited; 0 if in none. */
static __always_inline void begins_to_run(struct cpu_ctx *cctx, u64 tag, u64 due_at, u64 now)
{
	cctx->asked = false;
	cctx->woke_up = !tag || tag_woke_up(tag);
	cctx->runner.since = now;
	cctx->runner.due_at = due_at;
}

/*
 * Returns true if the task on @cpu has to make room by now for the first task of a queue. A first
 * task that did not wake up before it queued lets each task finish its request.
 */
__noinline bool is_wanted_by_first_of(u64 id, s32 cpu)
{
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	struct task_struct *p;
	u64 vtime, now;

	if (!cctx || !has_waiting(id))
		return false;
	p = __COMPAT_scx_bpf_dsq_peek(id);
	if (!p || !is_allowed_on(p, cpu))
		return false;
	vtime = p->scx.dsq_vtime;
	if (!(vtime & TAG_MASK))
		return false;
	now = scx_bpf_now();
	if (!tag_woke_up(vtime & TAG_MASK) && has_just_begun(&cctx->runner, now, request_ns()))
		return false;
	if (kind_of(id) == QUEUE_SHARED)
		vtime += penalty_on(cctx);
	return makes_room(&cctx->runner, now, vtime, p->scx.weight, request_ns());
}

static bool is_room_wanted_on(s32 cpu, const struct cpu_ctx *cctx)
{
	return is_wanted_by_first_of(private_queue(cpu), cpu) ||
	       is_wanted_by_first_of(shared_queue(cctx->llc), cpu);
}

#endif /* AVXSPEC_ROOM_BPF_H */
