// SPDX-License-Identifier: GPL-2.0-only
/*
 * What sched_ext does for a scheduler, natively: queues, idle CPUs, the life of tasks,
 * and when which callback is called. After kernel/sched/ext.c of Linux 6.12, without
 * its locks, since here one thing happens after the other.
 *
 * The kernel's rules are enforced: what it would eject a scheduler for is an error
 * that names the event, and the run is over.
 *
 * Time passes between calls only. What a call makes necessary on CPUs, to schedule, is
 * noted and left to the engine, which knows how long that takes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel.h"

#define SLICE_DFL (20 * 1000 * 1000ULL)
#define DSQS_MAX (3 * SIM_CPUS_MAX)
#define XFEATURE_ZMM_HI256 (1ULL << 6)
#define XFEATURES_AVX512 (7U << 5)
#define SYS_GETPPID 110
#define NO_DSQ (~0ULL)

static struct sim_cpu cpus[SIM_CPUS_MAX];
static struct sim_dsq dsqs[DSQS_MAX];
/* The kernel's own, of tasks for which there is no scheduler, or no CPU where it wants them. */
static struct sim_dsq global;
static struct sim_task *newest_task;
static bool is_attached;
static struct cpumask idle_cpus;
static struct cpumask idle_cores; /* both CPUs of which idle */
static u32 nr_cpus;
static u32 this_cpu;
static u32 distribute_from;
static u64 now_ns;
static s32 next_pid;
static char error[256];

/* CPUs that are to schedule, in the order in which that became known. */
static u32 resched[SIM_CPUS_MAX];
static u32 resched_first, nr_resched;

static struct bpf_timer *timers;

extern struct sched_ext_ops avxspec;
int avxspec_hidden_used(struct pt_regs *regs, u32 hidden, int trapnr);
int avxspec_syscall_done(struct pt_regs *regs);

void sim_fail(const char *format, ...)
{
	va_list args;

	if (error[0])
		return;
	va_start(args, format);
	vsnprintf(error, sizeof(error), format, args);
	va_end(args);
}

const char *sim_error(void)
{
	return error[0] ? error : NULL;
}

void sim_set_time(u64 now)
{
	now_ns = now;
}

u64 scx_bpf_now(void)
{
	return now_ns;
}

u32 bpf_get_smp_processor_id(void)
{
	return this_cpu;
}

/* What runs on no CPU is the idle task, which has nothing. */
static struct task_struct idle_task;

struct task_struct *bpf_get_current_task_btf(void)
{
	struct sim_task *curr = cpus[this_cpu].curr;

	return curr ? &curr->t : &idle_task;
}

struct pt_regs *bpf_task_pt_regs(struct task_struct *p)
{
	return &p->sim->regs;
}

struct kernel_cpustat *sim_cpustat(u32 cpu)
{
	return &cpus[cpu].stat;
}

/* Callbacks, noted from when somebody wants to know. */

static struct sim_call *noted_calls;
static u32 nr_noted_calls, room_for_calls;
static bool notes_calls;

static void note_call(enum sim_callback callback, struct sim_task *task)
{
	if (!notes_calls || !task)
		return;
	if (nr_noted_calls == room_for_calls) {
		room_for_calls = room_for_calls ? 2 * room_for_calls : 1024;
		noted_calls = realloc(noted_calls, room_for_calls * sizeof(*noted_calls));
		if (!noted_calls)
			abort();
	}
	noted_calls[nr_noted_calls++] = (struct sim_call){ .task = task, .callback = callback };
}

void sim_note_calls(void)
{
	notes_calls = true;
}

u32 sim_noted_calls(const struct sim_call **calls)
{
	*calls = noted_calls;
	return nr_noted_calls;
}

/* Masks. */

static bool test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SIM_CPUS_MAX && mask->bits[cpu / 64] >> cpu % 64 & 1;
}

static void assign_cpu(u32 cpu, struct cpumask *mask, bool on)
{
	u64 bit = 1ULL << cpu % 64;

	if (on)
		mask->bits[cpu / 64] |= bit;
	else
		mask->bits[cpu / 64] &= ~bit;
}

static u32 nr_words(void)
{
	return (nr_cpus + 63) / 64;
}

