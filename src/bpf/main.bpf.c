/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_avxspec: the callbacks, in the order in which the kernel calls them in
 * the life of a scheduler and of a task.
 *
 * This file is glue. It looks up what a decision needs, asks one of the
 * headers beside it, and tells the kernel the verdict.
 *
 * Locking. The kernel calls ops.enqueue(), ops.running(), ops.stopping() and
 * ops.quiescent() for a task with the lock of that task's run queue held, so
 * the context of a task needs no lock of its own. The clock of a private queue
 * is nearly always touched by its own CPU. The clock of the shared queue is
 * written by all without a lock: a lost step is made up by the next one.
 */
#include <scx/common.bpf.h>
#include "intf.h"
#include "fairness.bpf.h"
#include "queues.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Online CPUs. A change restarts the scheduler, so this holds while it runs. */
const volatile u32 nr_online_cpus = 1;

/* How many waiting tasks the tick looks at for one that an idle CPU may run. */
#define MAX_RESCUE_SCAN 8

struct queue_ctx {
	u64 clock;
	u64 weight_waiting;
} __attribute__((aligned(64)));

/* One per queue, indexed by the queue's id; the agent sizes it before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct queue_ctx);
} queues SEC(".maps");

struct task_ctx {
	u64 vtime;	   /* measured by the clock of @queue */
	u64 queue;	   /* the queue the task last waited in */
	u64 weight_queued; /* what the task adds to that queue's weight now */
	u64 started_at;	   /* up to when its running time is accounted for */
	bool overdue;	   /* queued at the longest wait */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct avx_cpu_stats);
} cpu_stats SEC(".maps");

#define stat_add(field, n)                                                            \
	do {                                                                          \
		u32 zero = 0;                                                         \
		struct avx_cpu_stats *stats = bpf_map_lookup_elem(&cpu_stats, &zero); \
		if (stats)                                                            \
			stats->field += (n);                                          \
	} while (0)

static struct task_ctx *lookup_task(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

static struct queue_ctx *lookup_queue(u64 id)
{
	u32 key = id;

	return bpf_map_lookup_elem(&queues, &key);
}

static __always_inline struct avx_load load_of(u64 id, const struct queue_ctx *queue)
{
	s32 nr_waiting = scx_bpf_dsq_nr_queued(id);

	return (struct avx_load){
		.nr_waiting = nr_waiting > 0 ? nr_waiting : 0,
		.weight_waiting = queue->weight_waiting,
		.nr_cpus = id == SHARED_QUEUE ? nr_online_cpus : 1,
	};
}

/*
 * The CPU that @p is confined to, or a negative number if it may move. Asked
 * anew for each enqueue: an answer kept from ops.set_cpumask() would be stale,
 * since that can run before the task's mask has changed.
 */
static s32 only_cpu_of(const struct task_struct *p)
{
	if (is_migration_disabled(p))
		return scx_bpf_task_cpu(p);
	if (p->nr_cpus_allowed == 1)
		return bpf_cpumask_first(p->cpus_ptr);
	return -1;
}

/*
 * The weight is added when the task is queued and taken back exactly once,
 * when it runs or when it goes away unserved. The private queues' own CPU and
 * one that changes a task's affinity can meet here, hence the atomics.
 */
static void join_queue(struct task_ctx *tctx, struct queue_ctx *queue, u64 weight)
{
	tctx->weight_queued = weight;
	if (weight)
		__sync_fetch_and_add(&queue->weight_waiting, weight);
}

static void leave_queue(struct task_ctx *tctx)
{
	struct queue_ctx *queue;

	if (!tctx->weight_queued)
		return;

	queue = lookup_queue(tctx->queue);
	if (queue)
		__sync_fetch_and_sub(&queue->weight_waiting, tctx->weight_queued);
	tctx->weight_queued = 0;
}

/* Measure the task by the clock of the queue @id from here on. */
static void move_to_queue(struct task_ctx *tctx, u64 id, const struct queue_ctx *queue)
{
	struct queue_ctx *old;

	if (tctx->queue == id)
		return;

	old = lookup_queue(tctx->queue);
	if (old)
		tctx->vtime = vtime_rebase(tctx->vtime, old->clock, queue->clock);
	tctx->queue = id;
}

/* Charge the task for the time since its last settlement. */
static void settle(const struct task_struct *p, struct task_ctx *tctx)
{
	u64 now = scx_bpf_now();
	u64 ran = vtime_before(tctx->started_at, now) ? now - tctx->started_at : 0;

	tctx->started_at = now;
	tctx->vtime += vtime_cost(ran, p->scx.weight);
	stat_add(run_ns, ran);
}

static void start_slice(struct task_ctx *tctx)
{
	struct queue_ctx *queue = lookup_queue(tctx->queue);

	if (queue) {
		struct avx_load load = load_of(tctx->queue, queue);
		u64 clock = queue->clock;

		tctx->vtime = vtime_bound(tctx->vtime, clock, slice_for(&load));
		clock = clock_advance(clock, tctx->vtime, tctx->overdue);
		if (clock != queue->clock)
			queue->clock = clock;
	}
	tctx->overdue = false;
	tctx->started_at = scx_bpf_now();
}

static void wake_idle_cpu(s32 cpu)
{
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Wake a CPU that may run the task just queued, if one is idle. */
static void wake_idle_cpu_for(const struct task_struct *p, s32 only_cpu)
{
	s32 cpu = only_cpu;

	if (only_cpu < 0)
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	else if (!scx_bpf_test_and_clear_cpu_idle(only_cpu))
		return;

	if (cpu >= 0) {
		wake_idle_cpu(cpu);
		stat_add(kicks, 1);
	}
}

s32 BPF_STRUCT_OPS_SLEEPABLE(avxspec_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu;
	int err;

	err = scx_bpf_create_dsq(SHARED_QUEUE, -1);
	if (err) {
		scx_bpf_error("cannot create the shared queue: error %d", err);
		return err;
	}

	bpf_for(cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(private_queue(cpu), -1);
		if (err) {
			scx_bpf_error("cannot create the queue of CPU %d: error %d", cpu, err);
			return err;
		}
	}

	return 0;
}

s32 BPF_STRUCT_OPS(avxspec_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
}

/* A task enters with neither credit nor debt. */
void BPF_STRUCT_OPS(avxspec_enable, struct task_struct *p)
{
	struct queue_ctx *queue = lookup_queue(SHARED_QUEUE);
	struct task_ctx *tctx = lookup_task(p);

	if (!tctx || !queue)
		return;

	tctx->queue = SHARED_QUEUE;
	tctx->vtime = queue->clock;
	tctx->started_at = scx_bpf_now();
}

/* A waking task that may move goes straight to an idle CPU, past the queues. */
s32 BPF_STRUCT_OPS(avxspec_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, AVX_SLICE_MAX_NS, 0);
		stat_add(direct, 1);
	}

	return cpu;
}

