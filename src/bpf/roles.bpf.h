/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The set of AVX cores: who is in it, and how it changes. How many they are is
 * decided by sizing.bpf.h, which ones by placement.bpf.h.
 */
#ifndef AVXSPEC_ROLES_BPF_H
#define AVXSPEC_ROLES_BPF_H

#include "clocks.bpf.h"
#include "events.bpf.h"
#include "placement.bpf.h"
#include "policy.bpf.h"
#include "sizing.bpf.h"
#include "state.bpf.h"

extern const struct kernel_cpustat kernel_cpustat __ksym;

/* How often the size of the set is looked at. */
#define LOOK_NS (10 * 1000 * 1000ULL)

private(ROLES) struct bpf_cpumask __kptr *avx_cpus;
private(ROLES) struct bpf_cpumask __kptr *scalar_cpus;

/* Changed by whoever holds @is_resizing. Not static: what the compiler takes apart
 * is no longer what its type says, and the kernel refuses it. */
struct avx_sizing sizing;
struct avx_demand seen;
u64 looked_at;
bool is_approaching;
u32 is_resizing;
u32 nr_avx_cpus;
/* How many caches have some of them, and which was the last to get its first one. */
u32 nr_avx_llcs;
u32 last_avx_llc;

/* The agent sizes this before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct avx_cpu_role);
} cpu_roles SEC(".maps");

struct look_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct look_timer);
} look_timers SEC(".maps");

static bool start_resizing(void)
{
	return !__sync_val_compare_and_swap(&is_resizing, 0, 1);
}

static void end_resizing(void)
{
	__sync_lock_test_and_set(&is_resizing, 0);
}

static void count_role(s32 first_cpu_of_core, s32 first_cpu_of_llc, s32 first_cpu_of_node, s32 n)
{
	struct cpu_ctx *core = lookup_cpu(first_cpu_of_core);
	struct cpu_ctx *llc = lookup_cpu(first_cpu_of_llc);
	struct cpu_ctx *node = lookup_cpu(first_cpu_of_node);
	struct queue_ctx *queue = lookup_queue(avx_queue(first_cpu_of_llc));

	if (!core || !llc || !node || !queue)
		return;
	queue->nr_cpus += n;
	core->core_avx += n;
	if (n > 0 && !llc->llc_avx) {
		nr_avx_llcs++;
		last_avx_llc = first_cpu_of_llc;
	}
	llc->llc_avx += n;
	if (n < 0 && !llc->llc_avx)
		nr_avx_llcs--;
	node->node_avx += n;
}

static void book_role(u32 cpu, enum avx_role role)
{
	struct avx_cpu_role *book = bpf_map_lookup_elem(&cpu_roles, &cpu);
	u64 now = scx_bpf_now();

	if (!book)
		return;
	if (role == ROLE_SCALAR)
		book->avx_ns += since(book->since, now);
	book->role = role;
	book->since = now;
	book->changes++;
}

/* Whoever runs there and does not belong there any more is asked to leave. */
static void set_role(s32 cpu, enum avx_role role, enum avx_role_cause why)
{
	u32 key = cpu;
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &key);
	struct bpf_cpumask *avx = avx_cpus, *scalar = scalar_cpus;
	struct cpu_ctx *cctx = lookup_cpu(cpu);

	if (!cctx || !place || !avx || !scalar || cctx->role == role)
		return;

	cctx->role = role;
	if (role == ROLE_AVX) {
		bpf_cpumask_set_cpu(cpu, avx);
		bpf_cpumask_clear_cpu(cpu, scalar);
		nr_avx_cpus++;
	} else {
		bpf_cpumask_set_cpu(cpu, scalar);
		bpf_cpumask_clear_cpu(cpu, avx);
		nr_avx_cpus--;
	}
	book_role(cpu, role);
	count_role(place->core, place->llc, place->node, role == ROLE_AVX ? 1 : -1);
	stat_add(role_changes, 1);
	tell_role(cpu, role, why);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * How well @cpu is suited to become one of @role, which it is none of. Global, so
 * that the kernel's verifier goes through it once and not with each turn of a loop.
 */
