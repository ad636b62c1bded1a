/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler's source finds in the place of the kernel's types, libbpf's macros and
 * sched_ext's headers when it is compiled natively.
 *
 * What the kernel does for a scheduler is in kernel.c and in those files that internal.h lists;
 * maps are in maps.c.
 */
#ifndef SIM_COMMON_BPF_H
#define SIM_COMMON_BPF_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "../../../../bpf/intf.h"

typedef int pid_t;

#define __noinline __attribute__((__noinline__))
#define __ksym
#define __weak
#define __kptr
#define __arg_trusted
#define __arg_nonnull
#define SEC(name)
#define private(name)

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* Types of the kernel, with those members that are looked at. */

#define SIM_CPUS_MAX 1024
#define SIM_MASK_WORDS (SIM_CPUS_MAX / 64)

struct cpumask {
	u64 bits[SIM_MASK_WORDS];
};

struct bpf_cpumask {
	struct cpumask mask;
};

#define cast_mask(m) (&(m)->mask)

struct fpstate {
	struct {
		struct {
			struct {
				u64 xfeatures;
			} header;
		} xsave;
	} regs;
};

struct fpu {
	struct fpstate *fpstate;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct mm_struct {
	u64 saved_auxv[1];
};

struct sim_dsq;

struct task_struct {
	/* This is first, as in the flavour of this struct that has nothing else. */
	struct {
		struct fpu fpu;
	} thread;
	u32 flags;
	pid_t pid;
	char comm[16];
	int prio;
	unsigned int policy;
	struct task_struct *group_leader;
	struct cpumask *cpus_ptr;
	int nr_cpus_allowed;
	struct mm_struct *mm;
	u64 self_exec_id;
	struct css_set *cgroups;
	struct {
		u64 flags;
	} thread_info;
	struct {
		u64 sum_exec_runtime;
	} se;
	struct {
		u32 flags;
		u32 weight;
		u64 slice;
		u64 dsq_vtime;
	} scx;
	struct sim_task *sim;
};

struct bpf_perf_event_value {
	u64 counter;
	u64 enabled;
	u64 running;
};

struct pt_regs {
	u64 ip;
	u64 orig_ax;
	u64 di;
};

struct elf64_hdr {
	u64 e_phoff;
	u16 e_phnum;
};

struct elf64_phdr {
	u32 p_type;
	u64 p_offset;
	u64 p_vaddr;
	u64 p_filesz;
};

struct linux_binprm;

enum {
	CPUTIME_USER,
	CPUTIME_NICE,
	CPUTIME_SYSTEM,
	NR_CPUTIMES
};

struct kernel_cpustat {
	u64 cpustat[NR_CPUTIMES];
};

/* Types and constants of sched_ext. */

struct scx_init_task_args {
	bool fork;
};
struct scx_exit_info;
struct scx_cpu_release_args;

struct sched_ext_ops {
	s32 (*init)(void);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *p);
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*running)(struct task_struct *p);
	void (*tick)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*exit)(struct scx_exit_info *ei);
	const char *name;
};

#define SCX_TASK_QUEUED 1U

#define PF_EXITING 0x4

#define SCX_WAKE_SYNC 0x10ULL
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_HEAD (1ULL << 4)
#define SCX_ENQ_CPU_SELECTED (1ULL << 10)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_LAST (1ULL << 41)
/* This flag is of Linux 7.1. Here a task is queued where it was sent at the same moment. */
#define SCX_ENQ_IMMED 0

#define SCX_DSQ_FLAG_BUILTIN (1ULL << 63)
#define SCX_DSQ_LOCAL (SCX_DSQ_FLAG_BUILTIN | 2)
#define SCX_DSQ_LOCAL_ON (SCX_DSQ_FLAG_BUILTIN | 1ULL << 62)

#define SCX_KICK_IDLE 1
#define SCX_PICK_IDLE_CORE 1
#define SCX_KICK_PREEMPT 2

