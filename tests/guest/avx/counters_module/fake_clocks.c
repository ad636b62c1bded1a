// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters of clocks that are what the test says. In each microsecond events 0 to 2
 * count so many cycles at each licence, event 3 the cycles of APERF, and event 4 1000,
 * those of MPERF. Event 5 counts operations, and the one of that number instructions. If a name is
 * given, clocks are so while a task of that name runs, and else there is no licence; and only that
 * task has instructions. A CPU may have room for some events only,
 * and then they take turns. Who opens an event of the CPU that leaves is kept until it has left.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/sched/clock.h>

#define MPERF 4
#define OPERATIONS 5
#define INSTRUCTIONS 0xc0 /* as the CPUs of Intel and AMD number them */

static unsigned int cycles[MPERF] = { 1000, 0, 0, 1000 };
module_param_array(cycles, uint, NULL, 0644);
MODULE_PARM_DESC(cycles, "in a microsecond: at each of three licences, and of APERF");

static unsigned int operations;
module_param(operations, uint, 0644);
MODULE_PARM_DESC(operations, "in a microsecond");

static unsigned int room;
module_param(room, uint, 0644);
MODULE_PARM_DESC(room, "how many events a CPU counts at once, or 0 for all");

static DEFINE_PER_CPU(unsigned int, nr_counting);

static char culprit[TASK_COMM_LEN];
module_param_string(culprit, culprit, sizeof(culprit), 0644);
MODULE_PARM_DESC(culprit, "the task that makes clocks what they are, if it is one");

static char pmu[16] = "fake_clocks";
module_param_string(pmu, pmu, sizeof(pmu), 0444);
MODULE_PARM_DESC(pmu, "how the PMU is called: \"cpu\" is that of the CPU, if it has none");

static int leaves = -1;
module_param(leaves, int, 0644);
MODULE_PARM_DESC(leaves, "the CPU that leaves while somebody opens an event of it, or -1");

static struct pmu fake_clocks;

/* Whoever reads does so before another task comes. */
static unsigned int cycles_of(u64 config)
{
	if (config == MPERF)
		return 1000;
	if (config == OPERATIONS)
		return operations;
	if (config == INSTRUCTIONS)
		return strncmp(current->comm, culprit, sizeof(culprit)) ? 0 : 1000;
	if (culprit[0] && strncmp(current->comm, culprit, sizeof(culprit)))
		return config == 0 ? 1000 : 0;
	return READ_ONCE(cycles[config]);
}

static void fake_read(struct perf_event *event)
{
	u64 now = local_clock();
	u64 passed = now - local64_xchg(&event->hw.prev_count, now);

	local64_add(passed * cycles_of(event->attr.config) / 1000, &event->count);
}

static void fake_start(struct perf_event *event, int flags)
{
	local64_set(&event->hw.prev_count, local_clock());
	event->hw.state = 0;
}

static void fake_stop(struct perf_event *event, int flags)
{
	if (event->hw.state & PERF_HES_STOPPED)
		return;
	fake_read(event);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int fake_add(struct perf_event *event, int flags)
{
	if (room && this_cpu_read(nr_counting) >= room)
		return -EAGAIN;
	this_cpu_inc(nr_counting);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		fake_start(event, flags);
	return 0;
}

static void fake_del(struct perf_event *event, int flags)
{
	fake_stop(event, flags);
	this_cpu_dec(nr_counting);
}

static int fake_event_init(struct perf_event *event)
{
	if (event->attr.type != fake_clocks.type)
		return -ENOENT;
	if (is_sampling_event(event) || event->cpu < 0)
		return -EINVAL;
	if (event->attr.config > OPERATIONS && event->attr.config != INSTRUCTIONS)
		return -EINVAL;
	while (event->cpu == READ_ONCE(leaves) && cpu_online(event->cpu))
		if (msleep_interruptible(10))
			return -EINTR;
	return 0;
}

static struct pmu fake_clocks = {
	.module = THIS_MODULE,
	.task_ctx_nr = perf_invalid_context,
	.capabilities = PERF_PMU_CAP_NO_INTERRUPT,
	.event_init = fake_event_init,
	.add = fake_add,
	.del = fake_del,
	.start = fake_start,
	.stop = fake_stop,
	.read = fake_read,
};

static int __init fake_clocks_init(void)
{
	return perf_pmu_register(&fake_clocks, pmu, -1);
}

static void __exit fake_clocks_exit(void)
{
	perf_pmu_unregister(&fake_clocks);
}

module_init(fake_clocks_init);
module_exit(fake_clocks_exit);
MODULE_DESCRIPTION("Counters of clocks that are what a test says");
MODULE_LICENSE("GPL");
