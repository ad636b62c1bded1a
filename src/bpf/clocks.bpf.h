/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This file tracks which tasks make the clock low for which others, as far as the scheduler
 * can tell, and gives back what tasks paid for time that they lost. compensation.bpf.h
 * decides what follows from it.
 *
 * What is known of a CPU's clock is written by that CPU, and read by its sibling.
 */
#ifndef AVXSPEC_CLOCKS_BPF_H
#define AVXSPEC_CLOCKS_BPF_H

#include "decide/compensation.bpf.h"
#include "policy.bpf.h"
#include "reach.bpf.h"
#include "state.bpf.h"
#include "turns.bpf.h"

/* A task that ran for longer than this without a tick was not watched. */
#define WATCH_MAX_NS (1000 * 1000 * 1000ULL)

/* The weight of the newest look in the average of active cores (1/1024). */
#define ACTIVE_WEIGHT (AVX_WHOLE / 8)

/* Set by the agent before loading. */
const volatile struct avx_clocks clocks;

/* These are as the policy and the load were at the last look. */
bool compensates;
bool counts_avx2;
u64 active_cores; /* of all nodes, moving average (1/1024) */
struct avx_clock_step clock_now;
u32 clock_step_now;

/* The highest relative clock that was seen in each step. It fades. */
u64 ideal_clocks[AVX_CLOCK_STEPS];
#define IDEAL_FADES 15 /* bits; with 100 looks a second, half of it is left after 4 minutes */

struct clock_ctx {
	struct avx_hold holds[NR_LICENCES];
	struct avx_counted counted;
	u64 counts[NR_LICENCES]; /* at the last tick, if @counts_since_tick */
	bool counts_since_tick;
	u64 suspected[NR_LICENCES]; /* counts at the last look for AVX work */
	u64 suspected_at;
	u64 looked_at; /* last look at what runs there, by the tick or when its work changed */
	u32 sibling;
} __attribute__((aligned(64)));

/* The agent sizes this before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct clock_ctx);
} cpu_clocks SEC(".maps");

static struct clock_ctx *lookup_clock(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_clocks, &cpu);
}

/* Returns what is known of the clock of the core's other thread, or NULL if there is none. */
static struct clock_ctx *sibling_of(const struct clock_ctx *clock)
{
	struct clock_ctx *sibling = lookup_clock(clock->sibling);

	return sibling == clock ? NULL : sibling;
}

static void init_clocks(void)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
		struct clock_ctx *clock = lookup_clock(cpu);

		if (place && clock)
			clock->sibling = place->sibling;
	}
}

/* Forgets all holds, because nobody knows what happened while nobody looked. */
static void forget_clocks(void)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		struct clock_ctx *clock = lookup_clock(cpu);

		if (!clock)
			continue;
		clock->holds[LICENCE_1] = (struct avx_hold){};
		clock->holds[LICENCE_2] = (struct avx_hold){};
	}
}

static u32 count_active_cores(void)
{
	const struct cpumask *idle =
		cpus_per_core > 1 ? scx_bpf_get_idle_smtmask() : scx_bpf_get_idle_cpumask();
	u32 nr_idle = bpf_cpumask_weight(idle);

	scx_bpf_put_idle_cpumask(idle);
	return since(nr_idle, nr_online_cpus) / at_least_one(cpus_per_core);
}

static void fade_ideal_clocks(void)
{
	for (u32 n = 0; n < AVX_CLOCK_STEPS; n++)
		ideal_clocks[n] -= ideal_clocks[n] >> IDEAL_FADES;
}

/* Looks up what the policy says of clocks now, and how much of them there is to lose. */
static void look_at_clocks(const struct avx_policy *policy)
{
	bool on = policy->fairness == FAIRNESS_COMPENSATE;
	u64 active;

	if (on && !compensates)
		forget_clocks();
	compensates = on;
	/* Counters see clocks that are low for AVX2, so the tasks that lower them must be known. */
	counts_avx2 = on && (clocks.counters || policy->classes == CLASSES_AVX512_AVX2_HEAVY);
	if (!on)
		return;
	active_cores =
		moving_average(active_cores, count_active_cores() * AVX_WHOLE, ACTIVE_WEIGHT);
	active = active_cores / AVX_WHOLE / at_least_one(nr_nodes);
	clock_step_now = step_number(&clocks, active);
	clock_now = clock_step(&clocks, clock_step_now, policy->licence_drop);
	fade_ideal_clocks();
}

/* Gives back to @p what it lost: it need not pay for that. */
static void give_back(struct task_struct *p, struct task_ctx *tctx, u64 lost_ns, u64 seen_ns,
		      u64 ran)
{
	u64 ran_ns = since(tctx->watched_at, ran), given;

	tctx->watched_at = ran;
	/* It was not watched while the policy did not ask for that. */
	if (ran_ns > WATCH_MAX_NS)
		return;
	given = given_back(&clock_now, lost_ns, seen_ns, ran_ns);
	grant(p, tctx, given);
	tctx->book.watched_ns += ran_ns;
	tctx->book.lost_ns += given;
	tctx->has_news = true;
}

/* Returns true if the task needs the lower licence itself: then it does not suffer from it. */
static bool needs_licence_1(const struct task_ctx *tctx, const struct avx_hold *own, u64 task,
			    u64 from)
{
	return (own->task == task && own->until > from) ||
	       (counts_avx2 && licence_needed(&tctx->habit, false));
}

