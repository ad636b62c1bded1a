/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether AVX cores pay for a program.
 *
 * Problem. To keep wide work apart has a price: tasks move, to caches that are cold,
 * and wait for AVX cores while other CPUs idle. What it earns is that the time after
 * a phase is not spent at a low clock. A program that hardly does anything but wide
 * work, on a machine that is its own, pays and earns nothing.
 *
 * Mechanism. Both are estimated for each process. Without AVX cores the clock would stay low
 * after each phase until the next one, or for the hold time: a part of that is what a phase
 * earns. Who remains an AVX task, and takes turns, earns the same for those who run elsewhere
 * while it waits; and while it sleeps, as far as there are any. A phase costs two moves, what
 * its task waited beside idle CPUs, and until those woke up to which it was sent; where none
 * idles, waiting is nobody's loss. Once a second the two are compared. If the price is higher,
 * and worth speaking of, the process is left alone: it sees AVX-512, and does its wide work
 * where it is. After a pause it is tried again for a second, or less if it costs far more than
 * it earns, and each pause is twice as long as the one before, up to a bound. For whoever
 * stays the seconds before count as well, each for less than the next one: waits come in
 * bursts, and a bad second or two are seldom followed by others.
 *
 * Limits. Programs that share a core are judged one by one: of what a program that is
 * left alone does to others only the hold times are known. What a program waited while
 * AVX cores for it were still being set up is not counted.
 */
#ifndef AVXSPEC_WORTH_BPF_H
#define AVXSPEC_WORTH_BPF_H

#include "arithmetic.bpf.h"

/* How often it is decided, and the pauses between two tries. */
#define WORTH_WINDOW_NS (1000 * 1000 * 1000ULL)
#define WORTH_PAUSE_MIN_NS (2 * WORTH_WINDOW_NS)
#define WORTH_PAUSE_MAX_NS (AVX_WORTH_PAUSE_WINDOWS * WORTH_WINDOW_NS)
/* With each window this part of what was weighed before is forgotten: one of so many. */
#define WORTH_FORGETS 8
/* What is seen so early in a try is what it takes to get there. */
#define WORTH_SETTLE_NS (200 * 1000 * 1000ULL)

/* Whether AVX cores are for programs that only do AVX work, and say nothing of it. */
static __always_inline bool serves_all(const struct avx_policy *policy)
{
	return policy->avx_cores_for == SERVED_ALL;
}

/* What came of a look at a process. */
enum avx_judgement {
	JUDGED_AS_BEFORE,
	JUDGED_TOO_DEAR, /* it is left alone from now on, */
	JUDGED_ANEW,	 /* ... or is tried again after it was */
};

static __always_inline bool is_left_alone(const struct avx_worth *worth, u64 now)
{
	return now < worth->alone_until;
}

/* Others, or the task itself, had so much time for which the clock would have been low. */
static __always_inline void earn(struct avx_worth *worth, const struct avx_policy *policy, u64 ns)
{
	__sync_fetch_and_add(&worth->earned_ns, ns * policy->licence_drop / AVX_WHOLE);
}

/* A phase began, so long after the one before, in which the task had to move or not. */
static __always_inline void weigh_phase(struct avx_worth *worth, const struct avx_policy *policy,
					u64 since_last_ns, bool moves)
{
	earn(worth, policy, at_most(since_last_ns, policy->licence_hold_ns));
	if (moves)
		__sync_fetch_and_add(&worth->spent_ns, 2 * policy->move_cost_ns);
}

/*
 * A task of the process waited for an AVX core: so long beside idle CPUs; or as long as
 * it would have lowered the clock of others, who ran instead.
 */
static __always_inline void weigh_wait(struct avx_worth *worth, const struct avx_policy *policy,
				       u64 wait_ns, u64 spared_ns)
{
	if (wait_ns)
		__sync_fetch_and_add(&worth->spent_ns, wait_ns);
	if (spared_ns)
		earn(worth, policy, spared_ns);
}

