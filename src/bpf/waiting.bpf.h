/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks in their queues: how they are counted, which of them is first, and how a CPU takes
 * one. queues.bpf.h and fairness.bpf.h decide what follows from that.
 */
#ifndef AVXSPEC_WAITING_BPF_H
#define AVXSPEC_WAITING_BPF_H

#include "decide/fairness.bpf.h"
#include "decide/queues.bpf.h"
#include "policy.bpf.h"
#include "roles.bpf.h"
#include "state.bpf.h"
#include "turns.bpf.h"
#include "visibility.bpf.h"

/*
 * In how many queues of caches tasks wait, where there are several caches. Most often tasks wait in
 * none, and then no CPU has to look at each of them.
 */
struct in_use {
	u32 nr;
} __attribute__((aligned(64)));

struct in_use shared_in_use, avx_in_use;

static __always_inline u32 *nr_in_use_like(u64 id)
{
	return is_avx_queue(id) ? &avx_in_use.nr : &shared_in_use.nr;
}

static __always_inline void somebody_waits(u64 id)
{
	if (nr_llcs > 1 && kind_of(id) != QUEUE_PRIVATE)
		__sync_fetch_and_add(nr_in_use_like(id), 1);
}

static __always_inline void nobody_waits(u64 id)
{
	if (nr_llcs > 1 && kind_of(id) != QUEUE_PRIVATE)
		__sync_fetch_and_sub(nr_in_use_like(id), 1);
}

/* Returns the queue whose clock measures the tasks that wait in the queue @id. */
static __always_inline u64 clock_of(u64 id)
{
	const struct cpu_ctx *cctx;

	if (nr_llcs == 1)
		return shared_queue(first_llc);
	cctx = lookup_cpu(id / NR_QUEUE_KINDS);
	return cctx ? shared_queue(cctx->llc) : id;
}

/*
 * Counts a task that is queued, and returns the tag that says where. It is taken off the count
 * exactly once, when it runs or when it goes away without having run. Atomic, because the CPU of a
 * private queue and one that changes a task's affinity can meet here.
 */
static u64 join_queue(u64 id, struct queue_ctx *queue, bool woke_up, u64 due_at)
{
	u64 nr_before = __sync_fetch_and_add(&queue->nr_waiting, 1);

	if (!nr_before || vtime_before(due_at, queue->first_due))
		queue->first_due = due_at;
	if (!nr_before)
		somebody_waits(id);
	return tag_of(id, woke_up);
}

/* Returns the tag of the queue where @p waited, or 0, and clears it. */
static __always_inline u64 take_tag(struct task_struct *p)
{
	u64 tag = p->scx.dsq_vtime & TAG_MASK;

	if (p->scx.dsq_vtime)
		scx_bpf_task_set_dsq_vtime(p, 0);
	return tag;
}

static __always_inline void take_off_count(u64 id, u64 weight, u64 now)
{
	struct queue_ctx *queue = lookup_queue(id), *clock = lookup_queue(clock_of(id));

	if (!queue || !clock)
		return;
	if (__sync_fetch_and_sub(&queue->nr_waiting, 1) == 1)
		nobody_waits(id);
	stops_waiting(clock, weight, now);
}

/* @p goes away without having run. Its weight may have changed since it was queued. */
static bool leave_queue(struct task_struct *p, u64 now)
{
	u64 tag = take_tag(p);
	const struct task_ctx *tctx = tag ? lookup_task(p) : NULL;

	if (tctx)
		take_off_count(queue_of_tag(tag), tctx->weight_queued, now);
	return tag;
}

/*
 * @p was taken from another cache, by whose clock it has taken nothing from others yet. Global,
 * because it is rarely called.
 */
__noinline int begin_by_other_clock(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = lookup_task(p);
	const struct queue_ctx *clock = tctx ? lookup_queue(tctx->clock) : NULL;

	if (clock)
		tctx->contended = clock->contended_ns;
	return 0;
}

/*
 * @p runs here, with the weight with which it was queued. Returns its tag, or 0 if it did not wait.
 * In line, because each switch does it, and without a look at the task's context.
 */
static __always_inline u64 leave_to_run(struct task_struct *p, const struct cpu_ctx *cctx, u64 now)
{
	u64 tag = take_tag(p), id = queue_of_tag(tag);

	if (!tag)
		return 0;
	take_off_count(id, p->scx.weight, now);
	if (nr_llcs > 1 && clock_of(id) != shared_queue(cctx->llc))
		begin_by_other_clock(p);
	return tag;
}

