/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Asks a task again to leave its CPU if it could not leave at the moment at which it was asked.
 *
 * Problem. A task cannot migrate within a BPF program, and hints are heard from such a program. A
 * preemptible kernel asks the task to leave at once, which is in vain. The next tick would ask
 * again, which is late for work that takes less time than that.
 *
 * Mechanism. The CPU is asked once more shortly afterwards, and then at growing intervals until the
 * moment is over or the tick is sooner. Tasks that are kept for good have a mask of one CPU, and
 * are not asked.
 */
#ifndef AVXSPEC_RETRY_BPF_H
#define AVXSPEC_RETRY_BPF_H

#include "roles.bpf.h"
#include "state.bpf.h"

/* This is longer than the rest of a BPF program takes. */
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

/* Returns true if an AVX task runs on a scalar CPU, or other work on an AVX core. */
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

/* Where there is no timer the tick has to suffice. */
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
