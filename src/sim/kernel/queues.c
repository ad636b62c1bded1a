// SPDX-License-Identifier: GPL-2.0-only
/* Dispatch queues: where tasks wait, as the scheduler says, and how CPUs take them from there. */
#include "internal.h"

#define DSQS_MAX (3 * SIM_CPUS_MAX)

static struct sim_dsq dsqs[DSQS_MAX];
/* The kernel's own queue, of tasks that the scheduler sent to a CPU that is offline. */
static struct sim_dsq global;

static struct sim_dsq *dsq_of(u64 id)
{
	if (id == SCX_DSQ_LOCAL)
		return &sim_cpus[sim_this_cpu].local;
	if (id & SCX_DSQ_FLAG_BUILTIN)
		return &sim_cpus[(u32)id % SIM_CPUS_MAX].local;
	return id < DSQS_MAX && dsqs[id].is_made ? &dsqs[id] : NULL;
}

s32 scx_bpf_create_dsq(u64 id, s32 node)
{
	if (id >= DSQS_MAX || dsqs[id].is_made)
		return -EEXIST;
	dsqs[id] = (struct sim_dsq){ .id = id, .is_made = true };
	return 0;
}

void sim_link_behind(struct sim_dsq *dsq, struct sim_task *task, struct sim_task *before)
{
	struct sim_task *after = before ? before->link.next : dsq->first;

	task->link = (struct sim_link){ .prev = before, .next = after };
	if (before)
		before->link.next = task;
	else
		dsq->first = task;
	if (after)
		after->link.prev = task;
	else
		dsq->last = task;
	task->dsq = dsq;
	dsq->nr++;
}

static void unlink_from(struct sim_dsq *dsq, struct sim_task *task)
{
	if (task->link.prev)
		task->link.prev->link.next = task->link.next;
	else
		dsq->first = task->link.next;
	if (task->link.next)
		task->link.next->link.prev = task->link.prev;
	else
		dsq->last = task->link.prev;
	task->dsq = NULL;
	dsq->nr--;
}

/* The task no longer waits. */
void sim_unlink_task(struct sim_task *task)
{
	if (!task->dsq)
		return;
	sim_fair_unlinks(task);
	unlink_from(task->dsq, task);
}

/* Moves @task to another queue. Unlike with sim_unlink_task(), the kernel's own class keeps it. */
void sim_relink(struct sim_task *task, struct sim_dsq *dsq)
{
	unlink_from(task->dsq, task);
	sim_link_behind(dsq, task, dsq->last);
}

/* Links @task behind all others, or before them. */
static void link_last(struct sim_dsq *dsq, struct sim_task *task, u64 enq_flags)
{
	bool is_first = enq_flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT);

	sim_link_behind(dsq, task, is_first ? NULL : dsq->last);
}

/* Links @task by virtual time. Of two with the same, the one that comes later is behind. */
static void link_by_vtime(struct sim_dsq *dsq, struct sim_task *task)
{
	struct sim_task *before = dsq->last;

	while (before && (s64)(task->t.scx.dsq_vtime - before->t.scx.dsq_vtime) < 0)
		before = before->link.prev;
	sim_link_behind(dsq, task, before);
}

s32 scx_bpf_dsq_nr_queued(u64 id)
{
	struct sim_dsq *dsq = dsq_of(id);

	return dsq ? (s32)dsq->nr : -ENOENT;
}

struct task_struct *__COMPAT_scx_bpf_dsq_peek(u64 id)
{
	struct sim_dsq *dsq = dsq_of(id);

	return dsq && dsq->first ? &dsq->first->t : NULL;
}

struct sim_dsq_iter sim_dsq_iter_new(u64 id)
{
	return (struct sim_dsq_iter){ .next = __COMPAT_scx_bpf_dsq_peek(id) };
}

struct task_struct *sim_dsq_iter_next(struct sim_dsq_iter *it)
{
	struct task_struct *found = it->next;

	if (found)
		it->next = found->sim->link.next ? &found->sim->link.next->t : NULL;
	return found;
}

/* The task waits in the queue of a CPU, which must be one that it may use. */
static void insert_local(struct sim_task *task, u32 cpu, u64 enq_flags)
{
	struct sim_dsq *local = &sim_cpus[cpu].local;
	struct sim_task *curr = sim_cpus[cpu].curr;

	if (!test_cpu(cpu, task->t.cpus_ptr) || (task->pins_cpu && task->cpu != cpu)) {
		sim_fail("task %d is sent to CPU %u, which it may not use", task->t.pid, cpu);
		return;
	}
	/* The CPU has just gone, which the scheduler cannot know. */
	if (!sim_cpus[cpu].is_online) {
		sim_link_behind(&global, task, global.last);
		return;
	}
	task->cpu = cpu;
	link_last(local, task, enq_flags);
	if (!curr && !sim_cpus[cpu].is_taken) {
		sim_set_idle(cpu, false);
		sim_resched_cpu(cpu);
	} else if (enq_flags & SCX_ENQ_PREEMPT && curr && !curr->is_realtime) {
		curr->t.scx.slice = 0;
		sim_resched_cpu(cpu);
	}
}

/* The scheduler says where a task waits. This has to be the task that is being queued now. */
static void insert(struct task_struct *p, u64 dsq, u64 slice, u64 enq_flags, bool by_vtime)
{
	struct sim_task *task = p->sim;

	if (!sim_is_placing(task)) {
		sim_fail("task %d is inserted when it is not to be queued", p->pid);
	} else if (task->dsq || task->direct_dsq != NO_DSQ) {
		sim_fail("task %d is inserted twice", p->pid);
	} else if (by_vtime && dsq & SCX_DSQ_FLAG_BUILTIN) {
		sim_fail("task %d is inserted into the queue of a CPU by its time", p->pid);
	} else {
		p->scx.slice = slice ?: p->scx.slice ?: 1;
		task->direct_dsq = dsq;
		task->direct_flags = enq_flags;
		task->direct_by_vtime = by_vtime;
	}
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 enq_flags)
{
	insert(p, dsq, slice, enq_flags, false);
}

