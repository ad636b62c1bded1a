// SPDX-License-Identifier: GPL-2.0-only
/*
 * The beginning of a scheduler, as it was compiled, and its end.
 *
 * The scheduler has no callback for CPUs that go and come, and so Linux 6.12 ejects it, and
 * the agent loads it anew.
 */
#include <stdlib.h>

#include "internal.h"

extern char __start_avxspec_bss[], __stop_avxspec_bss[];
extern char __start_avxspec_data[], __stop_avxspec_data[];

static bool is_attached;

bool sim_is_attached(void)
{
	return is_attached;
}

/* Resets every variable of the scheduler to what it was when it was compiled. */
static void reset_scheduler(void)
{
	static char *fresh;
	size_t size = __stop_avxspec_data - __start_avxspec_data;

	if (!fresh) {
		fresh = malloc(size);
		if (!fresh)
			abort();
		memcpy(fresh, __start_avxspec_data, size);
	}
	memcpy(__start_avxspec_data, fresh, size);
	memset(__start_avxspec_bss, 0, __stop_avxspec_bss - __start_avxspec_bss);
	sim_maps_reset();
	sim_masks_forget();
}

void sim_set_up_scheduler(u32 nr_llcs, u32 cpus_per_core, u32 tier,
			  const struct avx_topology *topology, const struct avx_clocks *clocks,
			  const struct avx_policy_in_force *policy)
{
	is_attached = false;
	reset_scheduler();
	sim_queues_forget();
	sim_timers_forget();
	sim_tell_scheduler(sim_nr_cpus, nr_llcs, cpus_per_core, tier, topology, clocks);
	sim_set_policy(policy);
	/* CPUs that do not idle are found out later. */
	for (u32 cpu = 0; cpu < sim_nr_cpus; cpu++)
		sim_set_idle(cpu, sim_cpus[cpu].is_online);
}

s32 sim_attach(void)
{
	s32 err = avxspec.init();

	is_attached = !err;
	return err;
}

void sim_detach(void)
{
	struct sim_task *task;

	for (task = sim_newest_task(); task; task = task->older)
		sim_disable_task(task);
	is_attached = false;
	sim_timers_forget();
	sim_calls_forget();
	for (task = sim_newest_task(); task; task = task->older) {
		task->t.scx.slice = SLICE_DFL;
		if (task->state == SIM_WAITS)
			sim_move_away(task);
		if (task->state == SIM_RUNS && !task->is_realtime)
			sim_fair_adopt(task);
	}
}

/* Tasks that run go on. */
static void take_over_all_tasks(void)
{
	struct sim_task *task;

	for (task = sim_newest_task(); task; task = task->older)
		sim_init_task(task, false);
	for (task = sim_newest_task(); task; task = task->older) {
		sim_fair_forget(task);
		if (task->state == SIM_RUNS)
			sim_account(task->cpu);
		/* Another scheduler may have left such a value. */
		task->t.scx.dsq_vtime = 7 * task->t.pid;
		if (!task->is_realtime)
			sim_tell_enable(task);
		task->t.scx.slice = SLICE_DFL;
		if (task->state == SIM_WAITS)
			sim_move_away(task);
		if (task->state == SIM_RUNS)
			sim_tell_changed(task);
	}
}

s32 sim_attach_again(u32 nr_llcs, u32 cpus_per_core, u32 tier, const struct avx_topology *topology,
		     const struct avx_clocks *clocks, const struct avx_policy_in_force *policy)
{
	s32 err;

	sim_set_up_scheduler(nr_llcs, cpus_per_core, tier, topology, clocks, policy);
	err = sim_attach();
	if (!err)
		take_over_all_tasks();
	return err;
}
