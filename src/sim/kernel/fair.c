// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own class, which all tasks are in where there is no scheduler: the run queue of each
 * CPU, after kernel/sched/fair.c of Linux 6.12 with its features as they are by default. eevdf.h
 * has the decisions. The task that runs on a CPU is part of the CPU's run queue, but is not linked
 * there.
 *
 * Queues are walked from end to end where the kernel has a tree. All tasks compete as if they were
 * in one cgroup, ask for slices of the same length, and are of the policy SCHED_NORMAL.
 */
#include "internal.h"

bool sim_is_fair(const struct sim_task *task)
{
	return !sim_is_attached() && !task->is_realtime;
}

static bool is_linked(const struct sim_task *task)
{
	return task->dsq && task->dsq == &sim_cpus[task->cpu].fair.queue;
}

/* Returns the task that runs on @cpu if it is part of the run queue, or NULL. */
static struct sim_task *running_on(u32 cpu)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	return curr && curr->fair.is_on_queue && !is_linked(curr) ? curr : NULL;
}

u32 sim_fair_nr(u32 cpu)
{
	return sim_cpus[cpu].fair.queue.nr + !!running_on(cpu);
}

u32 sim_fair_nr_waiting(u32 cpu)
{
	return sim_cpus[cpu].fair.queue.nr - sim_cpus[cpu].fair.nr_delayed;
}

static u64 slice_ns(void)
{
	u32 nr_online = 0;

	for (u32 cpu = 0; cpu < sim_nr_cpus && nr_online < 8; cpu++)
		nr_online += sim_cpus[cpu].is_online;
	return eevdf_slice_with(nr_online);
}

/* The average of an empty queue stays what it was. */
static struct eevdf_sum sum_of(u32 cpu)
{
	struct sim_fair_queue *fair = &sim_cpus[cpu].fair;
	struct eevdf_sum sum = { .base = fair->average };
	struct sim_task *curr = running_on(cpu);

	if (curr)
		eevdf_add(&sum, &curr->fair);
	for (struct sim_task *task = fair->queue.first; task; task = task->link.next)
		eevdf_add(&sum, &task->fair);
	return sum;
}

static u64 average_of(u32 cpu)
{
	struct eevdf_sum sum = sum_of(cpu);

	return sim_cpus[cpu].fair.average = eevdf_average(&sum);
}

/* Returns the task that is to run next. This may be the one that runs. */
static struct sim_task *pick(u32 cpu)
{
	struct sim_task *curr = running_on(cpu), *best = NULL;
	struct sim_dsq *queue = &sim_cpus[cpu].fair.queue;
	const struct eevdf_sum sum = sum_of(cpu);

	if (sim_fair_nr(cpu) == 1)
		return curr ?: queue->first;
	if (curr && eevdf_is_eligible(&sum, &curr->fair)) {
		if (eevdf_is_protected(&curr->fair))
			return curr;
		best = curr;
	}
	for (struct sim_task *task = queue->first; task; task = task->link.next) {
		if (!eevdf_is_eligible(&sum, &task->fair))
			continue;
		if (!best || eevdf_is_before(&task->fair, &best->fair))
			best = task;
	}
	return best;
}

/* Charges the task that runs on @cpu for @ran_ns. */
void sim_fair_charge(u32 cpu, u64 ran_ns)
{
	struct sim_task *curr = running_on(cpu);
	struct eevdf_sum sum;
	bool is_over;

	if (!curr || !ran_ns)
		return;
	is_over = eevdf_charge(&curr->fair, ran_ns, slice_ns());
	if (is_over)
		average_of(cpu);
	if (sim_fair_nr(cpu) == 1)
		return;
	sum = sum_of(cpu);
	if (is_over || (!eevdf_is_protected(&curr->fair) && !eevdf_is_eligible(&sum, &curr->fair)))
		sim_cpus[cpu].fair.is_due = true;
}

/* Lets @cpu schedule if what runs there has run for long enough. */
static void resched_if_due(u32 cpu)
{
	if (sim_cpus[cpu].fair.is_due)
		sim_resched_cpu(cpu);
}

