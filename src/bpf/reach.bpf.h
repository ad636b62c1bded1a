/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs that a task may use: those of a role, and the idle ones among them, nearest first.
 * Other work on an AVX core is asked to make room here, too.
 *
 * Siblings of a core that both run get little more than half of what each would get alone. The
 * low clock of an AVX core leaves more than that. So the first criterion is that nothing else
 * runs on the core, the second is the kind of CPU, and the third is the cache.
 */
#ifndef AVXSPEC_REACH_BPF_H
#define AVXSPEC_REACH_BPF_H

#include "decide/queues.bpf.h"
#include "roles.bpf.h"
#include "state.bpf.h"

/*
 * Returns the CPUs of @mask that @p, which may move, may use. Most tasks may use them all. For
 * other tasks the result is in the scratch mask of this CPU. It is valid until the next call on
 * this CPU: that is long enough, because callbacks run with interrupts off.
 */
static const struct cpumask *allowed_of(const struct task_struct *p, struct bpf_cpumask *mask)
{
	struct bpf_cpumask *scratch;
	struct cpu_ctx *cctx;

	if (!mask)
		return NULL;
	if (may_use_any_cpu(p))
		return cast_mask(mask);
	cctx = lookup_cpu(bpf_get_smp_processor_id());
	if (!cctx)
		return NULL;
	scratch = cctx->scratch;
	if (!scratch)
		return NULL;
	bpf_cpumask_and(scratch, p->cpus_ptr, cast_mask(mask));
	return cast_mask(scratch);
}

/* Returns the CPUs of @role that @p, which may move, may use. */
static const struct cpumask *allowed_in(const struct task_struct *p, u32 role)
{
	return allowed_of(p, role == ROLE_AVX ? avx_cpus : scalar_cpus);
}

/* Returns true if @p, which may move, may use an AVX core at all. */
__noinline bool may_use_avx_core(struct task_struct *p __arg_trusted)
{
	struct bpf_cpumask *avx = avx_cpus;

	if (!nr_avx_cpus || may_use_any_cpu(p))
		return nr_avx_cpus;
	return avx && bpf_cpumask_intersects(p->cpus_ptr, cast_mask(avx));
}

/* Returns true if @p does AVX work where it is, whatever AVX cores there are. */
static bool stays_apart(struct task_struct *p)
{
	return has_no_choice(p) || (nr_avx_cpus && !may_use_avx_core(p));
}

/*
 * AVX work of @p, which is confined, begins or goes on here. The first of the AVX cores that it
 * may use is kept for it, and further AVX cores are looked for here.
 */
__noinline int note_confined(struct task_struct *p __arg_trusted, u64 now)
{
	const struct cpumask *mask = allowed_in(p, ROLE_AVX);
	struct cpu_ctx *here = core_of(scx_bpf_task_cpu(p));
	struct cpu_ctx *first = mask ? core_of(bpf_cpumask_first(mask)) : NULL;

	if (here)
		note(&here->confined_at, now);
	if (first)
		note(&first->kept_at, now);
	return 0;
}

/* Returns true if @p, which may move, may use a scalar CPU at all. */
__noinline bool may_use_scalar_cpu(struct task_struct *p __arg_trusted)
{
	struct bpf_cpumask *scalar = scalar_cpus;

	return may_use_any_cpu(p) ||
	       (scalar && bpf_cpumask_intersects(p->cpus_ptr, cast_mask(scalar)));
}

/* Returns the cache in whose queue an AVX task waits: its own if that has AVX cores. */
__noinline u32 avx_llc_of(struct task_struct *p __arg_trusted)
{
	const struct cpu_ctx *cctx = lookup_cpu(llc_of(p));
	const struct cpumask *mask;
	u32 llc;

	if (!cctx)
		return 0;
	llc = cctx->llc;
	if (cctx->llc_avx)
		return llc;
	cctx = nr_avx_llcs == 1 ? lookup_cpu(last_avx_llc) : NULL;
	if (cctx && cctx->llc_avx)
		return cctx->llc;
	mask = allowed_in(p, ROLE_AVX);
	cctx = mask ? lookup_cpu(bpf_cpumask_any_distribute(mask)) : NULL;
	return cctx ? cctx->llc : llc;
}