/* The first one of both from @from on, or nr_cpus and more. */
static u32 next_and(u32 from, const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = from / 64; word < nr_words(); word++) {
		u64 both = a->bits[word] & b->bits[word];

		if (word == from / 64)
			both &= ~0ULL << from % 64;
		if (both)
			return word * 64 + __builtin_ctzll(both);
	}
	return SIM_CPUS_MAX;
}

static u32 any_and_distribute(const struct cpumask *a, const struct cpumask *b)
{
	u32 cpu = next_and(distribute_from + 1, a, b);

	if (cpu >= nr_cpus)
		cpu = next_and(0, a, b);
	if (cpu < nr_cpus)
		distribute_from = cpu;
	return cpu;
}

/* The scheduler keeps its masks for as long as it runs. */
struct sim_mask {
	struct bpf_cpumask mask;
	struct sim_mask *next;
};
static struct sim_mask *masks;

struct bpf_cpumask *bpf_cpumask_create(void)
{
	struct sim_mask *it = calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	it->next = masks;
	masks = it;
	return &it->mask;
}

void bpf_cpumask_release(struct bpf_cpumask *mask)
{
}

static void forget_masks(void)
{
	while (masks) {
		struct sim_mask *it = masks;

		masks = it->next;
		free(it);
	}
}

void bpf_cpumask_setall(struct bpf_cpumask *mask)
{
	for (u32 cpu = 0; cpu < nr_cpus; cpu++)
		assign_cpu(cpu, &mask->mask, true);
}

void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	assign_cpu(cpu, &mask->mask, true);
}

void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	assign_cpu(cpu, &mask->mask, false);
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return test_cpu(cpu, mask);
}

u32 bpf_cpumask_first(const struct cpumask *mask)
{
	return next_and(0, mask, mask);
}

bool bpf_cpumask_empty(const struct cpumask *mask)
{
	return bpf_cpumask_first(mask) >= nr_cpus;
}

bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	return next_and(0, a, b) < nr_cpus;
}

bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a, const struct cpumask *b)
{
	u64 any = 0;

	for (u32 word = 0; word < nr_words(); word++) {
		to->mask.bits[word] = a->bits[word] & b->bits[word];
		any |= to->mask.bits[word];
	}
	return any;
}

u32 bpf_cpumask_weight(const struct cpumask *mask)
{
	u32 weight = 0;

	for (u32 word = 0; word < nr_words(); word++)
		weight += __builtin_popcountll(mask->bits[word]);
	return weight;
}

u32 bpf_cpumask_any_distribute(const struct cpumask *mask)
{
	return any_and_distribute(mask, mask);
}

/* Idle CPUs. */

const struct cpumask *scx_bpf_get_idle_cpumask(void)
{
	return &idle_cpus;
}

static bool is_core_idle(u32 cpu)
{
	u32 sibling = cpus[cpu].sibling;

	return test_cpu(cpu, &idle_cpus) &&
	       (!cpus[sibling].is_online || test_cpu(sibling, &idle_cpus));
}

static void set_idle(u32 cpu, bool is_idle)
{
	u32 sibling = cpus[cpu].sibling;

	assign_cpu(cpu, &idle_cpus, is_idle);
	if (sibling == cpu)
		return;
	assign_cpu(cpu, &idle_cores, is_core_idle(cpu));
	assign_cpu(sibling, &idle_cores, is_core_idle(sibling));
}

bool scx_bpf_test_and_clear_cpu_idle(s32 cpu)
{
	bool was_idle = test_cpu(cpu, &idle_cpus);

	if (was_idle)
		set_idle(cpu, false);
	return was_idle;
}

/* Those of cores all of which idle. */
const struct cpumask *scx_bpf_get_idle_smtmask(void)
{
	return &idle_cores;
}

static s32 pick_idle_core(const struct cpumask *allowed)
{
	return any_and_distribute(allowed, &idle_cores);
}

s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	u32 cpu = pick_idle_core(allowed);

	if (cpu >= nr_cpus)
		cpu = any_and_distribute(allowed, &idle_cpus);
	if (cpu >= nr_cpus)
		return -EBUSY;
	scx_bpf_test_and_clear_cpu_idle(cpu);
	return cpu;
}

