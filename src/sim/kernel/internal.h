/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's side of a simulation, as its files call each other. For a new scheduler they
 * forget what the one before made. For a new run they reset all that they keep of the one before.
 */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#include "kernel.h"

#define SLICE_DFL (20 * 1000 * 1000ULL)
#define NO_DSQ (~0ULL)

extern struct sched_ext_ops avxspec;

/* kernel.c: the machine, of which one CPU at a time does something. */
extern struct sim_cpu sim_cpus[SIM_CPUS_MAX];
extern u32 sim_nr_cpus;
extern u32 sim_this_cpu;
extern struct task_struct sim_idle_task;

/* attach.c */
void sim_set_up_scheduler(u32 nr_llcs, u32 cpus_per_core, u32 tier,
			  const struct avx_topology *topology, const struct avx_clocks *clocks,
			  const struct avx_policy_in_force *policy);

/* tasks.c */
void sim_init_task(struct sim_task *task, bool is_forked);
void sim_tell_enable(struct sim_task *task);
void sim_tell_disable(struct sim_task *task);
void sim_disable_task(struct sim_task *task);
void sim_tasks_reset(void);

/* fair.c */
bool sim_is_fair(const struct sim_task *task);
u32 sim_fair_nr(u32 cpu);
u32 sim_fair_nr_waiting(u32 cpu);
void sim_fair_charge(u32 cpu, u64 ran_ns);
void sim_fair_enqueue(struct sim_task *task, u32 cpu);
void sim_fair_unlinks(struct sim_task *task);
void sim_fair_move(struct sim_task *task, u32 cpu);
void sim_fair_preempt(struct sim_task *task, u32 cpu);
void sim_fair_block(u32 cpu);
bool sim_fair_keeps(u32 cpu, struct sim_task *prev);
bool sim_fair_wakes(struct sim_task *task);
void sim_fair_tick(u32 cpu);
void sim_fair_idle_tick(u32 cpu);
void sim_fair_yield(u32 cpu);
void sim_fair_weigh(struct sim_task *task, u32 scx_weight);
void sim_fair_adopt(struct sim_task *task);
void sim_fair_forget(struct sim_task *task);

/* load.c */
void sim_load_begins(struct sim_task *task);
void sim_load_ends(struct sim_task *task);
void sim_load_forget(struct sim_task *task);
u64 sim_load_of(u32 cpu);
u64 sim_task_load(const struct sim_task *task);
u64 sim_use_of(u32 cpu);
void sim_use_changes(u32 cpu);
bool sim_pull_task(u32 cpu);
void sim_balance_load(u32 cpu);

/* placement.c */
u32 sim_fair_select_cpu(struct sim_task *task, u32 waker_cpu);

/* affinity.c */
void sim_allow_all(struct sim_task *task);
u32 sim_fallback_cpu(struct sim_task *task);
void sim_move_away(struct sim_task *task);

/* queues.c */
void sim_link_behind(struct sim_dsq *dsq, struct sim_task *task, struct sim_task *before);
void sim_unlink_task(struct sim_task *task);
void sim_relink(struct sim_task *task, struct sim_dsq *dsq);
void sim_enqueue(struct sim_task *task, u32 cpu, u64 enq_flags);
void sim_enqueue_in_passing(struct sim_task *task);
bool sim_move_global_to_local(void);
extern bool sim_is_within_release; /* A callback has called another one. */
void sim_queues_forget(void);
void sim_queues_reset(void);

/* schedule.c */
extern struct sim_task *sim_releasing; /* Its CPU is released, but it is still what runs there. */
void sim_account(u32 cpu);
void sim_tell_running(struct sim_task *task);
void sim_preempt(u32 cpu);
void sim_end_slice(u32 cpu);

/* resched.c */
void sim_resched_cpu(u32 cpu);
void sim_resched_reset(void);

/* changes.c */
void sim_tell_changed(struct sim_task *task);

/* patch.c */
void sim_let_go(struct sim_task *task);
u64 sim_registers_in_use(const struct sim_task *task);

/* timers.c */
void sim_timers_forget(void);

/* calls.c */
struct sim_call sim_begin_call(enum sim_callback callback, struct sim_task *task);
void sim_end_call(struct sim_call before);
struct sim_call sim_present_call(void);
bool sim_is_within(enum sim_callback callback);
bool sim_is_placing(const struct sim_task *task);
void sim_check_held(void);
void sim_calls_forget(void);
void sim_calls_reset(void);

/* idle.c */
void sim_set_idle(u32 cpu, bool is_idle);
void sim_idle_reset(void);

/* masks.c */
u32 sim_next_and(u32 from, const struct cpumask *a, const struct cpumask *b);
u32 sim_any_and_distribute(const struct cpumask *a, const struct cpumask *b);
void sim_masks_forget(void);
void sim_masks_reset(void);

static inline bool test_cpu(u32 cpu, const struct cpumask *mask)
{
	return cpu < SIM_CPUS_MAX && mask->bits[cpu / 64] >> cpu % 64 & 1;
}

static inline void assign_cpu(u32 cpu, struct cpumask *mask, bool on)
{
	u64 bit = 1ULL << cpu % 64;

	if (on)
		mask->bits[cpu / 64] |= bit;
	else
		mask->bits[cpu / 64] &= ~bit;
}

#endif /* SIM_INTERNAL_H */
