/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_avxspec: the callbacks, in the order in which the kernel calls them in
 * the life of a scheduler and of a task.
 *
 * This file is glue. It looks up what a decision needs, asks one of the
 * headers beside it, and tells the kernel the verdict.
 */
#include <scx/common.bpf.h>
#include "roles.bpf.h"
#include "state.bpf.h"
#include "visibility.bpf.h"
#include "waiting.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* How many waiting tasks the tick looks at for one that an idle CPU may run. */
#define MAX_RESCUE_SCAN 8

static void wake_idle_cpu(s32 cpu)
{
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* An idle CPU for a task that is none of the AVX tasks: an AVX core only if need be. */
__noinline s32 pick_idle_for_scalar(struct task_struct *p __arg_trusted)
{
	s32 cpu;

	if (!nr_avx_cpus)
		return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	cpu = pick_idle_in(p, ROLE_SCALAR);
	return cpu >= 0 ? cpu : pick_idle_in(p, ROLE_AVX);
}

/* A CPU that serves the queue @id and idles, or a negative number. */
__noinline s32 pick_idle_of(struct task_struct *p __arg_trusted, u64 id, s32 only_cpu)
{
	if (id == AVX_QUEUE)
		return pick_idle_in(p, ROLE_AVX);
	if (only_cpu < 0)
		return pick_idle_for_scalar(p);
	/* Whoever asks is not idle. */
	if (only_cpu == bpf_get_smp_processor_id())
		return -ENOENT;
	return scx_bpf_test_and_clear_cpu_idle(only_cpu) ? only_cpu : -ENOENT;
}

/* Where @p waits, and on an AVX core if it needs one and may use one. */
static u64 queue_for(struct task_struct *p, const struct task_ctx *tctx, s32 only_cpu)
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
	tctx->settled = p->se.sum_exec_runtime;
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

static bool goes_past_the_queues(struct task_struct *p, u64 id, s32 only_cpu, u64 enq_flags)
{
	s32 idle = pick_idle_of(p, id, only_cpu);

	if (idle < 0)
		return false;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | idle, AVX_SLICE_MAX_NS, enq_flags);
	stat_add(direct, 1);
	return true;
}

/*
 * The task that was found a moment ago to belong elsewhere: that need not be found out
 * twice, for migrations are to be cheap.
 */
static bool goes_where_it_belongs(struct task_struct *p, u64 enq_flags)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());

	if (!cctx || cctx->sent_away != (u64)p)
		return false;
	cctx->sent_away = 0;
	return goes_past_the_queues(p, cctx->sent_to, -1, enq_flags);
}

/* A task that need not wait goes past the queues. */
void BPF_STRUCT_OPS(avxspec_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 id, weight, slice, tag;
	struct queue_ctx *queue;
	struct task_ctx *tctx;
	struct avx_load load;
	struct avx_due due;
	s32 only_cpu;

	leave_queue(p);
	if (nr_avx_cpus && goes_where_it_belongs(p, enq_flags))
		return;
	tctx = lookup_task(p);
	only_cpu = only_cpu_of(p);
	id = tctx ? queue_for(p, tctx, only_cpu) : SHARED_QUEUE;
	if (goes_past_the_queues(p, id, only_cpu, enq_flags))
		return;

	queue = lookup_queue(id);
	if (!tctx || !queue) {
		scx_bpf_error("%s[%d] has no queue or no context", p->comm, p->pid);
		return;
	}

	settle(p, tctx);
	move_to_queue(tctx, id, queue);

	load = load_of(id, queue);
	slice = slice_for(&load);
	tctx->vtime = vtime_bound(tctx->vtime, queue->clock, slice);
	tctx->queued_at = scx_bpf_now();
	due = due_of(tctx->vtime, queue->clock, tctx->queued_at, p->scx.weight, &load);
	tctx->overdue = due.overdue;
	if (due.overdue)
		stat_add(overdue, 1);

	weight = lasting_weight(p->scx.weight, enq_flags & SCX_ENQ_WAKEUP);
	tag = join_queue(tctx, id, queue, weight);
	scx_bpf_dsq_insert_vtime(p, id, slice, tagged(due.at, tag), enq_flags);

	if (id == AVX_QUEUE) {
		preempt_avx_core_for(p);
		stat_add(queued_avx, 1);
	} else if (only_cpu < 0) {
		stat_add(queued_shared, 1);
	} else {
		stat_add(queued_private, 1);
	}
}

/* What @p ran since it was looked at here goes into the statistics. */
static void account(const struct task_struct *p, struct cpu_ctx *cctx)
{
	stat_add(run_ns, p->se.sum_exec_runtime - cctx->accounted_ran);
	cctx->accounted_ran = p->se.sum_exec_runtime;
}

static void account_avx(struct cpu_ctx *cctx, u64 now)
{
	if (cctx->runs_avx && vtime_before(cctx->accounted, now))
		stat_add(avx_ns, now - cctx->accounted);
	cctx->accounted = now;
}

static void run_on(struct task_struct *p, struct task_ctx *tctx)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	struct queue_ctx *queue = lookup_queue(tctx->queue);

	if (queue) {
		struct avx_load load = load_of(tctx->queue, queue);
		u64 slice = slice_for(&load);

		tctx->vtime = vtime_bound(tctx->vtime, queue->clock, slice);
		scx_bpf_task_set_slice(p, slice);
	}
	tctx->overdue = false;
	if (cctx)
		account(p, cctx);
	stat_add(kept, 1);
}

/*
 * An AVX task on a scalar CPU, or another one on an AVX core with a CPU of its own
 * kind to go to.
 */
