/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the callbacks remember: of each task, process, CPU and queue.
 *
 * Locking. The context of a task is written in its own context, or with the lock of its run queue
 * held. The clocks, and before when nobody is due, are written by all CPUs of a cache without a
 * lock: a lost step is made up by the next one. What is known of a process only ever becomes more
 * until it executes another program. The context of a CPU is written by that CPU, but for its
 * role, the numbers of AVX cores, whom it is kept for, whether it was asked to make room, and who
 * is coming: that is written by the CPU that claimed it while it was idle. And since when a task
 * runs is forgotten by whoever changes that task, with the lock of the run queue held.
 */
#ifndef AVXSPEC_STATE_BPF_H
#define AVXSPEC_STATE_BPF_H

#include "decide/books.bpf.h"
#include "decide/class.bpf.h"
#include "decide/fairness.bpf.h"
#include "decide/preempt.bpf.h"
#include "decide/queues.bpf.h"
#include "decide/remigrate.bpf.h"
#include "said.bpf.h"

/* Set by the agent before loading. A change of CPUs restarts the scheduler, so
 * these hold while it runs. */
const volatile u32 nr_online_cpus = 1;
const volatile u32 nr_usable_cpus = 1; /* ... and not isolated */
const volatile u32 nr_cpu_ids = 1;
const volatile u32 cpus_per_core = 1;
const volatile u32 nr_llcs = 1;
const volatile u32 first_llc = 0; /* its name */
const volatile u32 nr_nodes = 1;
const volatile u32 tier = AVX_TIER_OBSERVE;
/* Whether CPUID is hidden as well. AMD's CPUs would leave that to the kernel after a crash. */
const volatile bool hides_cpuid = false;

/* Realtime and deadline tasks have the priorities below this. */
#define FIRST_FAIR_PRIO 100

/* Policies of tasks, as user space has them. */
#define SCHED_BATCH 3
#define SCHED_IDLE 5

/* What is granted at a time where others wait. */
static __always_inline u64 request_ns(void)
{
	return request_on(nr_online_cpus);
}

/* Whether there are AVX tasks, however they are found. */
static bool classifies(void)
{
	return tier != AVX_TIER_OBSERVE;
}

/* Whether the kernel hides and tells. */
static bool traps(void)
{
	return tier == AVX_TIER_TRAP;
}

/* Whether AVX work is noticed only when it was done, and its end as well. */
static bool learns_afterwards(void)
{
	return tier == AVX_TIER_XSTATE || tier == AVX_TIER_COUNTERS;
}

/* One per queue, indexed by the queue's id; the agent sizes it before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct queue_ctx);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

/* Of the first thread of each process. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct avx_process);
} processes SEC(".maps");

/*
 * What there is of @p in @map, or something new. The kernel gives up if another program, of
 * ours or not, makes something for the same task in the same moment: then that is there.
 */
#define make_storage(map, p)                                             \
	(bpf_task_storage_get(map, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) \
		 ?: bpf_task_storage_get(map, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))

struct cpu_ctx {
	/* The task that runs there, whether it began because it woke up, and whether it was asked
	 * to make room and has not yet. */
	struct avx_runner runner;
	bool woke_up;
	bool asked;
	/* When the task was chosen that is about to begin, or 0. */
	u64 chosen_at;
	/* Where its cache's clock was when that task began, and what it had counted then. */
	u64 clock;
	u64 contended;
	/* Of the task that runs there: since when, if that is known, for how long it
	 * had run before, and whether it is an AVX task. */
	u64 started_at;
	u64 ran_before;
	bool runs_avx;
	/* It is none of these, and was found to use heavy vectors of 256 bits. */
	bool runs_avx2;
	/* It is one of these that may use no AVX core. */
	bool avx_is_apart;
	/* It is an AVX core, and that task is none of the AVX tasks, and may move. */
	u32 is_misused;
	/* Up to when the time of AVX tasks is in the statistics, or 0 if the one that is here
	 * has not begun, and may leave before it does; and when one ran the last time. */
	u64 accounted;
	u64 avx_until;
	/* Who is to be queued elsewhere, from ops.dispatch() to ops.enqueue(), whether
	 * it is an AVX task, and on which CPU if one idles for it; in between, where to look
	 * for one first. */
	u64 sent_away;
	bool sends_avx;
	s32 sent_to;
	/* Who went on beside a busy sibling when its turn ended the last time. */
	u64 shares;
	/* How often what runs here was asked again to leave. */
	u32 retries;
	/* Who is to be queued elsewhere since this CPU is released, if it may move. */
	u64 released;
	/* Who was sent here from elsewhere, and whether as an AVX task. */
	u64 coming;
	bool avx_is_coming;
	u32 role; /* enum avx_role */
	/* Its cache, those whose queues a switch and a tick looked at last besides, and those
	 * whose queues it is about to take from. One for both would meet the same cache with
	 * each switch, where as many ticks come between two as bring it there. */
	u32 llc;
	u32 other_llc;
	u32 ticks_other_llc;
	u32 shared_llc;
	u32 avx_llc;
	/* How many AVX cores there are, of the core, cache or node of which this
	 * is the first CPU. */
	u32 core_avx;
	u32 llc_avx;
	u32 node_avx;
	/* Of the core of which this is the first CPU, when it was noted the last time that AVX
	 * tasks which are confined are there, and that it is their first AVX core. */
	u64 confined_at;
	u64 kept_at;
	/* When AVX work began the last time in the node of which this is the first CPU. */
	u64 node_used_at;
	/* How many looks at what it does are beside AVX work yet. */
	u32 looks_beside;
	/* The CPUs of the cache of which this is the first one, and those of either role. */
	struct bpf_cpumask __kptr *llc_cpus;
	struct bpf_cpumask __kptr *llc_avx_cpus;
	struct bpf_cpumask __kptr *llc_scalar_cpus;
	struct bpf_cpumask __kptr *scratch;
} __attribute__((aligned(64)));