/* Lets @cpu schedule if @task, which has come there or woken up there, is to run next. */
void sim_fair_preempt(struct sim_task *task, u32 cpu)
{
	struct sim_cpu *it = &sim_cpus[cpu];

	if (it->needs_resched || it->is_taken || (it->curr && it->curr->is_realtime))
		return;
	resched_if_due(cpu);
	if (!it->curr || pick(cpu) == task)
		sim_resched_cpu(cpu);
}

static void be_delayed(struct sim_task *task, bool is_delayed)
{
	sim_cpus[task->cpu].fair.nr_delayed += is_delayed - task->fair.is_delayed;
	task->fair.is_delayed = is_delayed;
}

/* Lets @task wait on @cpu, with the lag that it has. */
static void attach(struct sim_task *task, u32 cpu)
{
	struct sim_fair_queue *fair = &sim_cpus[cpu].fair;
	struct eevdf_sum others;

	sim_account(cpu);
	task->cpu = cpu;
	average_of(cpu);
	others = sum_of(cpu);
	task->fair.weight = eevdf_weight_of(task->t.scx.weight);
	eevdf_place(&task->fair, &others, slice_ns(), task->ran_on < 0);
	task->fair.is_on_queue = true;
	sim_link_behind(&fair->queue, task, fair->queue.last);
	sim_load_begins(task);
}

void sim_fair_enqueue(struct sim_task *task, u32 cpu)
{
	attach(task, cpu);
	sim_fair_preempt(task, cpu);
}

static void leave(struct sim_task *task, bool sleeps)
{
	eevdf_leave(&task->fair, average_of(task->cpu), slice_ns(), sleeps);
	task->fair.is_on_queue = false;
	sim_load_ends(task);
}

/* This is called before a task that waits, or whose dequeue is delayed, leaves its queue. */
void sim_fair_unlinks(struct sim_task *task)
{
	if (!is_linked(task))
		return;
	sim_account(task->cpu);
	leave(task, task->fair.is_delayed);
	/* A task is not owed anything because it slept (DELAY_ZERO). */
	if (task->fair.is_delayed && task->fair.lag > 0)
		task->fair.lag = 0;
	be_delayed(task, false);
}

/* Moves @task from its CPU, where it waits, to @cpu. */
void sim_fair_move(struct sim_task *task, u32 cpu)
{
	sim_unlink_task(task);
	attach(task, cpu);
}

/*
 * The task that runs on @cpu goes to sleep. It leaves the run queue at once if it is owed
 * something, and otherwise when it no longer owes anything.
 */
void sim_fair_block(u32 cpu)
{
	struct sim_fair_queue *fair = &sim_cpus[cpu].fair;
	struct sim_task *task = running_on(cpu);
	struct eevdf_sum sum;

	if (!task)
		return;
	sim_account(cpu);
	sum = sum_of(cpu);
	if (eevdf_is_eligible(&sum, &task->fair)) {
		leave(task, true);
		return;
	}
	sim_load_ends(task);
	sim_link_behind(&fair->queue, task, fair->queue.last);
	be_delayed(task, true);
}

/*
 * Returns the next task that is awake. A task whose dequeue was delayed is dequeued when it is
 * picked.
 */
static struct sim_task *pick_awake(u32 cpu)
{
	struct sim_task *next = pick(cpu);

	while (next && next->fair.is_delayed) {
		sim_unlink_task(next);
		next = pick(cpu);
	}
	return next;
}

/*
 * Returns true if @cpu goes on with @prev. Otherwise the next task is in the local queue of @cpu,
 * if there is one.
 */
bool sim_fair_keeps(u32 cpu, struct sim_task *prev)
{
	struct sim_task *next;

	next = pick_awake(cpu);
	if (!next && sim_pull_task(cpu))
		next = pick_awake(cpu);
	sim_cpus[cpu].fair.is_due = false;
	if (!next || next == prev)
		return next;
	sim_relink(next, &sim_cpus[cpu].local);
	next->fair.protected_up_to = next->fair.deadline;
	return false;
}

/* Returns true if @task, whose dequeue was delayed up to now, wakes up where it is. */
bool sim_fair_wakes(struct sim_task *task)
{
	u32 cpu = task->cpu;

	if (!task->fair.is_delayed)
		return false;
	if (!sim_may_use(task, cpu)) {
		sim_unlink_task(task);
		return false;
	}
	sim_account(cpu);
	task->state = SIM_WAITS;
	task->runnable_at = task->queued_at = scx_bpf_now();
	task->t.scx.flags |= SCX_TASK_QUEUED;
	if (eevdf_lag(&task->fair, average_of(cpu), slice_ns()) > 0) {
		sim_unlink_task(task);
		attach(task, cpu);
	} else {
		be_delayed(task, false);
		sim_load_begins(task);
	}
	sim_fair_preempt(task, cpu);
	return true;
}