__noinline u64 suitability(u32 cpu, u32 role, u64 placement)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
	const struct cpu_ctx *core, *llc, *node;
	struct avx_candidate it;

	if (!place || !place->usable || is_avx_cpu(cpu) == (role == ROLE_AVX))
		return NOT_ELIGIBLE;
	core = lookup_cpu(place->core);
	llc = lookup_cpu(place->llc);
	node = lookup_cpu(place->node);
	if (!core || !llc || !node)
		return NOT_ELIGIBLE;

	it = (struct avx_candidate){
		.cpu = cpu,
		.core_cpus = place->core_cpus,
		.core_avx = core->core_avx,
		.llc_avx = llc->llc_avx,
		.node_avx = node->node_avx,
		.busy = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0,
	};
	return role == ROLE_AVX ? preference_to_add(&it, placement)
				: preference_to_remove(&it, placement);
}

/* The CPU that is to change its role to @role next, or a negative number. */
static s32 best_to_become(enum avx_role role, u64 placement)
{
	u64 best = NOT_ELIGIBLE;
	s32 found = -1;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		u64 suits = suitability(cpu, role, placement);

		if (suits > best) {
			best = suits;
			found = cpu;
		}
	}
	return found;
}

/*
 * One CPU changes its role, if the set is to be of another size; whether it is now. Inline,
 * for the kernel takes no more than eight calls within each other.
 */
static __always_inline bool approach(u32 size, const struct avx_policy *policy)
{
	enum avx_role role = nr_avx_cpus < size ? ROLE_AVX : ROLE_SCALAR;
	s32 cpu;

	if (nr_avx_cpus == size || (role == ROLE_AVX && follows_use(policy)))
		return true;
	cpu = best_to_become(role, policy->placement);
	if (cpu >= 0)
		set_role(cpu, role, role_cause(policy, role, nr_avx_cpus, cpus_per_core));
	return cpu < 0 || nr_avx_cpus == size;
}

/* There is AVX work on @cpu, and may be so many AVX cores. */
static void take_for_use(u32 cpu, u32 size, const struct avx_policy *policy)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);

	if (place && place->usable && nr_avx_cpus < size)
		set_role(cpu, ROLE_AVX, role_cause(policy, ROLE_AVX, nr_avx_cpus, 1));
}

/* Where nobody does AVX work any more, or waits for it, is no AVX core. */
static void give_back_unused(const struct avx_policy *policy)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct cpu_ctx *cctx = lookup_cpu(cpu);
		const struct queue_ctx *queue = cctx ? lookup_queue(avx_queue(cctx->llc)) : NULL;

		if (queue && !queue->nr_waiting && !cctx->runs_avx)
			set_role(cpu, ROLE_SCALAR, role_cause(policy, ROLE_SCALAR, 0, 1));
	}
}

/*
 * AVX work goes on where there are other CPUs than when it began: with a phase that outlives
 * its AVX core, and with a policy that is new.
 */
static void follow_use(u32 size, const struct avx_policy *policy)
{
	u32 cpu;

	give_back_unused(policy);
	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct cpu_ctx *cctx = lookup_cpu(cpu);

		if (cctx && cctx->runs_avx)
			take_for_use(cpu, size, policy);
	}
}

/* The AVX cores are those that the operator listed, as far as they are usable. */
static void follow_list(const struct avx_policy *policy)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
		bool is_avx = place && place->usable && is_listed(policy, cpu);

		set_role(cpu, is_avx ? ROLE_AVX : ROLE_SCALAR, ROLE_FOR_LIST);
	}
	sizing.nr_avx = nr_avx_cpus;
}

/* What all CPUs counted, the kernel's own account of its time among it. */
static void sum_demand(struct avx_demand *sum)
{
	u32 zero = 0, cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct kernel_cpustat *times = bpf_per_cpu_ptr(&kernel_cpustat, cpu);
		const struct avx_cpu_stats *stats;

		stats = bpf_map_lookup_percpu_elem(&cpu_stats, &zero, cpu);
		if (!stats || !times)
			continue;
		sum->total_ns += times->cpustat[CPUTIME_USER] + times->cpustat[CPUTIME_NICE] +
				 times->cpustat[CPUTIME_SYSTEM];
		sum->avx_ns += stats->avx_ns;
		sum->wait_ns += stats->avx_wait_ns;
		sum->nr_waits += stats->avx_waits;
	}
}

