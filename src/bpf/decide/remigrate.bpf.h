/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When an AVX task becomes scalar again.
 *
 * Problem. The first wide instruction of a phase announces itself, the last one
 * does not. A task that stays too long runs scalar code at a low clock, and takes
 * the place of others. One that leaves too early comes back at once, and has moved
 * twice for nothing.
 *
 * Mechanism. The best of the published heuristics was the next system call: the
 * library that does the wide work returns to a program that does something with
 * the result. The adaptive method does the same, and learns how long each task
 * then stays scalar. If that time was, on average over some phases, too short to be
 * worth two moves, the task is kept over its system calls. It is tried again, for a
 * few phases, after a while that gets longer each time, up to a bound. So a task
 * that alternates quickly moves rarely, and one that changes its ways is noticed.
 *
 * This takes several phases, because nothing is learnt while a task is kept: a
 * program that encrypts something, asks for more, decrypts that and then computes
 * for long has a short scalar time after each long one. Times count by their length,
 * up to a bound, because to keep a task over a long one costs as much as a hundred
 * moves.
 *
 * All times are those for which the task ran: a task that sleeps is in no other
 * task's way.
 */
#ifndef AVXSPEC_REMIGRATE_BPF_H
#define AVXSPEC_REMIGRATE_BPF_H

#include "arithmetic.bpf.h"

/* A long scalar time counts for this many times what is worthwhile, and for no more. */
#define LONG_ENOUGH 16
/* How many phases tell whether a task alternates quickly. */
#define TRIES 8
/* How many phases tell whether it still does when it is tried again. */
#define TRIES_AGAIN 2

static __always_inline bool is_worthwhile(const struct avx_phase *phase,
					  const struct avx_policy *policy)
{
	return phase->scalar >= policy->worthwhile_ns;
}

/* Learns for how long the phase that begins is kept open, after a scalar time. */
static __always_inline void learn_to_keep(struct avx_phase *phase, const struct avx_policy *policy)
{
	u32 tries = phase->patience ? TRIES_AGAIN : TRIES;

	phase->keep = 0;
	if (is_worthwhile(phase, policy)) {
		phase->tries = 0;
		phase->patience = 0;
	} else if (++phase->tries >= tries) {
		phase->tries = 0;
		phase->patience =
			at_most(4 * phase->patience + policy->worthwhile_ns, policy->retry_max_ns);
		phase->keep = phase->patience;
	}
}

/* The task needs wide vectors, having run for @ran, and is an AVX task from now on. */
static __always_inline void phase_begins(struct avx_phase *phase, const struct avx_policy *policy,
					 u64 ran)
{
	if (phase->ended) {
		u64 scalar = at_most(since(phase->ended, ran), LONG_ENOUGH * policy->worthwhile_ns);

		phase->scalar = moving_average(phase->scalar, scalar, AVX_WHOLE / TRIES);
		learn_to_keep(phase, policy);
	} else {
		/* As long as the scalar time is not known, it is taken to be just worthwhile. */
		phase->scalar = policy->worthwhile_ns;
	}
	phase->began = ran;
	phase->used = ran;
}

/* Wide vectors are still, or again, in use. */
static __always_inline void phase_goes_on(struct avx_phase *phase, u64 ran)
{
	phase->used = ran;
}

static __always_inline bool phase_is_over(const struct avx_phase *phase,
					  const struct avx_policy *policy,
					  enum avx_boundary boundary, u64 ran)
{
	if (since(phase->used, ran) >= policy->return_timeout_ns)
		return true;

	switch (policy->return_method) {
	case RETURN_SYSCALL:
		return boundary == BOUNDARY_SYSCALL || boundary == BOUNDARY_UNUSED;
	case RETURN_SWITCH:
		return boundary == BOUNDARY_SWITCH || boundary == BOUNDARY_UNUSED;
	case RETURN_ADAPTIVE:
		return (boundary == BOUNDARY_SYSCALL || boundary == BOUNDARY_UNUSED) &&
		       since(phase->began, ran) >= phase->keep;
	default:
		return false;
	}
}

/* The task is scalar from now on. */
static __always_inline void phase_ends(struct avx_phase *phase, u64 ran)
{
	phase->ended = ran ? ran : 1;
}

#endif /* AVXSPEC_REMIGRATE_BPF_H */