void sim_fair_tick(u32 cpu)
{
	resched_if_due(cpu);
	sim_balance_load(cpu);
}

/* @cpu idles, and looks for a task that it can take. */
void sim_fair_idle_tick(u32 cpu)
{
	const struct sim_cpu *it = &sim_cpus[cpu];

	if (it->is_online && !it->is_taken && !it->needs_resched && sim_pull_task(cpu))
		sim_resched_cpu(cpu);
}

/* What runs on @cpu gives up what is left of its slice. */
void sim_fair_yield(u32 cpu)
{
	struct sim_task *curr = running_on(cpu);
	const struct eevdf_sum sum = sum_of(cpu);

	if (curr && sim_fair_nr(cpu) > 1 && eevdf_is_eligible(&sum, &curr->fair)) {
		curr->fair.vruntime = curr->fair.deadline;
		eevdf_charge(&curr->fair, 0, slice_ns());
	}
	sim_resched_cpu(cpu);
}

/* This is called before a task that does not wait gets another weight. */
void sim_fair_weigh(struct sim_task *task, u32 scx_weight)
{
	u64 weight = eevdf_weight_of(scx_weight);

	if (!task->fair.weight)
		return;
	eevdf_reweigh(&task->fair, average_of(task->cpu), slice_ns(), weight);
	if (task->fair.is_on_queue && !task->fair.is_delayed) {
		sim_load_ends(task);
		sim_load_begins(task);
	}
}

/* A task that runs while the scheduler goes is of this class from now on. */
void sim_fair_adopt(struct sim_task *task)
{
	struct eevdf_sum others = sum_of(task->cpu);

	task->fair.weight = eevdf_weight_of(task->t.scx.weight);
	eevdf_place(&task->fair, &others, slice_ns(), false);
	task->fair.is_on_queue = true;
	sim_load_begins(task);
}

/* @task ends, or a scheduler takes it over. */
void sim_fair_forget(struct sim_task *task)
{
	sim_unlink_task(task);
	if (task->fair.is_on_queue)
		leave(task, true);
	sim_load_forget(task);
	memset(&task->fair, 0, sizeof(task->fair));
}

/* Returns true if @task has waited for @ns or longer although a CPU idles that it may use. */
static bool waits_in_vain(const struct sim_task *task, u64 ns)
{
	u64 now = scx_bpf_now();

	if (task->state != SIM_WAITS || now - task->runnable_at < ns || now - task->freed_at < ns)
		return false;
	for (u32 cpu = 0; cpu < sim_nr_cpus; cpu++) {
		const struct sim_cpu *it = &sim_cpus[cpu];

		if (sim_may_use(task, cpu) && !it->curr && !it->needs_resched &&
		    now - it->idle_since >= ns)
			return true;
	}
	return false;
}

/* Fails unless each task is where it has to be between any two events. */
void sim_fair_audit(u64 unnoticed_ns)
{
	u32 nr_delayed[SIM_CPUS_MAX] = {};

	for (struct sim_task *it = sim_newest_task(); it; it = it->older) {
		bool is_there = it->state != SIM_SLEEPS || it->fair.is_delayed;

		if (it->is_realtime)
			continue;
		if (it->fair.is_on_queue != is_there ||
		    is_linked(it) != (is_there && it->state != SIM_RUNS))
			sim_fail("task %d is not in the run queue where it is to be", it->t.pid);
		if (waits_in_vain(it, unnoticed_ns))
			sim_fail("task %d waits beside an idle CPU", it->t.pid);
		nr_delayed[it->cpu] += it->fair.is_delayed;
	}
	for (u32 cpu = 0; cpu < sim_nr_cpus; cpu++)
		if (nr_delayed[cpu] != sim_cpus[cpu].fair.nr_delayed)
			sim_fail("on CPU %u the dequeue of %u tasks is said to be delayed, not of "
				 "%u",
				 cpu, sim_cpus[cpu].fair.nr_delayed, nr_delayed[cpu]);
}
