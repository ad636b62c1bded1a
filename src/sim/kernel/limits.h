/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many AVX cores there are at least and at most, by what is seen of AVX work from outside.
 * This is a part of scheduler.c, and follows the scheduler's source there.
 *
 * Where a policy says how many AVX cores there are, their number is known. Where they follow the
 * demand, the scheduler promises that there is one while there is AVX work, that none are left long
 * after it, and that in the end there are no more than AVX tasks can fill to the share that the
 * policy wants.
 */
#ifndef SIM_LIMITS_H
#define SIM_LIMITS_H

/* For how long the set of AVX cores may differ from what it should be. */
#define APPROACH_NS (50 * 1000 * 1000ULL)

/* What was seen up to the last audit, from the beginning of the scheduler on. */
static struct {
	u64 at;
	u64 avx_ns; /* for which AVX work ran, by the scheduler's books */
	u64 nr_waits;
	u64 nr_phases; /* that began or ended, of tasks that did not exit */
	u32 nr_avx_cpus;
	u64 used_at; /* when there was AVX work the last time */
	/* Since when AVX work has kept at least three quarters of a CPU busy, look by look. */
	u64 busy_since;
	u64 look_at;
	u64 avx_ns_at_look;
	/* When the set was last not too large, and the most AVX tasks that there were since. */
	u64 fitted_at;
	u64 nr_tasks;
	s32 newest_pid;
} seen_use;

static void watch_use(void)
{
	u64 now = scx_bpf_now(), avx_ns = 0, nr_waits = 0, nr_phases = 0;
	bool is_used = false;

	for (struct sim_task *it = sim_newest_task(); it; it = it->older) {
		nr_phases += it->audited;
		is_used |= it->state != SIM_SLEEPS && lookup_task(&it->t)->habit.class == CLASS_AVX;
	}
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		const struct avx_cpu_stats *stats = sim_stats(cpu);

		avx_ns += since(stats->avx_apart_ns, stats->avx_ns);
		nr_waits += stats->avx_waits;
	}
	if (is_used || avx_ns != seen_use.avx_ns || nr_waits != seen_use.nr_waits ||
	    nr_phases != seen_use.nr_phases)
		seen_use.used_at = now;
	seen_use.avx_ns = avx_ns;
	seen_use.nr_waits = nr_waits;
	seen_use.nr_phases = nr_phases;
	if (now - seen_use.look_at < LOOK_NS)
		return;
	if (avx_ns - seen_use.avx_ns_at_look < (now - seen_use.look_at) / 4 * 3)
		seen_use.busy_since = now;
	seen_use.look_at = now;
	seen_use.avx_ns_at_look = avx_ns;
}

/* Returns after how many looks nothing is left of an average to which all CPUs contributed. */
static u64 looks_to_forget(u32 nr_cpus, u64 weight)
{
	u64 average = 2 * CPU_BUSY * nr_cpus, nr = 0;

	for (; average; nr++)
		average = moving_average(average, 0, weight);
	return nr;
}

/*
 * Returns how long it takes to give back the cores that were needed, and as long again for those
 * that were needed meanwhile.
 */
static u64 ns_to_give_back(const struct avx_policy *policy, u64 patience_ns)
{
	patience_ns = at_most(patience_ns, policy->shrink_dwell_max_ns);
	return 2 * (at_least(patience_ns, policy->shrink_dwell_ns) + LOOK_NS);
}

/* Returns after how long without AVX work there is no AVX core. */
static u64 ns_to_none(const struct avx_policy *policy, u64 patience_ns, u32 nr_cpus)
{
	if (policy->sizing == SIZING_SHARE)
		return looks_to_forget(nr_cpus, policy->share_alpha) * LOOK_NS;
	return ns_to_give_back(policy, patience_ns);
}

/*
 * Returns how many CPUs are used to the share that the policy wants if each AVX task has a CPU to
 * itself, or how many make a core for each task, if these are more.
 */
