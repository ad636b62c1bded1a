/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where tasks wait.
 *
 * Problem. One queue for all is fair and leaves no CPU idle beside waiting
 * work, but a CPU that looks for a task must step over every task that is
 * bound to another CPU. The local queues of the kernel avoid the search, but
 * the kernel empties them before it asks for anything else: two busy tasks
 * bound to one CPU would lock out everybody who could only run there.
 *
 * Mechanism. Tasks that may move wait in one shared queue, and AVX tasks that
 * may use an AVX core in another. Tasks that may use one CPU only wait in the private queue of that
 * CPU. Both are sorted by the time at which a task is due, a time on the wall, so a CPU compares
 * the heads and takes what is due first. An AVX core gives AVX work a head start; a scalar CPU
 * takes AVX work only if it has been due for very long, as when the last AVX core that a task may
 * use is none any more. The id of a queue is its index in the map that holds the queues' clocks.
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

/* A task that could be next on a CPU, if there is one. */
struct avx_contender {
	bool present;
	u64 due;
};

static __always_inline u64 private_queue(s32 cpu)
{
	return FIRST_PRIVATE_QUEUE + (u64)cpu;
}

/* Index of the queue of a task: @only_cpu is negative if it may move. */
static __always_inline u64 queue_of(s32 only_cpu)
{
	return only_cpu < 0 ? SHARED_QUEUE : private_queue(only_cpu);
}

static __always_inline bool is_due_before(const struct avx_contender *a,
					  const struct avx_contender *b)
{
	return a->present && (!b->present || vtime_before(a->due, b->due));
}

/* Work that belongs elsewhere has to be due for so long to be treated alike. */
static __always_inline struct avx_contender yielding(struct avx_contender it, u64 penalty_ns)
{
	it.due += penalty_ns;
	return it;
}

/* ... or does not contend at all before. */
static __always_inline struct avx_contender stranded(struct avx_contender it, u64 now, u64 bound_ns)
{
	it.present = it.present && vtime_before(it.due + bound_ns, now);
	return it;
}

/*
 * Whoever is due first. At a tie the running task stays, for a switch costs,
 * and of the queues the one yields that more CPUs can serve.
 */
static __always_inline enum avx_choice choose_next(const struct avx_contender *prev,
						   const struct avx_contender *shared,
						   const struct avx_contender *avx,
						   const struct avx_contender *private)
{
	enum avx_choice choice = CHOOSE_PRIVATE;
	const struct avx_contender *first = private;

	if (is_due_before(avx, first)) {
		choice = CHOOSE_AVX;
		first = avx;
	}
	if (is_due_before(shared, first)) {
		choice = CHOOSE_SHARED;
		first = shared;
	}
	return prev->present && !is_due_before(first, prev) ? CHOOSE_PREV : choice;
}

#endif /* AVXSPEC_QUEUES_BPF_H */
