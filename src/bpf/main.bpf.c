/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_avxspec: the callbacks, in the order in which the kernel calls them in
 * the life of a scheduler and of a task.
 *
 * This file is glue. It looks up what a decision needs, asks one of the
 * headers beside it, and tells the kernel the verdict.
 */
#include <scx/common.bpf.h>
#include "fairness.bpf.h"
#include "policy.bpf.h"
#include "queues.bpf.h"
#include "roles.bpf.h"
#include "state.bpf.h"
#include "visibility.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* How many waiting tasks the tick looks at for one that an idle CPU may run. */
#define MAX_RESCUE_SCAN 8

static __always_inline struct avx_load load_of(u64 id, const struct queue_ctx *queue)
{
	s32 nr_waiting = scx_bpf_dsq_nr_queued(id);

	return (struct avx_load){
		.nr_waiting = nr_waiting > 0 ? nr_waiting : 0,
		.weight_waiting = queue->weight_waiting,
		.nr_cpus = id == SHARED_QUEUE ? nr_online_cpus
			   : id == AVX_QUEUE  ? at_least_one(nr_avx_cpus)
					      : 1,
	};
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
	u64 now = scx_bpf_now(), ran = unaccounted(tctx, now);

	tctx->started_at = now;
	tctx->ran += ran;
	tctx->vtime += vtime_cost(ran, p->scx.weight);
	stat_add(run_ns, ran);
	if (tctx->habit.class == CLASS_AVX)
		stat_add(avx_ns, ran);
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

/* An idle CPU for a task that is none of the AVX tasks: an AVX core only if need be. */
static s32 pick_idle_for_scalar(const struct task_struct *p)
{
	s32 cpu;

	if (!nr_avx_cpus)
		return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	cpu = pick_idle_in(p, ROLE_SCALAR);
	return cpu >= 0 ? cpu : pick_idle_in(p, ROLE_AVX);
}

/* Wake a CPU that takes from the queue @id what was just put there, if one is idle. */
static void wake_cpu_for(const struct task_struct *p, u64 id, s32 only_cpu)
{
	s32 cpu = only_cpu;

	if (id == AVX_QUEUE)
		cpu = pick_idle_in(p, ROLE_AVX);
	else if (only_cpu < 0)
		cpu = pick_idle_for_scalar(p);
	else if (!scx_bpf_test_and_clear_cpu_idle(only_cpu))
		return;

	if (cpu >= 0) {
		wake_idle_cpu(cpu);
		stat_add(kicks, 1);
	} else if (id == AVX_QUEUE) {
		preempt_avx_core_for(p);
	}
}

/* Where @p waits, and on an AVX core if it needs one and may use one. */
static u64 queue_for(const struct task_struct *p, const struct task_ctx *tctx, s32 only_cpu)
{
	if (only_cpu < 0 && tctx->habit.class == CLASS_AVX && may_use_avx_core(p))
		return AVX_QUEUE;
	return queue_of(only_cpu);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(avxspec_init)
{
	u32 nr_cpus = scx_bpf_nr_cpu_ids(), cpu;
	int err;

	err = scx_bpf_create_dsq(SHARED_QUEUE, -1);
	if (!err)
		err = scx_bpf_create_dsq(AVX_QUEUE, -1);
	if (err) {
		scx_bpf_error("cannot create the shared queues: error %d", err);
		return err;
	}

	bpf_for(cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(private_queue(cpu), -1);
		if (err) {
			scx_bpf_error("cannot create the queue of CPU %d: error %d", cpu, err);
			return err;
		}
	}

	return traps() ? init_roles() : 0;
}

s32 BPF_STRUCT_OPS(avxspec_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (!bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -ENOMEM;
	return traps() ? init_process(p, args->fork) : 0;
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

/*
 * An idle CPU for a waking task while there are AVX cores: of its own kind, the
 * one where it was before if that idles, and no AVX core for other work as long
 * as there is another.
 */
static s32 select_by_role(struct task_struct *p, s32 prev_cpu, bool *is_idle)
{
	const struct task_ctx *tctx = lookup_task(p);
	bool is_avx = tctx && tctx->habit.class == CLASS_AVX && may_use_avx_core(p);
	s32 cpu;

	if (is_avx_cpu(prev_cpu) == is_avx && bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		cpu = prev_cpu;
	else
		cpu = is_avx ? pick_idle_in(p, ROLE_AVX) : pick_idle_for_scalar(p);

	*is_idle = cpu >= 0;
	return *is_idle ? cpu : prev_cpu;
}

/* A waking task that may move goes straight to an idle CPU, past the queues. */
s32 BPF_STRUCT_OPS(avxspec_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = nr_avx_cpus ? select_by_role(p, prev_cpu, &is_idle)
			      : scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, AVX_SLICE_MAX_NS, 0);
		stat_add(direct, 1);
	}

	return cpu;
}

void BPF_STRUCT_OPS(avxspec_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 only_cpu = only_cpu_of(p);
	struct task_ctx *tctx = lookup_task(p);
	u64 id = tctx ? queue_for(p, tctx, only_cpu) : SHARED_QUEUE;
	struct queue_ctx *queue = lookup_queue(id);
	u64 weight = p->scx.weight, slice;
	struct avx_load load;
	struct avx_due due;

	if (!tctx || !queue) {
		scx_bpf_error("%s[%d] has no queue or no context", p->comm, p->pid);
		return;
	}

	leave_queue(tctx);
	move_to_queue(tctx, id, queue);

	load = load_of(id, queue);
	slice = slice_for(&load);
	tctx->vtime = vtime_bound(tctx->vtime, queue->clock, slice);
	tctx->queued_at = scx_bpf_now();
	due = due_of(tctx->vtime, queue->clock, tctx->queued_at, weight, &load);
	tctx->overdue = due.overdue;

	join_queue(tctx, queue, lasting_weight(weight, enq_flags & SCX_ENQ_WAKEUP));
	scx_bpf_dsq_insert_vtime(p, id, slice, due.at, enq_flags);
	wake_cpu_for(p, id, only_cpu);

	if (id == AVX_QUEUE)
		stat_add(queued_avx, 1);
	else if (only_cpu < 0)
		stat_add(queued_shared, 1);
	else
		stat_add(queued_private, 1);
	if (due.overdue)
		stat_add(overdue, 1);
}

/*
 * The time until the first task of a queue is due. Global, as are some below, so that
 * the kernel's verifier does not go through all that follows for each way out of it.
 */
__noinline s64 head_due_in(u64 id, u64 now)
{
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(id))
		return NOBODY_DUE;
	p = __COMPAT_scx_bpf_dsq_peek(id);
	return p ? (s64)(p->scx.dsq_vtime - now) : NOBODY_DUE;
}

static bool take_shared(void)
{
	if (!scx_bpf_dsq_move_to_local(SHARED_QUEUE, 0))
		return false;
	stat_add(taken_shared, 1);
	return true;
}

static bool take_avx(void)
{
	if (!scx_bpf_dsq_move_to_local(AVX_QUEUE, 0))
		return false;
	stat_add(taken_avx, 1);
	return true;
}

static bool take_private(s32 cpu)
{
	if (!scx_bpf_dsq_move_to_local(private_queue(cpu), 0))
		return false;
	stat_add(taken_private, 1);
	return true;
}

/* Something from the queue of the first choice, or else from any that this CPU serves. */
__noinline int take(u32 choice, s32 cpu, bool with_avx)
{
	if ((choice == CHOOSE_SHARED && take_shared()) || (choice == CHOOSE_AVX && take_avx()))
		return true;
	return take_private(cpu) || (with_avx && take_avx()) || take_shared();
}

/* The time until the running task would be due if it had to queue again now. */
static __always_inline s64 running_due_in(const struct task_struct *p, struct task_ctx *tctx,
					  u64 now)
{
	struct queue_ctx *queue = lookup_queue(tctx->queue);
	struct avx_load load;
	struct avx_due due;
	u64 vtime;

	if (!queue)
		return NOBODY_DUE;

	load = load_of(tctx->queue, queue);
	vtime = vtime_bound(tctx->vtime, queue->clock, slice_for(&load));
	due = due_of(vtime, queue->clock, now, p->scx.weight, &load);
	tctx->overdue = due.overdue;

	return due.at - now;
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
 * An AVX task on a scalar CPU, or another one on an AVX core with a CPU of its own
 * kind to go to. It is queued anew by the kernel, even if nobody else is here.
 */
static bool belongs_elsewhere(struct task_struct *p, const struct task_ctx *tctx, bool is_avx)
{
	if (!nr_avx_cpus || only_cpu_of(p) >= 0)
		return false;
	if (tctx->habit.class == CLASS_AVX)
		return !is_avx && may_use_avx_core(p);
	return is_avx && has_idle_in(p, ROLE_SCALAR);
}

/*
 * The slice of @prev is over, or it went to sleep. Time for which nobody else
 * waited costs @prev nothing: it took nothing from anyone.
 */
void BPF_STRUCT_OPS(avxspec_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now = scx_bpf_now(), vtime = 0;
	s64 private = head_due_in(private_queue(cpu), now);
	s64 shared = head_due_in(SHARED_QUEUE, now), avx = NOBODY_DUE;
	const struct avx_policy *policy = traps() ? current_policy() : NULL;
	bool is_avx = policy && is_avx_cpu(cpu);
	struct task_ctx *tctx = NULL;
	s64 running = NOBODY_DUE;
	enum avx_choice choice;

	if (policy) {
		avx = head_due_in(AVX_QUEUE, now);
		if (is_avx)
			shared = yielding(shared, policy->scalar_penalty_ns);
		else
			avx = stranded(avx, policy->stranded_ns);
	}

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	    bpf_cpumask_test_cpu(cpu, prev->cpus_ptr))
		tctx = lookup_task(prev);
	if (tctx) {
		vtime = tctx->vtime;
		settle(prev, tctx);
		if (belongs_elsewhere(prev, tctx, is_avx))
			tctx = NULL;
		else
			running = running_due_in(prev, tctx, now);
	}

	choice = choose_next(running, shared, avx, private);
	if (choice != CHOOSE_PREV && take(choice, cpu, is_somebody(avx)))
		return;
	if (!tctx)
		return;

	if (!is_somebody(shared) && !is_somebody(avx) && !is_somebody(private))
		tctx->vtime = vtime;
	run_on(prev, tctx);
}

/* What the CPU is to this task, and what it may see there. */
static void arrive(struct task_struct *p, struct task_ctx *tctx)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());

	if (!cctx)
		return;
	cctx->runs_avx = tctx->habit.class == CLASS_AVX;
	if (cctx->runs_avx) {
		stat_add(avx_waits, 1);
		stat_add(avx_wait_ns, tctx->queued_at ? tctx->started_at - tctx->queued_at : 0);
		if (cctx->role == ROLE_SCALAR)
			stat_add(in_place, 1);
	}
	tctx->queued_at = 0;
	hide_or_show(p, tctx, tctx->started_at);
}