/*
 * What others are spared by an AVX task that stays one while it sleeps: the low clock that it
 * would have left behind, as far as there is anybody to run at it. They take so much of the
 * time of all CPUs (1/1024), of which a core has so many.
 */
static __always_inline u64 spared_asleep(const struct avx_policy *policy, u64 slept_ns,
					 u64 others_share, u32 core_cpus)
{
	return at_most(slept_ns, policy->licence_hold_ns) * others_share * core_cpus / AVX_WHOLE;
}

static __always_inline void begin_window(struct avx_worth *worth, u64 at)
{
	worth->window_at = at;
	worth->earned_ns = 0;
	worth->spent_ns = 0;
	worth->before_ns = 0;
}

/* A window of so much time is over, and counts for some time yet. */
static __always_inline void remember_window(struct avx_worth *worth, u64 elapsed_ns)
{
	worth->earned_ns -= worth->earned_ns / WORTH_FORGETS;
	worth->spent_ns -= worth->spent_ns / WORTH_FORGETS;
	worth->before_ns += elapsed_ns;
	worth->before_ns -= worth->before_ns / WORTH_FORGETS;
}

static __always_inline bool is_too_dear(const struct avx_worth *worth, u64 elapsed_ns)
{
	return worth->spent_ns > worth->earned_ns &&
	       worth->spent_ns > (worth->before_ns + elapsed_ns) * AVX_WORTH_LEAST / AVX_WHOLE;
}

/* Of a program that is tried again: it costs twice what it earns, as is soon seen. */
static __always_inline bool is_still_too_dear(const struct avx_worth *worth, u64 elapsed_ns)
{
	return worth->pause_ns && elapsed_ns >= WORTH_WINDOW_NS / 8 &&
	       worth->spent_ns > 2 * worth->earned_ns && is_too_dear(worth, elapsed_ns);
}

/*
 * The window that began at @begun is over, and the next one begins. The threads of a
 * process are looked at by the same ticks: this is for one of them.
 */
static __always_inline bool ends_window(struct avx_worth *worth, u64 begun, u64 next)
{
	return __sync_val_compare_and_swap(&worth->window_at, begun, next) == begun;
}

/* Decides, if it is time to; what others add meanwhile may be lost. */
static __always_inline enum avx_judgement judge_worth(struct avx_worth *worth,
						      const struct avx_policy *policy, u64 now)
{
	u64 begun = worth->window_at, elapsed = since(begun, now), next;
	bool is_dear;

	if (!policy->only_where_it_pays || !serves_all(policy)) {
		if (!worth->alone_until)
			return JUDGED_AS_BEFORE;
		worth->alone_until = 0;
		return JUDGED_ANEW;
	}
	if (is_left_alone(worth, now))
		return JUDGED_AS_BEFORE;
	/* What was weighed long ago, or before a pause, says nothing of now. */
	if (!begun || elapsed >= 2 * WORTH_WINDOW_NS) {
		next = now + WORTH_SETTLE_NS;
		if (!ends_window(worth, begun, next))
			return JUDGED_AS_BEFORE;
		begin_window(worth, next);
		if (!worth->alone_until)
			return JUDGED_AS_BEFORE;
		worth->alone_until = 0;
		return JUDGED_ANEW;
	}
	if (now < begun)
		begin_window(worth, begun);
	if (elapsed < WORTH_WINDOW_NS && !is_still_too_dear(worth, elapsed))
		return JUDGED_AS_BEFORE;
	is_dear = is_too_dear(worth, elapsed);
	if (!ends_window(worth, begun, now))
		return JUDGED_AS_BEFORE;
	remember_window(worth, elapsed);
	if (is_dear) {
		worth->pause_ns = at_most(at_least(2 * worth->pause_ns, WORTH_PAUSE_MIN_NS),
					  WORTH_PAUSE_MAX_NS);
		worth->alone_until = now + worth->pause_ns;
	} else {
		worth->pause_ns = 0;
	}
	return is_dear ? JUDGED_TOO_DEAR : JUDGED_AS_BEFORE;
}

#endif /* AVXSPEC_WORTH_BPF_H */