/* Returns the length of a turn. AVX tasks may have shorter turns than others. */
static __always_inline u64 turn_of(bool is_avx, u64 slice)
{
	return is_avx ? at_most(slice, avx_slice_ns) : slice;
}

/* Counts how long a task waited that begins to run. */
static void count_wait(const struct task_ctx *tctx, u64 now)
{
	u64 wait = since(tctx->queued_at, now);
	u32 class = tctx->habit.class, bucket = wait_bucket(wait), zero = 0;
	struct avx_cpu_stats *stats = bpf_map_lookup_elem(&cpu_stats, &zero);

	if (!stats || class >= NR_CLASSES || bucket >= AVX_WAIT_BUCKETS)
		return;
	stats->waits[class][bucket]++;
}

/*
 * Counts the wait of a task that is none of the AVX tasks, which are all counted elsewhere. Global,
 * because it is rarely called.
 */
__noinline int sample_wait(struct task_struct *p __arg_trusted)
{
	const struct task_ctx *tctx = lookup_task(p);

	if (tctx && tctx->habit.class != CLASS_AVX)
		count_wait(tctx, scx_bpf_now());
	return 0;
}

static u64 nr_waiting(u64 id)
{
	const struct queue_ctx *queue = lookup_queue(id);

	return queue ? queue->nr_waiting : 0;
}

static bool has_waiting(u64 id)
{
	return nr_waiting(id);
}

/* Returns the time until @p is due, or NOBODY_DUE if a CPU has just taken it. */
static s64 due_in(const struct task_struct *p, u64 now)
{
	u64 vtime = p->scx.dsq_vtime;

	return vtime & TAG_MASK ? (s64)(vtime - now) : NOBODY_DUE;
}

/* How many tasks that may not run on a CPU it passes over to find one that may. */
#define MAX_PASSED_OVER 64

/*
 * Returns the time until the first task of a queue is due that may run on @cpu, which is not the
 * first of all. Behind too many that may not, it is taken to be due with the last of them.
 * Global, as are some functions below, so that the verifier does not check all that follows once
 * for each path out of it.
 */
__noinline s64 first_allowed_due_in(u64 id, s32 cpu, u64 now)
{
	struct task_struct *p;
	u32 looks = 0;

	bpf_for_each(scx_dsq, p, id, 0) {
		s64 due = due_in(p, now);

		if (is_somebody(due) &&
		    (is_allowed_on(p, cpu) || is_enough(&looks, MAX_PASSED_OVER)))
			return due;
	}
	return NOBODY_DUE;
}

/*
 * Returns the time until the first task of a queue is due that may run on @cpu: most often that is
 * the first of all. It also notes before when no task of the queue is due.
 */
__noinline s64 head_due_in(u64 id, s32 cpu, u64 now)
{
	struct queue_ctx *queue = lookup_queue(id);
	struct task_struct *p;
	s64 due;

	if (!queue || !queue->nr_waiting)
		return NOBODY_DUE;
	p = __COMPAT_scx_bpf_dsq_peek(id);
	due = p ? due_in(p, now) : NOBODY_DUE;
	if (!p || !is_somebody(due))
		return NOBODY_DUE;
	queue->first_due = now + due;
	return is_allowed_on(p, cpu) ? due : first_allowed_due_in(id, cpu, now);
}

/* Returns true if surely no task that waits in @queue is due before @due_at. */
static __always_inline bool is_first_of(const struct queue_ctx *queue, u64 due_at)
{
	return queue && (!queue->nr_waiting || vtime_before(due_at, queue->first_due));
}

/* How many of the first of a queue are looked at to find one that ran on this CPU. */
#define MAX_LOOKS_FOR_WARM 8

/*
 * Takes the task that ran last on @cpu, of those that are due about as soon as the first one,
 * because the caches of @cpu hold its data. Global, because of the verifier.
 */
__noinline bool take_warm(u64 id, s32 cpu)
{
	u64 now = scx_bpf_now();
	struct task_struct *p;
	s64 latest = NOBODY_DUE;
	u32 looks = 0;

	bpf_for_each(scx_dsq, p, id, 0) {
		s64 due = due_in(p, now);

		if (!is_somebody(due) || !is_allowed_on(p, cpu))
			continue;
		if (latest == NOBODY_DUE)
			latest = due + AVX_WARM_NS;
		if (due > latest)
			return false;
		if (scx_bpf_task_cpu(p) == cpu)
			return scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		if (is_enough(&looks, MAX_LOOKS_FOR_WARM))
			return false;
	}
	return false;
}

static bool take_shared(u32 llc)
{
	u64 id = shared_queue(llc);

	return (nr_waiting(id) > 1 && take_warm(id, bpf_get_smp_processor_id())) ||
	       scx_bpf_dsq_move_to_local(id, 0);
}

