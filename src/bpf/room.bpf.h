/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Room for a task that comes and finds no idle CPU: which CPU is asked to choose anew.
 *
 * A waker that is about to sleep makes room by itself. Otherwise the CPU where the task was is
 * asked first, since its caches know the task, and then that one of a few whose task is due last.
 * On an AVX core other work is asked to make room for AVX work whenever it was due, and AVX work
 * for other work as late as it would be taken there. Who is first is decided by fairness.bpf.h, as
 * ever.
 */
#ifndef AVXSPEC_ROOM_BPF_H
#define AVXSPEC_ROOM_BPF_H

#include "decide/preempt.bpf.h"
#include "reach.bpf.h"
#include "state.bpf.h"
#include "waiting.bpf.h"

/* Whether @p has waited for an event. Of batches the kernel says that they have time. */
static __always_inline bool wakes_up(const struct task_struct *p, u64 enq_flags)
{
	return enq_flags & SCX_ENQ_WAKEUP && p->policy != SCHED_BATCH && p->policy != SCHED_IDLE;
}

/*
 * Whether @p, which is no AVX task, ran on this AVX core and has to leave it. Most often AVX work
 * came in the middle of its turn, which it takes along.
 */
static __always_inline bool leaves_avx_core(struct task_struct *p)
{
	s32 cpu = bpf_get_smp_processor_id();

	return nr_avx_cpus && scx_bpf_task_cpu(p) == cpu && is_avx_cpu(cpu);
}

/*
 * Whether what runs here may be believed that it is about to sleep. An interrupt says so of
 * whatever it interrupts, which most often did not begin because it woke up, or has run for longer
 * than to the first tick.
 */
static bool is_about_to_sleep(const struct cpu_ctx *cctx)
{
	const struct task_struct *curr = bpf_get_current_task_btf();

	return cctx->woke_up && curr->se.sum_exec_runtime == cctx->ran_before &&
	       !(curr->flags & PF_EXITING);
}

/*
 * Whether @p, which finds no idle CPU, may wait here for its waker to sleep, since nobody else
 * waits. If that goes on after all, it makes room with the next tick. Global, for the verifier.
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

/* How many CPUs are looked at beside the one where the task was. */
#define MAX_LOOKS_FOR_ROOM 6

/*
 * How long other work has to be due to take this CPU: an AVX core with AVX work, unless that has
 * more than its share; and any other at once.
 */
static __always_inline u64 penalty_on(const struct cpu_ctx *cctx)
{
	bool is_in_place = cctx->runs_avx && cctx->role == ROLE_AVX;
	const struct avx_policy *policy = is_in_place && !sizing.has_more ? current_policy() : NULL;

	return policy ? policy->scalar_penalty_ns : 0;
}

/* A task that comes, and who has most reason to make room for it of those looked at. */
struct avx_search {
	u64 now;
	u64 due_at;
	u64 weight;
	bool is_avx;
	s32 cpu; /* where that one runs, or negative */
	u64 due_again;
};

/* Whether what runs on a CPU is to make room, and when it is due again. */
static __always_inline bool has_room(const struct cpu_ctx *cctx, const struct avx_search *it,
				     u64 *due)
{
	u64 due_at = it->due_at;

	/* It is about to choose anyway. */
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

/* Global, so that the verifier goes through it once and not for each CPU that is looked at. */
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
 * For @p, which is due at @due_at and may move; but not on @spared, which has just decided who is
 * next there. Other work than AVX has no room where it was. Global, for the verifier.
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

/* Whether nobody who waits for @cpu is due before. */
static __always_inline bool is_first_for(s32 cpu, const struct cpu_ctx *cctx, u64 now, u64 due_at)
{
	s64 due = due_at - now;

	return due <= head_due_in(shared_queue(cctx->llc), cpu, now) &&
	       due <= head_due_in(private_queue(cpu), cpu, now);
}

/* Whether there is room for a task where it was. */
enum avx_room {
	NO_ROOM,
	ROOM_ASKED_FOR, /* that CPU is to choose anew, who may be somebody else, */
	ROOM_AT_ONCE,	/* ... or need not, because it can only be this task */
};

/*
 * For @p, which wakes up, is no AVX task, and may move or not. At once it has room only where
 * there is no AVX work, since what ops.dispatch() finds out of that would be missed. Global, for
 * the verifier.
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

/* Whether what runs on @cpu would be due before all who wait there if it had to queue now. */
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

/* What runs on this CPU has just begun, after it waited as @tag tells, or not at all. */
static __always_inline void begins_to_run(struct cpu_ctx *cctx, u64 tag, u64 due_at, u64 now)
{
	cctx->asked = false;
	cctx->woke_up = !tag || tag_woke_up(tag);
	cctx->runner.since = now;
	cctx->runner.due_at = due_at;
}

/*
 * Whether what runs on @cpu makes room by now for the first task of a queue. One that has not
 * just woken up leaves each what is granted at a time.
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