static u32 most_for(u64 nr_tasks, const struct avx_policy *policy, const struct avx_demand *shape)
{
	u64 fill = at_most(policy->grow_fill, policy->shrink_fill);
	u64 for_nodes = nr_nodes > 1 ? (u64)nr_nodes * shape->granule : 0;
	u64 cpus = at_least(cpus_for(nr_tasks * CPU_BUSY, fill), nr_tasks * shape->granule);

	return round_up_to_cores(at_least(cpus, for_nodes), shape);
}

/* Returns true if each task could use each AVX core, and each CPU is there for tasks. */
static bool are_all_alike(void)
{
	for (const struct sim_task *it = sim_newest_task(); it; it = it->older)
		if (it->t.nr_cpus_allowed < nr_cpu_ids)
			return false;
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (sim_cpu(cpu)->is_taken || !sim_cpu(cpu)->is_online)
			return false;
	return true;
}

/* Returns how many tasks ever were AVX tasks, or began since the last audit and may have been. */
static u64 count_avx_tasks(void)
{
	s32 newest_pid = seen_use.newest_pid;
	u64 nr = 0;

	for (const struct sim_task *it = sim_newest_task(); it; it = it->older) {
		nr += it->audited > 0 || it->t.pid > newest_pid;
		if (it->t.pid > seen_use.newest_pid)
			seen_use.newest_pid = it->t.pid;
	}
	return nr;
}

static void audit_most(const struct avx_policy *policy, u64 policy_since)
{
	const struct avx_demand shape = demand_of(0, policy);
	u64 now = scx_bpf_now(), nr_tasks = count_avx_tasks();
	u64 bound = APPROACH_NS + ns_to_none(policy, sizing.patience, nr_usable_cpus);

	if (nr_avx_cpus && now - at_least(seen_use.used_at, policy_since) > bound)
		sim_fail("%u AVX cores are left %llu ns after AVX work", nr_avx_cpus,
			 now - seen_use.used_at);
	if (policy->sizing == SIZING_SHARE)
		return;
	seen_use.nr_tasks = at_least(seen_use.nr_tasks, nr_tasks);
	if (nr_avx_cpus <= most_for(seen_use.nr_tasks, policy, &shape) || !are_all_alike() ||
	    policy_since >= seen_use.fitted_at) {
		seen_use.fitted_at = now;
		seen_use.nr_tasks = nr_tasks;
	}
	if (now - seen_use.fitted_at > bound)
		sim_fail("%u AVX cores are too many for %llu AVX tasks", nr_avx_cpus,
			 seen_use.nr_tasks);
}

static void audit_least(const struct avx_policy *policy, u64 policy_since)
{
	u64 now = scx_bpf_now();

	if (nr_avx_cpus || follows_use(policy))
		return;
	if (now - at_least(seen_use.busy_since, policy_since) > APPROACH_NS)
		sim_fail("there is no AVX core while there is AVX work");
	/* The look that gave the last one back was since the last audit. The published method
	 * regards only what ran. */
	if (policy->sizing == SIZING_SHARE || !seen_use.nr_avx_cpus || policy_since >= seen_use.at)
		return;
	for (const struct sim_task *it = sim_newest_task(); it; it = it->older)
		if (it->state == SIM_WAITS && it->queued_at < seen_use.at && it->dsq->is_made &&
		    is_avx_queue(it->dsq->id))
			sim_fail("the last AVX core is given back while task %d waits", it->t.pid);
}

/* Checks how many AVX cores there are where they follow the demand. */
static void audit_demand(const struct avx_policy *policy, u64 policy_since)
{
	watch_use();
	if (policy->avx_cores_for != SERVED_NOBODY &&
	    (policy->sizing == SIZING_CONTROLLER || policy->sizing == SIZING_SHARE)) {
		audit_most(policy, policy_since);
		audit_least(policy, policy_since);
	}
	seen_use.at = scx_bpf_now();
	seen_use.nr_avx_cpus = nr_avx_cpus;
}

#endif /* SIM_LIMITS_H */