void BPF_STRUCT_OPS(avxspec_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 only_cpu = only_cpu_of(p);
	u64 id = queue_of(only_cpu), weight = p->scx.weight;
	struct queue_ctx *queue = lookup_queue(id);
	struct task_ctx *tctx = lookup_task(p);
	struct avx_load load;
	struct avx_due due;
	u64 slice;

	if (!tctx || !queue) {
		scx_bpf_error("%s[%d] has no queue or no context", p->comm, p->pid);
		return;
	}

	leave_queue(tctx);
	move_to_queue(tctx, id, queue);

	load = load_of(id, queue);
	slice = slice_for(&load);
	tctx->vtime = vtime_bound(tctx->vtime, queue->clock, slice);
	due = due_of(tctx->vtime, queue->clock, scx_bpf_now(), weight, &load);
	tctx->overdue = due.overdue;

	join_queue(tctx, queue, lasting_weight(weight, enq_flags & SCX_ENQ_WAKEUP));
	scx_bpf_dsq_insert_vtime(p, id, slice, due.at, enq_flags);
	wake_idle_cpu_for(p, only_cpu);

	if (only_cpu < 0)
		stat_add(queued_shared, 1);
	else
		stat_add(queued_private, 1);
	if (due.overdue)
		stat_add(overdue, 1);
}

static __always_inline struct avx_contender head_of(u64 id)
{
	struct avx_contender head = { .present = false };
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(id))
		return head;

	p = __COMPAT_scx_bpf_dsq_peek(id);
	if (p) {
		head.present = true;
		head.due = p->scx.dsq_vtime;
	}
	return head;
}

static bool take_shared(void)
{
	if (!scx_bpf_dsq_move_to_local(SHARED_QUEUE, 0))
		return false;
	stat_add(taken_shared, 1);
	return true;
}

static bool take_private(s32 cpu)
{
	if (!scx_bpf_dsq_move_to_local(private_queue(cpu), 0))
		return false;
	stat_add(taken_private, 1);
	return true;
}

/* When the running task would be due if it had to queue again now. */
static __always_inline struct avx_contender running_contender(const struct task_struct *p,
							      struct task_ctx *tctx)
{
	struct avx_contender running = { .present = false };
	struct queue_ctx *queue = lookup_queue(tctx->queue);
	struct avx_load load;
	struct avx_due due;
	u64 vtime;

	if (!queue)
		return running;

	load = load_of(tctx->queue, queue);
	vtime = vtime_bound(tctx->vtime, queue->clock, slice_for(&load));
	due = due_of(vtime, queue->clock, scx_bpf_now(), p->scx.weight, &load);
	tctx->overdue = due.overdue;