static bool take_avx(u32 llc)
{
	return scx_bpf_dsq_move_to_local(avx_queue(llc), 0);
}

static bool take_private(s32 cpu)
{
	return scx_bpf_dsq_move_to_local(private_queue(cpu), 0);
}

/*
 * The lock of this CPU is dropped for a moment while it takes from a queue of several CPUs. A task
 * that came meanwhile, and may run nowhere else, found the CPU busy, and no other CPU looks for it.
 */
static bool take_private_after_all(s32 cpu)
{
	return has_waiting(private_queue(cpu)) && take_private(cpu);
}

/* Takes from the queue of the first choice, or else from any that this CPU serves. */
__noinline int take(u32 choice, s32 cpu, bool with_avx, u32 shared_llc, u32 avx_llc)
{
	if ((choice == CHOOSE_SHARED && take_shared(shared_llc)) ||
	    (choice == CHOOSE_AVX && take_avx(avx_llc)))
		return true;
	return take_private(cpu) || (with_avx && take_avx(avx_llc)) || take_shared(shared_llc) ||
	       take_private_after_all(cpu);
}

/* Returns true if a task waits in a queue of the kind of @id at another cache. */
static bool waits_elsewhere(u64 id)
{
	return *nr_in_use_like(id) != has_waiting(id);
}

/* The time until a task is due that comes before all that are due because they are owed. */
#define DUE_FIRST (-(s64)AVX_SLICE_MAX_NS - 1)

/*
 * Returns the time until a task that is due in @due in the queue @there is due for a CPU of the
 * queue @here, which is at another cache. If more compete for a CPU there, that is before all tasks
 * here, because what runs here may be owed something for as long as no task waits. Otherwise it is
 * when the task has been due for long. Global, because of the verifier.
 */
__noinline s64 due_elsewhere(u64 here, u64 there, s64 due)
{
	const struct queue_ctx *from = lookup_queue(there), *to = lookup_queue(here);
	const struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(there);
	const struct avx_policy *policy = current_policy();
	struct avx_load crowded, other;

	if (!from || !to || !p || !policy || !is_somebody(due))
		return due;
	crowded = load_of(from);
	other = load_of(to);
	if (kind_of(there) == QUEUE_SHARED && evens_out(&crowded, &other, p->scx.weight))
		return due < DUE_FIRST ? due : DUE_FIRST;
	return yielding(due, policy->steal_ns);
}

/* Returns true if @p would leave its data behind if it went to another cache. */
static bool has_hot_cache(struct task_struct *p)
{
	const struct task_ctx *tctx = nr_llcs > 1 ? lookup_task(p) : NULL;

	return tctx && is_cache_hot(tctx->ran_until, scx_bpf_now());
}

/*
 * Returns true if the first task that waits at another cache has not run there a moment ago. A CPU
 * that would idle does not ask. Global, because of the verifier.
 */
__noinline bool may_leave_cache(u64 there)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(there);

	return p && !has_hot_cache(p);
}

/* Returns true if the first task that waits at another cache comes before all that wait here. */
static bool is_first_there(u64 here, u64 there, s32 cpu, u64 now)
{
	return has_waiting(there) && may_leave_cache(there) &&
	       due_elsewhere(here, there, head_due_in(there, cpu, now)) <
		       head_due_in(here, cpu, now);
}

/*
 * Decides from the queues of which cache @cpu takes: its own, unless they are empty, or a task has
 * been due at another for long, or more compete there. If no task goes on either, so that the CPU
 * would idle, it looks at all other caches, and otherwise at the next one. Global, because of the
 * verifier.
 */
__noinline int look_around(s32 cpu, bool goes_on)
{
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	bool wants, wants_avx;
	u32 n, llc;
	u64 now;

	if (!cctx)
		return 0;
	cctx->shared_llc = cctx->llc;
	cctx->avx_llc = cctx->llc;
	wants = waits_elsewhere(shared_queue(cctx->llc));
	wants_avx = waits_elsewhere(avx_queue(cctx->llc));
	if (!wants && !wants_avx)
		return 0;

	now = scx_bpf_now();
	llc = look_at_next_llc(cctx, &cctx->other_llc);
	if (wants && is_first_there(shared_queue(cctx->llc), shared_queue(llc), cpu, now))
		cctx->shared_llc = llc;
	if (wants_avx && is_first_there(avx_queue(cctx->llc), avx_queue(llc), cpu, now))
		cctx->avx_llc = llc;

	wants = wants && !goes_on && !has_waiting(private_queue(cpu)) &&
		!has_waiting(shared_queue(cctx->shared_llc));
	wants_avx = wants_avx && cctx->role == ROLE_AVX && !has_waiting(avx_queue(cctx->avx_llc));
	bpf_for(n, 1, nr_llcs) {
		if (!wants && !wants_avx)
			break;
		llc = llc_after(llc);
		if (wants && has_waiting(shared_queue(llc))) {
			cctx->shared_llc = llc;
			wants = false;
		}
		if (wants_avx && has_waiting(avx_queue(llc))) {
			cctx->avx_llc = llc;
			wants_avx = false;
		}
	}
	return 0;
}