/* How many tasks of a queue are looked at; the others are taken to be like them. */
#define MAX_WEIGHED 32

/* Those that wait in a queue. Global, for the verifier. */
__noinline int weigh_waiting(u64 id, struct avx_waiting *sum __arg_nonnull)
{
	const struct queue_ctx *queue = lookup_queue(id);
	struct task_struct *p;
	u64 weight = 0, nr = 0;

	if (!queue || !queue->nr_waiting)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, id, 0) {
		weight += p->scx.weight;
		if (++nr >= MAX_WEIGHED)
			break;
	}
	bpf_rcu_read_unlock();
	if (!nr)
		return 0;
	sum->nr += queue->nr_waiting;
	sum->weight += weight * queue->nr_waiting / nr;
	return 0;
}

/* Those that wait in the queues of all caches. */
static void weigh_all(struct avx_demand *demand)
{
	struct avx_waiting avx = {}, other = {};
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct cpu_ctx *cctx = lookup_cpu(cpu);

		if (!cctx || cctx->llc != cpu)
			continue;
		weigh_waiting(avx_queue(cpu), &avx);
		weigh_waiting(shared_queue(cpu), &other);
	}
	demand->avx = avx;
	demand->other = other;
}

/*
 * Who is first in a queue for AVX cores that there may be no more is for any CPU once it has been
 * due for long. Where all of them idle nobody would notice. Global, for the verifier.
 */
__noinline int wake_for_stranded(u64 id, u64 stranded_ns)
{
	struct task_struct *p;
	s32 cpu;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, id, 0) {
		if (vtime_before(p->scx.dsq_vtime + stranded_ns, scx_bpf_now())) {
			cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
			if (cpu >= 0)
				scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		}
		break;
	}
	bpf_rcu_read_unlock();
	return 0;
}

static void look_for_stranded(const struct avx_policy *policy)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct queue_ctx *queue = lookup_queue(avx_queue(cpu));

		if (queue && queue->nr_waiting)
			wake_for_stranded(avx_queue(cpu), policy->stranded_ns);
	}
}

static struct avx_demand demand_of(u64 elapsed_ns, const struct avx_policy *policy)
{
	return (struct avx_demand){
		.elapsed_ns = elapsed_ns,
		.nr_cpus = nr_online_cpus,
		.granule = granule_of(policy, cpus_per_core),
	};
}

static u32 look_at_demand(const struct avx_policy *policy)
{
	u64 now = scx_bpf_now();
	struct avx_demand sum = {}, demand = demand_of(now - looked_at, policy);

	looked_at = now;
	sum_demand(&sum);
	demand.total_ns = sum.total_ns - seen.total_ns;
	demand.avx_ns = sum.avx_ns - seen.avx_ns;
	demand.wait_ns = sum.wait_ns - seen.wait_ns;
	demand.nr_waits = sum.nr_waits - seen.nr_waits;
	seen = sum;
	weigh_all(&demand);
	return size_avx_set(&sizing, policy, &demand);
}

/* Looks at the demand, and comes back at once until the set is as it should be. */
static int look(void *map, int *key, struct look_timer *timer)
{
	const struct avx_policy *policy;
	bool is_done = true;

	bpf_rcu_read_lock();
	policy = current_policy();
	if (policy && start_resizing()) {
		u32 size = is_approaching ? sizing.nr_avx : look_at_demand(policy);

		licence_hold_ns = policy->licence_hold_ns;
		avx_slice_ns = policy->avx_slice_ns;
		look_at_clocks(policy);
		if (follows_use(policy))
			follow_use(size, policy);
		if (policy->sizing == SIZING_LIST)
			follow_list(policy);
		else
			is_done = approach(size, policy);
		is_approaching = !is_done;
		end_resizing();
		look_for_stranded(policy);
	}
	bpf_rcu_read_unlock();
	bpf_timer_start(&timer->timer, is_done ? LOOK_NS : 0, 0);
	return 0;
}

