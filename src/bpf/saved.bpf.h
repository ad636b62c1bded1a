/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looks at what tasks had in their registers when they were switched out, or how low the
 * clock was until then, where the kernel tells nothing of what they do in between.
 *
 * With the registers the kernel saves which of them were in use. The upper halves of
 * zmm0-15 are in use if a wide instruction wrote them and vzeroupper did not follow. So
 * this says less than a fault. A phase that is short, or that ends before the task is
 * switched out, is not seen. A task that leaves its registers as they are seems to go on.
 * Nothing is seen of a task that is never switched out, so a phase ends only by what is
 * seen. counters.bpf.h has what low clocks say.
 */
#ifndef AVXSPEC_SAVED_BPF_H
#define AVXSPEC_SAVED_BPF_H

#include "state.bpf.h"
#include "visibility.bpf.h"

/* Up to Linux 6.15 the registers are in the thread, and later they are behind the task. */
struct thread_struct___with_fpu {
	struct fpu fpu;
} __attribute__((preserve_access_index));

struct task_struct___with_fpu {
	struct thread_struct___with_fpu thread;
} __attribute__((preserve_access_index));

static u64 saved_behind(const struct task_struct *p)
{
	u64 fpu = (u64)p + bpf_core_type_size(struct task_struct), state, saved;

	if (bpf_probe_read_kernel(&state, sizeof(state),
				  (void *)(fpu + bpf_core_field_offset(struct fpu, fpstate))))
		return 0;
	state += bpf_core_field_offset(struct fpstate, regs.xsave.header.xfeatures);
	return bpf_probe_read_kernel(&saved, sizeof(saved), (void *)state) ? 0 : saved;
}

/* Returns true if @p, which does not run, left something in the upper halves of zmm0-15. */
static bool left_wide_vectors(const struct task_struct *p)
{
	const struct task_struct___with_fpu *task = (const void *)p;
	u64 saved = bpf_core_field_exists(task->thread.fpu)
			    ? task->thread.fpu.fpstate->regs.xsave.header.xfeatures
			    : saved_behind(p);

	return saved & XFEATURE_ZMM_HI256;
}

static enum avx_evidence evidence_of_the_past(struct task_struct *p)
{
	const struct task_ctx *tctx;

	if (tier == AVX_TIER_XSTATE)
		return left_wide_vectors(p) ? EVIDENCE_WIDE : EVIDENCE_NONE;
	tctx = lookup_task(p);
	return tctx ? tctx->evidence : EVIDENCE_OPEN;
}

/* Global, so that the verifier goes through it once. */
__noinline int saw_saved(struct task_struct *p __arg_trusted, bool is_wide)
{
	struct task_ctx *tctx = lookup_task(p);
	struct avx_moment at;

	if (!tctx)
		return 0;
	at = accounted_moment_of(p);
	if (!is_wide)
		ends_phase(p, tctx, BOUNDARY_UNUSED, &at);
	else if (!was_seen_at(&tctx->habit, at.ran))
		saw_wide_vectors(p, tctx, &at);
	return 0;
}

/* @p is about to run again, or to be queued for that. Inline, because each switch asks. */
static __always_inline void learn_from_the_past(struct task_struct *p)
{
	enum avx_evidence evidence = evidence_of_the_past(p);
	bool is_wide = evidence == EVIDENCE_WIDE;

	if (evidence == EVIDENCE_OPEN)
		return;
	/*
	 * Without AVX cores the end of a phase makes no difference, and a task that slept
	 * for longer than they were kept stays an AVX task.
	 */
	if (is_wide || nr_avx_cpus)
		saw_saved(p, is_wide);
}

#endif /* AVXSPEC_SAVED_BPF_H */
