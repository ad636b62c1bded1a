/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where tasks wait.
 *
 * Problem. One queue for all is fair and leaves no CPU idle beside waiting
 * work, but a CPU that looks for a task must step over every task that is
 * bound to another CPU. The local queues of the kernel avoid the search, but
 * the kernel empties them before it asks for anything else: two busy tasks
 * bound to one CPU would lock out every other task that can only run there.
 *
 * Mechanism. Each last-level cache has a shared queue, where tasks wait that may move,
 * and one for AVX tasks that may use an AVX core. Tasks that may use one CPU only wait in
 * the private queue of that CPU. All are sorted by the time at which a task is due, a time
 * on the wall, so a CPU compares the first of each that it may run, and takes what is due
 * first: if others decided, two could wait for each other. An AVX core gives AVX work a
 * head start, or other work where AVX work has more than its share; a scalar CPU takes AVX
 * work only if it has been due for very long, as when the last AVX core that a task may use
 * is none any more.
 *
 * A CPU that would be idle takes what waits for any cache. One that is not looks at one
 * other cache each time, all in turn, and takes what has been due there for a while, or
 * is due where more compete for a CPU than here. So every CPU that may empties each queue,
 * and no cache is much slower than another.
 *
 * The id of a queue is its index in the map that holds what is known of them. All queues of a
 * cache, those of its CPUs as well, go by the clock of its shared queue: the tasks that wait
 * there compete for the same CPUs, and are owed the same wherever they wait.
 *
 * Tasks that wait are counted, and a task that begins to run is taken off the count. The
 * kernel keeps the due time with the task, so its last bits say where the task
 * counts: to look that up would be a good part of what a switch costs.
 *
 * Limits. A task bound to several CPUs but not to all of them waits in the
 * shared queue and is stepped over by the others.
 */
#ifndef AVXSPEC_QUEUES_BPF_H
#define AVXSPEC_QUEUES_BPF_H

#include "fairness.bpf.h"

/* How a CPU that needs a task goes on. */
enum avx_choice {
	CHOOSE_PREV,	/* let the task that was running go on */
	CHOOSE_SHARED,	/* look into the shared queue first */
	CHOOSE_AVX,	/* look into that of AVX work first */
	CHOOSE_PRIVATE, /* look into the CPU's own queue first */
};

/*
 * A task that could be next on a CPU is known by the time until it is due, which
 * is negative if it should have run before. One number, so that the absence of a
 * task is no case of its own.
 */
#define NOBODY_DUE (1LL << 62)

/*
 * Returns true if a task that ran until @ran_until still has its data in the cache where it ran.
 * A move to another cache is taken to cost as much as a wait for that long.
 */
static __always_inline bool is_cache_hot(u64 ran_until, u64 now)
{
	return vtime_before(now, ran_until + AVX_CACHE_HOT_NS);
}

static __always_inline u64 queue_of(u32 cpu, enum avx_queue_kind kind)
{
	return (u64)cpu * NR_QUEUE_KINDS + kind;
}

static __always_inline u64 private_queue(u32 cpu)
{
	return queue_of(cpu, QUEUE_PRIVATE);
}

/* A cache is named by its first CPU. */
static __always_inline u64 shared_queue(u32 llc)
{
	return queue_of(llc, QUEUE_SHARED);
}

static __always_inline u64 avx_queue(u32 llc)
{
	return queue_of(llc, QUEUE_AVX);
}

static __always_inline enum avx_queue_kind kind_of(u64 id)
{
	return id % NR_QUEUE_KINDS;
}

static __always_inline bool is_avx_queue(u64 id)
{
	return kind_of(id) == QUEUE_AVX;
}

static __always_inline bool is_somebody(s64 due_in)
{
	return due_in < NOBODY_DUE;
}

/* Returns by when a task is treated as due that has to have been due for @penalty_ns before. */
static __always_inline s64 yielding(s64 due_in, u64 penalty_ns)
{
	return due_in + (s64)penalty_ns;
}

/* Returns NOBODY_DUE unless a task has been due for longer than @bound_ns. */
static __always_inline s64 stranded(s64 due_in, u64 bound_ns)
{
	return due_in < -(s64)bound_ns ? due_in : NOBODY_DUE;
}

/*
 * Returns true if a task with @weight that goes from the CPUs of @from to those of @to has no more
 * competition there than the tasks that it leaves behind. Then none of them would go back.
 */
static __always_inline bool evens_out(const struct avx_load *from, const struct avx_load *to,
				      u64 weight)
{
	return since(weight, from->weight) * at_least_one(to->nr_cpus) >=
	       (to->weight + weight) * at_least_one(from->nr_cpus);
}

/*
 * Returns where the task is that is due first. At a tie the running task stays, because a switch
 * costs, and of two queues the one yields that more CPUs can serve.
 */
static __always_inline enum avx_choice choose_next(s64 prev, s64 shared, s64 avx, s64 private)
{
	enum avx_choice choice = CHOOSE_PRIVATE;
	s64 first = private;

	if (avx < first) {
		choice = CHOOSE_AVX;
		first = avx;
	}
	if (shared < first) {
		choice = CHOOSE_SHARED;
		first = shared;
	}
	return is_somebody(prev) && prev <= first ? CHOOSE_PREV : choice;
}

/* Returns the only queue in which a task waits, or CHOOSE_PREV if there are several or none. */
static __always_inline enum avx_choice only_choice(u64 shared, u64 avx, u64 private)
{
	if (private)
		return shared | avx ? CHOOSE_PREV : CHOOSE_PRIVATE;
	if (shared)
		return avx ? CHOOSE_PREV : CHOOSE_SHARED;
	return avx ? CHOOSE_AVX : CHOOSE_PREV;
}

/* A tag says in which queue a task counts, and whether it woke up before; 0 is none. */
#define TAG_BITS 16
#define TAG_MASK ((1ULL << TAG_BITS) - 1)

static __always_inline u64 tag_of(u64 id, bool woke_up)
{
	return (id + 1) << 1 | woke_up;
}

static __always_inline u64 queue_of_tag(u64 tag)
{
	return (tag >> 1) - 1;
}

static __always_inline bool tag_woke_up(u64 tag)
{
	return tag & 1;
}

/* Puts the tag into the last bits of the due time, which changes by up to 66 us. */
static __always_inline u64 tagged(u64 due_at, u64 tag)
{
	return (due_at & ~TAG_MASK) | tag;
}

#endif /* AVXSPEC_QUEUES_BPF_H */