static bool belongs_elsewhere(struct task_struct *p, const struct task_ctx *tctx, bool is_avx)
{
	if (!nr_avx_cpus || only_cpu_of(p) >= 0)
		return false;
	if (tctx->habit.class == CLASS_AVX)
		return !is_avx && may_use_avx_core(p);
	return is_avx && has_idle_in(p, ROLE_SCALAR);
}

/* The kernel queues @p anew, even if nobody else is here. */
static void send_away(struct task_struct *p, const struct task_ctx *tctx, s32 cpu)
{
	struct cpu_ctx *cctx = lookup_cpu(cpu);

	if (!cctx)
		return;
	cctx->sent_away = (u64)p;
	cctx->sent_to = tctx->habit.class == CLASS_AVX ? AVX_QUEUE : SHARED_QUEUE;
}

/*
 * The slice of @prev is over, or it went to sleep. Time for which nobody else
 * waited costs @prev nothing: it took nothing from anyone.
 */
void BPF_STRUCT_OPS(avxspec_dispatch, s32 cpu, struct task_struct *prev)
{
	bool shared = has_waiting(SHARED_QUEUE), private = has_waiting(private_queue(cpu));
	bool avx = traps() && has_waiting(AVX_QUEUE);
	bool is_avx = nr_avx_cpus && is_avx_cpu(cpu);
	enum avx_choice choice = CHOOSE_PREV;
	struct task_ctx *tctx = NULL;
	s64 running = NOBODY_DUE;

	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) &&
	    bpf_cpumask_test_cpu(cpu, prev->cpus_ptr))
		tctx = lookup_task(prev);
	if (tctx && belongs_elsewhere(prev, tctx, is_avx)) {
		send_away(prev, tctx, cpu);
		tctx = NULL;
	}

	if (!shared && !private && !avx) {
		if (tctx) {
			tctx->settled = prev->se.sum_exec_runtime;
			run_on(prev, tctx);
		}
		return;
	}

	if (tctx) {
		settle(prev, tctx);
		running = running_due_in(prev, tctx, scx_bpf_now());
	} else if (is_avx || !avx) {
		choice = only_choice(shared, avx, private);
	}
	if (choice == CHOOSE_PREV)
		choice = first_on(cpu, running, is_avx);
	if (choice != CHOOSE_PREV && take(choice, cpu, is_avx))
		return;
	if (tctx)
		run_on(prev, tctx);
}

/*
 * What the CPU is to this task, and what it may see there. While there are no AVX
 * cores there is no AVX task, and the next tick is early enough for the rest.
 */
static void arrive(struct task_struct *p, struct cpu_ctx *cctx, bool has_waited)
{
	struct task_ctx *tctx = nr_avx_cpus ? lookup_task(p) : NULL;

	cctx->started_at = 0;
	cctx->runs_avx = tctx && tctx->habit.class == CLASS_AVX;
	if (!tctx)
		return;

	cctx->started_at = scx_bpf_now();
	cctx->accounted = cctx->started_at;
	if (cctx->runs_avx) {
		stat_add(avx_waits, 1);
		if (has_waited)
			stat_add(avx_wait_ns, cctx->started_at - tctx->queued_at);
		if (cctx->role == ROLE_SCALAR)
			stat_add(in_place, 1);
	}
	hide_or_show(p, tctx, cctx->started_at);
}

void BPF_STRUCT_OPS(avxspec_running, struct task_struct *p)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	bool has_waited = leave_queue(p);

	if (!cctx)
		return;
	cctx->sent_away = 0;
	cctx->ran_before = p->se.sum_exec_runtime;
	cctx->accounted_ran = p->se.sum_exec_runtime;
	if (traps())
		arrive(p, cctx, has_waited);
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
	account_avx(cctx, now);
	ran = ran_up_to(p, now);
	if (tctx->quiet_until && ran >= tctx->quiet_until)
		end_quiet(p, tctx);
	if (uses_wide_vectors(p))
		saw_wide_vectors(p, tctx, ran);
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

	if (!has_waiting(id))
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
	if (!has_waiting(SHARED_QUEUE) && !(traps() && has_waiting(AVX_QUEUE)))
		return;
	if (!is_any_idle())
		return;
	rescue_from(SHARED_QUEUE);
	if (traps())
		rescue_from(AVX_QUEUE);
}

/*
 * The task is switched out; what it has in its registers is still there. Who goes to
 * sleep by itself is in the middle of a call, across which no register has to be kept:
 * only of an AVX task is that worth a look.
 */
static void depart(struct task_struct *p, struct cpu_ctx *cctx, bool runnable)
{
	bool is_wide = (runnable || cctx->runs_avx) && uses_wide_vectors(p);
	struct task_ctx *tctx = cctx->runs_avx || is_wide ? lookup_task(p) : NULL;
	u64 ran = p->se.sum_exec_runtime;

	if (!tctx)
		return;
	account_avx(cctx, scx_bpf_now());
	if (is_wide)
		saw_wide_vectors(p, tctx, ran);
	ends_phase(p, tctx, BOUNDARY_SWITCH, ran);
}

void BPF_STRUCT_OPS(avxspec_stopping, struct task_struct *p, bool runnable)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());

	if (!cctx)
		return;
	account(p, cctx);
	if (traps())
		depart(p, cctx, runnable);
}

/* The task leaves for another class, or for good: it no longer waits. */
void BPF_STRUCT_OPS(avxspec_disable, struct task_struct *p)
{
	leave_queue(p);
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
	       .disable		= (void *)avxspec_disable,
	       .cpu_release	= (void *)avxspec_cpu_release,
	       .exit		= (void *)avxspec_exit,
	       .name		= "avxspec");
/* clang-format on */