#define BPF_STRUCT_OPS(name, args...) name(args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) name(args)
#define BPF_PROG(name, args...) name(args)
#define SCX_OPS_DEFINE(name, ...) struct sched_ext_ops name = { __VA_ARGS__ }
#define UEI_DEFINE(name) struct sim_uei
#define UEI_RECORD(name, ei) ((void)(ei))

void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define scx_bpf_error(format, args...) sim_fail(format, ##args)

u64 scx_bpf_now(void);
s32 scx_bpf_create_dsq(u64 id, s32 node);
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 enq_flags);
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 enq_flags);
bool scx_bpf_dsq_move_to_local(u64 dsq, u64 enq_flags);
s32 scx_bpf_dsq_nr_queued(u64 dsq);
struct task_struct *__COMPAT_scx_bpf_dsq_peek(u64 dsq);
void scx_bpf_kick_cpu(s32 cpu, u64 flags);
s32 scx_bpf_task_cpu(const struct task_struct *p);
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle);
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags);
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);
void scx_bpf_reenqueue_local(void);

/* These note what a program holds and has to let go of again. */
void sim_hold(const char *function);
void sim_let_loose(const char *function);
#define bpf_rcu_read_lock() sim_hold(__func__)
#define bpf_rcu_read_unlock() sim_let_loose(__func__)

const struct cpumask *sim_idle_cpus(void);
const struct cpumask *sim_idle_cores(void);
#define scx_bpf_get_idle_cpumask() (sim_hold(__func__), sim_idle_cpus())
#define scx_bpf_get_idle_smtmask() (sim_hold(__func__), sim_idle_cores())
#define scx_bpf_put_idle_cpumask(mask) ((void)(mask), sim_let_loose(__func__))

#define scx_bpf_reenqueue_local_from_anywhere() scx_bpf_reenqueue_local()
#define scx_bpf_task_set_slice(p, value) ((p)->scx.slice = (value))
#define scx_bpf_task_set_dsq_vtime(p, value) ((p)->scx.dsq_vtime = (value))
#define __COMPAT_is_enq_cpu_selected(enq_flags) (!!((enq_flags) & SCX_ENQ_CPU_SELECTED))

/* Iterates over the tasks of a queue. The task that was found may be moved away meanwhile. */
struct sim_dsq_iter {
	struct task_struct *next;
};
bool sim_dsq_move(struct task_struct *p);
#define BPF_FOR_EACH_ITER (&it_)
#define scx_bpf_dsq_move(it, p, id, flags) sim_dsq_move(p)
struct sim_dsq_iter sim_dsq_iter_new(u64 dsq);
struct task_struct *sim_dsq_iter_next(struct sim_dsq_iter *it);

#define bpf_for(n, first, end) for ((n) = (first); (n) < (end); (n)++)
#define bpf_for_each(kind, args...) bpf_for_each_##kind(args)
#define bpf_for_each_scx_dsq(p, dsq, flags) \
	for (struct sim_dsq_iter it_ = sim_dsq_iter_new(dsq); ((p) = sim_dsq_iter_next(&it_));)

/* Functions of BPF. */

u32 bpf_get_smp_processor_id(void);
struct task_struct *bpf_get_current_task_btf(void);
bool is_migration_disabled(const struct task_struct *p);
struct pt_regs *bpf_task_pt_regs(struct task_struct *p);

#define bpf_kptr_xchg(place, value)               \
	({                                        \
		typeof(*(place)) old_ = *(place); \
		*(place) = (value);               \
		old_;                             \
	})

struct bpf_cpumask *bpf_cpumask_create(void);
void bpf_cpumask_release(struct bpf_cpumask *mask);
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask);
void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask);
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask);
u32 bpf_cpumask_first(const struct cpumask *mask);
u32 bpf_cpumask_weight(const struct cpumask *mask);
bool bpf_cpumask_empty(const struct cpumask *mask);
bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b);
bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a, const struct cpumask *b);
u32 bpf_cpumask_any_distribute(const struct cpumask *mask);

static inline long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

/* Programs have no memory but for the code that faults. */
#define bpf_probe_read_user(to, size, from) bpf_probe_read_kernel(to, size, from)
#define bpf_copy_from_user(to, size, from) (-EFAULT)

