// SPDX-License-Identifier: GPL-2.0-only
/* The life of tasks: how they begin, wake and end, and what is known of them. */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static struct sim_task *newest_task;
static s32 next_pid;

void sim_init_task(struct sim_task *task, bool is_forked)
{
	struct scx_init_task_args args = { .fork = is_forked };

	if (avxspec.init_task(&task->t, &args))
		sim_fail("task %d is refused", task->t.pid);
	task->runnable_at = scx_bpf_now();
}

void sim_tell_enable(struct sim_task *task)
{
	struct sim_call before = sim_begin_call(SIM_ENABLE, task);

	avxspec.enable(&task->t);
	sim_end_call(before);
}

void sim_tell_disable(struct sim_task *task)
{
	struct sim_call before = sim_begin_call(SIM_DISABLE, task);

	avxspec.disable(&task->t);
	sim_end_call(before);
}

/* Nothing is left of what the scheduler asked for, and of what it knew of the task. */
void sim_disable_task(struct sim_task *task)
{
	if (!task->is_realtime)
		sim_tell_disable(task);
	for (u32 n = 0; n < SIM_STORAGES; n++) {
		free(task->storage[n]);
		task->storage[n] = NULL;
	}
	sim_let_go(task);
	task->audited = 0;
}

struct sim_task *sim_task_new(struct sim_task *parent, bool is_thread, u32 weight, u64 cgroup,
			      u32 cpu)
{
	struct sim_task *task = calloc(1, sizeof(*task));

	if (!task)
		abort();
	task->t.sim = task;
	task->direct_dsq = NO_DSQ;
	task->t.pid = ++next_pid;
	snprintf(task->t.comm, sizeof(task->t.comm), "task%d", task->t.pid);
	task->t.group_leader = parent && is_thread ? parent->t.group_leader : &task->t;
	task->t.scx.weight = weight;
	task->t.prio = 120;
	task->t.thread.fpu.fpstate = &task->fpstate;
	task->kn.id = cgroup;
	task->cgroup.kn = &task->kn;
	task->cgroups.dfl_cgrp = &task->cgroup;
	task->t.cgroups = &task->cgroups;
	task->t.cpus_ptr = &task->allowed;
	sim_allow_all(task);
	task->cpu = cpu;
	task->ran_on = -1;
	task->older = newest_task;
	if (newest_task)
		newest_task->newer = task;
	newest_task = task;
	if (sim_is_attached()) {
		sim_init_task(task, parent);
		sim_tell_enable(task);
	}
	return task;
}

struct sim_task *sim_newest_task(void)
{
	return newest_task;
}

void sim_task_exit(struct sim_task *task)
{
	sim_fair_forget(task);
	if (sim_is_attached())
		sim_disable_task(task);
	if (task->newer)
		task->newer->older = task->older;
	else
		newest_task = task->older;
	if (task->older)
		task->older->newer = task->newer;
	free(task);
}

/* Returns the CPU where the scheduler wants the task. */
static u32 select_cpu(struct sim_task *task, u64 wake_flags)
{
	struct sim_call before = sim_begin_call(SIM_SELECT_CPU, task);
	u32 cpu = avxspec.select_cpu(&task->t, task->cpu, wake_flags);

	sim_end_call(before);
	if (cpu < sim_nr_cpus)
		return cpu;
	sim_fail("task %d is to wake on CPU %d, which there is not", task->t.pid, (s32)cpu);
	return task->cpu;
}

void sim_wake(struct sim_task *task, u32 waker_cpu, u64 wake_flags)
{
	/* A new task is not said to wake up, nor is a CPU said to have been selected for it. */
	bool is_new = task->ran_on < 0;
	u64 flags = is_new ? 0 : SCX_ENQ_WAKEUP;
	u32 cpu = task->cpu;

	if (task->state != SIM_SLEEPS || sim_fair_wakes(task))
		return;
	/* What the task waited for comes to a CPU that is online. */
	sim_this_cpu = sim_cpus[waker_cpu].is_online ? waker_cpu : sim_fallback_cpu(task);
	if (task->is_realtime) {
		cpu = sim_fallback_cpu(task);
	} else if (!sim_is_attached()) {
		cpu = sim_fair_select_cpu(task, sim_this_cpu);
	} else if (task->t.nr_cpus_allowed > 1 && !task->pins_cpu) {
		cpu = select_cpu(task, wake_flags);
		flags |= is_new ? 0 : SCX_ENQ_CPU_SELECTED;
	}
	if (!sim_cpus[cpu].is_online || !test_cpu(cpu, task->t.cpus_ptr))
		cpu = sim_fallback_cpu(task);
	task->cpu = cpu;
	task->runnable_at = scx_bpf_now();
	sim_enqueue(task, cpu, flags);
	/* The CPU schedules as for a task of any class, whether or not the task waits there. */
	if (!sim_cpus[cpu].curr)
		sim_resched_cpu(cpu);
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return p->sim->cpu;
}

u32 sim_task_cpu(const struct sim_task *task)
{
	return task->cpu;
}

u64 sim_task_ran(const struct sim_task *task)
{
	return task->t.se.sum_exec_runtime;
}

/* Returns for how long the task has waited up to now. */
u64 sim_task_waited(const struct sim_task *task)
{
	u64 waits_ns = task->state == SIM_WAITS ? scx_bpf_now() - task->runnable_at : 0;

	return task->waited_ns + waits_ns;
}

u64 sim_task_moves(const struct sim_task *task)
{
	return task->moves;
}

u64 sim_task_waits_since(const struct sim_task *task)
{
	return task->state == SIM_WAITS && !task->is_realtime ? task->runnable_at : 0;
}

void sim_task_has_wide(struct sim_task *task, bool has)
{
	task->has_wide_registers = has;
}

void sim_tasks_reset(void)
{
	next_pid = 0;
	newest_task = NULL;
}