/* The agent sizes these before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct avx_topology);
} topology SEC(".maps");

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

/*
 * Whether so many tasks of a queue have been looked at. Global, since the verifier would go through
 * a loop as often as it sees counted.
 */
__noinline bool is_enough(u32 *looks __arg_nonnull, u32 limit)
{
	return ++*looks >= limit;
}

static struct task_ctx *lookup_task(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

static struct avx_process *lookup_process(struct task_struct *p)
{
	return bpf_task_storage_get(&processes, p->group_leader, 0, 0);
}

static struct queue_ctx *lookup_queue(u64 id)
{
	u32 key = id;

	return bpf_map_lookup_elem(&queues, &key);
}

static struct cpu_ctx *lookup_cpu(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&cpus, &key);
}

/*
 * For how long @p, which runs on this CPU, has run up to now. The kernel's own number is
 * that of the last tick or switch.
 */
static u64 ran_up_to(const struct task_struct *p, const struct cpu_ctx *cctx, u64 now)
{
	if (!cctx->started_at || !vtime_before(cctx->started_at, now))
		return p->se.sum_exec_runtime;
	return cctx->ran_before + now - cctx->started_at;
}

bool had_avx_work; /* ever: until then nobody waits for AVX cores */
u32 nr_misused;	   /* AVX cores that run other work */

static void set_misused(struct cpu_ctx *cctx, bool is_misused)
{
	/* A tick may come in between, and change it as well. */
	if (cctx->is_misused == is_misused ||
	    __sync_lock_test_and_set(&cctx->is_misused, is_misused) == is_misused)
		return;
	__sync_fetch_and_add(&nr_misused, is_misused ? 1 : -1);
}

/*
 * As the policy had it at the last look, for no migration has time to look them up: the
 * first is for statistics alone, the others take effect that much later.
 */
u64 licence_hold_ns;
u64 avx_slice_ns = AVX_SLICE_MAX_NS;
u64 lend_idle_cores;
/* Whether somebody may need an AVX core while there are none. */
bool wants_avx_cores;

/* This CPU runs AVX work up to now, or from now on. */
static void account_avx(struct cpu_ctx *cctx, u64 now)
{
	u64 lowered, ran = 0;
	u32 zero = 0;
	struct avx_cpu_stats *stats = bpf_map_lookup_elem(&cpu_stats, &zero);

	if (cctx->runs_avx && cctx->accounted) {
		ran = since(cctx->accounted, now);
		lowered = ran;
	} else {
		lowered = held_low(cctx->avx_until, now, licence_hold_ns);
	}
	cctx->avx_until = now;
	if (!stats)
		return;
	stats->avx_ns += ran;
	if (cctx->avx_is_apart)
		stats->avx_apart_ns += ran;
	if (cctx->role == ROLE_AVX)
		stats->lowered_avx_ns += lowered;
	else
		stats->lowered_ns += lowered;
}

/* AVX work begins, goes on or ends on this CPU. */
static void set_runs_avx(struct cpu_ctx *cctx, bool runs_avx, u64 now)
{
	account_avx(cctx, now);
	cctx->accounted = now;
	cctx->runs_avx = runs_avx;
	if (runs_avx)
		set_misused(cctx, false);
}

/* This moment in the life of @p, up to which the kernel has just accounted for it. */
static __always_inline struct avx_moment accounted_moment_of(const struct task_struct *p)
{
	return (struct avx_moment){ .ran = p->se.sum_exec_runtime, .now = scx_bpf_now() };
}

