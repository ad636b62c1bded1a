// SPDX-License-Identifier: GPL-2.0-only
/* CPUs that are to schedule, in the order in which that became known. */
#include "internal.h"

static u32 resched[SIM_CPUS_MAX];
static u32 resched_first, nr_resched;

void sim_resched_cpu(u32 cpu)
{
	if (sim_cpus[cpu].needs_resched)
		return;
	sim_cpus[cpu].needs_resched = true;
	resched[(resched_first + nr_resched++) % SIM_CPUS_MAX] = cpu;
}

bool sim_take_resched(u32 *cpu)
{
	if (!nr_resched)
		return false;
	*cpu = resched[resched_first];
	resched_first = (resched_first + 1) % SIM_CPUS_MAX;
	nr_resched--;
	return true;
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	struct sim_task *curr;

	if (cpu < 0 || (u32)cpu >= sim_nr_cpus) {
		sim_fail("CPU %d, which there is not, is kicked", cpu);
		return;
	}
	curr = sim_cpus[cpu].curr;
	if (flags & SCX_KICK_IDLE && flags & SCX_KICK_PREEMPT)
		sim_fail("CPU %d is kicked as if it both idled and did not", cpu);
	if (flags & SCX_KICK_IDLE && curr)
		return;
	if (flags & SCX_KICK_PREEMPT && curr && !curr->is_realtime)
		curr->t.scx.slice = 0;
	sim_resched_cpu(cpu);
}

void sim_resched_reset(void)
{
	resched_first = 0;
	nr_resched = 0;
}
