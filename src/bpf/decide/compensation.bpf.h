/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a low clock costs those who did not ask for it.
 *
 * Problem. A core that executes wide vectors lowers its clock, and keeps it low for a
 * while. Whoever runs there next, or beside it on the sibling, gets less done in the
 * same time, and pays for the time.
 *
 * Mechanism. Each CPU remembers of each licence since when, and up to when, the clock is
 * low because of what ran there, and whose work that was. A task suffers while the clock
 * of its core is lower than its own work needs: because of what it found there when it
 * came, unless that is its own, or because of the sibling. A part of that time is lost: as
 * much as the licence takes from the clock with as many cores active as there are. What is
 * lost is given back to the task. Who made the clock low pays for all of it.
 *
 * A hold ends at a time that is known, so nobody has to look when it does. And so it is
 * enough to look with each tick, back to the one before or to when the task came. What a
 * task ran without being looked at counts as what it ran when it was, so that a switch
 * costs nothing.
 *
 * Where counters tell how low the clock was since the tick before, that is taken for true,
 * and a task suffered from all of it but for as long as its own work accounts for.
 *
 * Limits. Without counters it is an estimate: of when wide vectors were executed last, and
 * of how long and how much that costs. Of the sibling's holds since the last look only the
 * last one is seen. The sibling writes while it is read; what is wrong for that is bounded
 * by the time between two looks. Counters do not tell when between two ticks the clock was
 * low.
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

/* What makes the clock low is still going on. */
#define HOLD_GOES_ON (~0ULL)

/* For one licence, because of what runs or ran on one CPU; the present or last one. */
struct avx_hold {
	u64 began;
	u64 until;
	u64 task; /* whose work it is, or was last */
};

/* It is low from @now on, and has been before if there still is a hold. */
static __always_inline void hold_goes_on(struct avx_hold *it, u64 task, u64 now)
{
	if (it->until <= now)
		it->began = now;
	it->until = HOLD_GOES_ON;
	it->task = task;
}

/* What is executed needs it no longer. */
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
 * For how long a task suffered that ran on a CPU from @from to @to, which has @own, and
 * its sibling, if there is one, has @beside__nullable.
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
 * What was counted of a CPU between its last two ticks: for what share of that time its
 * clock was low for a licence, or for a higher one (1/1024).
 */
struct avx_counted {
	u64 low[NR_LICENCES];
	bool is_known;
};

/* So many cycles take as long as this many at the highest clock. */
static __always_inline u64 long_cycles(const struct avx_clock_step *step,
				       const u64 cycles[NR_LICENCES], u32 licence)
{
	return cycles[licence] * AVX_WHOLE / at_least_one(since(step->lost[licence], AVX_WHOLE));
}

/* By its core's cycles at each licence. */
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

/* Clocks relative to a constant one have so many digits. */
#define CLOCK_ONE (1ULL << 20)

static __always_inline u64 relative_clock(u64 aperf, u64 mperf)
{
	return aperf * CLOCK_ONE / at_least_one(mperf);
}

/*
 * The highest clock, slowly: one that is too high since the counters were not read at the
 * same moment makes little difference.
 */
static __always_inline u64 ideal_clock(u64 ideal, u64 now)
{
	return ideal + since(ideal, now) / 16;
}

/* By its clock, as if what is missing to the ideal one were lost to the highest licence. */
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
 * For how long a task suffered that ran on a CPU from @from to @to, which has @own, and had
 * a low clock for such a share of that time.
 */
static __always_inline u64 suffered_by_count(u64 share, const struct avx_hold *own, u64 task,
					     u64 from, u64 to)
{
	u64 low = since(from, to) * share / AVX_WHOLE, caused = 0;

	if (own->task == task)
		caused = within(own->until, from, to) - within(own->began, from, to);
	return since(caused, low);
}

/* Of a time, so much may be low by chance: counters are not read at one moment. */
#define LOW_BY_CHANCE 32

/*
 * Of a task that ran on a CPU from @from to @to, which has @own, and its sibling, if there
 * is one, has @beside__nullable, while the clock was low for such a share of that time (1/1024).
 */
static __always_inline enum avx_evidence evidence_of(u64 share, const struct avx_hold *own,
						     const struct avx_hold *beside__nullable,
						     u64 task, u64 from, u64 to)
{
	u64 passed = since(from, to), low = passed * share / AVX_WHOLE, others;
	struct avx_hold before = *own;

	/* What it did itself excuses nobody. */
	if (before.task == task)
		before.until = 0;
	others = suffered(&before, beside__nullable, task, from, to);
	if (low <= passed / LOW_BY_CHANCE)
		return EVIDENCE_NONE;
	return low > others + passed / LOW_BY_CHANCE ? EVIDENCE_WIDE : EVIDENCE_OPEN;
}

/* Of a clock that is what the lower licence leaves of it, what the higher one takes. */
static __always_inline u64 lost_beyond(const struct avx_clock_step *step, bool from_licence_1)
{
	u64 more = since(step->lost[LICENCE_1], step->lost[LICENCE_2]);

	if (!from_licence_1)
		return more;
	return more * AVX_WHOLE / at_least_one(since(step->lost[LICENCE_1], AVX_WHOLE));
}

/*
 * What a task lost that suffered so long from either licence, the time at the higher one
 * being part of both, unless it needs the lower one itself.
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
 * What a task is given back that ran for @ran_ns since it was last looked at, and lost so
 * much of the last @seen_ns: never more than at the lowest clock it could lose.
 */
static __always_inline u64 given_back(const struct avx_clock_step *step, u64 lost_ns, u64 seen_ns,
				      u64 ran_ns)
{
	u64 most = at_most(step->lost[LICENCE_2], AVX_WHOLE);
	u64 share = at_most(lost_ns * AVX_WHOLE / at_least_one(seen_ns), most);

	return ran_ns * share / AVX_WHOLE;
}

/* Which of the known clocks are those with so many cores of a package active. */
static __always_inline u32 step_number(const volatile struct avx_clocks *clocks, u64 active_cores)
{
	u32 n;

	for (n = 0; n < AVX_CLOCK_STEPS - 1 && n + 1 < clocks->nr_steps; n++)
		if (active_cores <= clocks->steps[n].up_to_cores)
			break;
	return n;
}

/* What is known of the clocks of this processor there. */
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

/* Of the samples, so many have to be heavy for their licence to be needed. */
#define HEAVY_ENOUGH (AVX_WHOLE / 32)
#define SAMPLE_WEIGHT (AVX_WHOLE / 16)

/* What code that was found under way says of a task. */
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
 * The licence that a task needs. Of 512 bits the higher one, until hardly anything but
 * light instructions was seen of them; and the lower one for heavy instructions of 256
 * bits, which only samples tell of.
 */
static __always_inline u32 licence_needed(const struct avx_habit *habit, bool is_wide)
{
	if (is_wide)
		return habit->light512 > AVX_WHOLE - HEAVY_ENOUGH ? LICENCE_1 : LICENCE_2;
	return habit->heavy256 >= HEAVY_ENOUGH ? LICENCE_1 : LICENCE_NONE;
}

#endif /* AVXSPEC_COMPENSATION_BPF_H */
