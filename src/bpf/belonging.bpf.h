/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that run on a CPU that is not of their kind, or on a core that they share, and how they
 * leave. Where such a task goes is found out when its turn ends, and noted for the kernel's next
 * question, which is where to queue it.
 */
#ifndef AVXSPEC_BELONGING_BPF_H
#define AVXSPEC_BELONGING_BPF_H

#include "clocks.bpf.h"
#include "events.bpf.h"
#include "reach.bpf.h"
#include "retry.bpf.h"
#include "roles.bpf.h"
#include "state.bpf.h"
#include "waiting.bpf.h"

/*
 * Returns true if @p may move, and is an AVX task on a scalar CPU or another task on an AVX core.
 * This is seldom so.
 */
static __always_inline bool is_misplaced(struct task_struct *p, const struct cpu_ctx *cctx)
{
	return runs_other_kind(cctx) && only_cpu_of(p) < 0;
}

static __always_inline bool is_misuse(struct task_struct *p, const struct cpu_ctx *cctx)
{
	return cctx->role == ROLE_AVX && is_misplaced(p, cctx) && may_use_scalar_cpu(p);
}

/*
 * Returns true if @p, other work that has all of an AVX core, would have to share any other core.
 * If AVX work comes meanwhile, it takes the sibling of @cpu, and @p no longer has all of the
 * core.
 */
static bool keeps_core(struct task_struct *p, s32 cpu)
{
	return lends_idle_cores() && has_core_alone(cpu) && !has_idle_core_in(p, ROLE_SCALAR);
}

/*
 * Returns true if @p is misplaced and there is a CPU of its own kind. For other work that CPU has
 * to be idle.
 */
static bool belongs_elsewhere(struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	if (!is_misplaced(p, cctx))
		return false;
	if (cctx->runs_avx)
		return may_use_avx_core(p);
	return has_idle_in(p, ROLE_SCALAR) && !keeps_core(p, cpu);
}

/*
 * Claims an idle CPU of @role for @p, and notes there that @p comes. The first candidate is found
 * at once: the CPU where @p began with AVX work, or to which the last task went from here. It is
 * not taken if @p would share a core there and need not. Otherwise any idle CPU is taken.
 */
static s32 claim_idle(struct task_struct *p, const struct cpu_ctx *cctx, enum avx_role role)
{
	s32 cpu = cctx->sent_to;
	struct cpu_ctx *there = lookup_cpu(cpu);

	if (!there || there->role != role || there == cctx || !is_allowed_on(p, cpu) ||
	    (!has_idle_siblings(cpu) && has_idle_core_near(p)) ||
	    !scx_bpf_test_and_clear_cpu_idle(cpu)) {
		cpu = pick_idle_in(p, role, true);
		there = cpu < 0 ? NULL : lookup_cpu(cpu);
		if (!there)
			return -ENOENT;
	}
	there->coming = (u64)p;
	there->avx_is_coming = cctx->runs_avx;
	return cpu;
}

/* @p leaves for @idle, or for a queue if that is negative: the kernel asks where to queue it. */
static __always_inline void leave_for(s32 idle, const struct task_struct *p, struct cpu_ctx *cctx)
{
	cctx->sent_away = (u64)p;
	cctx->sends_avx = cctx->runs_avx;
	cctx->sent_to = idle;
}

/*
 * Decides as belongs_elsewhere() does. If the result is true, @p leaves: the kernel queues it
 * anew, even if no other task is here.
 */
static bool sends_away(struct task_struct *p, s32 cpu, struct cpu_ctx *cctx)
{
	bool is_avx = cctx->runs_avx;
	s32 idle;

	if (!runs_other_kind(cctx))
		return false;
	if (only_cpu_of(p) >= 0) {
		if (!is_pinned(p))
			retry_soon(cpu, cctx);
		return false;
	}
	if (!is_avx && keeps_core(p, cpu))
		return false;
	idle = claim_idle(p, cctx, is_avx ? ROLE_AVX : ROLE_SCALAR);
	if (idle < 0 && !(is_avx && may_use_avx_core(p)))
		return false;

	leave_for(idle, p, cctx);
	if (is_avx)
		/*
		 * Migrations have to be cheap: no clock is read for a task that has not begun
		 * here.
		 */
		runs_as(NULL, NULL, cctx, false, cctx->accounted ? scx_bpf_now() : 0);
	if (cctx->runs_avx2)
		end_avx2(cctx);
	tell_sent(p, is_avx ? ROLE_AVX : ROLE_SCALAR, idle);
	return true;
}

/*
 * Picks the idle core for which @p would leave: in another cache only if @p has shared its core
 * for a turn.
 */
static s32 pick_idle_core_instead(struct task_struct *p, const struct cpu_ctx *cctx)
{
	bool may_go_far = cctx->shares == (u64)p;

	if (classifies())
		return pick_idle_core_for(p, cctx->runs_avx && may_use_avx_core(p), may_go_far);
	if (nr_llcs > 1 && !may_go_far)
		return -ENOENT;
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
}

/*
 * If @p would go on beside a busy sibling and a core is idle, @p leaves for that core: a task
 * that never sleeps would not get there otherwise.
 */
__noinline bool leaves_for_idle_core(struct task_struct *p __arg_trusted, s32 cpu)
{
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	s32 idle;

	if (!cctx)
		return false;
	if (has_core_alone(cpu)) {
		cctx->shares = 0;
		return false;
	}
	if (only_cpu_of(p) >= 0)
		return false;
	idle = pick_idle_core_instead(p, cctx);
	cctx->shares = (u64)p;
	if (idle < 0)
		return false;
	leave_for(idle, p, cctx);
	stat_add(unshared, 1);
	return true;
}

/*
 * Sends @p to an idle CPU, past the queues. If that CPU has something else to do after all, the
 * kernel asks anew where to queue @p (since Linux 7.1).
 */
static __always_inline void go_to(struct task_struct *p, s32 idle_cpu, bool is_avx, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle_cpu, turn_of(is_avx, AVX_SLICE_MAX_NS),
			   enq_flags | SCX_ENQ_IMMED);
}

/* Constant false without AVX tasks or siblings, so the verifier drops the rest. */
static __always_inline bool may_leave(void)
{
	return classifies() || cpus_per_core > 1;
}

/*
 * Sends @p to the CPU that was found for it a moment ago, if @p was found to leave. Migrations
 * have to be cheap, so what @p is here is not found out again, nor where it goes if it belongs
 * there.
 */
static bool goes_where_it_belongs(struct task_struct *p, u64 enq_flags)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	s32 idle;

	if (!cctx || cctx->sent_away != (u64)p)
		return false;
	cctx->sent_away = 0;
	idle = cctx->sent_to;
	/*
	 * What @p may use may have changed meanwhile, because this CPU was not locked. This CPU
	 * has decided to idle, and @p may stay here after all.
	 */
	if (only_cpu_of(p) >= 0 || !(idle < 0 ? may_use_avx_core(p) : is_allowed_on(p, idle))) {
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), 0);
		return false;
	}
	if (idle < 0)
		return false;
	go_to(p, idle, cctx->sends_avx, enq_flags);
	return true;
}

#endif /* AVXSPEC_BELONGING_BPF_H */
