/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts how much AVX work the tick sees, whether or not anything is done about it: each
 * tick is a sample of what its CPU does. No decision depends on the result. The agent uses
 * it to model what AVX cores would be worth before there are any.
 */
#ifndef AVXSPEC_LOOKS_BPF_H
#define AVXSPEC_LOOKS_BPF_H

#include "hints.bpf.h"
#include "saved.bpf.h"
#include "visibility.bpf.h"

/* Returns true if @p says that it does AVX work, whether or not AVX cores are for it. */
static bool says_avx_work(struct task_struct *p)
{
	const struct avx_hint *hint = bpf_task_storage_get(&hints, p, 0, 0);
	const struct avx_policy *policy = hint ? current_policy() : NULL;

	return policy && means_avx_work(policy, hint->hint);
}

/*
 * Counts this tick, at which @p ran here. @is_wide is true if wide vectors were seen in
 * use, and false if there were none or they cannot be seen. Where the kernel tells nothing
 * in between, they are taken to be as they were when @p was last switched out.
 */
static void count_look(struct task_struct *p, struct cpu_ctx *cctx, bool is_wide)
{
	if (!is_wide && tier == AVX_TIER_XSTATE)
		is_wide = left_wide_vectors(p);
	if (!is_wide && hints_given)
		is_wide = says_avx_work(p);

	stat_add(looks, 1);
	switch (judge_look(&cctx->looks_beside, is_wide)) {
	case LOOK_WIDE:
		stat_add(looks_wide, 1);
		break;
	case LOOK_BESIDE:
		stat_add(looks_beside, 1);
		break;
	default:
		break;
	}
}

#endif /* AVXSPEC_LOOKS_BPF_H */