/* The CPU where it was, with a core of its own if there is one; or else any. */
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	bool may_prev = test_cpu(prev_cpu, p->cpus_ptr);
	s32 cpu;

	*is_idle = true;
	if (may_prev && is_core_idle(prev_cpu) && scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	cpu = pick_idle_core(p->cpus_ptr);
	if (cpu < (s32)nr_cpus && scx_bpf_test_and_clear_cpu_idle(cpu))
		return cpu;
	if (may_prev && scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	*is_idle = cpu >= 0;
	return *is_idle ? cpu : prev_cpu;
}

/* Queues. */

static struct sim_dsq *dsq_of(u64 id)
{
	if (id == SCX_DSQ_LOCAL)
		return &cpus[this_cpu].local;
	if (id & SCX_DSQ_FLAG_BUILTIN)
		return &cpus[(u32)id % SIM_CPUS_MAX].local;
	return id < DSQS_MAX && dsqs[id].is_made ? &dsqs[id] : NULL;
}

s32 scx_bpf_create_dsq(u64 id, s32 node)
{
	if (id >= DSQS_MAX || dsqs[id].is_made)
		return -EEXIST;
	dsqs[id] = (struct sim_dsq){ .id = id, .is_made = true };
	return 0;
}

static void link_behind(struct sim_dsq *dsq, struct sim_task *task, struct sim_task *before)
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

static void unlink_task(struct sim_task *task)
{
	struct sim_dsq *dsq = task->dsq;

	if (!dsq)
		return;
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

/* By virtual time; who comes later is behind who is there. */
static void link_by_vtime(struct sim_dsq *dsq, struct sim_task *task)
{
	struct sim_task *before = dsq->last;

	while (before && (s64)(task->t.scx.dsq_vtime - before->t.scx.dsq_vtime) < 0)
		before = before->link.prev;
	link_behind(dsq, task, before);
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

/* Rescheduling. */

static void resched_cpu(u32 cpu)
{
	if (cpus[cpu].needs_resched)
		return;
	cpus[cpu].needs_resched = true;
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

	if (cpu < 0 || (u32)cpu >= nr_cpus) {
		sim_fail("CPU %d, which there is not, is kicked", cpu);
		return;
	}
	curr = cpus[cpu].curr;
	if (flags & SCX_KICK_IDLE && curr)
		return;
	if (flags & SCX_KICK_PREEMPT && curr)
		curr->t.scx.slice = 0;
	resched_cpu(cpu);
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return p->sim->cpu;
}

bool is_migration_disabled(const struct task_struct *p)
{
	return p->sim->pins_cpu;
}

/* The task waits in the queue of a CPU, which must be one that it may use. */
static void insert_local(struct sim_task *task, u32 cpu, u64 enq_flags)
{
	struct sim_dsq *local = &cpus[cpu].local;

	if (!test_cpu(cpu, task->t.cpus_ptr) || (task->pins_cpu && task->cpu != cpu)) {
		sim_fail("task %d is sent to CPU %u, which it may not use", task->t.pid, cpu);
		return;
	}
	/* It has just gone, which the scheduler cannot know. */
	if (!cpus[cpu].is_online) {
		link_behind(&global, task, global.last);
		return;
	}
	if (task->cpu != cpu)
		task->moves++;
	task->cpu = cpu;
	link_behind(local, task, enq_flags & SCX_ENQ_HEAD ? NULL : local->last);
	if (!cpus[cpu].curr && !cpus[cpu].is_taken) {
		set_idle(cpu, false);
		resched_cpu(cpu);
	}
}

/* The scheduler says where the task waits; it is one that is being queued now. */
static void insert(struct task_struct *p, u64 dsq, u64 slice, u64 enq_flags)
{
	if (p->sim->dsq || p->sim->direct_dsq != NO_DSQ) {
		sim_fail("task %d is inserted twice", p->pid);
		return;
	}
	p->scx.slice = slice ? slice : 1;
	p->sim->direct_dsq = dsq;
	p->sim->direct_flags = enq_flags;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 enq_flags)
{
	insert(p, dsq, slice, enq_flags);
}

void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 enq_flags)
{
	p->scx.dsq_vtime = vtime;
	insert(p, dsq, slice, enq_flags);
}

/* Where the scheduler said, with @cpu for a local queue without a number. */
static void insert_where_said(struct sim_task *task, u32 cpu)
{
	u64 id = task->direct_dsq;
	struct sim_dsq *dsq;

	task->direct_dsq = NO_DSQ;
	task->waits_since = now_ns;
	if (id == SCX_DSQ_LOCAL) {
		insert_local(task, cpu, task->direct_flags);
	} else if (id & SCX_DSQ_FLAG_BUILTIN) {
		insert_local(task, (u32)id % SIM_CPUS_MAX, task->direct_flags);
	} else {
		dsq = dsq_of(id);
		if (dsq)
			link_by_vtime(dsq, task);
		else
			sim_fail("task %d is inserted into queue %llu, which there is not",
				 task->t.pid, id);
	}
}

/* Where there is no scheduler whoever comes first is served first, by any CPU that idles. */
static void enqueue_by_itself(struct sim_task *task)
{
	u32 cpu;

	task->waits_since = now_ns;
	link_behind(&global, task, global.last);
	for (cpu = 0; cpu < nr_cpus; cpu++) {
		if (sim_may_use(task, cpu) && !cpus[cpu].curr && !cpus[cpu].needs_resched) {
			resched_cpu(cpu);
			return;
		}
	}
}

static void enqueue(struct sim_task *task, u32 cpu, u64 enq_flags)
{
	task->state = SIM_WAITS;
	task->t.scx.flags |= SCX_TASK_QUEUED;
	if (!is_attached) {
		enqueue_by_itself(task);
		return;
	}
	if (task->direct_dsq == NO_DSQ) {
		note_call(SIM_ENQUEUE, task);
		avxspec.enqueue(&task->t, enq_flags);
	}
	if (task->direct_dsq == NO_DSQ)
		sim_fail("task %d is in no queue", task->t.pid);
	else
		insert_where_said(task, cpu);
}

static bool move_to_local(struct sim_dsq *dsq)
{
	for (struct sim_task *task = dsq->first; task; task = task->link.next) {
		if (!sim_may_use(task, this_cpu))
			continue;
		unlink_task(task);
		insert_local(task, this_cpu, 0);
		return true;
	}
	return false;
}

bool scx_bpf_dsq_move_to_local(u64 id, u64 enq_flags)
{
	struct sim_dsq *dsq = dsq_of(id);

	if (dsq)
		return move_to_local(dsq);
	sim_fail("queue %llu, which there is not, is looked into", id);
	return false;
}

void scx_bpf_reenqueue_local(void)
{
	struct sim_dsq *local = &cpus[this_cpu].local;
	struct sim_task *task, *next = local->first;
	u32 nr = local->nr;

	/* Who comes back comes behind these. */
	while (nr-- && (task = next)) {
		next = task->link.next;
		if (task->is_leaving)
			continue;
		unlink_task(task);
		enqueue(task, this_cpu, 0);
	}
}

/* What runs on a CPU. */

struct sim_task *sim_current(u32 cpu)
{
	return cpus[cpu].curr;
}

static void account(u32 cpu)
{
	struct sim_task *curr = cpus[cpu].curr;
	u64 ran;

	if (!curr)
		return;
	ran = now_ns - curr->began_at;
	curr->began_at = now_ns;
	curr->t.se.sum_exec_runtime += ran;
	curr->t.scx.slice -= ran < curr->t.scx.slice ? ran : curr->t.scx.slice;
	cpus[cpu].stat.cpustat[CPUTIME_USER] += ran;
}

/* Whether @cpu goes on with what runs there; otherwise there is somebody in its queue, or nobody.
 */
static bool keeps(u32 cpu, struct sim_task *prev)
{
	bool is_queued = prev && prev->t.scx.flags & SCX_TASK_QUEUED;

	if (is_queued && prev->t.scx.slice)
		return true;
	if (cpus[cpu].local.nr)
		return false;
	if (move_to_local(&global))
		return false;
	if (!is_attached)
		return is_queued;
	note_call(SIM_DISPATCH, prev);
	avxspec.dispatch(cpu, prev ? &prev->t : NULL);
	return is_queued && prev->t.scx.slice;
}

static void leave_cpu(u32 cpu, struct sim_task *prev, bool to_idle)
{
	prev->fpstate.regs.xsave.header.xfeatures =
		prev->has_wide_registers ? XFEATURE_ZMM_HI256 : 0;
	if (!(prev->t.scx.flags & SCX_TASK_QUEUED)) {
		prev->state = SIM_SLEEPS;
		return;
	}
	if (prev->t.scx.slice) {
		prev->state = SIM_WAITS;
		prev->waits_since = now_ns;
		link_behind(&cpus[cpu].local, prev, NULL);
		return;
	}
	enqueue(prev, cpu, to_idle ? SCX_ENQ_LAST : 0);
}

static void tell_running(struct sim_task *task)
{
	if (!is_attached)
		return;
	note_call(SIM_RUNNING, task);
	avxspec.running(&task->t);
}

static void enter_cpu(u32 cpu, struct sim_task *next)
{
	unlink_task(next);
	next->state = SIM_RUNS;
	next->cpu = cpu;
	next->began_at = now_ns;
	if (!next->t.scx.slice)
		next->t.scx.slice = SLICE_DFL;
	cpus[cpu].curr = next;
	set_idle(cpu, false);
	if (!sim_may_use(next, cpu))
		sim_fail("task %d runs on CPU %u, which it may not use", next->t.pid, cpu);
	tell_running(next);
}

void sim_schedule(u32 cpu)
{
	struct sim_task *prev = cpus[cpu].curr, *next;

	this_cpu = cpu;
	cpus[cpu].needs_resched = false;
	if (!cpus[cpu].is_online || cpus[cpu].is_taken)
		return;
	account(cpu);
	if (keeps(cpu, prev)) {
		if (!prev->t.scx.slice)
			prev->t.scx.slice = SLICE_DFL;
		return;
	}

	next = cpus[cpu].local.first;
	if (prev) {
		leave_cpu(cpu, prev, !next);
		if (is_attached)
			sim_tell_switch(&prev->t);
		cpus[cpu].curr = NULL;
	}
	/* Who left may be the next one again, if nobody else took it meanwhile. */
	next = cpus[cpu].local.first;
	if (next) {
		enter_cpu(cpu, next);
		return;
	}
	if (!test_cpu(cpu, &idle_cpus) || prev)
		cpus[cpu].idle_since = now_ns;
	set_idle(cpu, true);
}

const struct sim_cpu *sim_cpu(u32 cpu)
{
	return &cpus[cpu];
}

u32 sim_task_cpu(const struct sim_task *task)
{
	return task->cpu;
}

u64 sim_task_ran(const struct sim_task *task)
{
	return task->t.se.sum_exec_runtime;
}

u64 sim_task_moves(const struct sim_task *task)
{
	return task->moves;
}

u64 sim_task_waits_since(const struct sim_task *task)
{
	return task->state == SIM_WAITS ? task->waits_since : 0;
}

bool sim_task_is_hidden(const struct sim_task *task)
{
	return task->is_hidden;
}

void sim_task_has_wide(struct sim_task *task, bool has)
{
	task->has_wide_registers = has;
}

/* Tasks. */

bool sim_may_use(const struct sim_task *task, u32 cpu)
{
	return cpus[cpu].is_online && !cpus[cpu].is_taken && test_cpu(cpu, task->t.cpus_ptr) &&
	       (!task->pins_cpu || task->cpu == cpu);
}

static void allow_all(struct sim_task *task)
{
	for (u32 cpu = 0; cpu < nr_cpus; cpu++)
		assign_cpu(cpu, &task->allowed, true);
	task->t.nr_cpus_allowed = nr_cpus;
}

static u32 first_online(const struct cpumask *mask)
{
	u32 cpu = next_and(0, mask, mask);

	while (cpu < nr_cpus && !cpus[cpu].is_online)
		cpu = next_and(cpu + 1, mask, mask);
	return cpu;
}

/* Where it goes if it cannot be where it was: who may use no CPU that there is may use any. */
static u32 fallback_cpu(struct sim_task *task)
{
	u32 cpu = task->cpu;

	if (cpus[cpu].is_online && test_cpu(cpu, &task->allowed))
		return cpu;
	cpu = first_online(&task->allowed);
	if (cpu < nr_cpus)
		return cpu;
	allow_all(task);
	return first_online(&task->allowed);
}

static void init_task(struct sim_task *task, bool is_forked)
{
	struct scx_init_task_args args = { .fork = is_forked };

	if (avxspec.init_task(&task->t, &args))
		sim_fail("task %d is refused", task->t.pid);
}

/* Nothing is left of what the scheduler asked for. */
static void let_go(struct sim_task *task)
{
	task->wants_hidden = false;
	task->is_hidden = false;
	task->is_watched = false;
}

/* ... and of what it knew of the task. */
static void disable_task(struct sim_task *task)
{
	note_call(SIM_DISABLE, task);
	avxspec.disable(&task->t);
	for (u32 n = 0; n < SIM_STORAGES; n++) {
		free(task->storage[n]);
		task->storage[n] = NULL;
	}
	let_go(task);
	task->audited = 0;
}

struct sim_task *sim_task_new(struct sim_task *parent, bool is_thread, u32 weight, u64 cgroup)
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
	allow_all(task);
	if (parent)
		task->cpu = parent->cpu;
	task->older = newest_task;
	if (newest_task)
		newest_task->newer = task;
	newest_task = task;
	if (is_attached) {
		init_task(task, parent);
		avxspec.enable(&task->t);
	}
	return task;
}

struct sim_task *sim_newest_task(void)
{
	return newest_task;
}

void sim_task_exit(struct sim_task *task)
{
	unlink_task(task);
	if (is_attached)
		disable_task(task);
	if (task->newer)
		task->newer->older = task->older;
	else
		newest_task = task->older;
	if (task->older)
		task->older->newer = task->newer;
	free(task);
}

void sim_wake(struct sim_task *task, u32 waker_cpu)
{
	u64 flags = SCX_ENQ_WAKEUP;
	u32 cpu = task->cpu;

	if (task->state != SIM_SLEEPS)
		return;
	/* What it waited for is told where there is somebody. */
	this_cpu = cpus[waker_cpu].is_online ? waker_cpu : fallback_cpu(task);
	if (!is_attached) {
		cpu = fallback_cpu(task);
	} else if (task->t.nr_cpus_allowed > 1 && !task->pins_cpu) {
		note_call(SIM_SELECT_CPU, task);
		cpu = avxspec.select_cpu(&task->t, cpu, 0);
		flags |= SCX_ENQ_CPU_SELECTED;
	}
	if (!cpus[cpu].is_online || !test_cpu(cpu, task->t.cpus_ptr))
		cpu = fallback_cpu(task);
	if (task->cpu != cpu)
		task->moves++;
	task->cpu = cpu;
	enqueue(task, cpu, flags);
	/* As for a task of any class, whether or not it waits there. */
	if (!cpus[cpu].curr)
		resched_cpu(cpu);
}

/* What runs on @cpu goes to sleep. */
void sim_block(u32 cpu)
{
	struct sim_task *curr = cpus[cpu].curr;

	if (!curr)
		return;
	curr->t.scx.flags &= ~SCX_TASK_QUEUED;
	sim_schedule(cpu);
}

void sim_set_counts(u32 cpu, const u64 *counts)
{
	for (u32 n = 0; n < CYCLES_BY_LICENCE; n++)
		cpus[cpu].counts[n] = counts[n];
}

/* What runs on @cpu is interrupted at @code. */
void sim_tick(u32 cpu, const u8 *code)
{
	struct sim_task *curr = cpus[cpu].curr;

	if (!curr)
		return;
	this_cpu = cpu;
	account(cpu);
	curr->regs.ip = (u64)code;
	if (is_attached) {
		sim_tell_tick();
		avxspec.tick(&curr->t);
	}
	if (!curr->t.scx.slice)
		resched_cpu(cpu);
}

/* What the kernel patch offers. */

u32 bpf_task_hide_xfeatures(struct task_struct *p, u32 what)
{
	p->sim->wants_hidden = what;
	if (!what)
		p->sim->is_hidden = false;
	return what;
}

u64 bpf_current_xfeatures_in_use(void)
{
	struct sim_task *curr = cpus[this_cpu].curr;

	return curr && curr->has_wide_registers && !curr->is_hidden ? XFEATURE_ZMM_HI256 : 0;
}

void bpf_task_watch_syscalls(struct task_struct *p, bool on)
{
	p->sim->is_watched = on;
}

static void end_slice(u32 cpu)
{
	cpus[cpu].curr->t.scx.slice = 0;
	resched_cpu(cpu);
}

/* What runs on @cpu lets others run first. */
void sim_yield(u32 cpu)
{
	if (!cpus[cpu].curr)
		return;
	this_cpu = cpu;
	account(cpu);
	end_slice(cpu);
}

/* What runs on @cpu is about to execute @code, which is hidden from it. */
void sim_fault(u32 cpu, const u8 *code)
{
	struct sim_task *curr = cpus[cpu].curr;
	struct pt_regs regs = { .ip = (u64)code };

	if (!curr || !curr->is_hidden)
		return;
	this_cpu = cpu;
	account(cpu);
	curr->is_hidden = false;
	curr->wants_hidden = false;
	if (avxspec_hidden_used(&regs, XFEATURES_AVX512, 6))
		end_slice(cpu);
}

/* What runs on @cpu returns from a system call. */
void sim_syscall(u32 cpu)
{
	struct sim_task *curr = cpus[cpu].curr;
	struct pt_regs regs = { .orig_ax = SYS_GETPPID };

	if (!curr)
		return;
	this_cpu = cpu;
	account(cpu);
	if (curr->is_watched && avxspec_syscall_done(&regs))
		end_slice(cpu);
	/* Here, and nowhere else, hiding takes effect. */
	if (curr->wants_hidden)
		curr->is_hidden = true;
}

void sim_hint(u32 cpu, u64 hint)
{
	struct sim_task *curr = cpus[cpu].curr;

	if (!curr || !is_attached)
		return;
	this_cpu = cpu;
	account(cpu);
	sim_tell_hint(&curr->t, hint);
}

/* Timers. */

void sim_timer_init(struct bpf_timer *timer)
{
	timer->next = timers;
	timers = timer;
}

void sim_timer_start(struct bpf_timer *timer, u64 ns)
{
	timer->at = now_ns + ns;
	timer->is_started = true;
}

bool sim_next_timer(u64 *at)
{
	bool found = false;

	for (struct bpf_timer *timer = timers; timer; timer = timer->next) {
		if (!timer->is_started || (found && timer->at >= *at))
			continue;
		*at = timer->at;
		found = true;
	}
	return found;
}

void sim_run_timers(void)
{
	int key = 0;

	this_cpu = 0; /* which never goes */
	for (struct bpf_timer *timer = timers; timer; timer = timer->next) {
		if (!timer->is_started || timer->at > now_ns)
			continue;
		timer->is_started = false;
		timer->callback(NULL, &key, timer);
	}
}

#include "changes.h"

/* The machine. */

extern char __start_avxspec_bss[], __stop_avxspec_bss[];
extern char __start_avxspec_data[], __stop_avxspec_data[];

/* Every variable of the scheduler as it was compiled. */
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
	forget_masks();
}

