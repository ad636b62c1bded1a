/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_avxspec: the callbacks, in the order in which the kernel calls them in
 * the life of a scheduler and of a task.
 *
 * This file is glue. It looks up what a decision needs, asks one of the
 * headers beside it, and tells the kernel the verdict.
 */
#include <scx/common.bpf.h>
#include "belonging.bpf.h"
#include "clocks.bpf.h"
#include "counters.bpf.h"
#include "demand.bpf.h"
#include "events.bpf.h"
#include "hints.bpf.h"
#include "ledgers.bpf.h"
#include "looks.bpf.h"
#include "quiet.bpf.h"
#include "reach.bpf.h"
#include "rescue.bpf.h"
#include "roles.bpf.h"
#include "room.bpf.h"
#include "saved.bpf.h"
#include "state.bpf.h"
#include "turns.bpf.h"
#include "visibility.bpf.h"
#include "waiting.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* Returns the queue where @p waits: that of AVX cores if it needs one and may use one. */
static u64 queue_for(struct task_struct *p, const struct task_ctx *tctx, s32 only_cpu)
{
	if (only_cpu >= 0)
		return private_queue(only_cpu);
	if (tctx->habit.class == CLASS_AVX && may_use_avx_core(p))
		return avx_queue(avx_llc_of(p));
	return shared_queue(llc_of(p));
}

/* Creates the private queue of a CPU, and the queues of its cache if it is the first there. */
static s32 init_cpu(u32 cpu)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
	struct queue_ctx *private = lookup_queue(private_queue(cpu)), *shared;
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	s32 err;

	if (!place || !cctx || !private)
		return -ENOENT;
	cctx->llc = place->llc;
	cctx->other_llc = place->llc;
	cctx->shared_llc = place->llc;
	cctx->avx_llc = place->llc;
	private->nr_cpus = 1;
	shared = lookup_queue(shared_queue(place->llc));
	if (place->online && shared)
		shared->nr_cpus++;

	err = scx_bpf_create_dsq(private_queue(cpu), -1);
	if (err || !place->online || place->llc != cpu)
		return err;
	err = scx_bpf_create_dsq(shared_queue(cpu), -1);
	return err ?: scx_bpf_create_dsq(avx_queue(cpu), -1);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(avxspec_init)
{
	u32 cpu;
	s32 err;

	bpf_for(cpu, 0, nr_cpu_ids) {
		err = init_cpu(cpu);
		if (err) {
			scx_bpf_error("cannot create the queues of CPU %d: error %d", cpu, err);
			return err;
		}
	}

	err = init_masks();
	if (err || !classifies())
		return err;
	init_retries();
	return start_looking();
}

/* Sleepable, because without memory at once there would be no new task. */
s32 BPF_STRUCT_OPS_SLEEPABLE(avxspec_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_ctx *tctx = make_storage(&tasks, p);

	if (!tctx)
		return -ENOMEM;
	tctx->program = p->self_exec_id;
	return classifies() ? init_process(p, args->fork) : 0;
}

/*
 * A task enters without lag, and waits nowhere, whatever another scheduler left in its due time. It
 * may have been ours before, and of another class since.
 */
void BPF_STRUCT_OPS(avxspec_enable, struct task_struct *p)
{
	u64 id = shared_queue(llc_of(p));
	struct queue_ctx *queue = lookup_queue(id);
	struct task_ctx *tctx = lookup_task(p);

	scx_bpf_task_set_dsq_vtime(p, 0);
	if (!tctx || !queue)
		return;
	if (classifies())
		begin_anew(p, tctx);

	tctx->clock = id;
	tctx->vtime = queue->clock;
	tctx->settled = p->se.sum_exec_runtime;
	tctx->contended = queue->contended_ns;
}

/*
 * Selects an idle CPU for a waking task where the kernel's choice will not do: while there are AVX
 * cores, or if the task @is_hot in its cache. @slice is its turn there, or 0 if no CPU idles.
 */
