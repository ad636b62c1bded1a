// SPDX-License-Identifier: GPL-2.0-only
/*
 * The scheduler itself, and what the agent would tell it or ask of it.
 *
 * All variables of the scheduler are in two sections of their own, so that each run begins
 * with the scheduler as it was compiled. What is constant to it is variable here, because the
 * agent sets it before loading.
 */
#include "kernel.h"

static long sim_read_counter(u32 index, struct bpf_perf_event_value *value)
{
	const struct sim_cpu *cpu = sim_cpu(index / CYCLES_BY_LICENCE);

	*value = (struct bpf_perf_event_value){ .counter = cpu->counts[index % CYCLES_BY_LICENCE] };
	return 0;
}

#define const
#pragma clang section bss = "avxspec_bss" data = "avxspec_data"

#include "../../bpf/main.bpf.c"

#undef const

void sim_tell_scheduler(u32 cpus_in_all, u32 llcs, u32 per_core, u32 the_tier,
			const struct avx_topology *places, const struct avx_clocks *known)
{
	nr_online_cpus = 0;
	nr_usable_cpus = 0;
	nr_nodes = 0;
	clocks = *known;
	nr_cpu_ids = cpus_in_all;
	nr_llcs = llcs;
	first_llc = places[0].llc;
	cpus_per_core = per_core;
	tier = the_tier;
	for (u32 cpu = 0; cpu < cpus_in_all; cpu++) {
		struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);

		*place = places[cpu];
		nr_online_cpus += place->online;
		nr_usable_cpus += place->usable;
		nr_nodes += place->node == cpu;
	}
}

void sim_set_policy(const struct avx_policy_in_force *policy)
{
	*bpf_map_lookup_elem(&policies, &policy_slot) = *policy;
}

void sim_tell_tick(void)
{
	if (clocks.counters)
		avxspec_count(NULL);
}

void sim_tell_switch(struct task_struct *prev)
{
	if (tier == AVX_TIER_COUNTERS)
		avxspec_count_switch(false, prev, NULL);
}

u64 sim_suspected_at(u32 cpu)
{
	return lookup_clock(cpu)->suspected_at;
}

struct avx_cpu_stats *sim_stats(u32 cpu)
{
	u32 zero = 0;

	return bpf_map_lookup_percpu_elem(&cpu_stats, &zero, cpu);
}

void sim_tell_hint(struct task_struct *p, u64 hint)
{
	struct avx_hint *given = bpf_task_storage_get(&hints, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	given->hint = hint;
	avxspec_hint_given((struct bpf_map *)&hints, NULL, NULL, 0, 0);
}

void sim_leave_alone(struct sim_task *task)
{
	struct avx_owner owner = owner_of(&task->t);
	u8 yes = true;

	bpf_map_update_elem(&left_alone, &owner, &yes, BPF_ANY);
	left_alone_changes++;
}

u64 sim_task_waived(struct sim_task *task)
{
	const struct task_ctx *tctx = lookup_task(&task->t);

	return tctx ? tctx->book.lost_ns : 0;
}

void sim_follow(void)
{
	events_followed = true;
}

u32 sim_nr_avx_cpus(void)
{
	return nr_avx_cpus;
}

bool sim_is_avx_core(u32 cpu)
{
	return is_avx_cpu(cpu);
}

#include "limits.h"
#include "audit.h"
