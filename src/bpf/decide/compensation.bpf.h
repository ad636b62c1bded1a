/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a low clock costs tasks that did not lower it.
 *
 * Problem. A core that executes wide vectors lowers its clock, and keeps it low for a
 * while. A task that runs there next, or beside it on the sibling, gets less done in the
 * same time, and pays for the time.
 *
 * Mechanism. Each CPU remembers for each licence since when, and up to when, the clock is
 * low because of what ran there, and which task's work that was. A task suffers while the
 * clock of its core is lower than its own work needs: because of a hold that it found there
 * when it came, unless that is its own, or because of the sibling. A part of that time is
 * lost: as much as the licence takes from the clock while the present number of cores is
 * active. What is lost is given back to the task. A task that lowered the clock itself pays
 * for all of its time.
 *
 * A hold ends at a time that is known, so nothing has to look when it does. So it is enough
 * to look with each tick, back to the tick before or to when the task came. Time that a
 * task ran without being looked at counts like the time that was looked at, so that a
 * switch costs nothing.
 *
 * Where counters tell how low the clock was since the tick before, they are believed: a
 * task suffered for all of that time, less the time for which its own work accounts.
 *
 * Limits. Without counters the loss is an estimate: of when wide vectors were last executed,
 * and of how long and how much that costs. Only the last of the sibling's holds since the
 * last look is seen. The sibling writes while its hold is read; the error is bounded by the
 * time between two looks. Counters do not tell when between two ticks the clock was low.
 *
 * After Gottschlag, Machauer, Khalil and Bellosa, "Fair Scheduling for AVX2 and AVX-512
 * Workloads" (USENIX ATC 2021), which reads counters at each switch.
 *
 * Everything here is pure. Times are nanoseconds on the wall.
 */
#ifndef AVXSPEC_COMPENSATION_BPF_H
#define AVXSPEC_COMPENSATION_BPF_H

#include "arithmetic.bpf.h"
#include "decode.bpf.h"

/* The work that makes the clock low still goes on. */
#define HOLD_GOES_ON (~0ULL)

/* The present or last time in which one CPU's work made the clock low, for one licence. */
struct avx_hold {
	u64 began;
	u64 until;
	u64 task; /* whose work it is, or was last */
};

/* The clock is low from @now on. A hold that has not ended yet goes on. */
static __always_inline void hold_goes_on(struct avx_hold *it, u64 task, u64 now)
{
	if (it->until <= now)
		it->began = now;
	it->until = HOLD_GOES_ON;
	it->task = task;
}

/* The code that runs no longer needs the licence. */
static __always_inline void hold_runs_out(struct avx_hold *it, u64 now, u64 hold_ns)
{
	if (it->until == HOLD_GOES_ON)
		it->until = now + hold_ns;
}

static __always_inline u64 within(u64 time, u64 from, u64 to)
{
	return at_most(at_least(time, from), to);
}

/*
 * Returns for how long @task suffered while it ran from @from to @to on a CPU with the hold
 * @own. The sibling's hold is @beside__nullable, which is NULL if there is no sibling.
 */
static __always_inline u64 suffered(const struct avx_hold *own,
				    const struct avx_hold *beside__nullable, u64 task, u64 from,
				    u64 to)
{
	u64 end = within(own->until, from, at_least(from, to)), begin;
	u64 here = own->task == task ? 0 : end - from;

	if (!beside__nullable || to <= end)
		return here;
	begin = within(beside__nullable->began, end, to);
	return here + within(beside__nullable->until, begin, to) - begin;
}

/*
 * What was counted for a CPU between its last two ticks: in what share of that time its
 * clock was low for a licence, or for a higher one (1/1024).
 */
struct avx_counted {
	u64 low[NR_LICENCES];
	bool is_known;
};

