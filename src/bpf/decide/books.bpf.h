/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is kept of the past, for people to read: no decision depends on it.
 *
 * A task has a book in its context, which is written when the task is looked at anyway.
 * With the tick, and when the task leaves the scheduler, what is new in it is added to
 * the book of its program and cgroup, which several CPUs write.
 */
#ifndef AVXSPEC_BOOKS_BPF_H
#define AVXSPEC_BOOKS_BPF_H

#include "arithmetic.bpf.h"

__verified_once u32 wait_bucket(u64 wait_ns)
{
	u64 left = wait_ns / AVX_WAIT_FIRST_NS;
	u32 bucket = 0;

	for (u32 step = 32; step; step /= 2) {
		if (left >> step) {
			left >>= step;
			bucket += step;
		}
	}
	return at_most(bucket + left, AVX_WAIT_BUCKETS - 1);
}

/*
 * Returns true for one wait in AVX_WAITS_SAMPLED. The running time decides, because it has
 * nothing to do with waits and costs nothing. Its last digits are not taken, because clocks
 * are coarser. It is the same for all tasks that never ran, so that for these @pid decides.
 */
static __always_inline bool is_sampled(u64 ran, u32 pid)
{
	u64 number = ran / AVX_WAIT_FIRST_NS;

	return !(number % AVX_WAITS_SAMPLED) && (number || !(pid % AVX_WAITS_SAMPLED));
}

/* Returns for how much of the time since the last AVX work the clock was low. */
static __always_inline u64 held_low(u64 last_avx, u64 now, u64 hold_ns)
{
	return last_avx ? at_most(since(last_avx, now), hold_ns) : 0;
}

/* What a tick found its CPU doing. */
enum avx_look {
	LOOK_OTHER,
	LOOK_WIDE,   /* AVX work */
	LOOK_BESIDE, /* other work, at most LOOKS_BESIDE looks after AVX work */
};

/* This is a large number because AVX work that comes in short pieces is seldom seen. */
#define LOOKS_BESIDE 100

/* Judges a look; @beside counts how many looks on this CPU are still beside AVX work. */
static __always_inline enum avx_look judge_look(u32 *beside, bool is_wide)
{
	if (is_wide) {
		*beside = LOOKS_BESIDE;
		return LOOK_WIDE;
	}
	if (!*beside)
		return LOOK_OTHER;
	(*beside)--;
	return LOOK_BESIDE;
}

/* The task ran up to @ran as an AVX task, or as a scalar one. */
static __always_inline void book_time(struct task_ctx *tctx, bool as_avx, u64 ran)
{
	u64 *time = as_avx ? &tctx->book.avx_ns : &tctx->book.scalar_ns;

	*time += since(tctx->booked_at, ran);
	tctx->booked_at = ran;
	tctx->has_news = true;
}

static __always_inline void book_beginning(struct task_ctx *tctx, enum avx_cause cause,
					   u64 generation, u64 ran)
{
	/* Before its first phase the task was neither AVX nor scalar. */
	if (tctx->phase.ended)
		book_time(tctx, false, ran);
	tctx->booked_at = ran;
	tctx->has_news = true;
	tctx->generation = generation;
	tctx->cause = cause;
	tctx->book.phases[cause]++;
}

static __always_inline void book_end(struct task_ctx *tctx, enum avx_boundary boundary,
				     u64 generation, u64 ran)
{
	book_time(tctx, true, ran);
	tctx->generation = generation;
	tctx->boundary = boundary;
	tctx->book.ends[boundary]++;
}

static __always_inline void book_fault(struct task_ctx *tctx, u32 verdict)
{
	if (verdict >= NR_VERDICTS)
		return;
	tctx->has_news = true;
	tctx->book.faults[verdict]++;
}

#endif /* AVXSPEC_BOOKS_BPF_H */
