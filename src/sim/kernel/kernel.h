/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's side of a simulation, as the engine calls it. */
#ifndef SIM_KERNEL_H
#define SIM_KERNEL_H

#include "average.h"
#include "eevdf.h"

enum sim_state {
	SIM_SLEEPS,
	SIM_WAITS,
	SIM_RUNS
};

/* A place in a queue. Each task has one. */
struct sim_link {
	struct sim_task *prev;
	struct sim_task *next;
};

struct sim_dsq {
	struct sim_task *first;
	struct sim_task *last;
	u64 id;
	u32 nr;
	bool is_made;	  /* by a scheduler */
	bool is_by_vtime; /* otherwise first come, first served */
};

/* The run queue of the kernel's own class. */
struct sim_fair_queue {
	struct sim_dsq queue; /* without what runs */
	u32 nr_delayed;	      /* tasks of it whose dequeue is delayed */
	bool is_due;	      /* What runs has had its slice, or should not run any longer. */
	u64 average;	      /* virtual time, as it was last seen */
	struct sim_average load;
	struct sim_average use;
	u64 balance_at;
	u32 nr_failed; /* attempts to balance */
};

struct sim_cpu {
	struct sim_task *curr; /* NULL while it idles, or belongs to others */
	struct sim_dsq local;
	struct sim_fair_queue fair;
	struct sim_dsq realtime; /* Tasks that are not the scheduler's, and come first. */
	bool is_online;
	bool is_taken; /* by a realtime task */
	bool needs_resched;
	u32 sibling;
	u32 llc;
	u64 idle_since; /* if it idles */
	struct kernel_cpustat stat;
	u64 counts[CYCLES_BY_LICENCE]; /* of the counters that tell of its clock */
};

/* How many maps of task storage there may be. */
#define SIM_STORAGES 8

/* The kernel's own view of a task, beside what the scheduler sees of it. */
struct sim_task {
	struct task_struct t;
	struct cpumask allowed;
	struct css_set cgroups;
	struct cgroup cgroup;
	struct kernfs_node kn;
	struct fpstate fpstate;
	enum sim_state state;
	u32 cpu;
	struct sim_dsq *dsq;
	struct sim_link link;
	/* Where the scheduler inserted it, if it did so before the queue was known. */
	u64 direct_dsq;
	u64 direct_flags;
	bool direct_by_vtime;
	bool pins_cpu;
	bool has_storage; /* which was made by others */
	bool is_realtime;
	bool is_leaving; /* a CPU that it may no longer use */
	bool wants_hidden;
	bool is_hidden;
	bool is_watched;
	bool has_wide_registers;
	struct pt_regs regs;
	struct eevdf_entity fair;
	struct sim_average load; /* in the kernel's own class, as part of that of a CPU */
	u32 load_cpu;
	u32 recent_cpu;
	u64 began_at; /* to run, or was last accounted for */
	/* Since when it would run if it could, wherever it was queued anew meanwhile. As in the
	 * kernel's watchdog, that is at the earliest since the present scheduler began. */
	u64 runnable_at;
	u64 freed_at;  /* since when it may go where it may now */
	u64 queued_at; /* where it waits now */
	s32 ran_on;    /* the last time, or -1 */
	u64 moves;
	u64 waited_ns; /* for a CPU, up to when it ran the last time */
	void *storage[SIM_STORAGES];
	/* The list of all tasks. */
	struct sim_task *newer;
	struct sim_task *older;
	/* How often its class had changed by the last audit. */
	u64 audited;
};

void sim_reset(u32 nr_cpus, u32 nr_llcs, u32 cpus_per_core, u32 tier,
	       const struct avx_topology *topology, const struct avx_clocks *clocks,
	       const struct avx_policy_in_force *policy);
s32 sim_attach(void);
/* The scheduler is ejected. It comes back as it was compiled. */
void sim_detach(void);
s32 sim_attach_again(u32 nr_llcs, u32 cpus_per_core, u32 tier, const struct avx_topology *topology,
		     const struct avx_clocks *clocks, const struct avx_policy_in_force *policy);
