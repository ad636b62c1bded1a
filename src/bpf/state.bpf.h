/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the callbacks remember about each task, process, CPU and queue.
 *
 * Locking. The context of a task is written by the task itself, or with the lock of its run queue
 * held. The clocks, and the time before which no task of a queue is due, are written by all CPUs
 * of a cache without a lock: the next step makes up for one that is lost. What is known of a
 * process only grows until it executes another program. The context of a CPU is written by that
 * CPU, with these exceptions: its role, the numbers of AVX cores, when confined tasks were noted
 * there, whether it was asked to make room, and the task that is coming, which the CPU writes that
 * claimed this one while it was idle. A CPU that changes a task which runs elsewhere forgets since
 * when that one runs, with the lock of its run queue held.
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
const volatile u32 nr_usable_cpus = 1; /* online and not isolated */
const volatile u32 nr_cpu_ids = 1;
const volatile u32 cpus_per_core = 1;
const volatile u32 nr_llcs = 1;
const volatile u32 first_llc = 0; /* its name */
const volatile u32 nr_nodes = 1;
const volatile u32 tier = AVX_TIER_OBSERVE;
/* CPUID is hidden as well. After a crash AMD's CPUs would leave it hidden to the next kernel. */
const volatile bool hides_cpuid = false;

/* Realtime and deadline tasks have the priorities below this. */
#define FIRST_FAIR_PRIO 100

/* Policies of tasks, as user space has them. */
#define SCHED_BATCH 3
#define SCHED_IDLE 5

/* Returns what a task is granted at a time where others wait. */
static __always_inline u64 request_ns(void)
{
	return request_on(nr_online_cpus);
}

/* Returns true if tasks are divided into AVX tasks and others, whatever the method. */
static bool classifies(void)
{
	return tier != AVX_TIER_OBSERVE;
}

/* Returns true if the kernel hides AVX-512 and tells of its first use. */
static bool traps(void)
{
	return tier == AVX_TIER_TRAP;
}

/* Returns true if AVX work and its end are noticed only afterwards. */
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

/* The storage of the first thread of each process. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct avx_process);
} processes SEC(".maps");

/*
 * Returns the storage of @p in @map, and makes it if there is none. The kernel gives up if another
 * program, of ours or not, makes some for the same task in the same moment: the second call finds
 * that.
 */
#define make_storage(map, p)                                             \
	(bpf_task_storage_get(map, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) \
		 ?: bpf_task_storage_get(map, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))

struct cpu_ctx {
	/* The task that runs there, whether it began because it woke up, and whether the CPU was
	 * asked to make room and has not chosen since. */
	struct avx_runner runner;
	bool woke_up;
	bool asked;
	/* When the task was chosen that is about to begin, or 0. */
	u64 chosen_at;
	/* Where its cache's clock was when that task began, and what it had counted then. */
	u64 clock;
	u64 contended;
	/* Since when that task runs, or 0 if that is not known, for how long it had run before,
	 * and whether it is an AVX task. */
	u64 started_at;
	u64 ran_before;
	bool runs_avx;
	/* That task is no AVX task, and was found to use heavy vectors of 256 bits. */
	bool runs_avx2;
	/* That task is an AVX task that may use no AVX core. */
	bool avx_is_apart;
	/* The CPU is an AVX core, and that task is no AVX task and may move. */
	u32 is_misused;
	/* Up to when the time of AVX tasks is in the statistics, or 0 if the AVX task that is here
	 * has not begun, and may leave before it does; and when an AVX task ran here last. */
	u64 accounted;
	u64 avx_until;
	/* The task that is to be queued elsewhere, from ops.dispatch() to ops.enqueue(), whether
	 * it is an AVX task, and the idle CPU that was claimed for it. At other times sent_to is
	 * the CPU that is tried first. */
	u64 sent_away;
	bool sends_avx;
	s32 sent_to;
	/* The task that went on beside a busy sibling when its last turn ended. */
	u64 shares;
	/* How often the task that runs here was asked again to leave. */
	u32 retries;
	/* The task that is to be queued elsewhere because this CPU is released, if it may move. */
	u64 released;
	/* The task that was sent here from another CPU, and whether it is an AVX task. */
	u64 coming;
	bool avx_is_coming;
	u32 role; /* enum avx_role */
	/* Its cache, the other caches whose queues a switch and a tick looked at last, and those
	 * from whose queues it is about to take. Switches and ticks go round separately: with one
	 * round for both a switch might meet the same cache each time. */
	u32 llc;
	u32 other_llc;
	u32 ticks_other_llc;
	u32 shared_llc;
	u32 avx_llc;
	/* How many AVX cores the core, the cache and the node have of which this is the first
	 * CPU. */
	u32 core_avx;
	u32 llc_avx;
	u32 node_avx;
	/* When it was noted last, of the core of which this is the first CPU, that confined AVX
	 * tasks are there, and that it is the first AVX core that they may use. */
	u64 confined_at;
	u64 kept_at;
	/* When AVX work last began in the node of which this is the first CPU. */
	u64 node_used_at;
	/* How many more looks at what it does count as beside AVX work. */
	u32 looks_beside;
	/* All CPUs, AVX cores and scalar CPUs of the cache of which this is the first CPU. */
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
 * Returns true if @limit tasks of a queue have been looked at. Global, because the verifier would
 * go through a loop as often as it sees it counted.
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
 * Returns for how long @p, which runs on this CPU, has run up to now. The kernel's own number is
 * that of the last tick or switch.
 */
static u64 ran_up_to(const struct task_struct *p, const struct cpu_ctx *cctx, u64 now)
{
	if (!cctx->started_at || !vtime_before(cctx->started_at, now))
		return p->se.sum_exec_runtime;
	return cctx->ran_before + now - cctx->started_at;
}

bool had_avx_work; /* ever: before, no task waits for AVX cores */
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
 * Knobs as the policy had them at the last look, because a migration has no time to look them up.
 * The first is for statistics alone; a change of the others takes effect at the next look.
 */
u64 licence_hold_ns;
u64 avx_slice_ns = AVX_SLICE_MAX_NS;
u64 lend_idle_cores;
/* There are no AVX cores, and a task may need one. */
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

/* Returns the present moment in the life of @p, for which the kernel has just accounted. */
static __always_inline struct avx_moment accounted_moment_of(const struct task_struct *p)
{
	return (struct avx_moment){ .ran = p->se.sum_exec_runtime, .now = scx_bpf_now() };
}

/*
 * Returns the present moment at a tick of @p, which runs here. The kernel's account leaves out what
 * interrupts took of the CPU, so the time at which @p began is corrected by it.
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
 * The kernel's verifier checks a global function once, here and in other files, and not for each
 * path that leads to it or out of it. That pays where a task's pointers are followed, because the
 * verifier searches the names of all of the kernel's types to find out what such a pointer is.
 */

/*
 * Returns true if @p may not leave its CPU for now. A callback itself keeps the running task from
 * migrating, and is_migration_disabled() allows for that. A callback within another one is not
 * allowed for, so the outer one asks before.
 */
static __always_inline bool is_kept_here(const struct task_struct *p)
{
	const struct cpu_ctx *cctx;

	if (!is_migration_disabled(p))
		return false;
	cctx = lookup_cpu(bpf_get_smp_processor_id());
	return !cctx || cctx->released != (u64)p;
}

/* Returns true if the mask of @p has one CPU; unlike migration that is disabled, that lasts. */
static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1;
}