/* Returns how many cycles at the highest clock take as long as those counted at @licence. */
static __always_inline u64 long_cycles(const struct avx_clock_step *step,
				       const u64 cycles[NR_LICENCES], u32 licence)
{
	return cycles[licence] * AVX_WHOLE / at_least_one(since(step->lost[licence], AVX_WHOLE));
}

/* Learns from the cycles that the core of a CPU had at each licence. */
static __always_inline void learn_from_cycles(struct avx_counted *it,
					      const struct avx_clock_step *step,
					      const u64 cycles[NR_LICENCES])
{
	u64 at_2 = long_cycles(step, cycles, LICENCE_2);
	u64 at_either = long_cycles(step, cycles, LICENCE_1) + at_2;
	u64 all = cycles[LICENCE_NONE] + at_either;

	it->low[LICENCE_1] = at_either * AVX_WHOLE / at_least_one(all);
	it->low[LICENCE_2] = at_2 * AVX_WHOLE / at_least_one(all);
	it->is_known = all;
}

/* This is a relative clock that is as high as the constant one. */
#define CLOCK_ONE (1ULL << 20)

static __always_inline u64 relative_clock(u64 aperf, u64 mperf)
{
	return aperf * CLOCK_ONE / at_least_one(mperf);
}

/*
 * Approaches the highest clock slowly: a clock that seems too high, because the counters were
 * not read at the same moment, makes little difference.
 */
static __always_inline u64 ideal_clock(u64 ideal, u64 now)
{
	return ideal + since(ideal, now) / 16;
}

/* Learns from a CPU's clock, as if what it lacks of the ideal were lost to the highest licence. */
static __always_inline void
learn_from_clock(struct avx_counted *it, const struct avx_clock_step *step, u64 clock, u64 ideal)
{
	u64 lost = since(clock, ideal) * AVX_WHOLE / at_least_one(ideal);
	u64 share = lost * AVX_WHOLE / at_least_one(step->lost[LICENCE_2]);

	it->low[LICENCE_1] = at_most(share, AVX_WHOLE);
	it->low[LICENCE_2] = it->low[LICENCE_1];
	it->is_known = clock;
}

/*
 * Returns for how long @task suffered while it ran from @from to @to on a CPU with the hold
 * @own. The clock was low for @share of that time (1/1024).
 */
static __always_inline u64 suffered_by_count(u64 share, const struct avx_hold *own, u64 task,
					     u64 from, u64 to)
{
	u64 low = since(from, to) * share / AVX_WHOLE, caused = 0;

	if (own->task == task)
		caused = within(own->until, from, to) - within(own->began, from, to);
	return since(caused, low);
}

/* One part in this many may seem low by chance: counters are not read at one moment. */
#define LOW_BY_CHANCE 32

/*
 * Returns what the clock says of @task, which ran from @from to @to on a CPU with the hold
 * @own. The sibling's hold is @beside__nullable, which is NULL if there is no sibling. The
 * clock was low for @share of that time (1/1024).
 */
static __always_inline enum avx_evidence evidence_of(u64 share, const struct avx_hold *own,
						     const struct avx_hold *beside__nullable,
						     u64 task, u64 from, u64 to)
{
	u64 passed = since(from, to), low = passed * share / AVX_WHOLE, others;
	struct avx_hold before = *own;

	/* What the task did itself is no excuse for it. */
	if (before.task == task)
		before.until = 0;
	others = suffered(&before, beside__nullable, task, from, to);
	if (low <= passed / LOW_BY_CHANCE)
		return EVIDENCE_NONE;
	return low > others + passed / LOW_BY_CHANCE ? EVIDENCE_WIDE : EVIDENCE_OPEN;
}

/*
 * Returns what the higher licence takes beyond the lower one, as a part of the clock that the
 * lower one leaves if @from_licence_1, and otherwise of the highest clock (1/1024).
 */
static __always_inline u64 lost_beyond(const struct avx_clock_step *step, bool from_licence_1)
{
	u64 more = since(step->lost[LICENCE_1], step->lost[LICENCE_2]);

	if (!from_licence_1)
		return more;
	return more * AVX_WHOLE / at_least_one(since(step->lost[LICENCE_1], AVX_WHOLE));
}