/*
 * Returns for how long a task suffered from @licence. What counters tell has the part of the
 * @sibling, if there is one, in it already.
 */
static __always_inline u64 suffered_at(u32 licence, const struct clock_ctx *clock,
				       const struct clock_ctx *sibling, u64 task, u64 from, u64 to)
{
	const struct avx_hold *own = &clock->holds[licence];

	if (clock->counted.is_known)
		return suffered_by_count(clock->counted.low[licence], own, task, from, to);
	return suffered(own, sibling ? &sibling->holds[licence] : NULL, task, from, to);
}

/*
 * Looks back at how low the clock was for @p, which runs on this CPU. Global, for the
 * verifier.
 */
__noinline int compensate(struct task_struct *p __arg_trusted, u64 came_at, u64 ran, u64 now)
{
	struct clock_ctx *clock = lookup_clock(bpf_get_smp_processor_id()), *sibling;
	struct task_ctx *tctx = lookup_task(p);
	u64 from, at_1, at_2;
	bool needs_1;

	if (!clock || !tctx)
		return 0;
	from = at_least(clock->looked_at, came_at);
	clock->looked_at = now;
	if (from >= now)
		return 0;
	sibling = sibling_of(clock);
	at_1 = suffered_at(LICENCE_1, clock, sibling, (u64)p, from, now);
	at_2 = suffered_at(LICENCE_2, clock, sibling, (u64)p, from, now);
	needs_1 = needs_licence_1(tctx, &clock->holds[LICENCE_1], (u64)p, from);
	give_back(p, tctx, lost_to_clocks(&clock_now, at_1, at_2, needs_1), now - from, ran);
	return 0;
}

/* Returns when the task came that runs on this CPU. @at is now, and how long it has run by now. */
static u64 came_at(const struct cpu_ctx *cctx, const struct avx_moment *at)
{
	return at->now - since(cctx->ran_before, at->ran);
}

static void look_back(struct task_struct *p, const struct cpu_ctx *cctx,
		      const struct avx_moment *at)
{
	compensate(p, came_at(cctx, at), at->ran, at->now);
}

/* From now on the work on this CPU is that of @task, and needs the licence @needed. */
static void set_licence(u64 task, u32 needed, u64 now)
{
	struct clock_ctx *clock = lookup_clock(bpf_get_smp_processor_id());

	if (!clock)
		return;
	for (u32 licence = LICENCE_1; licence <= LICENCE_2; licence++) {
		if (needed >= licence)
			hold_goes_on(&clock->holds[licence], task, now);
		else
			hold_runs_out(&clock->holds[licence], now, licence_hold_ns);
	}
}

/* @p, which runs on this CPU, begins wide work; @tctx is its context, if that is at hand. */
static void lower_clock(struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	if (!tctx)
		tctx = lookup_task(p);
	if (tctx)
		set_licence((u64)p, licence_needed(&tctx->habit, true), now);
}

/* Nothing on this CPU lowers its clock any more. */
static void let_clock_rise(u64 now)
{
	set_licence(0, LICENCE_NONE, now);
}

/* The task that was found to use heavy vectors of 256 bits is gone, or no longer uses them. */
static void end_avx2(struct cpu_ctx *cctx)
{
	cctx->runs_avx2 = false;
	let_clock_rise(scx_bpf_now());
}

/*
 * The tick finds out whether @p, which came at @came_at, uses heavy vectors of 256 bits.
 * Nothing else tells of them.
 */
static void find_avx2(struct task_struct *p, const struct task_ctx *tctx, struct cpu_ctx *cctx,
		      u64 came_at)
{
	struct clock_ctx *clock = lookup_clock(bpf_get_smp_processor_id());

	if (!clock || cctx->runs_avx)
		return;
	if (!licence_needed(&tctx->habit, false)) {
		if (cctx->runs_avx2)
			end_avx2(cctx);
		return;
	}
	hold_goes_on(&clock->holds[LICENCE_1], (u64)p, came_at);
	cctx->runs_avx2 = true;
}

/* AVX work is about to begin, but not here if there is any other place for it. */
static void would_begin_avx(struct cpu_ctx *cctx)
{
	if (cctx->runs_avx)
		return;
	cctx->runs_avx = true;
	cctx->accounted = 0;
}

static void begin_or_end_avx(struct task_struct *p, const struct task_ctx *tctx,
			     struct cpu_ctx *cctx, bool is_avx, u64 now)
{
	if (!is_avx && !cctx->accounted) {
		cctx->runs_avx = false;
		return;
	}
	set_runs_avx(cctx, is_avx, now);
	cctx->avx_is_apart = is_avx && stays_apart(p);
	if (!compensates)
		return;
	if (is_avx)
		lower_clock(p, tctx, now);
	else
		let_clock_rise(now);
}

/*
 * What runs on this CPU is AVX work from now on if @is_avx is true, and other work if not. Most
 * often it is other work, and was before.
 */
static __always_inline void runs_as(struct task_struct *p, const struct task_ctx *tctx,
				    struct cpu_ctx *cctx, bool is_avx, u64 now)
{
	if (is_avx || cctx->runs_avx)
		begin_or_end_avx(p, tctx, cctx, is_avx, now);
	else
		cctx->accounted = now;
}

#endif /* AVXSPEC_CLOCKS_BPF_H */
