/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task that is to leave its CPU in a moment in which it cannot.
 *
 * Problem. Within a BPF program a task is kept from migrating, and it is from such a program that
 * hints are heard. A kernel that can be preempted asks the task to leave there and then, in vain;
 * the next tick would ask again, which is late for work that takes less than that.
 *
 * Mechanism. The CPU is asked once more shortly afterwards, and then ever later until the moment is
 * over, or the tick is sooner. Those that are kept for good have a mask of one CPU, and nobody
 * asks them.
 */
#ifndef AVXSPEC_RETRY_BPF_H
#define AVXSPEC_RETRY_BPF_H

#include "roles.bpf.h"
#include "state.bpf.h"

/* Longer than the rest of a program takes. */
#define RETRY_NS (10 * 1000ULL)
#define MAX_RETRIES 7

struct retry_timer {
	struct bpf_timer timer;
	u32 cpu;
};

/* The agent sizes this before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct retry_timer);
} retry_timers SEC(".maps");

/* What runs on the CPU is of the other kind. */
static __always_inline bool runs_other_kind(const struct cpu_ctx *cctx)
{
	return nr_avx_cpus && cctx->runs_avx != (cctx->role == ROLE_AVX);
}

static int retry(void *map, int *key, struct retry_timer *timer)
{
	const struct cpu_ctx *cctx = lookup_cpu(timer->cpu);

	if (cctx && runs_other_kind(cctx))
		scx_bpf_kick_cpu(timer->cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* What runs on @cpu is asked again to leave. */
static void retry_soon(u32 cpu, struct cpu_ctx *cctx)
{
	struct retry_timer *timer = bpf_map_lookup_elem(&retry_timers, &cpu);

	if (timer && cctx->retries < MAX_RETRIES)
		bpf_timer_start(&timer->timer, RETRY_NS << cctx->retries++, 0);
}

/* Where there is no timer the tick has to do. */
static void init_retries(void)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		struct retry_timer *timer = bpf_map_lookup_elem(&retry_timers, &cpu);

		if (!timer)
			return;
		timer->cpu = cpu;
		if (!bpf_timer_init(&timer->timer, &retry_timers, CLOCK_MONOTONIC))
			bpf_timer_set_callback(&timer->timer, retry);
	}
}

#endif /* AVXSPEC_RETRY_BPF_H */