/*
 * AVX work begins on @cpu. The first AVX core cannot wait for the next look. Global, so that
 * the kernel's verifier does not go through it for each way that leads here.
 */
__noinline int ensure_an_avx_core(u32 cpu)
{
	const struct avx_policy *policy = current_policy();
	struct avx_demand demand;
	u32 size;

	if (!policy || (nr_avx_cpus && nr_avx_cpus >= sizing.nr_avx) || !start_resizing())
		return 0;
	demand = demand_of(0, policy);
	size = first_need(&sizing, policy, &demand);
	if (follows_use(policy))
		take_for_use(cpu, size, policy);
	else
		approach(size, policy);
	end_resizing();
	return 0;
}

static s32 start_looking(void)
{
	struct look_timer *timer;
	u32 zero = 0;
	s32 err;

	timer = bpf_map_lookup_elem(&look_timers, &zero);
	if (!timer)
		return -ENOENT;
	looked_at = scx_bpf_now();
	sum_demand(&seen);
	err = bpf_timer_init(&timer->timer, &look_timers, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&timer->timer, look);
	return err ?: bpf_timer_start(&timer->timer, 0, 0);
}

/* An empty mask to write to here, and to share a cache of which this may be the first. */
static s32 create_masks_of(u32 cpu)
{
	struct bpf_cpumask *scratch = bpf_cpumask_create(), *llc_cpus = bpf_cpumask_create();
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	s32 err = scratch && llc_cpus ? 0 : -ENOMEM;

	if (cctx && scratch)
		scratch = bpf_kptr_xchg(&cctx->scratch, scratch);
	if (cctx && llc_cpus)
		llc_cpus = bpf_kptr_xchg(&cctx->llc_cpus, llc_cpus);
	if (scratch)
		bpf_cpumask_release(scratch);
	if (llc_cpus)
		bpf_cpumask_release(llc_cpus);
	return err;
}

static void join_cache(u32 cpu)
{
	const struct cpu_ctx *cctx = lookup_cpu(cpu);
	struct cpu_ctx *first = cctx ? lookup_cpu(cctx->llc) : NULL;
	struct bpf_cpumask *llc_cpus;

	if (!first)
		return;
	bpf_rcu_read_lock();
	llc_cpus = first->llc_cpus;
	if (llc_cpus)
		bpf_cpumask_set_cpu(cpu, llc_cpus);
	bpf_rcu_read_unlock();
}

static s32 create_masks(void)
{
	struct bpf_cpumask *avx = bpf_cpumask_create(), *scalar = bpf_cpumask_create();
	s32 err;
	u32 cpu;

	if (!avx || !scalar) {
		if (avx)
			bpf_cpumask_release(avx);
		if (scalar)
			bpf_cpumask_release(scalar);
		return -ENOMEM;
	}
	bpf_cpumask_setall(scalar);
	avx = bpf_kptr_xchg(&avx_cpus, avx);
	if (avx)
		bpf_cpumask_release(avx);
	scalar = bpf_kptr_xchg(&scalar_cpus, scalar);
	if (scalar)
		bpf_cpumask_release(scalar);

	bpf_for(cpu, 0, nr_cpu_ids) {
		err = create_masks_of(cpu);
		if (err)
			return err;
	}
	bpf_for(cpu, 0, nr_cpu_ids)
		join_cache(cpu);
	return 0;
}

static s32 init_roles(void)
{
	s32 err = create_masks();

	init_clocks();
	return err ?: start_looking();
}

/*
 * The CPUs of a role that @p may use, which may move: most tasks all that there are, and
 * others those in the scratch mask of this CPU, for the time until anybody else asks here,
 * which callbacks with interrupts off are.
 */
