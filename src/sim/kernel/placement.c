// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where a task of the kernel's own class goes when it wakes up or begins, after
 * select_task_rq_fair() of Linux 6.12: to an idle CPU that shares a cache with where it was, or
 * with its waker.
 */
#include "internal.h"

/* A cache whose CPUs are busy for more of the time than 100 by this has no CPU to look for. */
#define SCAN_PERCENT 117

static bool is_idle(u32 cpu)
{
	const struct sim_cpu *it = &sim_cpus[cpu];

	return it->is_online && !it->is_taken && !it->curr && !it->realtime.nr && !sim_fair_nr(cpu);
}

static bool is_idle_for(const struct sim_task *task, u32 cpu)
{
	return test_cpu(cpu, task->t.cpus_ptr) && is_idle(cpu);
}

static bool share_cache(u32 cpu, u32 other)
{
	return sim_cpus[cpu].llc == sim_cpus[other].llc;
}

static bool is_core_idle(u32 cpu)
{
	u32 sibling = sim_cpus[cpu].sibling;

	return is_idle(cpu) && (!sim_cpus[sibling].is_online || is_idle(sibling));
}

/* Returns true if cores have two CPUs, and a core that shares a cache with @cpu idles. */
static bool has_idle_core(u32 cpu)
{
	for (u32 other = 0; other < sim_nr_cpus; other++)
		if (sim_cpus[other].sibling != other && share_cache(cpu, other) &&
		    is_core_idle(other))
			return true;
	return false;
}

/* Returns how many CPUs to look at: the busier they are, the fewer (SIS_UTIL). */
static u32 nr_to_scan(u32 cpu)
{
	u64 used = 0, percent = SCAN_PERCENT, nr = 0;

	for (u32 other = 0; other < sim_nr_cpus; other++) {
		if (!sim_cpus[other].is_online || !share_cache(cpu, other))
			continue;
		used += sim_use_of(other);
		nr++;
	}
	used = nr ? used / nr : 0;
	used = used * used * percent * percent / 10000 / 1024;
	return used < 1024 ? (1024 - used) * nr / 1024 : 0;
}

/*
 * Returns an idle CPU, from the one after @target on: one of an idle core if @wants_core and there
 * is one, and otherwise any. Returns @target if none was found.
 */
static u32 scan(const struct sim_task *task, u32 target, bool wants_core)
{
	u32 nr = nr_to_scan(target), found = target;

	if (!nr)
		return target;
	for (u32 n = 1; n <= sim_nr_cpus; n++) {
		u32 cpu = (target + n) % sim_nr_cpus;

		if (!share_cache(cpu, target) || !test_cpu(cpu, task->t.cpus_ptr))
			continue;
		if (!wants_core && !nr--)
			return target;
		if (!is_idle(cpu))
			continue;
		if (!wants_core || is_core_idle(cpu))
			return cpu;
		if (found == target)
			found = cpu;
	}
	return found;
}

/* Returns @target if it idles, or a CPU near it that does, or else @target. */
static u32 idle_near(struct sim_task *task, u32 prev, u32 target)
{
	u32 recent = task->recent_cpu, sibling = sim_cpus[prev].sibling;
	bool wants_core;

	task->recent_cpu = prev;
	if (is_idle_for(task, target))
		return target;
	if (share_cache(prev, target) && is_idle_for(task, prev))
		return prev;
	if (share_cache(recent, target) && is_idle_for(task, recent))
		return recent;
	wants_core = has_idle_core(target);
	if (!wants_core && share_cache(prev, target) && is_idle_for(task, sibling))
		return sibling;
	return scan(task, target, wants_core);
}

/*
 * Returns true if @here has less load than @prev. The task that runs there does not count, because
 * it is the waker, which is about to sleep.
 */
static bool is_lighter_without_waker(const struct sim_task *task, u32 here, u32 prev)
{
	const struct sim_task *waker = sim_cpus[here].curr;
	u64 load = sim_load_of(here), own = sim_task_load(task), other = sim_load_of(prev);
	u64 waker_load = waker ? sim_task_load(waker) : 0;

	if (waker_load > load)
		return true;
	load = (load - waker_load + own) * 100;
	other = (other > own ? other - own : 0) * (100 + (SCAN_PERCENT - 100) / 2);
	return load < other + 1;
}

/* Returns the CPU where the waker is, or the one where the task was before (wake_affine). */
static u32 target_of(const struct sim_task *task, u32 waker_cpu, bool by_task)
{
	u32 prev = task->cpu;

	if (waker_cpu == prev || !test_cpu(waker_cpu, task->t.cpus_ptr))
		return prev;
	if (is_idle(waker_cpu) && share_cache(waker_cpu, prev))
		return is_idle(prev) ? prev : waker_cpu;
	if (by_task && sim_fair_nr(waker_cpu) - sim_cpus[waker_cpu].fair.nr_delayed == 1)
		return waker_cpu;
	if (is_idle(prev))
		return prev;
	return is_lighter_without_waker(task, waker_cpu, prev) ? waker_cpu : prev;
}

/* Returns how many CPUs share a cache with @cpu and do not idle. */
static u64 nr_busy_near(u32 cpu)
{
	u64 nr = 0;

	for (u32 other = 0; other < sim_nr_cpus; other++)
		nr += share_cache(cpu, other) && !is_idle(other);
	return nr;
}

/*
 * Returns the CPU for a new task: one of an idle core, or else an idle one, or else any. Of these
 * it is one near which the fewest CPUs are busy; of busy ones, then the one with the least load.
 */
static u32 idlest(const struct sim_task *task)
{
	u64 best_rank = ~0ULL;
	u32 best = task->cpu;

	for (u32 cpu = 0; cpu < sim_nr_cpus; cpu++) {
		u64 rank = 2;

		if (!sim_may_use(task, cpu))
			continue;
		if (is_idle(cpu))
			rank = is_core_idle(cpu) ? 0 : 1;
		rank = rank << 56 | nr_busy_near(cpu) << 40 | (rank < 2 ? 0 : sim_load_of(cpu));
		if (rank < best_rank) {
			best_rank = rank;
			best = cpu;
		}
	}
	return best;
}

u32 sim_fair_select_cpu(struct sim_task *task, u32 waker_cpu)
{
	u32 target;

	if (task->t.nr_cpus_allowed == 1 || task->pins_cpu)
		return sim_fallback_cpu(task);
	if (task->ran_on < 0)
		return task->recent_cpu = idlest(task);
	target = target_of(task, waker_cpu, sim_cpus[waker_cpu].curr);
	return idle_near(task, task->cpu, target);
}
