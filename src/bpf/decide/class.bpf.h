/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task is, and what is hidden from it.
 *
 * Problem. AVX-512 is hidden so that the first wide instruction of a phase is
 * noticed before it is executed. But not every fault is due to one: the C library's
 * string functions have the same encoding, and ld.so restores registers that are not
 * visible. A program that asks the CPU for its features must not be told less than there
 * is, because a program asks once in its life. And AVX-512 must not be hidden at all
 * before it has been used.
 *
 * Mechanism. Nothing is hidden from a process before one of its tasks was seen with
 * 512-bit vectors: by then the process has detected AVX-512. (While a program starts,
 * quiet.bpf.h hides AVX-512 from its C library.) From then on AVX-512 is
 * hidden from its tasks while they are not AVX tasks, and each instruction that faults
 * is looked at. This does not depend on the CPU: a task that begins a scalar phase on
 * an AVX core may be interrupted and go on elsewhere, and then it would be too late,
 * because the kernel hides safely only after a system call. A library that is loaded
 * later asks CPUID before it looks at XCR0. So CPUID faults as well on CPUs that can do
 * that, and then nothing is hidden from the process for a while.
 *
 * A wide instruction turns a scalar task into an AVX task. A light one costs nothing
 * where it is. After it, AVX-512 stays visible to the task for a time that doubles with
 * each such fault, so that string functions cost one fault per back-off. Wide
 * instructions are not noticed during a back-off, so tasks that use both get none: a
 * task that faults for a light instruction while its last wide one is still remembered
 * becomes an AVX task as well. It is kept on AVX cores until that memory has faded.
 *
 * Limits. What a task does on a scalar CPU while AVX-512 is visible to it is seen in
 * samples only, whenever it is interrupted or switched out: wide_vectors_seen(). Code
 * that uses zmm16 to zmm31 alone is never seen this way, because the CPU does not tell
 * how much of these is in use.
 *
 * Times of tasks are those for which they ran. The grace of a process is wall-clock time.
 */
#ifndef AVXSPEC_CLASS_BPF_H
#define AVXSPEC_CLASS_BPF_H

#include "arithmetic.bpf.h"
#include "decode.bpf.h"

#define TRAP_UD 6
#define TRAP_GP 13

/* Returns what a fault of the instruction at @code is about; @readable bytes of it are known. */
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

/* Returns true if AVX-512 is to be hidden from a task that begins to run or goes on. */
static __always_inline bool is_to_be_hidden(const struct avx_process *process,
					    const struct avx_habit *habit,
					    const struct avx_moment *at)
{
	return habit->class != CLASS_AVX && process->convicted && !process->exempt &&
	       at->now >= process->grace_end && at->ran >= habit->visible_until;
}

/* Returns true if the operator named this program. The names behind the last one are empty. */
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

/* Returns true if AVX cores are also for programs that do AVX work without saying so. */
static __always_inline bool serves_all(const struct avx_policy *policy)
{
	return policy->avx_cores_for == SERVED_ALL;
}

/* Returns true if AVX cores are for the AVX work of this process, even if it does not say so. */
static __always_inline bool is_served(const struct avx_policy *policy,
				      const struct avx_process *process)
{
	return serves_all(policy) && !process->left_alone;
}

/*
 * Returns true if programs that start get a C library without AVX-512. They may run for long, so
 * those that start while trials have found AVX cores to be of no use are prepared for the next
 * trial.
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

/* Returns true if the task has not run since it was last seen with wide vectors. */
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

/* The task has wide vectors in use, or its last instruction needs them. */
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

/* Learns from a fault, which may change the class of the task. */
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
 * Returns true if an AVX task stays one even if remigrate.bpf.h finds its phase to be
 * over, because it would be back with its next string function.
 */
static __always_inline bool is_kept(const struct avx_habit *habit, const struct avx_policy *policy,
				    u64 ran)
{
	return habit->mixed && used_wide_lately(habit, policy, ran);
}

/* Returns true if a thread that gives this hint does AVX work. */
static __always_inline bool means_avx_work(const struct avx_policy *policy, u64 hint)
{
	return hint == AVX_HINT_AVX512 ||
	       (hint == AVX_HINT_AVX2_HEAVY && policy->classes == CLASSES_AVX512_AVX2_HEAVY);
}

/* Returns true if a thread that gives this hint does AVX work, and AVX cores are for that. */
static __always_inline bool is_hint_of_avx(const struct avx_policy *policy, u64 hint)
{
	return policy->avx_cores_for != SERVED_NOBODY && means_avx_work(policy, hint);
}

/*
 * The phase of the task is over. Returns false if that was found before: a tick may interrupt
 * the code that finds it.
 */
static __always_inline bool becomes_scalar(struct avx_habit *habit)
{
	if (__sync_val_compare_and_swap(&habit->class, CLASS_AVX, CLASS_SCALAR) != CLASS_AVX)
		return false;
	habit->mixed = false;
	return true;
}

#endif /* AVXSPEC_CLASS_BPF_H */
