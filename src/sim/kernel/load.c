// SPDX-License-Identifier: GPL-2.0-only
/*
 * The load of CPUs, by which the kernel's own class shares tasks out. One average is of the weights
 * of the tasks that run or wait, with what tasks that sleep leave behind, and another one of the
 * time in which a CPU is busy. Tasks are moved to an idle CPU that looks for one, and from a CPU
 * with more load than others.
 *
 * A task that runs is never moved. Of the kernel's scheduling domains, a core, a last-level cache
 * and the machine are told apart here.
 */
#include "internal.h"

/* A task that ran on a CPU within this time has warm caches there (sched_migration_cost). */
#define HOT_NS (500 * 1000ULL)

/* A busy CPU looks for load once in this time, times the online CPUs that share its cache. */
#define BALANCE_NS (16 * 1000 * 1000ULL)

/* A CPU takes no load from one whose load is not above this percentage of its own. */
#define IMBALANCE_PERCENT 117

/*
 * Tasks with warm caches may be moved after more than this many attempts at which nothing could be
 * moved. With each such attempt the load of a task counts for half of what it did before.
 */
#define PATIENCE 1
#define FAILED_MAX (PATIENCE + 2)

/* Sets of CPUs that are near each other. */
enum domain {
	OF_CORE,
	OF_CACHE,
	OF_MACHINE,
	NR_DOMAINS
};

static bool is_within(enum domain domain, u32 cpu, u32 other)
{
	switch (domain) {
	case OF_CORE:
		return other == cpu || other == sim_cpus[cpu].sibling;
	case OF_CACHE:
		return sim_cpus[cpu].llc == sim_cpus[other].llc;
	default:
		return true;
	}
}

/* Changes the level of @cpu's load by @by, and brings the load up to date. */
static void change_level(u32 cpu, s64 by)
{
	struct sim_average *load = &sim_cpus[cpu].fair.load;

	set_level(load, scx_bpf_now(), load->level + by);
}

/* Takes the load of @task, which goes elsewhere, from that of its CPU. */
static void take_load(struct sim_average *from, const struct sim_task *task)
{
	from->value -= from->value < task->load.value ? from->value : task->load.value;
}

/* Moves the load of @task to the CPU where it is now. */
static void carry_load(struct sim_task *task)
{
	struct sim_average *from = &sim_cpus[task->load_cpu].fair.load;
	struct sim_average *to = &sim_cpus[task->cpu].fair.load;
	u64 now = scx_bpf_now();

	if (task->load_cpu == task->cpu)
		return;
	set_level(&task->load, now, 0);
	change_level(task->load_cpu, 0);
	change_level(task->cpu, 0);
	take_load(from, task);
	to->value += task->load.value;
	task->load_cpu = task->cpu;
}

/* A new task counts as if it had always run. */
static void begin_with_load(struct sim_task *task)
{
	u64 value = task->fair.weight << AVERAGE_BITS;

	task->load = (struct sim_average){ .value = value, .at = scx_bpf_now() };
	task->load_cpu = task->cpu;
	change_level(task->cpu, 0);
	sim_cpus[task->cpu].fair.load.value += value;
}

void sim_load_begins(struct sim_task *task)
{
	if (task->load.at)
		carry_load(task);
	else
		begin_with_load(task);
	set_level(&task->load, scx_bpf_now(), task->fair.weight);
	change_level(task->cpu, task->load.level);
}

void sim_load_ends(struct sim_task *task)
{
	change_level(task->load_cpu, -(s64)task->load.level);
	set_level(&task->load, scx_bpf_now(), 0);
}

void sim_load_forget(struct sim_task *task)
{
	struct sim_average *load = &sim_cpus[task->load_cpu].fair.load;

	if (!task->load.at)
		return;
	set_level(&task->load, scx_bpf_now(), 0);
	change_level(task->load_cpu, 0);
	take_load(load, task);
	task->load = (struct sim_average){};
}

u64 sim_load_of(u32 cpu)
{
	return whole_average(&sim_cpus[cpu].fair.load, scx_bpf_now());
}

u64 sim_task_load(const struct sim_task *task)
{
	return whole_average(&task->load, scx_bpf_now());
}

/* Returns for how many of each 1024 ns @cpu was busy lately. */
u64 sim_use_of(u32 cpu)
{
	return whole_average(&sim_cpus[cpu].fair.use, scx_bpf_now());
}

void sim_use_changes(u32 cpu)
{
	set_level(&sim_cpus[cpu].fair.use, scx_bpf_now(), sim_cpus[cpu].curr ? 1024 : 0);
}

