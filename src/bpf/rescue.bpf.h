/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rescues work that waits beside idle CPUs. Busy CPUs look for it with every tick. There may be
 * no busy CPU, so the look at the demand also looks for tasks that are left behind.
 */
#ifndef AVXSPEC_RESCUE_BPF_H
#define AVXSPEC_RESCUE_BPF_H

#include "decide/queues.bpf.h"
#include "reach.bpf.h"
#include "state.bpf.h"
#include "waiting.bpf.h"

/* How many waiting tasks are looked at for one that an idle CPU may run. */
#define MAX_RESCUE_SCAN 8

/*
 * A queued task and a CPU that just went idle can miss each other: the task looked for an idle
 * CPU before the CPU had become one. Likewise an idle CPU that was woken for one task may find
 * another one to run. So the busy CPUs look again with every tick. Global, so that the verifier
 * goes through it once.
 */
__noinline int rescue_from(u64 id)
{
	struct task_struct *p;
	u32 looks = 0;

	bpf_for_each(scx_dsq, p, id, 0) {
		s32 cpu = is_avx_queue(id) ? pick_idle_in(p, ROLE_AVX, true) : pick_idle_allowed(p);

		if (cpu >= 0) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			stat_add(rescues, 1);
			break;
		}
		if (is_enough(&looks, MAX_RESCUE_SCAN))
			break;
	}
	return 0;
}

static void rescue_at(u32 llc)
{
	bool shared = has_waiting(shared_queue(llc)),
	     avx = classifies() && has_waiting(avx_queue(llc));

	if ((!shared && !avx) || !is_any_idle())
		return;
	if (shared)
		rescue_from(shared_queue(llc));
	if (avx && has_idle_of(ROLE_AVX))
		rescue_from(avx_queue(llc));
}

/*
 * Wakes up a CPU for @p, which waits for an AVX core: an AVX core, or any CPU once @p has been
 * due for long. A tick may come in between and use the same scratch mask: then the wrong CPU
 * wakes up, and goes to sleep again. Global, so that it is verified once, and so it takes the RCU
 * lock itself.
 */
__noinline bool wake_somebody_for(struct task_struct *p __arg_trusted, u64 stranded_ns)
{
	s64 due = due_in(p, scx_bpf_now());
	const struct cpumask *avx;
	s32 cpu;

	bpf_rcu_read_lock();
	avx = allowed_in(p, ROLE_AVX);
	cpu = avx ? scx_bpf_pick_idle_cpu(avx, 0) : -ENOENT;
	if (cpu < 0 && is_somebody(stranded(due, stranded_ns)))
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	bpf_rcu_read_unlock();
	return cpu >= 0;
}

/*
 * Wakes up a CPU for a task in the queue @id that was left behind. Where all CPUs are idle,
 * nothing else notices that an AVX core has missed its task, or that there may be no AVX core for
 * it. Global, so that the verifier goes through it once.
 */
__noinline int wake_for_stranded(u64 id, u64 stranded_ns)
{
	struct task_struct *p;
	u32 looks = 0;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, id, 0)
		if (wake_somebody_for(p, stranded_ns) || is_enough(&looks, MAX_RESCUE_SCAN))
			break;
	bpf_rcu_read_unlock();
	return 0;
}

static void look_for_stranded(const struct avx_policy *policy)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids)
		if (has_waiting(avx_queue(cpu)))
			wake_for_stranded(avx_queue(cpu), policy->stranded_ns);
}

#endif /* AVXSPEC_RESCUE_BPF_H */