static void set_up_scheduler(u32 nr_llcs, u32 cpus_per_core, u32 tier,
			     const struct avx_topology *topology, const struct avx_clocks *clocks,
			     const struct avx_policy_in_force *policy)
{
	reset_scheduler();
	memset(dsqs, 0, sizeof(dsqs));
	timers = NULL;
	sim_tell_scheduler(nr_cpus, nr_llcs, cpus_per_core, tier, topology, clocks);
	sim_set_policy(policy);
	/* Who does not idle will be found out. */
	for (u32 cpu = 0; cpu < nr_cpus; cpu++)
		set_idle(cpu, cpus[cpu].is_online);
}

void sim_reset(u32 number, u32 nr_llcs, u32 cpus_per_core, u32 tier,
	       const struct avx_topology *topology, const struct avx_clocks *clocks,
	       const struct avx_policy_in_force *policy)
{
	memset(cpus, 0, sizeof(cpus));
	memset(&global, 0, sizeof(global));
	memset(&idle_cpus, 0, sizeof(idle_cpus));
	memset(&idle_cores, 0, sizeof(idle_cores));
	nr_cpus = number;
	this_cpu = 0;
	distribute_from = 0;
	now_ns = 1000 * 1000 * 1000;
	next_pid = 0;
	newest_task = NULL;
	error[0] = 0;
	resched_first = 0;
	nr_resched = 0;
	notes_calls = false;
	nr_noted_calls = 0;
	idle_task.sim = NULL;
	for (u32 cpu = 0; cpu < nr_cpus; cpu++) {
		cpus[cpu].is_online = topology[cpu].online;
		cpus[cpu].sibling = topology[cpu].sibling;
		cpus[cpu].idle_since = now_ns;
		cpus[cpu].local.is_local = true;
	}
	set_up_scheduler(nr_llcs, cpus_per_core, tier, topology, clocks, policy);
}

s32 sim_attach(void)
{
	s32 err = avxspec.init();

	is_attached = !err;
	return err;
}

s32 sim_attach_again(u32 nr_llcs, u32 cpus_per_core, u32 tier, const struct avx_topology *topology,
		     const struct avx_clocks *clocks, const struct avx_policy_in_force *policy)
{
	s32 err;

	set_up_scheduler(nr_llcs, cpus_per_core, tier, topology, clocks, policy);
	err = sim_attach();
	if (!err)
		take_over_all_tasks();
	return err;
}