	return (struct avx_contender){ .present = true, .due = due.at };
}

static void run_on(struct task_struct *p, struct task_ctx *tctx)
{
	struct queue_ctx *queue = lookup_queue(tctx->queue);

	if (queue) {
		struct avx_load load = load_of(tctx->queue, queue);

		scx_bpf_task_set_slice(p, slice_for(&load));
	}
	start_slice(tctx);
	stat_add(kept, 1);
}

/*
 * The slice of @prev is over, or it went to sleep. Time for which nobody else
 * waited costs @prev nothing: it took nothing from anyone.
 */
void BPF_STRUCT_OPS(avxspec_dispatch, s32 cpu, struct task_struct *prev)
{
	struct avx_contender running = { .present = false };
	struct avx_contender private = head_of(private_queue(cpu));
	struct avx_contender shared = head_of(SHARED_QUEUE);
	struct task_ctx *tctx = NULL;
	u64 vtime = 0;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	    bpf_cpumask_test_cpu(cpu, prev->cpus_ptr))
		tctx = lookup_task(prev);
	if (tctx) {
		vtime = tctx->vtime;
		settle(prev, tctx);
		running = running_contender(prev, tctx);
	}

	switch (choose_next(&running, &shared, &private)) {
	case CHOOSE_PREV:
		if (!shared.present && !private.present)
			tctx->vtime = vtime;
		break;
	case CHOOSE_SHARED:
		if (take_shared() || take_private(cpu))
			return;
		break;
	case CHOOSE_PRIVATE:
		if (take_private(cpu) || take_shared())
			return;
		break;
	}

	if (tctx)
		run_on(prev, tctx);
}

void BPF_STRUCT_OPS(avxspec_running, struct task_struct *p)
{
	struct task_ctx *tctx = lookup_task(p);

	if (!tctx)
		return;

	leave_queue(tctx);
	start_slice(tctx);
}

/*
 * A queued task and a CPU that just went idle can miss each other: the one
 * looked for an idle CPU before the other had become one. Likewise an idle CPU
 * that was woken for one task may find another one to run. So the busy CPUs
 * look again with every tick.
 */
void BPF_STRUCT_OPS(avxspec_tick, struct task_struct *curr)
{
	const struct cpumask *idle;
	struct task_struct *p;
	u32 scanned = 0;
	bool none_idle;

	if (!scx_bpf_dsq_nr_queued(SHARED_QUEUE))
		return;

	idle = scx_bpf_get_idle_cpumask();
	none_idle = bpf_cpumask_empty(idle);
	scx_bpf_put_idle_cpumask(idle);
	if (none_idle)
		return;

	bpf_for_each(scx_dsq, p, SHARED_QUEUE, 0) {
		s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (cpu >= 0) {
			wake_idle_cpu(cpu);
			stat_add(rescues, 1);
			break;
		}
		if (++scanned >= MAX_RESCUE_SCAN)
			break;
	}
}

void BPF_STRUCT_OPS(avxspec_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx = lookup_task(p);

	if (tctx)
		settle(p, tctx);
}

/* The task sleeps, changes its affinity, or leaves: it no longer waits. */
void BPF_STRUCT_OPS(avxspec_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx = lookup_task(p);

	if (tctx)
		leave_queue(tctx);
}

/*
 * A realtime task takes the CPU for as long as it likes. What waits in the
 * kernel's local queue of that CPU would wait with it, so it is queued anew
 * where other CPUs find it. Kernels before 6.19 allow that in this callback
 * only; on later ones, which are about to lose the callback, the agent leaves
 * it out and loads the tracing program below instead.
 */
void BPF_STRUCT_OPS(avxspec_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

/* Realtime and deadline tasks have the priorities below this. */
#define FIRST_FAIR_PRIO 100

SEC("?tp_btf/sched_switch")
int BPF_PROG(avxspec_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (next->prio < FIRST_FAIR_PRIO && prev->prio >= FIRST_FAIR_PRIO)
		scx_bpf_reenqueue_local_from_anywhere();
	return 0;
}

void BPF_STRUCT_OPS(avxspec_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(avxspec,
	       .init		= (void *)avxspec_init,
	       .init_task	= (void *)avxspec_init_task,
	       .enable		= (void *)avxspec_enable,
	       .select_cpu	= (void *)avxspec_select_cpu,
	       .enqueue		= (void *)avxspec_enqueue,
	       .dispatch	= (void *)avxspec_dispatch,
	       .running		= (void *)avxspec_running,
	       .tick		= (void *)avxspec_tick,
	       .stopping	= (void *)avxspec_stopping,
	       .quiescent	= (void *)avxspec_quiescent,
	       .cpu_release	= (void *)avxspec_cpu_release,
	       .exit		= (void *)avxspec_exit,
	       .name		= "avxspec");
/* clang-format on */
