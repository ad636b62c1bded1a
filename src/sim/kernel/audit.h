/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks of what has to hold between any two events, in the model and in the scheduler's books.
 * This is a part of scheduler.c, and follows the scheduler's source there.
 */
#ifndef SIM_AUDIT_H
#define SIM_AUDIT_H

/* For how long a task may wait beside an idle CPU that is to take it. Ticks end such a wait. */
#define UNNOTICED_NS (50 * 1000 * 1000ULL)

/* The state at the last audit, or at the beginning of the scheduler. */
static struct {
	u64 clocks[NR_QUEUE_KINDS * SIM_CPUS_MAX];
	bool compensated;
	u64 generation;
	u64 policy_since;
} audited;

/*
 * Tasks that wait in each queue, by their tags; and for the queue of a cache, what waits and runs
 * by its clock.
 */
static struct {
	u64 nr;
	u64 weight;
	u64 running;
	u64 nr_running;
} counted[NR_QUEUE_KINDS * SIM_CPUS_MAX];

/*
 * How far the run time that the scheduler keeps of a running task may be off, because the task
 * came from elsewhere.
 */
#define UNTIMED_NS (1000 * 1000ULL)

static void audit_state(const struct sim_task *it)
{
	bool is_queued = it->t.scx.flags & SCX_TASK_QUEUED;
	bool is_current = sim_cpu(it->cpu)->curr == it;

	if (is_current != (it->state == SIM_RUNS) || is_queued != (it->state != SIM_SLEEPS) ||
	    !it->dsq != (it->state != SIM_WAITS && !it->fair.is_delayed))
		sim_fail("task %d is lost", it->t.pid);
	if (is_current && !sim_may_use(it, it->cpu))
		sim_fail("task %d runs on CPU %u, which it may not use", it->t.pid, it->cpu);
}

static void audit_class(struct sim_task *it, const struct task_ctx *tctx)
{
	const struct avx_process *process = lookup_process(&it->t);
	u64 changes = 0;

	for (u32 n = 0; n < NR_CAUSES; n++)
		changes += tctx->book.phases[n];
	for (u32 n = 0; n < NR_BOUNDARIES; n++)
		changes += tctx->book.ends[n];
	if (tctx->generation > audited.generation ||
	    (changes != it->audited && tctx->generation != audited.generation))
		sim_fail("task %d: generation %llu is not that of the policy", it->t.pid,
			 tctx->generation);
	it->audited = changes;
	/* The scheduler need not be told at once that a task begins another program. */
	if (tctx->program == it->t.self_exec_id && tctx->hidden != it->wants_hidden)
		sim_fail("task %d: what is hidden is not what was asked for", it->t.pid);
	if (it->is_hidden && (tctx->habit.class == CLASS_AVX || !process || !process->convicted))
		sim_fail("task %d needs what is hidden from it", it->t.pid);
}

static void audit_wait(const struct sim_task *it, const struct task_ctx *tctx)
{
	u64 tag = it->t.scx.dsq_vtime & TAG_MASK, id = queue_of_tag(tag);

	if (!tag)
		return;
	if (it->state != SIM_WAITS || id >= NR_QUEUE_KINDS * SIM_CPUS_MAX) {
		sim_fail("task %d is said to wait", it->t.pid);
		return;
	}
	counted[id].nr++;
	counted[tctx->clock].weight += tctx->weight_queued;
	if ((s64)(it->t.scx.dsq_vtime - tctx->queued_at) > (s64)(AVX_WAIT_MAX_NS + TAG_MASK))
		sim_fail("task %d is due too late", it->t.pid);
}

/* The run time that the scheduler keeps of the running task has to be that task's. */
static void audit_time(const struct sim_task *it)
{
	const struct cpu_ctx *cctx = lookup_cpu(it->cpu);
	u64 now = scx_bpf_now(), ran = it->t.se.sum_exec_runtime + now - it->began_at, kept;

	if (it->state != SIM_RUNS || !cctx->started_at)
		return;
	kept = ran_up_to(&it->t, cctx, now);
	if (kept > ran + UNTIMED_NS || ran > kept + UNTIMED_NS)
		sim_fail("task %d is said to have run for %llu ns, and did for %llu", it->t.pid,
			 kept, ran);
}