void BPF_STRUCT_OPS(avxspec_running, struct task_struct *p)
{
	struct task_ctx *tctx = lookup_task(p);

	if (!tctx)
		return;

	leave_queue(tctx);
	start_slice(tctx);
	if (traps())
		arrive(p, tctx);
}

/*
 * The task goes on, and its CPU may have changed its role, or it its class. Where
 * it no longer belongs its slice is over.
 */
static void look_at(struct task_struct *p)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	struct task_ctx *tctx = lookup_task(p);
	u64 now = scx_bpf_now(), ran;

	if (!tctx || !cctx)
		return;
	ran = ran_up_to(tctx, now);
	sample(p, tctx, ran);
	ends_phase(p, tctx, BOUNDARY_TICK, ran);
	cctx->runs_avx = tctx->habit.class == CLASS_AVX;
	hide_or_show(p, tctx, now);
	if (belongs_elsewhere(p, tctx, cctx->role == ROLE_AVX))
		scx_bpf_task_set_slice(p, 0);
}

/*
 * A queued task and a CPU that just went idle can miss each other: the one
 * looked for an idle CPU before the other had become one. Likewise an idle CPU
 * that was woken for one task may find another one to run. So the busy CPUs
 * look again with every tick.
 */
static void rescue_from(u64 id)
{
	struct task_struct *p;
	u32 scanned = 0;

	if (!scx_bpf_dsq_nr_queued(id))
		return;

	bpf_for_each(scx_dsq, p, id, 0) {
		s32 cpu = id == AVX_QUEUE ? pick_idle_in(p, ROLE_AVX)
					  : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

		if (cpu >= 0) {
			wake_idle_cpu(cpu);
			stat_add(rescues, 1);
			break;
		}
		if (++scanned >= MAX_RESCUE_SCAN)
			break;
	}
}

static bool is_any_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool none = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return !none;
}

void BPF_STRUCT_OPS(avxspec_tick, struct task_struct *curr)
{
	if (traps())
		look_at(curr);
	if (!is_any_idle())
		return;
	rescue_from(SHARED_QUEUE);
	if (traps())
		rescue_from(AVX_QUEUE);
}

void BPF_STRUCT_OPS(avxspec_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx = lookup_task(p);

	if (!tctx)
		return;
	settle(p, tctx);
	if (traps()) {
		sample(p, tctx, tctx->ran);
		ends_phase(p, tctx, BOUNDARY_SWITCH, tctx->ran);
	}
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
