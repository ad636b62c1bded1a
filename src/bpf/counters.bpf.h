/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters tell how low the clocks of CPUs are.
 *
 * Problem. The callbacks of a scheduler may not read counters; programs that watch kernel
 * functions may.
 *
 * Mechanism. Such a program runs before each tick gets to the scheduler, and leaves for it
 * what was counted since the tick before. The agent opens the counters, if there are any,
 * while they are needed.
 *
 * Where nothing else tells of AVX work, low clocks do. A task that ran while the clock was
 * low did some, unless others account for it that ran there before or run on the sibling.
 * So a second program looks at each switch. Clocks do not tell what kind of vectors it is:
 * AVX work is whatever lowers the clock.
 *
 * Limits. What a clock should be is known of some processors only, and only relative to
 * other clocks. So the ideal clock for APERF and MPERF is the highest that was seen with as
 * many cores active, and is forgotten slowly. If both siblings begin AVX work between two
 * looks, or one of them does, both are taken for AVX tasks at first.
 */
#ifndef AVXSPEC_COUNTERS_BPF_H
#define AVXSPEC_COUNTERS_BPF_H

#include "clocks.bpf.h"

/* There are CYCLES_BY_LICENCE for each CPU; the agent sizes this before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} cpu_counters SEC(".maps");

/*
 * Finds what @counter of @cpu, which is this CPU, counted since it was as in @counts. Returns false
 * if that is not known.
 */
static bool count(u64 counts[NR_LICENCES], u32 cpu, u32 counter, u64 *passed)
{
	u32 index = cpu * CYCLES_BY_LICENCE + counter;
	struct bpf_perf_event_value now;
	u64 before;

	if (counter >= NR_LICENCES ||
	    bpf_perf_event_read_value(&cpu_counters, index, &now, sizeof(now)))
		return false;
	before = counts[counter];
	counts[counter] = now.counter;
	*passed = since(before, now.counter);
	/* A counter that counted less was opened anew. */
	return now.counter >= before;
}

/*
 * Finds what each counter of @cpu, which is this CPU, counted since it was as in @counts. Returns
 * false if that is not known, or if they were not all read at one moment.
 */
static bool count_all(u64 counts[NR_LICENCES], u32 cpu, u64 *passed)
{
	u64 all = 0, meanwhile = 0;

	for (u32 n = 0; n < NR_LICENCES && n < clocks.counters; n++) {
		if (!count(counts, cpu, n, &passed[n]))
			return false;
		all += passed[n];
	}
	/* A host may have taken the CPU away between two reads. */
	return count(counts, cpu, 0, &meanwhile) && meanwhile <= all / 64;
}

static void count_relative_clock(struct clock_ctx *clock, u64 aperf, u64 mperf)
{
	u64 now = relative_clock(aperf, mperf);
	u32 step = clock_step_now;

	if (step >= AVX_CLOCK_STEPS)
		return;
	ideal_clocks[step] = ideal_clock(ideal_clocks[step], now);
	learn_from_clock(&clock->counted, &clock_now, now, ideal_clocks[step]);
}

/* Finds out how low the clock of @cpu, which is this CPU, was since the last tick. */
static void count_clock(struct clock_ctx *clock, u32 cpu)
{
	u64 passed[NR_LICENCES] = {};
	bool has_begun;

	has_begun = clock->counts_since_tick;
	clock->counts_since_tick = false;
	clock->counted.is_known = false;
	if (!count_all(clock->counts, cpu, passed))
		return;
	clock->counts_since_tick = true;
	/* Counters that were just opened did not begin at the same moment. */
	if (!has_begun)
		return;
	if (clocks.counters == CYCLES_BY_LICENCE)
		learn_from_cycles(&clock->counted, &clock_now, passed);
	else
		count_relative_clock(clock, passed[0], passed[1]);
}

/*
 * Finds out what the clock says of @p, which ran on this CPU since the last such look. @leaves
 * is true if @p is about to leave it.
 */
static void suspect(struct task_struct *p, struct clock_ctx *clock, u32 cpu, bool leaves)
{
	const struct clock_ctx *sibling = sibling_of(clock);
	struct avx_hold *own = &clock->holds[LICENCE_1];
	const struct avx_hold *beside;
	u64 passed[NR_LICENCES] = {}, from = clock->suspected_at, now = scx_bpf_now();
	struct task_ctx *tctx = lookup_task(p);
	struct avx_counted counted;
	bool has_begun = count_all(clock->suspected, cpu, passed) && from;

	clock->suspected_at = now;
	if (!tctx)
		return;
	learn_from_cycles(&counted, &clock_now, passed);
	beside = sibling ? &sibling->holds[LICENCE_1] : NULL;
	tctx->evidence = EVIDENCE_OPEN;
	if (has_begun && counted.is_known)
		tctx->evidence =
			evidence_of(counted.low[LICENCE_1], own, beside, (u64)p, from, now);
	if (tctx->evidence == EVIDENCE_WIDE)
		hold_goes_on(own, (u64)p, from);
	if (tctx->evidence == EVIDENCE_NONE || leaves)
		hold_runs_out(own, now, licence_hold_ns);
}

SEC("?fentry/task_tick_scx")
int avxspec_count(void *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct clock_ctx *clock = lookup_clock(cpu);

	if (!clock)
		return 0;
	if (compensates)
		count_clock(clock, cpu);
	if (tier == AVX_TIER_COUNTERS)
		suspect(bpf_get_current_task_btf(), clock, cpu, false);
	return 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(avxspec_count_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct clock_ctx *clock = lookup_clock(cpu);

	if (clock)
		suspect(prev, clock, cpu, true);
	return 0;
}

#endif /* AVXSPEC_COUNTERS_BPF_H */