/*
 * Returns true if the AVX task @it may have to wait beside an idle CPU that is no AVX core. Such a
 * CPU does not take AVX work until that has been due for long. A task is due anew whenever it is
 * queued anew, but weights never keep a task waiting for longer than AVX_WAIT_MAX_NS.
 */
static bool may_have_to_wait(const struct sim_task *it, const struct avx_policy *policy)
{
	u64 now = scx_bpf_now(), patience = policy->stranded_ns + UNNOTICED_NS;

	/* The policy before may have asked for more patience. */
	if (now - audited.policy_since < UNNOTICED_NS)
		return true;
	return now - it->queued_at < since(it->queued_at, it->t.scx.dsq_vtime) + patience &&
	       now - it->runnable_at < AVX_WAIT_MAX_NS + patience;
}

/*
 * A task that any CPU may take does not wait where one idles, however often it is queued anew, and
 * an AVX task does not wait there for much longer than it has to.
 */
static void audit_idle(const struct sim_task *it, const struct avx_policy *policy)
{
	u64 now = scx_bpf_now();

	if (it->state != SIM_WAITS || !it->dsq->is_made || now - it->runnable_at < UNNOTICED_NS ||
	    now - it->freed_at < UNNOTICED_NS)
		return;
	if (is_avx_queue(it->dsq->id) && may_have_to_wait(it, policy))
		return;
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		const struct sim_cpu *is = sim_cpu(cpu);

		if (sim_may_use(it, cpu) && !is->curr && !is->needs_resched &&
		    now - is->idle_since >= UNNOTICED_NS)
			sim_fail("task %d waits in queue %llu beside the idle CPU %u", it->t.pid,
				 it->dsq->id, cpu);
	}
}

static void audit_tasks(const struct avx_policy *policy)
{
	memset(counted, 0, sizeof(counted));
	for (struct sim_task *it = sim_newest_task(); it; it = it->older) {
		const struct task_ctx *tctx = sim_is_attached() ? lookup_task(&it->t) : NULL;

		audit_state(it);
		if (!tctx)
			continue;
		audit_class(it, tctx);
		audit_wait(it, tctx);
		audit_time(it);
		audit_idle(it, policy);
	}
}

/* A CPU that idles has to be among the idle CPUs, because tasks look for one there. */
static void audit_cpus(void)
{
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		const struct sim_cpu *is = sim_cpu(cpu);

		if (is->is_online && !is->is_taken && !is->needs_resched && !is->curr &&
		    !bpf_cpumask_test_cpu(cpu, sim_idle_cpus()))
			sim_fail("CPU %u idles, and is not known to", cpu);
	}
}

/* The clock knows whether a task of the scheduler runs on a CPU, except while the CPU chooses. */
static void audit_runners(void)
{
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		const struct sim_cpu *is = sim_cpu(cpu);
		const struct cpu_ctx *cctx = lookup_cpu(cpu);
		u64 id = shared_queue(cctx->llc), weight = cctx->runner.weight;

		if (is->is_online && !is->is_taken && !is->needs_resched && !is->curr != !weight)
			sim_fail("CPU %u is said to run a task of weight %llu", cpu, weight);
		counted[id].running += weight;
		counted[id].nr_running += weight > 0;
	}
}

static void audit_queues(void)
{
	u32 in_use[NR_QUEUE_KINDS] = {};

	for (u32 id = 0; id < NR_QUEUE_KINDS * nr_cpu_ids; id++) {
		const struct queue_ctx *queue = lookup_queue(id);

		if (queue->nr_waiting != counted[id].nr ||
		    queue->weight_waiting != counted[id].weight)
			sim_fail("in queue %u %llu are said to wait, with %llu, and %llu do, with "
				 "%llu",
				 id, queue->nr_waiting, queue->weight_waiting, counted[id].nr,
				 counted[id].weight);
		if (queue->nr_running != counted[id].nr_running ||
		    queue->weight_running != counted[id].running)
			sim_fail("by the clock of queue %u %llu are said to run, with %llu, and "
				 "%llu do, with %llu",
				 id, queue->nr_running, queue->weight_running,
				 counted[id].nr_running, counted[id].running);
		if (!compensates && !audited.compensated &&
		    vtime_before(queue->clock, audited.clocks[id]))
			sim_fail("the clock of queue %u went back", id);
		audited.clocks[id] = queue->clock;
		in_use[kind_of(id)] += counted[id].nr > 0;
	}
	audited.compensated = compensates;
	if (nr_llcs > 1 &&
	    (shared_in_use.nr != in_use[QUEUE_SHARED] || avx_in_use.nr != in_use[QUEUE_AVX]))
		sim_fail("%u shared and %u AVX queues are said to be in use, and %u and %u are",
			 shared_in_use.nr, avx_in_use.nr, in_use[QUEUE_SHARED], in_use[QUEUE_AVX]);
}

