// SPDX-License-Identifier: GPL-2.0-only
/* Which CPUs idle, and which of them a task is given. */
#include "internal.h"

static struct cpumask idle_cpus;
static struct cpumask idle_cores; /* both CPUs of which idle */

const struct cpumask *sim_idle_cpus(void)
{
	return &idle_cpus;
}

static bool is_core_idle(u32 cpu)
{
	u32 sibling = sim_cpus[cpu].sibling;

	return test_cpu(cpu, &idle_cpus) &&
	       (!sim_cpus[sibling].is_online || test_cpu(sibling, &idle_cpus));
}

void sim_set_idle(u32 cpu, bool is_idle)
{
	u32 sibling = sim_cpus[cpu].sibling;

	assign_cpu(cpu, &idle_cpus, is_idle);
	assign_cpu(cpu, &idle_cores, is_core_idle(cpu));
	assign_cpu(sibling, &idle_cores, is_core_idle(sibling));
}

bool scx_bpf_test_and_clear_cpu_idle(s32 cpu)
{
	bool was_idle = test_cpu(cpu, &idle_cpus);

	if (was_idle)
		sim_set_idle(cpu, false);
	return was_idle;
}

/* Returns the CPUs of cores whose CPUs all idle. */
const struct cpumask *sim_idle_cores(void)
{
	return &idle_cores;
}

static s32 pick_idle_core(const struct cpumask *allowed)
{
	return sim_any_and_distribute(allowed, &idle_cores);
}

s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	u32 cpu = pick_idle_core(allowed);

	if (cpu >= sim_nr_cpus && !(flags & SCX_PICK_IDLE_CORE))
		cpu = sim_any_and_distribute(allowed, &idle_cpus);
	if (cpu >= sim_nr_cpus)
		return -EBUSY;
	scx_bpf_test_and_clear_cpu_idle(cpu);
	return cpu;
}

/*
 * Returns an idle CPU if there is one. A whole idle core comes first, and then the CPU where the
 * task was. As in Linux 6.12, the CPU of a waker that is about to sleep is said to idle if any CPU
 * does and no task waits there, and the CPU where the task was need not be allowed any more.
 */
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	s32 cpu = sim_this_cpu;

	*is_idle = true;
	if (wake_flags & SCX_WAKE_SYNC && bpf_cpumask_weight(&idle_cpus) &&
	    !sim_cpus[cpu].local.nr && test_cpu(cpu, p->cpus_ptr))
		return cpu;
	if (is_core_idle(prev_cpu) && scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	cpu = pick_idle_core(p->cpus_ptr);
	if (cpu < (s32)sim_nr_cpus && scx_bpf_test_and_clear_cpu_idle(cpu))
		return cpu;
	if (scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	*is_idle = cpu >= 0;
	return *is_idle ? cpu : prev_cpu;
}

void sim_idle_reset(void)
{
	memset(&idle_cpus, 0, sizeof(idle_cpus));
	memset(&idle_cores, 0, sizeof(idle_cores));
}
