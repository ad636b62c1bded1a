/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads say what their work is in a map of the kernel's task storage. The agent pins
 * it where they find it.
 *
 * A thread that speaks for itself is heard at once, because the kernel tells of each
 * update. A hint for another thread, and one that is taken back by deleting it, is
 * noticed at the next tick that finds that thread running.
 */
#ifndef AVXSPEC_HINTS_BPF_H
#define AVXSPEC_HINTS_BPF_H

#include "state.bpf.h"
#include "visibility.bpf.h"

/* Is true once anybody may have given a hint. To look for one has a cost. */
bool hints_given;

/*
 * Returns true if @p is to be an AVX task because it says so, unless its program says that it is
 * worse off with AVX cores.
 */
static bool is_hinted(struct task_struct *p, const struct avx_policy *policy)
{
	const struct avx_hint *hint = bpf_task_storage_get(&hints, p, 0, 0);
	struct avx_process *process;

	if (!hint || !is_hint_of_avx(policy, hint->hint))
		return false;
	process = left_alone_changes ? lookup_process(p) : NULL;
	if (process)
		look_for_name(p, process, policy);
	return !process || !process->left_alone;
}

/* Makes @p what its hint says. Returns true if that changes something. */
static bool follow_hint(struct task_struct *p, struct task_ctx *tctx, const struct avx_moment *at)
{
	const struct avx_policy *policy = current_policy();
	bool hinted = policy && is_hinted(p, policy);

	if (!policy || tctx->hinted == hinted)
		return false;
	tctx->hinted = hinted;
	if (!hinted) {
		end_phase(p, tctx, policy, BOUNDARY_HINT, at);
	} else if (tctx->habit.class != CLASS_AVX) {
		becomes_avx(&tctx->habit);
		begin_phase(p, tctx, policy, CAUSE_HINT, at);
	}
	stat_add(hints, 1);
	return true;
}

SEC("?fexit/bpf_pid_task_storage_update_elem")
int BPF_PROG(avxspec_hint_given, struct bpf_map *map, void *key, void *value, u64 flags, long error)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	struct task_ctx *tctx = lookup_task(p);
	struct avx_moment at;

	if (error || map != (void *)&hints || !tctx || !cctx)
		return 0;
	hints_given = true;
	at = moment_of(p, cctx);
	if (!follow_hint(p, tctx, &at) || p->prio < FIRST_FAIR_PRIO)
		return 0;
	if (compensates)
		look_back(p, cctx, &at);
	runs_as(p, tctx, cctx, tctx->hinted, at.now);
	if (tctx->hinted != (cctx->role == ROLE_AVX))
		scx_bpf_kick_cpu(bpf_get_smp_processor_id(), SCX_KICK_PREEMPT);
	return 0;
}

#endif /* AVXSPEC_HINTS_BPF_H */