static const struct cpumask *allowed_in(const struct task_struct *p, u32 role)
{
	struct bpf_cpumask *mask = role == ROLE_AVX ? avx_cpus : scalar_cpus;
	struct bpf_cpumask *scratch;
	struct cpu_ctx *cctx;

	if (!mask)
		return NULL;
	if (p->nr_cpus_allowed >= nr_cpu_ids)
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

/* Whether @p, which may move, may use an AVX core at all. */
__noinline bool may_use_avx_core(struct task_struct *p __arg_trusted)
{
	struct bpf_cpumask *avx = avx_cpus;

	if (!nr_avx_cpus || p->nr_cpus_allowed >= nr_cpu_ids)
		return nr_avx_cpus;
	return avx && bpf_cpumask_intersects(p->cpus_ptr, cast_mask(avx));
}

/* The same of other CPUs. */
__noinline bool may_use_scalar_cpu(struct task_struct *p __arg_trusted)
{
	struct bpf_cpumask *scalar = scalar_cpus;

	return p->nr_cpus_allowed >= nr_cpu_ids ||
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
 * Of these, in that scratch mask, the CPUs that share the cache of @p, if that makes a
 * difference: it does not where all the AVX cores share one, or none of them this one.
 */
static const struct cpumask *allowed_near(struct task_struct *p, u32 role)
{
	struct bpf_cpumask *scratch, *llc_cpus;
	const struct cpu_ctx *first, *cctx;
	const struct cpumask *allowed;

	if (role == ROLE_AVX && nr_avx_llcs == 1)
		return NULL;
	first = lookup_cpu(llc_of(p));
	cctx = lookup_cpu(bpf_get_smp_processor_id());
	if (!cctx || !first || (role == ROLE_AVX && !first->llc_avx))
		return NULL;
	allowed = allowed_in(p, role);
	if (!allowed)
		return NULL;
	scratch = cctx->scratch;
	llc_cpus = first->llc_cpus;
	if (!scratch || !llc_cpus)
		return NULL;
	bpf_cpumask_and(scratch, allowed, cast_mask(llc_cpus));
	return cast_mask(scratch);
}

/* An idle CPU of a role for @p, in its own cache if there is one. */
__noinline s32 pick_idle_in(struct task_struct *p __arg_trusted, u32 role)
{
	const struct cpumask *mask;
	s32 cpu;

	if (nr_llcs > 1) {
		mask = allowed_near(p, role);
		cpu = mask ? scx_bpf_pick_idle_cpu(mask, 0) : -ENOENT;
		if (cpu >= 0)
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

__noinline bool has_idle_in(struct task_struct *p __arg_trusted, u32 role)
{
	const struct cpumask *mask = allowed_in(p, role);

	return mask && is_any_idle_in(mask);
}

/* How many CPUs are tried for one that can be interrupted. */
#define MAX_PREEMPT_TRIES 3

/* An AVX core that runs other work makes room for @p; but not @spared. */
__noinline int preempt_avx_core_for(struct task_struct *p __arg_trusted, s32 spared)
{
	const struct cpumask *mask = allowed_in(p, ROLE_AVX);
	u32 try;

	if (!mask)
		return 0;
	bpf_for(try, 0, MAX_PREEMPT_TRIES) {
		s32 cpu = bpf_cpumask_any_distribute(mask);
		const struct cpu_ctx *cctx = lookup_cpu(cpu);

		if (cctx && !cctx->runs_avx && cpu != spared) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			stat_add(preempted, 1);
			break;
		}
	}
	return 0;
}

/* Whether any CPU of a role idles now. */
__noinline bool has_idle_of(u32 role)
{
	struct bpf_cpumask *mask = role == ROLE_AVX ? avx_cpus : scalar_cpus;

	return mask && is_any_idle_in(cast_mask(mask));
}

/* A scalar CPU is about to idle: what runs on an AVX core may go there. */
__noinline int free_an_avx_core(void)
{
	struct bpf_cpumask *avx = avx_cpus;
	u32 try;

	if (!avx)
		return 0;
	bpf_for(try, 0, MAX_PREEMPT_TRIES) {
		s32 cpu = bpf_cpumask_any_distribute(cast_mask(avx));
		const struct cpu_ctx *cctx = lookup_cpu(cpu);

		if (cctx && cctx->is_misused) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			break;
		}
	}
	return 0;
}

#endif /* AVXSPEC_ROLES_BPF_H */