/* Returns the first CPU in the mask of @p. Global, because masks are rarely looked at. */
__noinline s32 first_allowed(struct task_struct *p __arg_trusted)
{
	return bpf_cpumask_first(p->cpus_ptr);
}

/* Claims an idle CPU in the mask of @p, and returns it, or a negative number if there is none. */
__noinline s32 pick_idle_allowed(struct task_struct *p __arg_trusted)
{
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

/* Returns true if the mask of @p has @cpu. */
__noinline bool mask_has(struct task_struct *p __arg_trusted, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/*
 * Returns the CPU that @p is confined to, or a negative number if it may move. Each enqueue asks
 * anew: an answer kept from ops.set_cpumask() would be stale, because that can run before the
 * task's mask has changed.
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

/* Returns true if @p may use one core alone, which cannot be both an AVX core and another. */
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

/* Returns true if @p may use a part of the machine, which is more than one core. */
static bool is_confined(struct task_struct *p)
{
	return p->nr_cpus_allowed < nr_usable_cpus && !has_no_choice(p);
}

/*
 * Returns true if @p may run on @cpu: most tasks may use all CPUs, which is known at once. Callers
 * do not ask about other CPUs while @p is kept from migrating, because nr_cpus_allowed is not of
 * the mask that it has then.
 */
static __always_inline bool is_allowed_on(struct task_struct *p, s32 cpu)
{
	return may_use_any_cpu(p) || mask_has(p, cpu);
}

/* Returns the cache of @p where there are several. */
__noinline u32 find_llc_of(struct task_struct *p __arg_trusted)
{
	s32 cpu = scx_bpf_task_cpu(p);
	const struct cpu_ctx *cctx;

	if (!mask_has(p, cpu))
		cpu = first_allowed(p);
	cctx = lookup_cpu(cpu);
	return cctx ? cctx->llc : 0;
}

/* Returns the cache where @p is, or may be. In line, because each switch asks. */
static __always_inline u32 llc_of(struct task_struct *p)
{
	return nr_llcs > 1 ? find_llc_of(p) : first_llc;
}

/* Returns the next cache in the ring of all caches. */
static u32 llc_after(u32 llc)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &llc);

	return place ? place->next_llc : llc;
}

/* Advances @last to the next cache that is not this CPU's own, and returns it. */
static u32 look_at_next_llc(const struct cpu_ctx *cctx, u32 *last)
{
	u32 llc = llc_after(*last);

	if (llc == cctx->llc)
		llc = llc_after(llc);
	*last = llc;
	return llc;
}

#endif /* AVXSPEC_STATE_BPF_H */
