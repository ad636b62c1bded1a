/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looks at the demand for AVX cores at regular intervals. What ran and what waits on all CPUs
 * is summed up for sizing.bpf.h, and the set is changed as that says.
 */
#ifndef AVXSPEC_DEMAND_BPF_H
#define AVXSPEC_DEMAND_BPF_H

#include "clocks.bpf.h"
#include "decide/queues.bpf.h"
#include "decide/sizing.bpf.h"
#include "policy.bpf.h"
#include "rescue.bpf.h"
#include "roles.bpf.h"
#include "state.bpf.h"

extern const struct kernel_cpustat kernel_cpustat __ksym;

/*
 * How often the size of the set is looked at, and how often where the set follows its use, as
 * published.
 */
#define LOOK_NS (10 * 1000 * 1000ULL)
#define LOOK_CLOSELY_NS (1 * 1000 * 1000ULL)

/* What the last look saw. It is not static, for the reason that roles.bpf.h gives. */
struct avx_demand seen;
u64 looked_at;
bool is_approaching;

struct look_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct look_timer);
} look_timers SEC(".maps");

/* Sums up what all usable CPUs counted, and the kernel's own account of their time. */
static void sum_demand(struct avx_demand *sum)
{
	u32 zero = 0, cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct kernel_cpustat *times = bpf_per_cpu_ptr(&kernel_cpustat, cpu);
		const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
		const struct avx_cpu_stats *stats;

		stats = bpf_map_lookup_percpu_elem(&cpu_stats, &zero, cpu);
		if (!stats || !times || !place || !place->usable)
			continue;
		sum->total_ns += times->cpustat[CPUTIME_USER] + times->cpustat[CPUTIME_NICE] +
				 times->cpustat[CPUTIME_SYSTEM];
		sum->avx_ns += since(stats->avx_apart_ns, stats->avx_ns);
		sum->wait_ns += stats->avx_wait_ns;
		sum->nr_waits += stats->avx_waits;
	}
}

/* How many tasks of a queue are looked at; the others are taken to be like them. */
#define MAX_WEIGHED 32

/*
 * Adds the tasks that wait in a queue to @sum. Global, so that the verifier goes through it
 * once.
 */
__noinline int weigh_waiting(u64 id, struct avx_waiting *sum __arg_nonnull)
{
	const struct queue_ctx *queue = lookup_queue(id);
	struct task_struct *p;
	u64 weight = 0;
	u32 nr = 0;

	if (!queue || !queue->nr_waiting)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, id, 0) {
		weight += p->scx.weight;
		if (is_enough(&nr, MAX_WEIGHED))
			break;
	}
	bpf_rcu_read_unlock();
	if (!nr)
		return 0;
	sum->nr += queue->nr_waiting;
	sum->weight += weight * queue->nr_waiting / nr;
	return 0;
}

/* Sums up the tasks that wait in the queues of all caches. */
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
 * Counts the nodes where AVX work began of late, and the AVX cores that are kept for tasks
 * which may use few of them.
 */
static void count_what_is_in_use(struct avx_demand *demand, u64 now)
{
	u32 cpu, nodes = 0, confined = 0;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct cpu_ctx *cctx = lookup_cpu(cpu);

		if (!cctx)
			continue;
		nodes += is_in_use(cctx->node_used_at, now);
		confined += cctx->core_avx && is_in_use(cctx->kept_at, now);
	}
	demand->nr_nodes = nodes;
	demand->nr_confined = confined;
}

static u32 look_at_demand(const struct avx_policy *policy)
{
	u64 now = scx_bpf_now();
	struct avx_demand sum = {}, demand = demand_of(now - looked_at, policy);

	looked_at = now;
	sum_demand(&sum);
	/* A count may be less than before if another count on the same CPU interrupted it. */
	demand.total_ns = since(seen.total_ns, sum.total_ns);
	demand.avx_ns = since(seen.avx_ns, sum.avx_ns);
	demand.wait_ns = since(seen.wait_ns, sum.wait_ns);
	demand.nr_waits = since(seen.nr_waits, sum.nr_waits);
	seen = sum;
	weigh_all(&demand);
	count_what_is_in_use(&demand, now);
	return size_avx_set(&sizing, policy, &demand);
}

/* Returns true if AVX work that begins, or wakes up, gets an AVX core where there is none. */
static bool adds_the_first(const struct avx_policy *policy)
{
	return policy->avx_cores_for != SERVED_NOBODY &&
	       (policy->sizing == SIZING_CONTROLLER || follows_use(policy));
}

/* Looks at the demand, and comes back at once until the set is as it should be. */
static int look(void *map, int *key, struct look_timer *timer)
{
	const struct avx_policy *policy;
	u64 again_ns = LOOK_NS;
	bool is_done = true;

	bpf_rcu_read_lock();
	policy = current_policy();
	if (policy && follows_use(policy))
		again_ns = LOOK_CLOSELY_NS;
	if (policy && start_resizing()) {
		bool goes_on = is_approaching && policy->avx_cores_for != SERVED_NOBODY;
		u32 size = goes_on ? sizing.nr_avx : look_at_demand(policy);

		licence_hold_ns = policy->licence_hold_ns;
		avx_slice_ns = policy->avx_slice_ns;
		lend_idle_cores = policy->lend_idle_cores;
		wants_avx_cores = had_avx_work && adds_the_first(policy);
		look_at_clocks(policy);
		if (follows_use(policy))
			follow_use(size, policy);
		if (policy->sizing == SIZING_LIST)
			follow_list(policy);
		else
			is_done = approach(size, policy);
		is_approaching = !is_done;
		end_resizing();
	}
	if (policy)
		look_for_stranded(policy);
	bpf_rcu_read_unlock();
	bpf_timer_start(&timer->timer, is_done ? again_ns : 0, 0);
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
	init_clocks();
	looked_at = scx_bpf_now();
	sum_demand(&seen);
	err = bpf_timer_init(&timer->timer, &look_timers, CLOCK_MONOTONIC);
	if (!err)
		err = bpf_timer_set_callback(&timer->timer, look);
	return err ?: bpf_timer_start(&timer->timer, 0, 0);
}

#endif /* AVXSPEC_DEMAND_BPF_H */