static s32 select_by_role(struct task_struct *p, s32 prev_cpu, bool is_hot, u64 *slice)
{
	const struct task_ctx *tctx = lookup_task(p);
	bool is_avx = tctx && tctx->habit.class == CLASS_AVX && may_use_avx_core(p);
	bool prev_suits = is_avx_cpu(prev_cpu) == is_avx && is_allowed_on(p, prev_cpu);
	s32 cpu = pick_idle_for(p, is_avx, prev_suits ? prev_cpu : -1, is_avx || !is_hot);

	if (cpu < 0)
		return prev_cpu;
	*slice = turn_of(is_avx, AVX_SLICE_MAX_NS);
	return cpu;
}

/* A waking task that may move goes to an idle CPU past the queues, like by go_to(). */
s32 BPF_STRUCT_OPS(avxspec_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false, is_hot;
	u64 slice = 0;
	s32 cpu;

	if (learns_afterwards())
		learn_from_the_past(p);
	is_hot = has_hot_cache(p);
	if (nr_avx_cpus || is_hot) {
		cpu = select_by_role(p, prev_cpu, is_hot, &slice);
	} else {
		/*
		 * The kernel would choose the CPU where the task was even if that is no longer
		 * allowed, and claim it in vain. And with SCX_WAKE_SYNC it would put the task
		 * behind a waker that may go on, even at realtime priority, beside idle CPUs.
		 */
		if (!is_allowed_on(p, prev_cpu))
			prev_cpu = bpf_cpumask_any_distribute(p->cpus_ptr);
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, 0, &is_idle);
		slice = is_idle ? AVX_SLICE_MAX_NS : 0;
	}

	if (slice) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, SCX_ENQ_IMMED);
		stat_add(direct, 1);
	} else if (wake_flags & SCX_WAKE_SYNC && may_follow_waker(p)) {
		cpu = bpf_get_smp_processor_id();
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, AVX_SLICE_MAX_NS, 0);
		stat_add(direct, 1);
	}

	return cpu;
}

/*
 * Returns true if @p is queued on a CPU where it may no longer be, because its mask has just
 * changed: the kernel moves it at once, and an idle CPU that was claimed for it would get nothing.
 */
static __always_inline bool is_on_its_way(struct task_struct *p)
{
	return !is_allowed_on(p, scx_bpf_task_cpu(p));
}

/* Returns true if there may be an idle CPU for a task, and none has been looked for. */
static bool may_find_idle(struct task_struct *p, s32 only_cpu, u64 enq_flags)
{
	/* The CPU that asks is not idle. */
	if (only_cpu >= 0)
		return only_cpu != bpf_get_smp_processor_id();
	/* ops.select_cpu() looked a moment ago. */
	if (enq_flags & SCX_ENQ_WAKEUP && __COMPAT_is_enq_cpu_selected(enq_flags))
		return false;
	return !is_on_its_way(p);
}