bool sim_is_attached(void);
/* These tell the programs that listen to ticks and switches beside the scheduler. */
void sim_tell_tick(void);
void sim_tell_switch(struct task_struct *prev);
/* Returns when @cpu was last looked at for AVX work by its clock. */
u64 sim_suspected_at(u32 cpu);
void sim_set_policy(const struct avx_policy_in_force *policy);
/* Callbacks are noted in their order, each with its task. */
enum sim_callback {
	SIM_ENABLE,
	SIM_SELECT_CPU,
	SIM_ENQUEUE,
	SIM_DISPATCH,
	SIM_YIELD,
	SIM_RUNNING,
	SIM_DISABLE,
	SIM_CPU_RELEASE,
	SIM_HIDDEN_USED,
	SIM_SYSCALL_DONE,
	SIM_NO_CALLBACK,
};

struct sim_call {
	struct sim_task *task;
	u32 callback;
};

/* The first rule that was broken: when, and in which callback for which task. */
struct sim_failure {
	char rule[256];
	u64 at;
	u32 callback;
	s32 pid; /* or 0 */
};

/* Returns NULL if no rule was broken. */
const struct sim_failure *sim_failure(void);

void sim_note_calls(void);
u32 sim_noted_calls(const struct sim_call **calls);

void sim_set_time(u64 now);

/* Makes a task that begins on @cpu, as a child of the task that runs there. */
struct sim_task *sim_task_new(struct sim_task *parent, bool is_thread, u32 weight, u64 cgroup,
			      u32 cpu);
/* These change a task. A task that runs may ask for the change itself. */
void sim_task_allow(struct sim_task *task, const u64 *words, bool asks_itself);
void sim_task_weigh(struct sim_task *task, u32 weight, bool asks_itself);
void sim_task_be_realtime(struct sim_task *task, bool is_realtime, bool asks_itself);
void sim_task_exit(struct sim_task *task);
void sim_wake(struct sim_task *task, u32 waker_cpu, u64 wake_flags);
void sim_block(u32 cpu);
void sim_yield(u32 cpu);
void sim_schedule(u32 cpu);
void sim_tick(u32 cpu, u32 by, const u8 *code);
/* Sets what was counted of the clock of @cpu by now. */
void sim_set_counts(u32 cpu, const u64 *counts);
void sim_fault(u32 cpu, const u8 *code);
void sim_syscall(u32 cpu);
void sim_exec(u32 cpu, bool told);
/* What runs on @cpu says what its work is: enum avx_hint_value. */
void sim_hint(u32 cpu, u64 hint);
void sim_end_hint(u32 cpu);
/* A realtime task takes the CPU, and gives it back. */
void sim_take_cpu(u32 cpu);
void sim_give_cpu(u32 cpu);
/* The last CPU that is online has to stay. */
void sim_set_online(u32 cpu, bool is_online);

struct sim_task *sim_current(u32 cpu);
u32 sim_task_cpu(const struct sim_task *task);
u64 sim_task_ran(const struct sim_task *task);
u64 sim_task_moves(const struct sim_task *task);
u64 sim_task_waited(const struct sim_task *task);
u64 sim_task_waived(struct sim_task *task);
/* Returns since when @task waits for a CPU, in whichever queues of the scheduler, or 0. */
u64 sim_task_waits_since(const struct sim_task *task);
bool sim_task_is_hidden(const struct sim_task *task);
void sim_task_has_wide(struct sim_task *task, bool has);
bool sim_take_resched(u32 *cpu);
bool sim_next_timer(u64 *at);
void sim_run_timer(void);
struct avx_cpu_stats *sim_stats(u32 cpu);
u32 sim_nr_avx_cpus(void);
bool sim_is_avx_core(u32 cpu);
void sim_follow(void);
bool sim_take_event(struct avx_event *event);
/* Fails if anything is not as it has to be between any two events. */
void sim_audit(void);

/* These files call each other by the following. */
void sim_fair_audit(u64 unnoticed_ns);
void sim_tell_hint(struct task_struct *p, u64 hint);
/* The program of @task says that it gets less done with AVX cores. */
void sim_leave_alone(struct sim_task *task);
const struct sim_cpu *sim_cpu(u32 cpu);
struct sim_task *sim_newest_task(void);
bool sim_may_use(const struct sim_task *task, u32 cpu);
void sim_maps_reset(void);
void sim_let_others_make_storage(void);
void sim_tell_scheduler(u32 nr_cpus, u32 nr_llcs, u32 cpus_per_core, u32 tier,
			const struct avx_topology *topology, const struct avx_clocks *clocks);

#endif /* SIM_KERNEL_H */
