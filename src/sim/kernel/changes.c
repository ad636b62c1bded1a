// SPDX-License-Identifier: GPL-2.0-only
/*
 * What comes from outside while tasks run: other weights and masks, realtime tasks that take
 * CPUs, and CPUs that go and come.
 */
#include "internal.h"

/* The task that changes @task is on another CPU, if there is one. */
static void from_elsewhere(const struct sim_task *task)
{
	u32 cpu = task->cpu;

	do
		cpu = (cpu + 1) % sim_nr_cpus;
	while (!sim_cpus[cpu].is_online);
	sim_this_cpu = cpu;
}

/* A task asks for a change itself, or another task does. */
static void as_who_asks(const struct sim_task *task, bool asks_itself)
{
	if (asks_itself)
		sim_this_cpu = task->cpu;
	else
		from_elsewhere(task);
}

/*
 * The scheduler is told of a running task that was changed as if it began to run, on the CPU of the
 * task that changed it.
 */
static void tell_changed(struct sim_task *task, bool asks_itself)
{
	as_who_asks(task, asks_itself);
	sim_tell_running(task);
}

void sim_tell_changed(struct sim_task *task)
{
	tell_changed(task, false);
}

/* A task that waits is queued anew. */
void sim_task_weigh(struct sim_task *task, u32 weight, bool asks_itself)
{
	bool waits = task->state == SIM_WAITS;

	if (waits)
		sim_unlink_task(task);
	if (task->state == SIM_RUNS)
		sim_account(task->cpu);
	sim_fair_weigh(task, weight);
	task->t.scx.weight = weight;
	if (waits)
		sim_enqueue(task, task->cpu, 0);
	if (task->state == SIM_RUNS)
		tell_changed(task, asks_itself);
}

/*
 * The task is of a realtime class from now on, or no longer. It may have asked for that itself, or
 * it may hold a lock. The kernel lets go of what it was asked for the task, but the task's storage
 * stays.
 */
void sim_task_be_realtime(struct sim_task *task, bool is_realtime, bool asks_itself)
{
	bool waits = task->state == SIM_WAITS;

	if (task->is_realtime == is_realtime || !sim_is_attached())
		return;
	if (waits)
		sim_unlink_task(task);
	if (task->state == SIM_RUNS)
		sim_account(task->cpu);
	task->is_realtime = is_realtime;
	task->t.prio = is_realtime ? 98 : 120;
	as_who_asks(task, asks_itself);
	if (is_realtime) {
		sim_tell_disable(task);
		sim_let_go(task);
	} else {
		task->runnable_at = scx_bpf_now();
		sim_tell_enable(task);
	}
	if (waits)
		sim_enqueue(task, task->cpu, 0);
	if (task->state == SIM_RUNS && !is_realtime)
		tell_changed(task, asks_itself);
}

void sim_take_cpu(u32 cpu)
{
	if (!sim_cpus[cpu].is_online || sim_cpus[cpu].is_taken)
		return;
	sim_preempt(cpu);
	sim_cpus[cpu].is_taken = true;
	sim_set_idle(cpu, false);
}

void sim_give_cpu(u32 cpu)
{
	if (!sim_cpus[cpu].is_taken)
		return;
	sim_cpus[cpu].is_taken = false;
	sim_schedule(cpu);
}

/* The task may use these CPUs from now on. Nothing happens if its mask is the same already. */
void sim_task_allow(struct sim_task *task, const u64 *words, bool asks_itself)
{
	enum sim_state state = task->state;
	u32 cpu = task->cpu;
	bool may_stay;

	if (!memcmp(words, task->allowed.bits, sizeof(task->allowed.bits)))
		return;
	task->freed_at = scx_bpf_now();
	/* The kernel waits for the end of what keeps the task here. */
	task->pins_cpu = false;
	if (state == SIM_WAITS)
		sim_unlink_task(task);
	if (state == SIM_RUNS)
		sim_account(cpu);
	task->t.nr_cpus_allowed = 0;
	for (u32 word = 0; word < SIM_MASK_WORDS; word++) {
		task->allowed.bits[word] = words[word];
		task->t.nr_cpus_allowed += __builtin_popcountll(words[word]);
	}
	may_stay = test_cpu(cpu, &task->allowed);
	if (state == SIM_WAITS && !may_stay)
		sim_enqueue_in_passing(task);
	if (state == SIM_WAITS)
		sim_move_away(task);
	if (state != SIM_RUNS)
		return;
	tell_changed(task, asks_itself);
	if (may_stay)
		return;
	/* A kernel thread moves the task, which has to make room for that thread. */
	task->is_leaving = true;
	sim_preempt(cpu);
	task->is_leaving = false;
	sim_move_away(task);
	sim_resched_cpu(cpu);
}

/* A task that waits there goes elsewhere, and one whose dequeue is delayed is dequeued. */
static void empty_queues(u32 cpu)
{
	struct sim_cpu *it = &sim_cpus[cpu];
	struct sim_task *task;

	while ((task = it->local.first ?: it->realtime.first ?: it->fair.queue.first)) {
		if (task->state == SIM_WAITS)
			sim_move_away(task);
		else
			sim_unlink_task(task);
	}
}

void sim_set_online(u32 cpu, bool is_online)
{
	struct sim_task *task;

	if (sim_cpus[cpu].is_online == is_online)
		return;
	sim_cpus[cpu].is_online = is_online;
	/* A CPU that goes waits for the end of what keeps tasks there. */
	for (task = sim_newest_task(); task; task = task->older) {
		if (!task->pins_cpu || task->cpu != cpu)
			continue;
		task->pins_cpu = false;
		task->freed_at = scx_bpf_now();
	}
	if (!is_online) {
		sim_preempt(cpu);
		sim_cpus[cpu].is_taken = false;
	}
	/* The CPU idles either way. The scheduler is not told of it before it begins anew. */
	sim_set_idle(cpu, true);
	sim_cpus[cpu].idle_since = scx_bpf_now();
	sim_this_cpu = cpu;
	empty_queues(cpu);
	if (is_online)
		sim_resched_cpu(cpu);
}