/*
 * Returns the CPUs of @role in the cache of @p that @p may use. Returns NULL where the cache
 * makes no difference: all AVX cores share one cache, or none of them is in this one.
 */
static const struct cpumask *allowed_near(struct task_struct *p, u32 role)
{
	const struct cpu_ctx *first;

	if (role == ROLE_AVX && nr_avx_llcs == 1)
		return NULL;
	first = lookup_cpu(llc_of(p));
	if (!first || (role == ROLE_AVX && !first->llc_avx))
		return NULL;
	return allowed_of(p, role == ROLE_AVX ? first->llc_avx_cpus : first->llc_scalar_cpus);
}

/*
 * Picks an idle CPU of @role for @p: in its own cache if there is one, and elsewhere only if it
 * @may_go_far.
 */
__noinline s32 pick_idle_in(struct task_struct *p __arg_trusted, u32 role, bool may_go_far)
{
	const struct cpumask *mask;
	s32 cpu;

	if (nr_llcs > 1) {
		mask = allowed_near(p, role);
		cpu = mask ? scx_bpf_pick_idle_cpu(mask, 0) : -ENOENT;
		if (cpu >= 0 || !may_go_far)
			return cpu;
	}
	mask = allowed_in(p, role);
	return mask ? scx_bpf_pick_idle_cpu(mask, 0) : -ENOENT;
}

/* Returns true if any CPU of @mask idles now. */
static __always_inline bool is_any_idle_in(const struct cpumask *mask)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool is_any = bpf_cpumask_intersects(mask, idle);

	scx_bpf_put_idle_cpumask(idle);
	return is_any;
}

/* Returns true if any CPU of @mask is on a core on which nothing runs. */
static __always_inline bool is_any_core_idle_in(const struct cpumask *mask)
{
	const struct cpumask *idle = scx_bpf_get_idle_smtmask();
	bool is_any = bpf_cpumask_intersects(mask, idle);

	scx_bpf_put_idle_cpumask(idle);
	return is_any;
}

__noinline bool has_idle_in(struct task_struct *p __arg_trusted, u32 role)
{
	const struct cpumask *mask = allowed_in(p, role);

	return mask && is_any_idle_in(mask);
}

static bool is_any_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool none = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return !none;
}

/* Returns true if nothing runs on the core of @cpu, or if cores have no siblings. */
static bool has_idle_siblings(s32 cpu)
{
	const struct cpumask *idle;
	bool is_idle;

	if (cpus_per_core == 1)
		return true;
	idle = scx_bpf_get_idle_smtmask();
	is_idle = bpf_cpumask_test_cpu(cpu, idle);
	scx_bpf_put_idle_cpumask(idle);
	return is_idle;
}

/*
 * Returns true if nothing runs on the core of @cpu besides what runs on @cpu, or is about to
 * end there.
 */
static bool has_core_alone(s32 cpu)
{
	u32 key = cpu;
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &key);
	const struct cpumask *idle;
	bool is_idle;

	if (!place)
		return true;
	idle = scx_bpf_get_idle_cpumask();
	is_idle = place->sibling == cpu || bpf_cpumask_test_cpu(place->sibling, idle);
	scx_bpf_put_idle_cpumask(idle);
	return is_idle;
}

/* Returns true if there is a core of @role for @p on which nothing runs. */
__noinline bool has_idle_core_in(struct task_struct *p __arg_trusted, u32 role)
{
	const struct cpumask *mask = allowed_in(p, role);

	return mask && is_any_core_idle_in(mask);
}

/*
 * Picks a CPU of a core of @role on which nothing runs. If @is_near it is in the cache of @p,
 * where the cache makes a difference.
 */
__noinline s32 pick_idle_core_in(struct task_struct *p __arg_trusted, u32 role, bool is_near)
{
	const struct cpumask *mask = is_near && nr_llcs > 1 ? allowed_near(p, role) : NULL;

	if (!mask)
		mask = allowed_in(p, role);
	return mask ? scx_bpf_pick_idle_cpu(mask, SCX_PICK_IDLE_CORE) : -ENOENT;
}

static bool has_avx_cores_near(struct task_struct *p)
{
	const struct cpu_ctx *first = lookup_cpu(llc_of(p));

	return first && first->llc_avx;
}