void BPF_STRUCT_OPS(avxspec_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct queue_ctx *queue, *old, *clock;
	u64 id, clock_id, slice, tag;
	const struct cpu_ctx *cctx;
	struct task_ctx *tctx;
	struct avx_load load;
	struct avx_due due;
	bool is_avx, waits_on = p->scx.dsq_vtime && leave_queue(p, scx_bpf_now());
	s32 only_cpu, idle;
	u32 room = NO_ROOM;
	u64 now;

	if (may_leave() && !(enq_flags & SCX_ENQ_WAKEUP) && goes_where_it_belongs(p, enq_flags))
		return;
	tctx = lookup_task(p);
	only_cpu = only_cpu_of(p);
	id = tctx ? queue_for(p, tctx, only_cpu) : 0;
	is_avx = only_cpu < 0 && is_avx_queue(id);
	idle = may_find_idle(p, only_cpu, enq_flags) ? pick_idle_of(p, id, only_cpu) : -ENOENT;
	if (idle >= 0) {
		go_to(p, idle, is_avx, enq_flags);
		stat_add(direct, 1);
		return;
	}

	queue = lookup_queue(id);
	clock_id = clock_of(id);
	clock = clock_id == id ? queue : lookup_queue(clock_id);
	old = !tctx || tctx->clock == clock_id ? clock : lookup_queue(tctx->clock);
	if (!tctx || !queue || !clock || !old) {
		scx_bpf_error("%s[%d] has no queue or no context", p->comm, p->pid);
		return;
	}

	now = scx_bpf_now();
	cctx = enq_flags & SCX_ENQ_WAKEUP ? NULL : lookup_cpu(bpf_get_smp_processor_id());
	if (cctx)
		skip_to_begin(tctx, cctx);
	settle(p, tctx, old, now);
	if (old != clock)
		move_to_clock(tctx, clock_id, old, clock, now);

	slice = turn_of(is_avx, slice_for(queue->nr_waiting, request_ns()));
	load = load_of(clock);
	due = due_of(tctx->vtime, clock->clock, now, p->scx.weight, &load);
	if (waits_on)
		due = due_since(due, tctx->queued_at);
	else
		tctx->queued_at = now;
	if (due.overdue)
		stat_add(overdue, 1);

	if (!is_avx && wakes_up(p, enq_flags))
		room = room_where_it_was(p, only_cpu < 0, now, due.at);
	if (room == ROOM_AT_ONCE) {
		scx_bpf_task_set_dsq_vtime(p, tagged(due.at, 0));
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	begins_to_wait(tctx, clock, p->scx.weight, now);
	tag = join_queue(id, queue, enq_flags & SCX_ENQ_WAKEUP, tagged(due.at, 0));
	scx_bpf_dsq_insert_vtime(p, id, slice, tagged(due.at, tag), enq_flags);

	if (only_cpu >= 0)
		stat_add(queued_private, 1);
	else if (is_avx)
		stat_add(queued_avx, 1);
	else
		stat_add(queued_shared, 1);
	if (room == NO_ROOM && only_cpu < 0 &&
	    (is_avx || wakes_up(p, enq_flags) || leaves_avx_core(p)))
		/* The CPU that @p leaves has just chosen its next task. */
		make_room_for(p, now, due.at, is_avx,
			      enq_flags & SCX_ENQ_WAKEUP ? -1 : bpf_get_smp_processor_id());
}

static void run_on(struct task_struct *p, struct task_ctx *tctx, struct cpu_ctx *cctx)
{
	struct queue_ctx *queue = lookup_queue(tctx->clock);

	if (queue) {
		u64 slice = slice_for(queue->nr_waiting, request_ns());

		scx_bpf_task_set_slice(p, turn_of(cctx->runs_avx, slice));
	}
	stat_add(kept, 1);
	if (!cctx->runs_avx || cctx->role != ROLE_SCALAR)
		return;
	stat_add(in_place, 1);
	if (!cctx->accounted)
		runs_as(p, tctx, cctx, true, scx_bpf_now());
}

/*
 * @p, which ran here, goes to sleep, or has to wait for its next turn. Its registers still hold
 * what it left there. A task that goes to sleep is in the middle of a call, across which compilers
 * keep no vector register, so that only those of an AVX task are worth a look.
 */
static void depart(struct task_struct *p, struct cpu_ctx *cctx, bool is_runnable)
{
	bool is_wide = (is_runnable || cctx->runs_avx) && uses_wide_vectors(p);
	struct task_ctx *tctx = cctx->runs_avx || is_wide ? lookup_task(p) : NULL;
	struct avx_moment at;

	if (cctx->runs_avx2)
		end_avx2(cctx);
	if (!tctx)
		return;
	at = accounted_moment_of(p);
	if (is_wide)
		saw_wide_vectors(p, tctx, &at);
	if (!learns_afterwards())
		ends_phase(p, tctx, BOUNDARY_SWITCH, &at);
	runs_as(p, tctx, cctx, false, at.now);
}

/*
 * Takes the next task for @cpu. Returns false if @prev goes on, or if there is none. @tctx is the
 * context of @prev if that may stay, or NULL. In line, because each switch asks.
 */
static __always_inline bool take_next(s32 cpu, struct cpu_ctx *cctx, const struct task_struct *prev,
				      struct task_ctx *tctx, u64 now)
{
	u64 shared, avx, private = nr_waiting(private_queue(cpu));
	enum avx_choice choice = CHOOSE_PREV;
	s64 running = tctx ? running_due_in(prev, tctx, cctx, now) : NOBODY_DUE;

	if (nr_llcs > 1)
		look_around(cpu, tctx);
	shared = nr_waiting(shared_queue(cctx->shared_llc));
	avx = classifies() && had_avx_work ? nr_waiting(avx_queue(cctx->avx_llc)) : 0;

	if (!(shared | private | avx))
		return false;
	if (!tctx && (cctx->role == ROLE_AVX || !avx))
		choice = only_choice(shared, avx, private);
	if (choice == CHOOSE_PREV)
		choice = first_on(cpu, cctx, running);
	if (choice == CHOOSE_PREV)
		return false;
	if (choice == CHOOSE_PRIVATE && take_private(cpu))
		return true;
	if (nr_llcs > 1)
		return take_from_all(choice, cpu, running);
	return take(choice, cpu, cctx->role == ROLE_AVX, cctx->llc, cctx->llc);
}

/* The slice of @prev is over, or @prev goes to sleep. */
void BPF_STRUCT_OPS(avxspec_dispatch, s32 cpu, struct task_struct *prev)
{
	bool is_runnable = prev && prev->scx.flags & SCX_TASK_QUEUED;
	bool may_stay = is_runnable && is_allowed_on(prev, cpu);
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	struct task_ctx *tctx = NULL;
	u64 now = scx_bpf_now();
	bool is_taken;

	if (!cctx)
		return;
	cctx->asked = false;
	if (prev && !is_runnable)
		settle_to_sleep(prev, cctx, now);
	/* A task that was sent here would be in the local queue, and the kernel would not ask. */
	cctx->coming = 0;
	if (may_stay && sends_away(prev, cpu, cctx))
		prev = NULL;
	else if (may_stay)
		tctx = lookup_task(prev);

	is_taken = take_next(cpu, cctx, prev, tctx, now);
	if (tctx && !is_taken) {
		if (cpus_per_core == 1 || !leaves_for_idle_core(prev, cpu)) {
			run_on(prev, tctx, cctx);
			/* A confined task was asked in vain, and the tick asks again. */
			set_misused(cctx, is_misuse(prev, cctx) && may_use_any_cpu(prev));
			return;
		}
		is_taken = take_next(cpu, cctx, NULL, NULL, now);
	}
	if (is_taken)
		cctx->chosen_at = now;
	else
		count_running(cctx, 0, now);
	if (!classifies())
		return;
	if (prev)
		depart(prev, cctx, is_runnable);
	else if (cctx->runs_avx)
		/* The task went to another class while it ran. */
		runs_as(NULL, NULL, cctx, false, scx_bpf_now());
	set_misused(cctx, false);
	if (nr_misused && !is_taken && cctx->role == ROLE_SCALAR)
		free_an_avx_core(lends_idle_cores() && !has_core_alone(cpu));
}

/*
 * @from lets others run. It goes on with its turn if no other task is due before, because programs
 * that wait by yielding do that all the time.
 */
bool BPF_STRUCT_OPS(avxspec_yield, struct task_struct *from, struct task_struct *to)
{
	s32 cpu = bpf_get_smp_processor_id();
	const struct cpu_ctx *cctx = lookup_cpu(cpu);

	if (!to && !(cctx && !cctx->asked && !nr_avx_cpus && goes_on_first(cpu, cctx)))
		scx_bpf_task_set_slice(from, 0);
	return false;
}

/*
 * A task begins to run while there are no AVX cores. It is an AVX task only where clocks matter, or
 * if it has slept for longer than the AVX cores were kept, and needs them again.
 */
static void arrive_without_avx_cores(struct task_struct *p, struct cpu_ctx *cctx, u64 now)
{
	const struct task_ctx *tctx = lookup_task(p);
	bool is_avx = tctx && tctx->habit.class == CLASS_AVX;
	const struct avx_policy *policy;

	if (!is_avx && !cctx->runs_avx)
		return;
	runs_as(p, tctx, cctx, is_avx, now);
	policy = is_avx && wants_avx_cores ? current_policy() : NULL;
	if (policy)
		find_an_avx_core(p, policy, now);
}

/* Notes that a task runs here since @now, and whether it is an AVX task. */
static __always_inline void settle_in(struct task_struct *p, const struct task_ctx *tctx,
				      struct cpu_ctx *cctx, bool is_avx, u64 now)
{
	cctx->started_at = now;
	runs_as(p, tctx, cctx, is_avx, now);
	set_misused(cctx, is_misuse(p, cctx));
	/* A task that is apart waits for no AVX core, and its waits say nothing about others. */
	if (is_avx && !cctx->avx_is_apart)
		stat_add(avx_waits, 1);
}

/*
 * Notes what runs on the CPU, and hides AVX-512 from the task or shows it. Without AVX cores the
 * next tick is early enough for the latter.
 */
static void arrive(struct task_struct *p, struct cpu_ctx *cctx, u64 waited_as, u64 now)
{
	struct avx_moment at = { .ran = cctx->ran_before, .now = now };
	struct task_ctx *tctx;
	bool is_avx;

	cctx->started_at = 0;
	if (learns_afterwards())
		learn_from_the_past(p);
	if (!nr_avx_cpus) {
		if (compensates || cctx->runs_avx || wants_avx_cores)
			arrive_without_avx_cores(p, cctx, now);
		return;
	}

	tctx = lookup_task(p);
	if (!tctx)
		return;
	is_avx = tctx->habit.class == CLASS_AVX;
	if (is_avx && waited_as) {
		count_wait(tctx, at.now);
		/* Elsewhere more AVX cores would have been of no use to it. */
		if (is_avx_queue(queue_of_tag(waited_as)) && !has_no_choice(p))
			stat_add(avx_wait_ns, since(tctx->queued_at, at.now));
	}
	if (is_avx && cctx->role == ROLE_SCALAR)
		stat_add(in_place, 1);
	hide_or_show(p, tctx, &at);
	settle_in(p, tctx, cctx, is_avx, at.now);
}

/*
 * The task begins to run here. Or it runs already, and another CPU changed its weight or mask, or
 * made it one of ours: then it goes on as it did, and only since when it runs is not known.
 */
void BPF_STRUCT_OPS(avxspec_running, struct task_struct *p)
{
	u64 due_at = p->scx.dsq_vtime & ~TAG_MASK, now, waited_as;
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	bool was_sent;

	if (!cctx)
		return;
	now = cctx->chosen_at ?: scx_bpf_now();
	cctx->chosen_at = 0;
	waited_as = leave_to_run(p, cctx, now);
	count_running(cctx, p->scx.weight, now);
	if (cpu != bpf_get_smp_processor_id()) {
		cctx->started_at = 0;
		return;
	}
	begins_to_run(cctx, waited_as, due_at ?: now, now);
	note_clock(cctx, now);
	was_sent = cctx->coming == (u64)p;
	cctx->coming = 0;
	cctx->sent_away = 0;
	cctx->retries = 0;
	cctx->ran_before = p->se.sum_exec_runtime;
	if (waited_as && is_sampled(cctx->ran_before, p->pid))
		sample_wait(p);
	if (!classifies())
		return;
	if (cctx->runs_avx2)
		end_avx2(cctx);
	if (!was_sent || !nr_avx_cpus) {
		arrive(p, cctx, waited_as, now);
		return;
	}
	/* It is what it was on the CPU that sent it. */
	settle_in(p, NULL, cctx, cctx->avx_is_coming, now);
}

/*
 * The task goes on. Its CPU may have changed its role, or the task its class, and if it belongs
 * elsewhere by now its slice ends.
 */
static void look_at(struct task_struct *p)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	struct task_ctx *tctx = lookup_task(p);
	struct avx_moment at;
	bool is_wide;

	if (!tctx || !cctx)
		return;
	find_program(p, tctx);
	at = moment_of_tick(p, cctx);
	if (compensates)
		look_back(p, cctx, &at);
	if (tctx->quiet_until && at.ran >= tctx->quiet_until)
		end_quiet(p, tctx);
	if (!tctx->hidden)
		try_to_hide(p);
	is_wide =
		tier == AVX_TIER_COUNTERS ? tctx->evidence == EVIDENCE_WIDE : uses_wide_vectors(p);
	count_look(p, cctx, is_wide);
	if (is_wide)
		saw_wide_vectors(p, tctx, &at);
	if (hints_given)
		follow_hint(p, tctx, &at);
	if (tier == AVX_TIER_COUNTERS && tctx->evidence == EVIDENCE_NONE)
		ends_phase(p, tctx, BOUNDARY_UNUSED, &at);
	else if (tier != AVX_TIER_XSTATE)
		ends_phase(p, tctx, BOUNDARY_TICK, &at);
	if (tctx->habit.class == CLASS_AVX) {
		if (is_confined(p))
			keep_an_avx_core(p, at.now);
		reconsider(p, tctx, &at);
	}
	if (compensates)
		learn_from_tick(p, tctx);
	runs_as(p, tctx, cctx, tctx->habit.class == CLASS_AVX, at.now);
	if (counts_avx2)
		find_avx2(p, tctx, cctx, came_at(cctx, &at));
	hide_or_show(p, tctx, &at);
	if (belongs_elsewhere(p, bpf_get_smp_processor_id(), cctx))
		scx_bpf_task_set_slice(p, 0);

	if (tctx->habit.class != CLASS_DEFAULT)
		book_time(tctx, tctx->habit.class == CLASS_AVX, at.ran);
	if (tctx->has_news)
		tell_books(p);
}

