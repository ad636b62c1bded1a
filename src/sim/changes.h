/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What comes from outside while tasks run: other weights and masks, realtime tasks that take
 * CPUs, CPUs that go and come, and the end of a scheduler and its beginning. A part of
 * kernel.c, after the same source.
 *
 * The scheduler has no callback for CPUs that go and come, and so Linux 6.12 ejects it, and
 * the agent loads it anew.
 */
#ifndef SIM_CHANGES_H
#define SIM_CHANGES_H

/* Whoever runs is told of as if it began, and by the CPU of who changed it. */
static void tell_changed(struct sim_task *task)
{
	u32 cpu = task->cpu;

	do
		cpu = (cpu + 1) % nr_cpus;
	while (!cpus[cpu].is_online);
	this_cpu = cpu;
	tell_running(task);
}

/* Whoever waits is queued anew. */
void sim_task_weigh(struct sim_task *task, u32 weight)
{
	bool waits = task->state == SIM_WAITS;

	if (waits)
		unlink_task(task);
	if (task->state == SIM_RUNS)
		account(task->cpu);
	task->t.scx.weight = weight;
	if (waits)
		enqueue(task, task->cpu, 0);
	if (task->state == SIM_RUNS)
		tell_changed(task);
}

/*
 * What runs is of a realtime class for a moment, as who holds a lock may be. The kernel lets go
 * of what was asked of it for the task, whose storage stays.
 */
void sim_task_boost(struct sim_task *task)
{
	if (task->state != SIM_RUNS || !is_attached)
		return;
	account(task->cpu);
	avxspec.disable(&task->t);
	let_go(task);
	avxspec.enable(&task->t);
	tell_changed(task);
}

/*
 * What runs on @cpu has to wait for a task of a higher class. The kernel asks the scheduler
 * who would be next before it sees that it is none of its tasks, and then tells it.
 */
static void preempt(u32 cpu)
{
	struct sim_task *curr = cpus[cpu].curr;

	this_cpu = cpu;
	if (!curr)
		return;
	account(cpu);
	keeps(cpu, curr);
	leave_cpu(cpu, curr, false);
	cpus[cpu].curr = NULL;
	if (is_attached)
		avxspec.cpu_release(cpu, NULL);
}

void sim_take_cpu(u32 cpu)
{
	if (!cpus[cpu].is_online || cpus[cpu].is_taken)
		return;
	preempt(cpu);
	cpus[cpu].is_taken = true;
	set_idle(cpu, false);
}

void sim_give_cpu(u32 cpu)
{
	if (!cpus[cpu].is_taken)
		return;
	cpus[cpu].is_taken = false;
	sim_schedule(cpu);
}

/* To a CPU that is there for it. */
static void move_away(struct sim_task *task)
{
	u32 cpu;

	unlink_task(task);
	cpu = fallback_cpu(task);
	if (task->cpu != cpu)
		task->moves++;
	task->cpu = cpu;
	enqueue(task, cpu, 0);
}

/* The task may use these CPUs from now on. */
void sim_task_allow(struct sim_task *task, const u64 *words)
{
	enum sim_state state = task->state;
	u32 cpu = task->cpu;
	bool may_stay;

	if (state == SIM_WAITS)
		unlink_task(task);
	if (state == SIM_RUNS)
		account(cpu);
	task->t.nr_cpus_allowed = 0;
	for (u32 word = 0; word < SIM_MASK_WORDS; word++) {
		task->allowed.bits[word] = words[word];
		task->t.nr_cpus_allowed += __builtin_popcountll(words[word]);
	}
	may_stay = test_cpu(cpu, &task->allowed);
	if (state == SIM_WAITS)
		move_away(task);
	if (state != SIM_RUNS)
		return;
	tell_changed(task);
	if (may_stay)
		return;
	/* A kernel thread moves it, for which it has to make room. */
	task->is_leaving = true;
	preempt(cpu);
	task->is_leaving = false;
	move_away(task);
	resched_cpu(cpu);
}

void sim_set_online(u32 cpu, bool is_online)
{
	struct sim_task *task;

	if (cpus[cpu].is_online == is_online)
		return;
	if (!is_online) {
		preempt(cpu);
		cpus[cpu].is_taken = false;
	}
	cpus[cpu].is_online = is_online;
	/* It idles either way, and is not told of before the scheduler begins anew. */
	set_idle(cpu, true);
	cpus[cpu].idle_since = now_ns;
	this_cpu = cpu;
	while ((task = cpus[cpu].local.first))
		move_away(task);
	if (is_online)
		resched_cpu(cpu);
}

bool sim_is_attached(void)
{
	return is_attached;
}

void sim_detach(void)
{
	struct sim_task *task;

	for (task = newest_task; task; task = task->older)
		disable_task(task);
	is_attached = false;
	timers = NULL;
	for (task = newest_task; task; task = task->older) {
		task->t.scx.slice = SLICE_DFL;
		if (task->state == SIM_WAITS)
			move_away(task);
	}
}

/* Those that run go on. */
static void take_over_all_tasks(void)
{
	struct sim_task *task;

	for (task = newest_task; task; task = task->older)
		init_task(task, false);
	for (task = newest_task; task; task = task->older) {
		if (task->state == SIM_WAITS)
			unlink_task(task);
		if (task->state == SIM_RUNS)
			account(task->cpu);
		/* As another scheduler may have left it. */
		task->t.scx.dsq_vtime = 7 * task->t.pid;
		avxspec.enable(&task->t);
		task->t.scx.slice = SLICE_DFL;
		if (task->state == SIM_WAITS)
			move_away(task);
		if (task->state == SIM_RUNS)
			tell_changed(task);
	}
}

#endif /* SIM_CHANGES_H */