#define bpf_core_field_exists(field) 1
#define bpf_core_field_offset(type, field) offsetof(type, field)
#define bpf_core_type_size(type) sizeof(type)

/* Maps are known by the types of their keys and values, as to libbpf. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERF_EVENT_ARRAY 4
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_NOEXIST 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

#define sim_type_of(map) (sizeof(*(map)->type) / sizeof(int))
#define sim_lookup(map, at, cpu)                                                                  \
	((typeof((map)->value))sim_map_lookup((map), sim_type_of(map), (at), sizeof(*(map)->key), \
					      sizeof(*(map)->value), (cpu)))

/* No array of the scheduler has more entries than that: there are three queues for each CPU. */
#define SIM_ENTRIES_MAX (3 * SIM_CPUS_MAX)

struct sim_map {
	struct sim_map *next;
	u8 *data;
	u32 value_size;
	u32 entries;
	u8 *keys;   /* of a hash */
	u32 *homes; /* of a hash: where each key is, counted from 1 */
	u32 slot;   /* of task storage */
};

void *sim_map_lookup_slowly(void *map, u32 type, const void *key, u32 key_size, u32 value_size,
			    u32 cpu);

/* What is looked up in arrays is found without a call, as in the kernel. */
static inline void *sim_map_lookup(void *map, u32 type, const void *key, u32 key_size,
				   u32 value_size, u32 cpu)
{
	const struct sim_map *it = *(struct sim_map **)map;
	u32 n = type == BPF_MAP_TYPE_PERCPU_ARRAY ? cpu : *(const u32 *)key;

	if ((type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY) && it)
		return n < SIM_ENTRIES_MAX ? it->data + (size_t)n * value_size : NULL;
	return sim_map_lookup_slowly(map, type, key, key_size, value_size, cpu);
}

long sim_map_update(void *map, const void *key, u32 key_size, const void *value, u32 value_size);
void *sim_task_storage(void *map, struct task_struct *p, u32 value_size, u64 flags);
void sim_task_storage_delete(void *map, struct task_struct *p);

#define bpf_perf_event_read_value(map, index, value, size) sim_read_counter(index, value)
#define bpf_map_lookup_elem(map, at) sim_lookup(map, at, bpf_get_smp_processor_id())
#define bpf_map_lookup_percpu_elem(map, at, cpu) sim_lookup(map, at, cpu)
#define bpf_map_update_elem(map, at, what, flags) \
	sim_map_update((map), (at), sizeof(*(map)->key), (what), sizeof(*(map)->value))
#define bpf_task_storage_get(map, p, what, flags) \
	((typeof((map)->value))sim_task_storage((map), (p), sizeof(*(map)->value), (flags)))
#define bpf_task_storage_delete(map, p) sim_task_storage_delete((map), (p))

void *sim_ringbuf_reserve(u64 size);
void sim_ringbuf_submit(void);

#define bpf_ringbuf_reserve(map, size, flags) ((void)(map), sim_ringbuf_reserve(size))
#define bpf_ringbuf_submit(what, flags) ((void)(what), sim_ringbuf_submit())
#define bpf_ktime_get_ns() scx_bpf_now()

struct kernel_cpustat *sim_cpustat(u32 cpu);
#define bpf_per_cpu_ptr(variable, cpu) sim_cpustat(cpu)

struct bpf_map;
struct bpf_timer {
	int (*callback)(void *map, int *key, void *timer);
	u64 at;
	bool is_started;
	struct bpf_timer *next;
};

void sim_timer_start(struct bpf_timer *timer, u64 ns);

#define bpf_timer_init(timer, map, clock) ((void)(timer), (void)(map), 0)
#define bpf_timer_set_callback(timer, function) \
	((timer)->callback = (int (*)(void *, int *, void *))(function), 0)
#define bpf_timer_start(timer, ns, flags) (sim_timer_start((timer), (ns)), 0)

#endif /* SIM_COMMON_BPF_H */