void BPF_STRUCT_OPS(avxspec_tick, struct task_struct *curr)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cctx = lookup_cpu(cpu);

	/* Another CPU ticks for those that have no tick of their own (nohz_full). */
	if (scx_bpf_task_cpu(curr) != cpu)
		return;
	if (classifies())
		look_at(curr);
	if (!cctx)
		return;
	if (is_room_wanted_on(cpu, cctx) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu))
		scx_bpf_task_set_slice(curr, 0);
	rescue_at(cctx->llc);
	if (nr_llcs > 1)
		rescue_at(look_at_next_llc(cctx, &cctx->ticks_other_llc));
}

/* A task of another class takes this CPU, so that none of ours runs here. */
static void goes_to_others(void)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());

	if (!cctx)
		return;
	cctx->coming = 0;
	cctx->chosen_at = 0;
	cctx->runner.since = 0;
	count_running(cctx, 0, scx_bpf_now());
	set_misused(cctx, false);
	if (cctx->runs_avx2)
		end_avx2(cctx);
	if (cctx->runs_avx)
		runs_as(NULL, NULL, cctx, false, scx_bpf_now());
}

/*
 * The task leaves for another class, or for good. It waits no longer, and if it is the current task
 * it goes on here in its new class.
 */
void BPF_STRUCT_OPS(avxspec_disable, struct task_struct *p)
{
	leave_queue(p, scx_bpf_now());
	tell_books(p);
	if (p == bpf_get_current_task_btf())
		goes_to_others();
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
	const struct task_struct *curr = bpf_get_current_task_btf();
	struct cpu_ctx *cctx = lookup_cpu(cpu);

	goes_to_others();
	if (!cctx)
		return;
	cctx->released = is_migration_disabled(curr) ? 0 : (u64)curr;
	scx_bpf_reenqueue_local();
	cctx->released = 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(avxspec_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (next->prio < FIRST_FAIR_PRIO && prev->prio >= FIRST_FAIR_PRIO) {
		goes_to_others();
		scx_bpf_reenqueue_local_from_anywhere();
	}
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
	       .yield		= (void *)avxspec_yield,
	       .running		= (void *)avxspec_running,
	       .tick		= (void *)avxspec_tick,
	       .disable		= (void *)avxspec_disable,
	       .cpu_release	= (void *)avxspec_cpu_release,
	       .exit		= (void *)avxspec_exit,
	       .name		= "avxspec");
/* clang-format on */