/*
 * Returns true if there is a core on which nothing runs in the cache of @p. Where CPUs are
 * scarce there seldom is one, and then there is no need to search for it.
 */
static bool has_idle_core_near(struct task_struct *p)
{
	const struct cpu_ctx *first = lookup_cpu(llc_of(p));
	struct bpf_cpumask *llc_cpus = first ? first->llc_cpus : NULL;

	return llc_cpus && is_any_core_idle_in(cast_mask(llc_cpus));
}

/*
 * Picks a CPU for @p on a core on which nothing runs. Unless it @may_go_far the core is nearby,
 * where that makes a difference. Other work gets an AVX core only if there is no other core,
 * and only if AVX cores are lent.
 */
__noinline s32 pick_idle_core_for(struct task_struct *p __arg_trusted, bool is_avx, bool may_go_far)
{
	u32 role = is_avx ? ROLE_AVX : ROLE_SCALAR;
	s32 cpu = pick_idle_core_in(p, role, true);

	if (cpu < 0 && may_go_far && nr_llcs > 1)
		cpu = pick_idle_core_in(p, role, false);
	if (cpu < 0 && !is_avx && lends_idle_cores() && has_avx_cores_near(p))
		cpu = pick_idle_core_in(p, ROLE_AVX, true);
	return cpu;
}

/*
 * Picks an idle CPU for @p: one on a core on which nothing runs, or else @prev, or one of the
 * right kind, or any. @prev is where @p comes from, and is negative if that CPU does not suit
 * @p. Other work goes to a scalar CPU of another cache only if it @may_go_far.
 */
__noinline s32 pick_idle_for(struct task_struct *p __arg_trusted, bool is_avx, s32 prev,
			     bool may_go_far)
{
	bool may_find_core;
	s32 cpu;

	if (!is_any_idle())
		return -ENOENT;
	may_find_core = is_avx || has_idle_core_near(p);
	if (may_find_core && (prev < 0 || !has_idle_siblings(prev))) {
		cpu = pick_idle_core_for(p, is_avx, false);
		if (cpu >= 0)
			return cpu;
	}
	if (prev >= 0 && scx_bpf_test_and_clear_cpu_idle(prev))
		return prev;
	cpu = pick_idle_in(p, is_avx ? ROLE_AVX : ROLE_SCALAR, may_go_far);
	if (cpu >= 0 || is_avx || !(may_go_far || has_avx_cores_near(p)))
		return cpu;
	return pick_idle_in(p, ROLE_AVX, true);
}

/* Picks an idle CPU that serves the queue @id, or returns a negative number. */
__noinline s32 pick_idle_of(struct task_struct *p __arg_trusted, u64 id, s32 only_cpu)
{
	if (only_cpu >= 0)
		return scx_bpf_test_and_clear_cpu_idle(only_cpu) ? only_cpu : -ENOENT;
	if (!nr_avx_cpus)
		return pick_idle_allowed(p);
	return pick_idle_for(p, is_avx_queue(id), -1, true);
}

/* Returns true if any CPU of @role idles now. */
__noinline bool has_idle_of(u32 role)
{
	struct bpf_cpumask *mask = role == ROLE_AVX ? avx_cpus : scalar_cpus;

	return mask && is_any_idle_in(cast_mask(mask));
}

/* How many AVX cores are tried to find one that can be preempted. */
#define MAX_PREEMPT_TRIES 3

/*
 * A scalar CPU is about to idle, and other work on an AVX core may go there. If @who_shares_it
 * is true, only work that shares its AVX core is asked: the idle CPU is no better for work that
 * has all of a core.
 */
__noinline int free_an_avx_core(bool who_shares_it)
{
	struct bpf_cpumask *avx = avx_cpus;
	u32 try;

	if (!avx)
		return 0;
	bpf_for(try, 0, MAX_PREEMPT_TRIES) {
		s32 cpu = bpf_cpumask_any_distribute(cast_mask(avx));
		const struct cpu_ctx *cctx = lookup_cpu(cpu);

		if (cctx && cctx->is_misused && !(who_shares_it && has_core_alone(cpu))) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			break;
		}
	}
	return 0;
}

#endif /* AVXSPEC_REACH_BPF_H */