/*
 * Returns what a task lost that suffered from each licence for so long. The time at the
 * higher licence is part of both times. A task that needs the lower licence itself loses
 * nothing to that one.
 */
static __always_inline u64 lost_to_clocks(const struct avx_clock_step *step, u64 at_licence_1,
					  u64 at_licence_2, bool needs_licence_1)
{
	u64 lost = at_licence_2 * lost_beyond(step, needs_licence_1);

	if (!needs_licence_1)
		lost += at_licence_1 * step->lost[LICENCE_1];
	return lost / AVX_WHOLE;
}

/*
 * Returns what is given back to a task that ran for @ran_ns since it was last looked at, and
 * lost @lost_ns of the last @seen_ns. That is never more than the lowest clock could cost it.
 */
static __always_inline u64 given_back(const struct avx_clock_step *step, u64 lost_ns, u64 seen_ns,
				      u64 ran_ns)
{
	u64 most = at_most(step->lost[LICENCE_2], AVX_WHOLE);
	u64 share = at_most(lost_ns * AVX_WHOLE / at_least_one(seen_ns), most);

	return ran_ns * share / AVX_WHOLE;
}

/* Returns which of the known clocks apply while @active_cores of a package are active. */
static __always_inline u32 step_number(const volatile struct avx_clocks *clocks, u64 active_cores)
{
	u32 n;

	for (n = 0; n < AVX_CLOCK_STEPS - 1 && n + 1 < clocks->nr_steps; n++)
		if (active_cores <= clocks->steps[n].up_to_cores)
			break;
	return n;
}

/* Returns the clocks of step @n. If they are not known, @licence_drop tells what is lost. */
static __always_inline struct avx_clock_step clock_step(const volatile struct avx_clocks *clocks,
							u32 n, u64 licence_drop)
{
	struct avx_clock_step step = {
		.lost = { [LICENCE_1] = licence_drop / 2, [LICENCE_2] = licence_drop },
	};

	if (n < clocks->nr_steps) {
		step.up_to_cores = clocks->steps[n].up_to_cores;
		step.lost[LICENCE_1] = clocks->steps[n].lost[LICENCE_1];
		step.lost[LICENCE_2] = clocks->steps[n].lost[LICENCE_2];
	}
	return step;
}

/* This part of the samples has to be heavy before their licence is needed. */
#define HEAVY_ENOUGH (AVX_WHOLE / 32)
#define SAMPLE_WEIGHT (AVX_WHOLE / 16)

/* Learns from the instruction at which a task was found. */
static __always_inline void learn_from_code(struct avx_habit *habit, const struct avx_insn *insn)
{
	bool is_vector = insn->kind == INSN_VEX || insn->kind == INSN_EVEX;
	bool is_heavy256 = is_vector && insn->width == 256 && insn->heavy;

	habit->heavy256 =
		moving_average(habit->heavy256, is_heavy256 ? AVX_WHOLE : 0, SAMPLE_WEIGHT);
	if (is_vector && insn->width == 512)
		habit->light512 =
			moving_average(habit->light512, insn->heavy ? 0 : AVX_WHOLE, SAMPLE_WEIGHT);
}

/*
 * Returns the licence that a task needs. For 512 bits that is the higher one, until hardly
 * anything but light instructions of 512 bits was seen. For heavy instructions of 256 bits,
 * of which only samples tell, it is the lower one.
 */
static __always_inline u32 licence_needed(const struct avx_habit *habit, bool is_wide)
{
	if (is_wide)
		return habit->light512 > AVX_WHOLE - HEAVY_ENOUGH ? LICENCE_1 : LICENCE_2;
	return habit->heavy256 >= HEAVY_ENOUGH ? LICENCE_1 : LICENCE_NONE;
}

#endif /* AVXSPEC_COMPENSATION_BPF_H */