/*
 * The same at a tick of @p, which runs here. What interrupts took of the CPU is not in the
 * kernel's account, and so not in what was worked out since.
 */
static struct avx_moment moment_of_tick(const struct task_struct *p, struct cpu_ctx *cctx)
{
	struct avx_moment at = accounted_moment_of(p);

	if (cctx->started_at)
		cctx->started_at = at.now - since(cctx->ran_before, at.ran);
	return at;
}

static bool is_avx_cpu(s32 cpu)
{
	const struct cpu_ctx *cctx = lookup_cpu(cpu);

	return cctx && cctx->role == ROLE_AVX;
}

/*
 * Global functions, here and in other files, are gone through once by the kernel's
 * verifier, and not for each way that leads to them or out of them. That is worth it
 * where something is looked up of a task: to find out what a pointer is good for the
 * verifier searches all the names that the kernel's types have.
 */

/*
 * Each callback keeps the task that runs from migrating, for which is_migration_disabled()
 * allows. In a callback within another one it does not, but was asked before.
 */
static __always_inline bool is_kept_here(const struct task_struct *p)
{
	const struct cpu_ctx *cctx;

	if (!is_migration_disabled(p))
		return false;
	cctx = lookup_cpu(bpf_get_smp_processor_id());
	return !cctx || cctx->released != (u64)p;
}

/* By its mask, and not for a moment only. */
static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1;
}

/*
 * Of the mask of @p. Global, since masks are rarely looked at, and each time that it gets to
 * where a task's pointer is followed the verifier of 6.12 goes through the names of all of the
 * kernel's types.
 */
__noinline s32 first_allowed(struct task_struct *p __arg_trusted)
{
	return bpf_cpumask_first(p->cpus_ptr);
}

/* An idle CPU that the mask of @p has, which is idle no longer, or a negative number. */
__noinline s32 pick_idle_allowed(struct task_struct *p __arg_trusted)
{
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

/* Whether the mask of @p has @cpu. */
__noinline bool mask_has(struct task_struct *p __arg_trusted, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/*
 * The CPU that @p is confined to, or a negative number if it may move. Asked
 * anew for each enqueue: an answer kept from ops.set_cpumask() would be stale,
 * since that can run before the task's mask has changed.
 */
static __always_inline s32 only_cpu_of(struct task_struct *p)
{
	if (is_kept_here(p))
		return scx_bpf_task_cpu(p);
	if (is_pinned(p))
		return first_allowed(p);
	return -1;
}

static __always_inline bool may_use_any_cpu(const struct task_struct *p)
{
	return p->nr_cpus_allowed >= nr_cpu_ids;
}

/* It may use one core at most, of several: there cannot be both AVX cores and others. */
static bool has_no_choice(struct task_struct *p)
{
	const struct avx_topology *place;
	u32 first;

	if (p->nr_cpus_allowed > cpus_per_core || may_use_any_cpu(p))
		return false;
	if (is_pinned(p))
		return true;
	first = first_allowed(p);
	place = bpf_map_lookup_elem(&topology, &first);
	return place && place->sibling != first && mask_has(p, place->sibling);
}

/* It may use a part of the machine, which is more than that. */
static bool is_confined(struct task_struct *p)
{
	return p->nr_cpus_allowed < nr_usable_cpus && !has_no_choice(p);
}

/*
 * Whether the mask of @p has @cpu: most often it has them all, which is known at once. Not
 * to be asked of other CPUs if @p is kept from migrating: the number is not of that mask.
 */
static __always_inline bool is_allowed_on(struct task_struct *p, s32 cpu)
{
	return may_use_any_cpu(p) || mask_has(p, cpu);
}

/* One of several caches. */
__noinline u32 find_llc_of(struct task_struct *p __arg_trusted)
{
	s32 cpu = scx_bpf_task_cpu(p);
	const struct cpu_ctx *cctx;

	if (!mask_has(p, cpu))
		cpu = first_allowed(p);
	cctx = lookup_cpu(cpu);
	return cctx ? cctx->llc : 0;
}

/* The cache near which @p is, or may be. In line, for each switch asks, and most often in vain. */
static __always_inline u32 llc_of(struct task_struct *p)
{
	return nr_llcs > 1 ? find_llc_of(p) : first_llc;
}

/* The next one in the ring of all caches. */
static u32 llc_after(u32 llc)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &llc);

	return place ? place->next_llc : llc;
}

/* All the others in turn: the one after @last, which it becomes. */
static u32 look_at_next_llc(const struct cpu_ctx *cctx, u32 *last)
{
	u32 llc = llc_after(*last);

	if (llc == cctx->llc)
		llc = llc_after(llc);
	*last = llc;
	return llc;
}

#endif /* AVXSPEC_STATE_BPF_H */
