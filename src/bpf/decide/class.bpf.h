/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task is, and what is hidden from it.
 *
 * Problem. AVX-512 is hidden so that the first wide instruction of a phase is
 * noticed before it is executed. But not every fault is one: the C library's
 * string functions have the same encoding, ld.so restores registers that are not
 * visible, and who asks the CPU for its features must not be told less than there
 * is, for that is asked once in the life of a program. And what has not been used
 * yet must not be hidden at all.
 *
 * Mechanism. Nothing is hidden from a process before one of its tasks was seen
 * with 512-bit vectors, which it then has detected before. From then on it is
 * hidden from its tasks while they are none of the AVX tasks, and what faults is
 * looked at. This does not depend on the CPU: a task that begins a scalar phase on
 * an AVX core may be interrupted and go on elsewhere, and then it would be too
 * late, for the kernel hides safely after a system call only. A library that is loaded
 * later asks CPUID before it looks at XCR0: where CPUs can have that fault as well, they
 * do, and nothing is hidden from the process for a while.
 *
 * A wide instruction makes an AVX task of a scalar one. A light one costs nothing
 * where it is, and the task is left visible for a time that doubles with each such
 * fault, so that string functions cost a fault per back-off. A back-off is also a
 * time in which wide instructions are not noticed, so it is not for tasks that use
 * both: whoever faults for something light while its last wide instruction is still
 * in memory becomes an AVX task as well, which is kept on AVX cores until that has
 * faded.
 *
 * Limits. What a task does while it is visible on a scalar CPU is seen in samples
 * only, whenever it is interrupted or switched out: wide_vectors_seen(). Code
 * that uses zmm16 to zmm31 alone is never seen so, for the CPU does not tell how
 * much of these is in use.
 *
 * Times of tasks are those for which they ran; the grace of a process is time on
 * the wall.
 */
#ifndef AVXSPEC_CLASS_BPF_H
#define AVXSPEC_CLASS_BPF_H

#include "arithmetic.bpf.h"
#include "decode.bpf.h"

#define TRAP_UD 6
#define TRAP_GP 13

/* Of a fault by the instruction at @code, of which so many bytes are known. */
static __always_inline enum avx_verdict verdict_of(int trapnr, const u8 code[INSN_BYTES],
						   u32 readable)
{
	struct avx_insn insn;

	if (trapnr == TRAP_GP)
		return code[0] == 0x0f && code[1] == 0xa2 ? VERDICT_DETECTION : VERDICT_RESTORE;
	insn = decode_insn(code, readable);
	if (!is_avx512(&insn))
		return VERDICT_OTHER;
	return insn.width == 512 ? VERDICT_WIDE : VERDICT_LIGHT;
}

/* Whether AVX-512 is hidden from a task that begins or goes on to run. */
static __always_inline bool is_to_be_hidden(const struct avx_process *process,
					    const struct avx_habit *habit,
					    const struct avx_moment *at)
{
	return habit->class != CLASS_AVX && process->convicted && !process->exempt &&
	       at->now >= process->grace_end && at->ran >= habit->visible_until;
}

/* Whether the operator named this program. Behind the last name there are empty ones. */
static __always_inline bool is_named(const struct avx_policy *policy,
				     const struct avx_name *program)
{
	for (u32 n = 0; n < AVX_NAMES_MAX; n++) {
		const struct avx_name *name = &policy->never_hide[n];

		if (!name->words[0])
			return false;
		if (name->words[0] == program->words[0] && name->words[1] == program->words[1])
			return true;
	}
	return false;
}

/* Whether AVX cores are for programs that only do AVX work, and say nothing of it. */
static __always_inline bool serves_all(const struct avx_policy *policy)
{
	return policy->avx_cores_for == SERVED_ALL;
}

/* Whether they are for the work of this one. */
static __always_inline bool is_served(const struct avx_policy *policy,
				      const struct avx_process *process)
{
	return serves_all(policy) && !process->left_alone;
}

/*
 * Whether programs that start get a C library without AVX-512. They may run for long, so those
 * that start while trials have found no AVX cores useful are prepared for the next trial.
 */
static __always_inline bool wants_quiet_libraries(const struct avx_policy *policy)
{
	return policy->quiet_library && (serves_all(policy) || policy->trials == TRIALS_WITHOUT);
}

static __always_inline bool used_wide_lately(const struct avx_habit *habit,
					     const struct avx_policy *policy, u64 ran)
{
	return habit->wide_before && since(habit->wide_at, ran) <= policy->mixed_memory_ns;
}

/* Whether the task did not run since it was last seen with them. */
static __always_inline bool was_seen_at(const struct avx_habit *habit, u64 ran)
{
	return habit->wide_before && habit->wide_at == ran;
}

static __always_inline void becomes_avx(struct avx_habit *habit)
{
	habit->class = CLASS_AVX;
	habit->visible_until = 0;
	habit->backoff_ns = 0;
}

/* The task, or its last instruction, needs wide vectors. */
static __always_inline void wide_vectors_seen(struct avx_process *process, struct avx_habit *habit,
					      u64 ran)
{
	process->convicted = true;
	habit->wide_before = true;
	habit->wide_at = ran;
	becomes_avx(habit);
}

static __always_inline void back_off(struct avx_habit *habit, const struct avx_policy *policy,
				     u64 ran)
{
	u64 longer = at_most(2 * habit->backoff_ns, policy->backoff_max_ns);

	habit->backoff_ns = at_least(longer, policy->backoff_min_ns);
	habit->visible_until = ran + habit->backoff_ns;
}

/* A fault; the class of the task may be another one afterwards. */
static __always_inline void learn_from_fault(struct avx_process *process, struct avx_habit *habit,
					     const struct avx_policy *policy,
					     enum avx_verdict verdict, const struct avx_moment *at)
{
	switch (verdict) {
	case VERDICT_WIDE:
		wide_vectors_seen(process, habit, at->ran);
		return;
	case VERDICT_DETECTION:
		process->grace_end = at->now + policy->detection_grace_ns;
		return;
	case VERDICT_LIGHT:
		if (used_wide_lately(habit, policy, at->ran)) {
			becomes_avx(habit);
			habit->mixed = true;
			return;
		}
		break;
	default:
		break;
	}
	back_off(habit, policy, at->ran);
}

/*
 * Whether an AVX task may be a scalar one once remigrate.bpf.h finds its phase to
 * be over: not if it would be back with its next string function.
 */
static __always_inline bool is_kept(const struct avx_habit *habit, const struct avx_policy *policy,
				    u64 ran)
{
	return habit->mixed && used_wide_lately(habit, policy, ran);
}

/* Whether who gives this hint does AVX work. */
static __always_inline bool means_avx_work(const struct avx_policy *policy, u64 hint)
{
	return hint == AVX_HINT_AVX512 ||
	       (hint == AVX_HINT_AVX2_HEAVY && policy->classes == CLASSES_AVX512_AVX2_HEAVY);
}

/* ... and AVX cores are for it. */
static __always_inline bool is_hint_of_avx(const struct avx_policy *policy, u64 hint)
{
	return policy->avx_cores_for != SERVED_NOBODY && means_avx_work(policy, hint);
}

/* Its phase is over, unless somebody found that before: a tick interrupts whoever does. */
static __always_inline bool becomes_scalar(struct avx_habit *habit)
{
	if (__sync_val_compare_and_swap(&habit->class, CLASS_AVX, CLASS_SCALAR) != CLASS_AVX)
		return false;
	habit->mixed = false;
	return true;
}

#endif /* AVXSPEC_CLASS_BPF_H */
