/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measures what programs get done. It is loaded while two policies are compared and at no other
 * time.
 *
 * Problem. A policy is as good as what programs get done in the time in which they want to run.
 * They want to run while they are not asleep. A late turn, a low clock and a cold cache all make
 * that time longer.
 *
 * Mechanism. Each switch tells how long the task that leaves was awake and ran, and whether an
 * activity ends. Each wake-up tells that an activity begins. Where a window ends, the agent has
 * tell() called on each CPU, because the task that runs there may not be switched out for long. A
 * thread that itself says how much it has done, in the map of hints, is heard when it says so.
 *
 * Limits. A task that waits where a window ends is counted in the next one. A task that is woken
 * up at the moment at which it goes to sleep is awake from when it runs on. Kernel threads are no
 * programs.
 */
#include <scx/common.bpf.h>
#include "intf.h"
#include "owner.bpf.h"
#include "said.bpf.h"

char _license[] SEC("license") = "GPL";

#define PROGRAMS_MAX 4096

/* @awake_since is 0 while the task sleeps, and @runs_since while it does not run. */
struct stint {
	u64 awake_since;
	u64 runs_since;
	u64 said; /* how much it had done when it last said so */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stint);
} stints SEC(".maps");

/* A program that finds no room is left out: none that is compared may be forgotten. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROGRAMS_MAX);
	__type(key, struct avx_owner);
	__type(value, struct avx_progress);
} programs SEC(".maps");

/*
 * There is one for each CPU. The agent sizes this before loading, and opens the counters where it
 * can.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} counted SEC(".maps");

static const struct avx_progress nothing_done;

/* Returns the instructions that were retired on this CPU since the last call. */
static u64 instructions_meanwhile(void)
{
	struct bpf_perf_event_value now;
	u32 zero = 0;
	u64 *last = bpf_map_lookup_elem(&counted, &zero), before;

	if (!last || bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &now, sizeof(now)))
		return 0;
	before = *last;
	*last = now.counter;
	/* What was counted before the first call belongs to no task. */
	return before && now.counter > before ? now.counter - before : 0;
}

static struct avx_progress *progress_of(struct task_struct *p)
{
	struct avx_owner owner = owner_of(p);
	struct avx_progress *progress;

	progress = bpf_map_lookup_elem(&programs, &owner);
	if (progress)
		return progress;
	bpf_map_update_elem(&programs, &owner, &nothing_done, BPF_NOEXIST);
	return bpf_map_lookup_elem(&programs, &owner);
}

static bool is_program(const struct task_struct *p)
{
	return !(p->flags & PF_KTHREAD);
}

static void begin(struct task_struct *p, bool runs)
{
	struct stint *stint;
	u64 now = bpf_ktime_get_ns();

	if (!is_program(p))
		return;
	stint = bpf_task_storage_get(&stints, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!stint)
		return;
	if (!stint->awake_since)
		stint->awake_since = now;
	if (runs)
		stint->runs_since = now;
}

/* Tells what @p, which runs here, did until now. */
static void tell(struct task_struct *p, bool goes_on, bool sleeps)
{
	u64 now = bpf_ktime_get_ns(), instructions = instructions_meanwhile();
	struct avx_progress *progress;
	struct stint *stint;

	if (!is_program(p))
		return;
	stint = bpf_task_storage_get(&stints, p, 0, 0);
	progress = progress_of(p);
	if (!stint || !progress)
		return;
	if (stint->awake_since)
		__sync_fetch_and_add(&progress->awake_ns, now - stint->awake_since);
	if (stint->runs_since)
		__sync_fetch_and_add(&progress->ran_ns, now - stint->runs_since);
	__sync_fetch_and_add(&progress->activities, sleeps);
	__sync_fetch_and_add(&progress->instructions, instructions);
	progress->weight = p->scx.weight;
	stint->awake_since = sleeps ? 0 : now;
	stint->runs_since = goes_on ? now : 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(progress_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	tell(prev, false, prev_state && !preempt);
	begin(next, true);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(progress_waking, struct task_struct *p)
{
	begin(p, false);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(progress_new, struct task_struct *p)
{
	begin(p, false);
	return 0;
}

/*
 * The thread that runs here told of itself. A first number says from where it counts, and so does
 * one that is less than the last. A thread that may write to the map may tell of other threads as
 * well, at any time, and is not believed then. What the thread told is in the value that it
 * handed over. That it told of itself is known if the map has the same for it, unless others
 * wrote there in between.
 */
SEC("fexit/bpf_pid_task_storage_update_elem")
int BPF_PROG(progress_said, struct bpf_map *map, void *key, void *value, u64 flags, long error)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct avx_progress *progress;
	const struct avx_hint *hint;
	struct avx_hint told;
	struct stint *stint;

	if (error || map != (void *)&hints || bpf_probe_read_kernel(&told, sizeof(told), value))
		return 0;
	hint = bpf_task_storage_get(&hints, p, 0, 0);
	stint = bpf_task_storage_get(&stints, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	progress = progress_of(p);
	if (!hint || hint->work != told.work || !stint || !progress)
		return 0;
	if (stint->said && told.work > stint->said)
		__sync_fetch_and_add(&progress->said, told.work - stint->said);
	stint->said = told.work;
	return 0;
}

/* The agent calls this on the CPU that it is to be told of. */
SEC("raw_tp")
int progress_tell(void *ctx)
{
	struct task_struct *p = bpf_get_current_task_btf();

	tell(p, true, false);
	/* A task that has run here since before these programs listened is known from now on. */
	begin(p, true);
	return 0;
}
