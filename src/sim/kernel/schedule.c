// SPDX-License-Identifier: GPL-2.0-only
/* What runs on a CPU: which task is next, which goes on, and what happens to it meanwhile. */
#include "internal.h"

struct sim_task *sim_releasing;

struct sim_task *sim_current(u32 cpu)
{
	return sim_cpus[cpu].curr;
}

void sim_account(u32 cpu)
{
	struct sim_task *curr = sim_cpus[cpu].curr;
	u64 ran;

	if (!curr)
		return;
	ran = scx_bpf_now() - curr->began_at;
	curr->began_at = scx_bpf_now();
	curr->t.se.sum_exec_runtime += ran;
	curr->t.scx.slice -= ran < curr->t.scx.slice ? ran : curr->t.scx.slice;
	sim_cpus[cpu].stat.cpustat[CPUTIME_USER] += ran;
	if (sim_is_fair(curr))
		sim_fair_charge(cpu, ran);
}

/*
 * Returns true if @cpu goes on with what runs there. Otherwise the next task is in its local queue,
 * if there is one.
 */
static bool keeps(u32 cpu, struct sim_task *prev)
{
	bool is_queued = prev && prev->t.scx.flags & SCX_TASK_QUEUED;
	/* The kernel tells the scheduler of no task of another class. */
	struct sim_task *told = prev && !prev->is_realtime ? prev : NULL;
	struct sim_call before;

	if (is_queued && prev->is_realtime)
		return true;
	if (!sim_is_attached())
		return sim_fair_keeps(cpu, prev);
	if (is_queued && prev->t.scx.slice)
		return true;
	if (sim_cpus[cpu].local.nr)
		return false;
	if (sim_move_global_to_local())
		return false;
	before = sim_begin_call(SIM_DISPATCH, told);
	avxspec.dispatch(cpu, told ? &told->t : NULL);
	sim_end_call(before);
	return is_queued && prev->t.scx.slice;
}

static void leave_cpu(u32 cpu, struct sim_task *prev, bool to_idle)
{
	struct sim_cpu *it = &sim_cpus[cpu];
	bool is_fair = sim_is_fair(prev);
	struct sim_dsq *queue = prev->is_realtime ? &it->realtime
				: is_fair	  ? &it->fair.queue
						  : &it->local;

	prev->fpstate.regs.xsave.header.xfeatures = sim_registers_in_use(prev);
	if (!(prev->t.scx.flags & SCX_TASK_QUEUED)) {
		prev->state = SIM_SLEEPS;
		return;
	}
	prev->runnable_at = scx_bpf_now();
	if (prev->t.scx.slice || prev->is_realtime || is_fair) {
		prev->state = SIM_WAITS;
		prev->queued_at = scx_bpf_now();
		sim_link_behind(queue, prev, is_fair ? queue->last : NULL);
		return;
	}
	sim_enqueue(prev, cpu, to_idle ? SCX_ENQ_LAST : 0);
}

void sim_tell_running(struct sim_task *task)
{
	struct sim_call before;

	if (!sim_is_attached() || task->is_realtime)
		return;
	before = sim_begin_call(SIM_RUNNING, task);
	avxspec.running(&task->t);
	sim_end_call(before);
}

static void enter_cpu(u32 cpu, struct sim_task *next)
{
	sim_unlink_task(next);
	if (next->state == SIM_WAITS)
		next->waited_ns += scx_bpf_now() - next->runnable_at;
	next->state = SIM_RUNS;
	next->cpu = cpu;
	if (next->ran_on >= 0 && next->ran_on != cpu)
		next->moves++;
	next->ran_on = cpu;
	next->began_at = scx_bpf_now();
	if (!next->t.scx.slice)
		next->t.scx.slice = SLICE_DFL;
	sim_cpus[cpu].curr = next;
	sim_set_idle(cpu, false);
	sim_use_changes(cpu);
	if (!sim_may_use(next, cpu))
		sim_fail("task %d runs on CPU %u, which it may not use", next->t.pid, cpu);
	sim_tell_running(next);
}

/*
 * The program that listens to switches also hears of those to and from the idle task. It hears of
 * each as soon as the scheduler has heard which task is next, and of none if that task ran before.
 */
static void tell_switch(struct sim_task *prev, const struct sim_task *next)
{
	if (prev != next && sim_is_attached())
		sim_tell_switch(prev ? &prev->t : &sim_idle_task);
}

/* Returns true if a realtime task begins to run: as soon as it is there, if no other one runs. */
static bool turns_to_realtime(u32 cpu, struct sim_task *prev)
{
	struct sim_task *next = sim_cpus[cpu].realtime.first;

	if (!next || (prev && prev->is_realtime && prev->t.scx.flags & SCX_TASK_QUEUED))
		return false;
	if (prev && prev->is_realtime)
		leave_cpu(cpu, prev, false);
	else
		sim_preempt(cpu);
	enter_cpu(cpu, next);
	/* If a task was preempted, sim_preempt() has told of the switch already. */
	if (!prev || prev->is_realtime)
		tell_switch(prev, next);
	return true;
}

