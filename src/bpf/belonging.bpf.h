/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who runs on a CPU that is not of its kind, or on a core that it shares, and how it leaves:
 * what is found out when its turn ends is noted for the kernel's next question, where to queue it.
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

/* An AVX task on a scalar CPU, or another one on an AVX core, which may move: it seldom is. */
static __always_inline bool is_misplaced(struct task_struct *p, const struct cpu_ctx *cctx)
{
	return runs_other_kind(cctx) && only_cpu_of(p) < 0;
}

static __always_inline bool is_misuse(struct task_struct *p, const struct cpu_ctx *cctx)
{
	return cctx->role == ROLE_AVX && is_misplaced(p, cctx) && may_use_scalar_cpu(p);
}

/*
 * Whether other work, which has all of an AVX core, would have to share any other. AVX work
 * that comes meanwhile takes the sibling of @cpu, and then it does not have all of it.
 */
static bool keeps_core(struct task_struct *p, s32 cpu)
{
	return lends_idle_cores() && has_core_alone(cpu) && !has_idle_core_in(p, ROLE_SCALAR);
}

/* ... and there is a CPU of its own kind to go to, which has to be idle for other work. */
static bool belongs_elsewhere(struct task_struct *p, s32 cpu, const struct cpu_ctx *cctx)
{
	if (!is_misplaced(p, cctx))
		return false;
	if (cctx->runs_avx)
		return may_use_avx_core(p);
	return has_idle_in(p, ROLE_SCALAR) && !keeps_core(p, cpu);
}

/*
 * An idle CPU of @role for @p, claimed, which knows then who comes: the one where @p began
 * with AVX work, or to which the last task went from here, since that is found at once,
 * unless @p would share a core there and need not; or else any.
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
 * The same as belongs_elsewhere(), and @p leaves: the kernel queues it anew, even if
 * nobody else is here.
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
		/* Migrations are to be cheap: of one that has not begun here no clock is read. */
		runs_as(NULL, NULL, cctx, false, cctx->accounted ? scx_bpf_now() : 0);
	if (cctx->runs_avx2)
		end_avx2(cctx);
	tell_sent(p, is_avx ? ROLE_AVX : ROLE_SCALAR, idle);
	return true;
}

/* The idle core for which @p would leave: in another cache only if it has shared for a turn. */
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
 * @p would go on beside a busy sibling. If a core idles it leaves for that: one that never sleeps
 * would not come to it otherwise.
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
 * Past the queues. If the CPU has something else to do after all, the kernel asks anew where to
 * queue @p (since Linux 7.1).
 */
static __always_inline void go_to(struct task_struct *p, s32 idle_cpu, bool is_avx, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle_cpu, turn_of(is_avx, AVX_SLICE_MAX_NS),
			   enq_flags | SCX_ENQ_IMMED);
}

/* If not the verifier knows, and nothing remains of what follows. */
static __always_inline bool may_leave(void)
{
	return classifies() || cpus_per_core > 1;
}

/*
 * The task that was found a moment ago to leave: nobody need find out again what it is here,
 * nor where it goes if it belongs there, for migrations are to be cheap.
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
	 * Meanwhile somebody may have changed what it may use: this CPU was not locked. It
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
