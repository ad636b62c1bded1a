/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs within reach of a task: which of a role it may use, which of them idle,
 * nearest first, and who makes room on an AVX core.
 *
 * Siblings of a core that both run get little more than half of what each would get alone.
 * The low clock of an AVX core leaves more than that. So what counts first is that nothing
 * else runs on the core, then the kind of CPU, and then the caches.
 */
#ifndef AVXSPEC_REACH_BPF_H
#define AVXSPEC_REACH_BPF_H

#include "decide/queues.bpf.h"
#include "roles.bpf.h"
#include "state.bpf.h"

/*
 * Those of @mask that @p may use, which may move: most tasks all of them, and others those
 * in the scratch mask of this CPU, for the time until anybody else asks here, which
 * callbacks with interrupts off are.
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

/* The CPUs of a role. */
static const struct cpumask *allowed_in(const struct task_struct *p, u32 role)
{
	return allowed_of(p, role == ROLE_AVX ? avx_cpus : scalar_cpus);
}

/* Whether @p, which may move, may use an AVX core at all. */
__noinline bool may_use_avx_core(struct task_struct *p __arg_trusted)
{
	struct bpf_cpumask *avx = avx_cpus;

	if (!nr_avx_cpus || may_use_any_cpu(p))
		return nr_avx_cpus;
	return avx && bpf_cpumask_intersects(p->cpus_ptr, cast_mask(avx));
}

/* Whether it does AVX work where it is, whatever AVX cores there are. */
static bool stays_apart(struct task_struct *p)
{
	return has_no_choice(p) || (nr_avx_cpus && !may_use_avx_core(p));
}

/*
 * AVX work of @p, which is confined, begins or goes on here. The first of the AVX cores that it
 * may use is kept for it, and others are looked for here.
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

/* The same of other CPUs. */
__noinline bool may_use_scalar_cpu(struct task_struct *p __arg_trusted)
{
	struct bpf_cpumask *scalar = scalar_cpus;

	return may_use_any_cpu(p) ||
	       (scalar && bpf_cpumask_intersects(p->cpus_ptr, cast_mask(scalar)));
}

/* The cache in whose queue an AVX task waits: its own if that has AVX cores. */
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
 * Those that share the cache of @p, if that makes a difference: it does not where all the
 * AVX cores share one, or none of them this one.
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

/* An idle CPU of a role for @p, in its own cache if there is one, or if it @may_go_far anywhere. */
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

/* Whether any of these CPUs idles now. */
static __always_inline bool is_any_idle_in(const struct cpumask *mask)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool is_any = bpf_cpumask_intersects(mask, idle);

	scx_bpf_put_idle_cpumask(idle);
	return is_any;
}

/* Whether nothing runs on the core of any of them. */
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

/* Whether nothing runs on the core of @cpu, or nothing else if cores have no siblings. */
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

/* Whether nothing runs on the core of @cpu but what runs there, or is about to end. */
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

/* Whether there is a core of a role for @p on which nothing runs. */
__noinline bool has_idle_core_in(struct task_struct *p __arg_trusted, u32 role)
{
	const struct cpumask *mask = allowed_in(p, role);

	return mask && is_any_core_idle_in(mask);
}

/* A CPU of such a core, if it @is_near in the cache of @p, where that makes a difference. */
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
 * Whether there is a core on which nothing runs in the cache of @p. Where CPUs are scarce
 * there seldom is, and then nobody need look for it.
 */
static bool has_idle_core_near(struct task_struct *p)
{
	const struct cpu_ctx *first = lookup_cpu(llc_of(p));
	struct bpf_cpumask *llc_cpus = first ? first->llc_cpus : NULL;

	return llc_cpus && is_any_core_idle_in(cast_mask(llc_cpus));
}

/*
 * A CPU for @p of a core on which nothing runs, nearby unless @p may go far; of an AVX core for
 * other work only if there is no other, and they are lent.
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
 * An idle CPU for @p, which comes from @prev if that suits it, and is negative if it does
 * not: one of a core on which nothing runs; or else @prev, one of the right kind, or any. To
 * another cache it goes only if it @may_go_far.
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

/* A CPU that serves the queue @id and idles, or a negative number. */
__noinline s32 pick_idle_of(struct task_struct *p __arg_trusted, u64 id, s32 only_cpu)
{
	if (only_cpu >= 0)
		return scx_bpf_test_and_clear_cpu_idle(only_cpu) ? only_cpu : -ENOENT;
	if (!nr_avx_cpus)
		return pick_idle_allowed(p);
	return pick_idle_for(p, is_avx_queue(id), -1, true);
}

/* Whether any CPU of a role idles now. */
__noinline bool has_idle_of(u32 role)
{
	struct bpf_cpumask *mask = role == ROLE_AVX ? avx_cpus : scalar_cpus;

	return mask && is_any_idle_in(cast_mask(mask));
}

/* How many CPUs are tried for one that can be interrupted. */
#define MAX_PREEMPT_TRIES 3

/*
 * A scalar CPU is about to idle: other work on an AVX core may go there, or, if that is no
 * better for who has all of one, @who_shares_it with somebody.
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
