// SPDX-License-Identifier: GPL-2.0-only
/*
 * What sched_ext does for a scheduler, natively: queues, idle CPUs, the life of tasks,
 * and when which callback is called. It is modelled after kernel/sched/ext.c of Linux
 * 6.12, without its locks, because here one thing happens after the other. Where no
 * scheduler is attached, the kernel's own class decides (fair.c). internal.h lists the
 * files. This one has the machine that they share, and the beginning of a run.
 *
 * The kernel's rules are enforced: what it would eject a scheduler for is an error
 * that names the event, and the run is over.
 *
 * Time passes only between calls. If a call makes it necessary that CPUs schedule, that
 * is noted and left to the engine, which knows how long it takes.
 */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

struct sim_cpu sim_cpus[SIM_CPUS_MAX];
u32 sim_nr_cpus;
u32 sim_this_cpu;
static u64 now_ns;
static struct sim_failure failure;

void sim_fail(const char *format, ...)
{
	struct sim_call call = sim_present_call();
	va_list args;

	if (failure.rule[0])
		return;
	va_start(args, format);
	vsnprintf(failure.rule, sizeof(failure.rule), format, args);
	va_end(args);
	failure.at = now_ns;
	failure.callback = call.callback;
	failure.pid = call.task ? call.task->t.pid : 0;
}

const struct sim_failure *sim_failure(void)
{
	sim_check_held();
	return failure.rule[0] ? &failure : NULL;
}

void sim_set_time(u64 now)
{
	now_ns = now;
}

u64 scx_bpf_now(void)
{
	return now_ns;
}

u32 bpf_get_smp_processor_id(void)
{
	return sim_this_cpu;
}

/* Where no other task runs, the idle task does. It has no storage. */
struct task_struct sim_idle_task;

struct task_struct *bpf_get_current_task_btf(void)
{
	struct sim_task *curr = sim_releasing ?: sim_cpus[sim_this_cpu].curr;

	return curr ? &curr->t : &sim_idle_task;
}

struct pt_regs *bpf_task_pt_regs(struct task_struct *p)
{
	return &p->sim->regs;
}

const struct sim_cpu *sim_cpu(u32 cpu)
{
	return &sim_cpus[cpu];
}

struct kernel_cpustat *sim_cpustat(u32 cpu)
{
	return &sim_cpus[cpu].stat;
}

void sim_set_counts(u32 cpu, const u64 *counts)
{
	for (u32 n = 0; n < CYCLES_BY_LICENCE; n++)
		sim_cpus[cpu].counts[n] = counts[n];
}

void sim_reset(u32 number, u32 nr_llcs, u32 cpus_per_core, u32 tier,
	       const struct avx_topology *topology, const struct avx_clocks *clocks,
	       const struct avx_policy_in_force *policy)
{
	memset(sim_cpus, 0, sizeof(sim_cpus));
	sim_nr_cpus = number;
	sim_this_cpu = 0;
	now_ns = 1000 * 1000 * 1000;
	failure = (struct sim_failure){};
	sim_queues_reset();
	sim_idle_reset();
	sim_masks_reset();
	sim_tasks_reset();
	sim_resched_reset();
	sim_calls_reset();
	for (u32 cpu = 0; cpu < sim_nr_cpus; cpu++) {
		sim_cpus[cpu].is_online = topology[cpu].online;
		sim_cpus[cpu].sibling = topology[cpu].sibling;
		sim_cpus[cpu].llc = topology[cpu].llc;
		sim_cpus[cpu].idle_since = now_ns;
	}
	sim_set_up_scheduler(nr_llcs, cpus_per_core, tier, topology, clocks, policy);
}