/* Returns true if @task may go to @cpu, and loses no warm caches by that unless @though_hot. */
static bool can_move(const struct sim_task *task, enum domain domain, u32 cpu, bool though_hot)
{
	bool is_hot = domain != OF_CORE && task->ran_on == (s32)task->cpu &&
		      scx_bpf_now() - task->began_at < HOT_NS;

	return !task->fair.is_delayed && sim_may_use(task, cpu) && (though_hot || !is_hot);
}

/*
 * Returns the task that has waited the longest on @from, of those that can go to @cpu and whose
 * load is no more than @load.
 */
static struct sim_task *movable(enum domain domain, u32 from, u32 cpu, u64 load, u32 nr_failed)
{
	struct sim_task *task = sim_cpus[from].fair.queue.first;

	for (; task; task = task->link.next)
		if (can_move(task, domain, cpu, nr_failed > PATIENCE) &&
		    sim_task_load(task) >> nr_failed <= load)
			return task;
	return NULL;
}

/* Returns true if tasks wait there. A CPU that a realtime task has may run none of its tasks. */
static bool is_overloaded(u32 cpu)
{
	return sim_fair_nr_waiting(cpu) > 0;
}

/* Returns a task of the CPU that has the most, of those CPUs from which one can come. */
static struct sim_task *task_to_pull(enum domain domain, u32 cpu)
{
	struct sim_task *best = NULL;
	u32 most = 0;

	for (u32 from = 0; from < sim_nr_cpus; from++) {
		struct sim_task *task;

		if (from == cpu || !is_within(domain, cpu, from) || !is_overloaded(from) ||
		    sim_fair_nr(from) <= most)
			continue;
		task = movable(domain, from, cpu, ~0ULL, 0);
		if (!task)
			continue;
		best = task;
		most = sim_fair_nr(from);
	}
	return best;
}

/* @cpu has nothing to run, and takes a task from a CPU near it that has too many, if one has. */
bool sim_pull_task(u32 cpu)
{
	for (enum domain domain = OF_CORE; domain < NR_DOMAINS; domain++) {
		struct sim_task *task = task_to_pull(domain, cpu);

		if (task) {
			sim_fair_move(task, cpu);
			return true;
		}
	}
	return false;
}

/*
 * Returns the CPU within @domain with the most load of those that could share theirs, or @cpu.
 * Stores the mean load of all CPUs there in @mean.
 */
static u32 busiest_within(enum domain domain, u32 cpu, u64 *mean)
{
	u32 busiest = cpu, nr = 0;
	u64 sum = 0;

	for (u32 other = 0; other < sim_nr_cpus; other++) {
		if (!sim_cpus[other].is_online || !is_within(domain, cpu, other))
			continue;
		sum += sim_load_of(other);
		nr++;
		if (other != cpu && is_overloaded(other) &&
		    (busiest == cpu || sim_load_of(other) > sim_load_of(busiest)))
			busiest = other;
	}
	*mean = sum / nr;
	return busiest;
}

/* Returns how much load to move so that neither CPU passes the mean. */
static u64 load_to_move(u64 from, u64 to, u64 mean)
{
	if (from * 100 <= to * IMBALANCE_PERCENT || to >= mean || from <= mean)
		return 0;
	return from - mean < mean - to ? from - mean : mean - to;
}

static void balance_within(enum domain domain, u32 cpu)
{
	struct sim_fair_queue *fair = &sim_cpus[cpu].fair;
	u64 mean, load;
	u32 busiest = busiest_within(domain, cpu, &mean);
	bool has_moved = false;
	struct sim_task *task;

	load = load_to_move(sim_load_of(busiest), sim_load_of(cpu), mean);
	while (load && is_overloaded(busiest)) {
		task = movable(domain, busiest, cpu, load, fair->nr_failed);
		if (!task)
			break;
		load -= sim_task_load(task) < load ? sim_task_load(task) : load;
		sim_fair_move(task, cpu);
		sim_fair_preempt(task, cpu);
		has_moved = true;
	}
	if (has_moved)
		fair->nr_failed = 0;
	else if (load && fair->nr_failed < FAILED_MAX)
		fair->nr_failed++;
}

/* Lets a busy CPU look now and then whether others have more load. */
void sim_balance_load(u32 cpu)
{
	struct sim_fair_queue *fair = &sim_cpus[cpu].fair;
	u32 nr_cpus = 0;

	if (scx_bpf_now() < fair->balance_at)
		return;
	for (u32 other = 0; other < sim_nr_cpus; other++)
		nr_cpus += sim_cpus[other].is_online && is_within(OF_CACHE, cpu, other);
	fair->balance_at = scx_bpf_now() + nr_cpus * BALANCE_NS;
	balance_within(OF_CACHE, cpu);
	/* One CPU of each cache looks beyond it. */
	if (sim_cpus[cpu].llc == cpu)
		balance_within(OF_MACHINE, cpu);
}