/* Charges the running task, and returns the time until it would be due if it queued now. */
static __always_inline s64 running_due_in(const struct task_struct *p, struct task_ctx *tctx,
					  const struct cpu_ctx *cctx, u64 now)
{
	struct queue_ctx *queue = lookup_queue(tctx->clock);
	struct avx_load load;

	if (!queue)
		return NOBODY_DUE;
	skip_to_begin(tctx, cctx);
	settle(p, tctx, queue, now);
	load = load_of(queue);
	return due_of(tctx->vtime, queue->clock, now, p->scx.weight, &load).at - now;
}

/* Returns what is due first on @cpu: the task that runs there, or the first of a queue. */
static __always_inline enum avx_choice first_on(s32 cpu, const struct cpu_ctx *cctx, s64 running)
{
	const struct avx_policy *policy = classifies() ? current_policy() : NULL;
	u64 now = scx_bpf_now();
	s64 private = head_due_in(private_queue(cpu), cpu, now), avx = NOBODY_DUE;
	s64 shared = head_due_in(shared_queue(cctx->shared_llc), cpu, now);

	if (cctx->shared_llc != cctx->llc)
		shared = due_elsewhere(shared_queue(cctx->llc), shared_queue(cctx->shared_llc),
				       shared);
	if (policy) {
		avx = head_due_in(avx_queue(cctx->avx_llc), cpu, now);
		if (cctx->role != ROLE_AVX) {
			avx = stranded(avx, policy->stranded_ns);
		} else if (sizing.has_more) {
			/* AVX work waits, but not so long that a scalar CPU takes it. */
			u64 ns = at_most(policy->scalar_penalty_ns, policy->stranded_ns / 2);

			avx = yielding(avx, ns);
			if (cctx->runs_avx)
				running = yielding(running, ns);
		} else {
			shared = yielding(shared, policy->scalar_penalty_ns);
			/* AVX work goes on by its own right: turns that end early cost caches. */
			if (!cctx->runs_avx && avx < private && avx <= shared)
				running = yielding(running, policy->scalar_penalty_ns);
		}
	}
	return choose_next(running, shared, avx, private);
}

/* Returns true if this CPU, which would idle, has taken a task from another cache. */
static bool take_from_anywhere(const struct cpu_ctx *cctx)
{
	bool with_avx = cctx->role == ROLE_AVX;
	u32 n, llc = cctx->llc;

	bpf_for(n, 1, nr_llcs) {
		llc = llc_after(llc);
		if ((has_waiting(shared_queue(llc)) && take_shared(llc)) ||
		    (with_avx && has_waiting(avx_queue(llc)) && take_avx(llc)))
			return true;
	}
	return false;
}

/*
 * Takes like take() where there are several caches. The task at another cache that was chosen may
 * have to stay there. Then the CPU chooses anew among the tasks that wait here, and if it would
 * idle it tries all other caches. Global, because of the verifier.
 */
__noinline int take_from_all(u32 choice, s32 cpu, s64 running)
{
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	u64 id;

	if (!cctx)
		return false;
	id = choice == CHOOSE_AVX ? avx_queue(cctx->avx_llc) : shared_queue(cctx->shared_llc);
	if (choice != CHOOSE_PRIVATE && scx_bpf_dsq_move_to_local(id, 0))
		return true;
	if (cctx->shared_llc != cctx->llc || cctx->avx_llc != cctx->llc) {
		cctx->shared_llc = cctx->llc;
		cctx->avx_llc = cctx->llc;
		choice = first_on(cpu, cctx, running);
		if (choice == CHOOSE_PREV)
			return false;
	}
	/* If another CPU has just emptied that queue, nothing follows for the other caches. */
	return take(choice, cpu, cctx->role == ROLE_AVX, cctx->llc, cctx->llc) ||
	       (!is_somebody(running) && scx_bpf_dsq_nr_queued(id) > 0 && take_from_anywhere(cctx));
}

#endif /* AVXSPEC_WAITING_BPF_H */