/*
 * Returns true if there are as many AVX cores as the policy says. If it does not say how many,
 * limits.h checks their number.
 */
static bool is_as_large_as_said(const struct avx_policy *policy, u32 nr_usable)
{
	u32 listed = 0;

	if (policy->avx_cores_for == SERVED_NOBODY)
		return !nr_avx_cpus;
	if (policy->sizing == SIZING_STATIC && follows_use(policy))
		return nr_avx_cpus <= policy->avx_cpus;
	if (policy->sizing == SIZING_STATIC)
		return nr_avx_cpus == at_most(policy->avx_cpus, nr_usable);
	if (policy->sizing != SIZING_LIST)
		return true;
	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);

		listed += place->usable && is_listed(policy, cpu);
	}
	return nr_avx_cpus == listed;
}

static bool is_one_of(u32 cpu, u32 role, struct bpf_cpumask *avx, struct bpf_cpumask *scalar)
{
	return bpf_cpumask_test_cpu(cpu, cast_mask(avx)) == (role == ROLE_AVX) &&
	       bpf_cpumask_test_cpu(cpu, cast_mask(scalar)) == (role == ROLE_SCALAR);
}

static void audit_roles(const struct avx_policy *policy)
{
	u32 nr_avx = 0, nr_usable = 0, misused = 0, in_cores = 0, in_caches = 0, in_nodes = 0;
	u32 nr_caches = 0, half_done = 0;

	for (u32 cpu = 0; cpu < nr_cpu_ids; cpu++) {
		const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
		const struct cpu_ctx *cctx = lookup_cpu(cpu), *first = lookup_cpu(cctx->llc);

		nr_avx += cctx->role == ROLE_AVX;
		nr_usable += place->usable;
		misused += cctx->is_misused;
		in_cores += cctx->core_avx;
		in_caches += cctx->llc_avx;
		nr_caches += cctx->llc_avx > 0;
		in_nodes += cctx->node_avx;
		half_done += is_half_done(cctx->core_avx, place->core_cpus);
		if ((cctx->role == ROLE_AVX && !place->usable) ||
		    is_one_of(cpu, cctx->role, avx_cpus, scalar_cpus) != place->online ||
		    is_one_of(cpu, cctx->role, first->llc_avx_cpus, first->llc_scalar_cpus) !=
			    place->online)
			sim_fail("CPU %u has two roles, or none that it may have", cpu);
		if ((cctx->runs_avx || cctx->is_misused) && !sim_cpu(cpu)->curr)
			sim_fail("CPU %u is said to run something", cpu);
	}
	if (nr_avx != nr_avx_cpus || nr_avx != in_cores || nr_avx != in_caches ||
	    nr_avx != in_nodes || misused != nr_misused)
		sim_fail("%u AVX cores were counted as %u, %u, %u and %u", nr_avx, nr_avx_cpus,
			 in_cores, in_caches, in_nodes);
	if (half_done != nr_half_done)
		sim_fail("%u cores are said to be AVX cores in part, and %u are", nr_half_done,
			 half_done);
	if (nr_caches != nr_avx_llcs)
		sim_fail("%u caches are said to have AVX cores, and %u have", nr_avx_llcs,
			 nr_caches);
	if (scx_bpf_now() - audited.policy_since > APPROACH_NS &&
	    !is_as_large_as_said(policy, nr_usable))
		sim_fail("%u AVX cores are not what the policy says", nr_avx);
}

void sim_audit(void)
{
	const struct avx_policy *policy = current_policy();

	if (generation_of(policy) != audited.generation) {
		audited.generation = generation_of(policy);
		audited.policy_since = scx_bpf_now();
	}
	audit_tasks(policy);
	if (!sim_is_attached()) {
		sim_fair_audit(UNNOTICED_NS);
		return;
	}
	audit_runners();
	audit_queues();
	audit_cpus();
	if (!classifies())
		return;
	audit_roles(policy);
	audit_demand(policy, audited.policy_since);
}

#endif /* SIM_AUDIT_H */
