// SPDX-License-Identifier: GPL-2.0-only
/* Which CPUs a task may use, and where it goes if it cannot be where it was. */
#include "internal.h"

/*
 * Each callback disables the migration of the task that runs. The kernel's answer allows for one
 * callback, but not for another one within it.
 */
bool is_migration_disabled(const struct task_struct *p)
{
	return p->sim->pins_cpu || (sim_is_within_release && p->sim == sim_releasing);
}

bool sim_may_use(const struct sim_task *task, u32 cpu)
{
	return sim_cpus[cpu].is_online && !sim_cpus[cpu].is_taken &&
	       test_cpu(cpu, task->t.cpus_ptr) && (!task->pins_cpu || task->cpu == cpu);
}

void sim_allow_all(struct sim_task *task)
{
	for (u32 cpu = 0; cpu < sim_nr_cpus; cpu++)
		assign_cpu(cpu, &task->allowed, true);
	task->t.nr_cpus_allowed = sim_nr_cpus;
	task->freed_at = scx_bpf_now();
}

static u32 first_online(const struct cpumask *mask)
{
	u32 cpu = sim_next_and(0, mask, mask);

	while (cpu < sim_nr_cpus && !sim_cpus[cpu].is_online)
		cpu = sim_next_and(cpu + 1, mask, mask);
	return cpu;
}

/*
 * Returns the CPU where the task goes if it cannot be where it was. A task that may use no CPU that
 * is online may use any from now on.
 */
u32 sim_fallback_cpu(struct sim_task *task)
{
	u32 cpu = task->cpu;

	if (sim_cpus[cpu].is_online && test_cpu(cpu, &task->allowed))
		return cpu;
	cpu = first_online(&task->allowed);
	if (cpu < sim_nr_cpus)
		return cpu;
	sim_allow_all(task);
	return first_online(&task->allowed);
}

/* Moves the task to a CPU that is online and that it may use. */
void sim_move_away(struct sim_task *task)
{
	u32 cpu;

	sim_unlink_task(task);
	cpu = sim_fallback_cpu(task);
	task->cpu = cpu;
	sim_enqueue(task, cpu, 0);
	/* The CPU schedules as for a task of any class. */
	if (!sim_cpus[cpu].curr)
		sim_resched_cpu(cpu);
}