void sim_schedule(u32 cpu)
{
	struct sim_task *prev = sim_cpus[cpu].curr, *next, *left = prev;

	sim_this_cpu = cpu;
	sim_cpus[cpu].needs_resched = false;
	if (!sim_cpus[cpu].is_online || sim_cpus[cpu].is_taken)
		return;
	sim_account(cpu);
	if (turns_to_realtime(cpu, prev))
		return;
	if (keeps(cpu, prev)) {
		if (!prev->t.scx.slice)
			prev->t.scx.slice = SLICE_DFL;
		return;
	}

	next = sim_cpus[cpu].local.first;
	if (prev) {
		leave_cpu(cpu, prev, !next);
		sim_cpus[cpu].curr = NULL;
		if (!next) {
			tell_switch(prev, NULL);
			left = NULL;
		}
	}
	/* The task that left may be the next one again, if no other CPU took it meanwhile. */
	next = sim_cpus[cpu].local.first;
	if (next) {
		enter_cpu(cpu, next);
		tell_switch(left, next);
		return;
	}
	tell_switch(left, NULL);
	if (!test_cpu(cpu, sim_idle_cpus()) || prev)
		sim_cpus[cpu].idle_since = scx_bpf_now();
	sim_set_idle(cpu, true);
	sim_use_changes(cpu);
}

/*
 * The task that runs on @cpu has to wait for a task of a higher class. The kernel asks the
 * scheduler which task would be next before it sees that the next task is none of the scheduler's.
 * Then it tells the scheduler.
 */
void sim_preempt(u32 cpu)
{
	struct sim_task *curr = sim_cpus[cpu].curr;
	struct sim_call before;

	sim_this_cpu = cpu;
	if (!curr)
		return;
	sim_account(cpu);
	if (sim_is_attached())
		keeps(cpu, curr);
	leave_cpu(cpu, curr, false);
	sim_cpus[cpu].curr = NULL;
	if (sim_is_attached() && !curr->is_realtime) {
		sim_releasing = curr;
		before = sim_begin_call(SIM_CPU_RELEASE, curr);
		avxspec.cpu_release(cpu, NULL);
		sim_end_call(before);
		sim_releasing = NULL;
	}
	tell_switch(curr, NULL);
}

/* What runs on @cpu goes to sleep. */
void sim_block(u32 cpu)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	if (!curr)
		return;
	curr->t.scx.flags &= ~SCX_TASK_QUEUED;
	if (sim_is_fair(curr))
		sim_fair_block(cpu);
	sim_schedule(cpu);
}

/*
 * What runs on @cpu is interrupted at @code. The CPU that ticks is @by, which may be another one
 * (nohz_full).
 */
void sim_tick(u32 cpu, u32 by, const u8 *code)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	sim_this_cpu = by;
	if (!curr) {
		if (!sim_is_attached())
			sim_fair_idle_tick(cpu);
		return;
	}
	sim_account(cpu);
	curr->regs.ip = (u64)code;
	if (sim_is_attached() && !curr->is_realtime) {
		sim_tell_tick();
		avxspec.tick(&curr->t);
	}
	if (sim_is_fair(curr))
		sim_fair_tick(cpu);
	else if (!curr->t.scx.slice)
		sim_resched_cpu(cpu);
}

void sim_end_slice(u32 cpu)
{
	sim_cpus[cpu].curr->t.scx.slice = 0;
	sim_resched_cpu(cpu);
}

static void tell_yield(u32 cpu, struct sim_task *curr)
{
	struct sim_call before = sim_begin_call(SIM_YIELD, curr);

	avxspec.yield(&curr->t, NULL);
	sim_end_call(before);
	if (!curr->t.scx.slice)
		sim_resched_cpu(cpu);
}

/* What runs on @cpu lets others run first. */
void sim_yield(u32 cpu)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	if (!curr)
		return;
	sim_this_cpu = cpu;
	sim_account(cpu);
	if (sim_is_fair(curr))
		sim_fair_yield(cpu);
	else if (sim_is_attached() && !curr->is_realtime)
		tell_yield(cpu, curr);
	else
		sim_end_slice(cpu);
}

/*
 * A BPF program hears of the hint. The task that runs on @cpu cannot move while it is in that
 * program. The kernel can be preempted: if the program asks for that, the task is still in it.
 */
void sim_hint(u32 cpu, u64 hint)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	if (!curr || !sim_is_attached())
		return;
	sim_this_cpu = cpu;
	sim_account(cpu);
	sim_tell_hint(&curr->t, hint);
	curr->pins_cpu = true;
}

void sim_end_hint(u32 cpu)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	if (curr)
		curr->pins_cpu = false;
}