void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 enq_flags)
{
	p->scx.dsq_vtime = vtime;
	insert(p, dsq, slice, enq_flags, true);
}

/* A queue that the scheduler made has one order as long as any task is in it. */
static void insert_in_order(struct sim_dsq *dsq, struct sim_task *task)
{
	bool by_vtime = task->direct_by_vtime;

	if (dsq->first && dsq->is_by_vtime != by_vtime)
		sim_fail("task %d is inserted %s into queue %llu, where others are %s", task->t.pid,
			 by_vtime ? "by its time" : "last", dsq->id,
			 by_vtime ? "not" : "by theirs");
	dsq->is_by_vtime = by_vtime;
	if (by_vtime)
		link_by_vtime(dsq, task);
	else
		link_last(dsq, task, task->direct_flags);
}

/* Inserts @task where the scheduler said. @cpu is that of a local queue without a number. */
static void insert_where_said(struct sim_task *task, u32 cpu)
{
	u64 id = task->direct_dsq;
	struct sim_dsq *dsq;

	task->direct_dsq = NO_DSQ;
	if (id == SCX_DSQ_LOCAL) {
		insert_local(task, cpu, task->direct_flags);
	} else if (id & SCX_DSQ_FLAG_BUILTIN) {
		insert_local(task, (u32)id % SIM_CPUS_MAX, task->direct_flags);
	} else {
		dsq = dsq_of(id);
		if (dsq)
			insert_in_order(dsq, task);
		else
			sim_fail("task %d is inserted into queue %llu, which there is not",
				 task->t.pid, id);
	}
}

static void tell_enqueue(struct sim_task *task, u64 enq_flags)
{
	struct sim_call before = sim_begin_call(SIM_ENQUEUE, task);

	avxspec.enqueue(&task->t, enq_flags);
	sim_end_call(before);
}

/* A realtime task waits only for those that came before it. */
static void enqueue_realtime(struct sim_task *task, u32 cpu)
{
	sim_link_behind(&sim_cpus[cpu].realtime, task, sim_cpus[cpu].realtime.last);
	sim_resched_cpu(cpu);
}

void sim_enqueue(struct sim_task *task, u32 cpu, u64 enq_flags)
{
	task->state = SIM_WAITS;
	task->queued_at = scx_bpf_now();
	task->t.scx.flags |= SCX_TASK_QUEUED;
	if (task->is_realtime) {
		enqueue_realtime(task, cpu);
		return;
	}
	if (!sim_is_attached()) {
		sim_fair_enqueue(task, cpu);
		return;
	}
	if (task->direct_dsq == NO_DSQ)
		tell_enqueue(task, enq_flags);
	if (task->direct_dsq == NO_DSQ)
		sim_fail("task %d is in no queue", task->t.pid);
	else
		insert_where_said(task, cpu);
}

/* A task that waits where it may not be is queued there, and gone before a CPU is told of it. */
void sim_enqueue_in_passing(struct sim_task *task)
{
	if (!sim_is_attached() || task->is_realtime)
		return;
	tell_enqueue(task, 0);
	task->direct_dsq = NO_DSQ;
}

bool sim_dsq_move(struct task_struct *p)
{
	sim_unlink_task(p->sim);
	insert_local(p->sim, sim_this_cpu, 0);
	return true;
}

static bool move_to_local(struct sim_dsq *dsq)
{
	for (struct sim_task *task = dsq->first; task; task = task->link.next) {
		if (sim_may_use(task, sim_this_cpu))
			return sim_dsq_move(&task->t);
	}
	return false;
}

bool sim_move_global_to_local(void)
{
	return move_to_local(&global);
}

bool scx_bpf_dsq_move_to_local(u64 id, u64 enq_flags)
{
	struct sim_dsq *dsq = dsq_of(id);

	if (!sim_is_within(SIM_DISPATCH))
		sim_fail("a task of queue %llu is taken by who was not asked for one", id);
	else if (!dsq)
		sim_fail("queue %llu, which there is not, is looked into", id);
	else
		return move_to_local(dsq);
	return false;
}

bool sim_is_within_release;

void scx_bpf_reenqueue_local(void)
{
	struct sim_dsq *local = &sim_cpus[sim_this_cpu].local;
	struct sim_task *task, *next = local->first;
	u32 nr = local->nr;

	if (!sim_is_within(SIM_CPU_RELEASE)) {
		sim_fail("CPU %u is to queue its tasks anew, and keeps them", sim_this_cpu);
		return;
	}
	/* The CPU goes, and a kernel thread moves all tasks that are there. */
	if (!sim_cpus[sim_this_cpu].is_online)
		return;
	sim_is_within_release = true;
	/* A task that comes back is queued behind these. */
	while (nr-- && (task = next)) {
		next = task->link.next;
		if (task->is_leaving)
			continue;
		sim_unlink_task(task);
		sim_enqueue(task, sim_this_cpu, 0);
	}
	sim_is_within_release = false;
}

/* Forgets the queues that a scheduler made. */
void sim_queues_forget(void)
{
	memset(dsqs, 0, sizeof(dsqs));
}

void sim_queues_reset(void)
{
	memset(&global, 0, sizeof(global));
}
