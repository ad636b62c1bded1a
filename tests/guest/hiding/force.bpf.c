/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A scheduler without sense, for the tests of the kernel patch: it hides
 * xfeatures from every task as often as it can, takes them back at random, and
 * moves a task to another CPU whenever it uses one.
 *
 * `rig force` loads it, sets the knobs and reads the counts, both by the names
 * in the enums below.
 */
#include <vmlinux.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "prctl.h"

char _license[] SEC("license") = "GPL";

enum knob {
	KNOB_WHAT,	   /* what ops.running() hides: xfeatures, flags */
	KNOB_VISIBLE_IN,   /* one in so many switch-ins hides nothing instead */
	KNOB_TICK_FLIPS,   /* one in so many ticks hides or unhides */
	KNOB_MIGRATE,	   /* a fault moves the task to another CPU */
	KNOB_SLICE_US,	   /* the longest slice; each one's length is random */
	KNOB_CHECK_IN_USE, /* compare what is said to be in use with what is saved */
	KNOB_REHIDE,	   /* hide anew while being told of a fault */
	KNOB_SIGNAL,	   /* a fault gets this signal for who is named "has a handler" */
	KNOB_STALL,	   /* never run tasks that are named "stalled" */
	KNOB_CPUS,	   /* how many there are; set by the loader */
	NR_KNOBS,
};

enum count {
	COUNT_HIDES,	       /* calls that put something in force */
	COUNT_REFUSED,	       /* calls that should have, and did not */
	COUNT_WRONGLY_GRANTED, /* calls for kernel threads and the like that did */
	COUNT_UD_TRAPS,	       /* first uses that raised #UD */
	COUNT_GP_TRAPS,	       /* ... and #GP */
	COUNT_OTHER_TRAPS,     /* ... and anything else: there is none */
	COUNT_FAULT_KEEPS,     /* ... that left the xfeature hidden from the task */
	COUNT_CLAIMED_HIDDEN,  /* ... after which others may take it for hidden from already */
	COUNT_MIGRATIONS,      /* tasks that ran elsewhere after a fault */
	COUNT_FORKS,	       /* of tasks from which something was hidden */
	COUNT_FORK_INHERITS,   /* ... whose child had it hidden as well */
	COUNT_EXECS,	       /* of tasks from which something was hidden */
	COUNT_EXEC_KEEPS,      /* ... and still was afterwards */
	COUNT_IN_USE_CHECKS,   /* times that XINUSE was compared */
	COUNT_IN_USE_WRONG,    /* ... and not what was saved then */
	COUNT_ASKED_HIDDEN,    /* times that a CPU was reduced when it was asked */
	COUNT_ASKING_SHOWED,   /* ... and was not any more afterwards */
	COUNT_ARMED,	       /* times that CPUID was made to fault */
	COUNT_ARMED_BLINDLY,   /* ... when masks and zmm16-31 seemed not to be in use */
	COUNT_SWITCH_OUTS,     /* at which a task was asked what it has in use */
	COUNT_ZMM_IN_USE,      /* ... and had ZMM_Hi256 */
	COUNT_HIGH_IN_USE,     /* ... and had masks or zmm16-31, and no ZMM_Hi256 */
	NR_COUNTS,
};

#define XFEATURES_OF_INTEREST 0xe4ULL
#define XFEATURE_ZMM_HI256 0x40ULL
#define XFEATURES_HIGH 0xa0ULL /* opmask, Hi16_ZMM */

#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000

#define MSR_MISC_FEATURES_ENABLES 0x140
#define CPUID_FAULTS 1ULL

#define NO_CPU (-1)
#define LOCAL 0x8000000000000002ULL    /* SCX_DSQ_LOCAL */
#define LOCAL_ON 0xc000000000000000ULL /* SCX_DSQ_LOCAL_ON | cpu */
#define GLOBAL 0x8000000000000001ULL   /* SCX_DSQ_GLOBAL */
#define ENQ_LAST (1ULL << 41)	       /* SCX_ENQ_LAST */

extern u32 bpf_task_hide_xfeatures(struct task_struct *p, u32 what) __ksym;
extern u64 bpf_current_xfeatures_in_use(void) __ksym;
extern const u32 fpu_hidden __ksym; /* of each CPU */
extern const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
extern void scx_bpf_put_cpumask(const struct cpumask *cpumask) __ksym;
extern void scx_bpf_dispatch(struct task_struct *p, u64 dsq_id, u64 slice,
			     u64 enq_flags) __ksym __weak;
extern void scx_bpf_dsq_insert___v1(struct task_struct *p, u64 dsq_id, u64 slice,
				    u64 enq_flags) __ksym __weak;

#include "counts.bpf.h"
#include "knobs.bpf.h"

struct task_ctx {
	s32 go_to; /* where to run next, or NO_CPU */
	u32 hides; /* times that something was hidden from it */
	u32 hides_at_exec;
	bool was_in_use_known;
	u64 was_in_use; /* when it was to be switched out the last time */
	u64 switches;	/* ... after so many times that it was */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

/* struct fpu, of which the series wants some members, and where it is to be found. */
struct fpu___patched {
	u32 hide;
	bool hidden;
	struct fpstate *fpstate;
} __attribute__((preserve_access_index));

struct thread_struct___with_fpu {
	struct fpu___patched fpu;
} __attribute__((preserve_access_index));

struct task_struct___with_fpu {
	struct thread_struct___with_fpu thread;
} __attribute__((preserve_access_index));

static bool one_in(u64 n)
{
	return n && bpf_get_prandom_u32() % n == 0;
}

static struct fpu___patched *fpu_of(struct task_struct *p)
{
	struct task_struct___with_fpu *with_fpu = (void *)p;

	if (bpf_core_field_exists(with_fpu->thread.fpu))
		return __builtin_preserve_access_index(&with_fpu->thread.fpu);
	/* Since 6.16 it follows the task. */
	return (void *)p + bpf_core_type_size(struct task_struct);
}

static u32 hidden_from(struct task_struct *p)
{
	return BPF_CORE_READ(fpu_of(p), hide);
}

/* Whether this CPU lacks something, as far as the series knows. */
static bool is_reduced(void)
{
	return *(const volatile u32 *)bpf_this_cpu_ptr(&fpu_hidden);
}

static bool never_in_user_mode(const struct task_struct *p)
{
	return p->flags & (PF_KTHREAD | PF_USER_WORKER);
}

static void hide(struct task_struct *p, struct task_ctx *tctx, u32 what)
{
	u32 granted = bpf_task_hide_xfeatures(p, what);

	tctx->hides++;
	if (granted)
		count(never_in_user_mode(p) ? COUNT_WRONGLY_GRANTED : COUNT_HIDES);
	else if (what && !never_in_user_mode(p))
		count(COUNT_REFUSED);
}

static u64 some_slice(void)
{
	return 1000ULL * (1 + bpf_get_prandom_u32() % (knob(KNOB_SLICE_US) + 1));
}

static void insert(struct task_struct *p, u64 dsq, u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dispatch))
		scx_bpf_dispatch(p, dsq, some_slice(), enq_flags);
	else
		scx_bpf_dsq_insert___v1(p, dsq, some_slice(), enq_flags);
}

/* A program of ours that runs in the context of @p forbids @p to migrate itself. */
static bool is_confined(const struct task_struct *p)
{
	return p->migration_disabled > (p == bpf_get_current_task_btf());
}

static bool may_run_on(const struct task_struct *p, s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool may = cpu >= 0 && bpf_cpumask_test_cpu(cpu, online) &&
		   bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_confined(p);

	scx_bpf_put_cpumask(online);
	return may;
}

SEC("struct_ops/force_init_task")
s32 BPF_PROG(force_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!tctx)
		return -12; /* ENOMEM */
	tctx->go_to = NO_CPU;
	return 0;
}

static const char stalled[] = "stalled";
static const char has_a_handler[] = "has a handler";

SEC("struct_ops/force_enqueue")
void BPF_PROG(force_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);
	s32 target = tctx ? tctx->go_to : NO_CPU;

	if (knob(KNOB_STALL) && !bpf_strncmp(p->comm, sizeof(stalled), stalled))
		return;
	if (tctx)
		tctx->go_to = NO_CPU;
	if (may_run_on(p, target)) {
		count(COUNT_MIGRATIONS);
		insert(p, LOCAL_ON | (u32)target, enq_flags);
	} else if (p->nr_cpus_allowed == 1 || is_confined(p) || enq_flags & ENQ_LAST) {
		/* The last one of a CPU waits for ever elsewhere, if that idles. */
		insert(p, LOCAL, enq_flags);
	} else {
		insert(p, GLOBAL, enq_flags);
	}
}

static u64 switches_of(const struct task_struct *p)
{
	return p->nvcsw + p->nivcsw;
}

/*
 * Whether what was in use at the last switch-out is what was saved then. Nothing
 * was if the task was only stopped for a moment, for a change of its attributes.
 */
static void check_in_use(struct task_struct *p, struct task_ctx *tctx)
{
	u64 saved = BPF_CORE_READ(fpu_of(p), fpstate, regs.xsave.header.xfeatures);
	bool is_known = tctx->was_in_use_known && tctx->switches != switches_of(p);

	tctx->was_in_use_known = false;
	if (!is_known)
		return;
	count(COUNT_IN_USE_CHECKS);
	if ((saved ^ tctx->was_in_use) & XFEATURES_OF_INTEREST)
		count(COUNT_IN_USE_WRONG);
}

SEC("struct_ops/force_running")
void BPF_PROG(force_running, struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);
	u32 what = knob(KNOB_WHAT);

	if (!tctx)
		return;
	if (knob(KNOB_CHECK_IN_USE))
		check_in_use(p, tctx);
	if (what)
		hide(p, tctx, one_in(knob(KNOB_VISIBLE_IN)) ? 0 : what);
}

SEC("struct_ops/force_tick")
void BPF_PROG(force_tick, struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);

	if (tctx && one_in(knob(KNOB_TICK_FLIPS)))
		hide(p, tctx, hidden_from(p) ? 0 : knob(KNOB_WHAT));
}

SEC("struct_ops/force_stopping")
void BPF_PROG(force_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);
	bool was_reduced;
	u64 in_use;

	if (!tctx || !knob(KNOB_CHECK_IN_USE) || p != bpf_get_current_task_btf())
		return;
	was_reduced = is_reduced();
	in_use = bpf_current_xfeatures_in_use();
	if (was_reduced) {
		count(COUNT_ASKED_HIDDEN);
		if (!is_reduced())
			count(COUNT_ASKING_SHOWED);
	}
	count(COUNT_SWITCH_OUTS);
	if (in_use & XFEATURE_ZMM_HI256)
		count(COUNT_ZMM_IN_USE);
	else if (in_use & XFEATURES_HIGH)
		count(COUNT_HIGH_IN_USE);
	tctx->was_in_use = in_use;
	tctx->switches = switches_of(p);
	tctx->was_in_use_known = in_use != 0;
}

SEC("fmod_ret/bpf_hidden_xfeature_used")
int BPF_PROG(force_used, struct pt_regs *regs, u32 hidden, int trapnr)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);
	u32 cpus = knob(KNOB_CPUS);

	count(trapnr == 6 ? COUNT_UD_TRAPS : trapnr == 13 ? COUNT_GP_TRAPS : COUNT_OTHER_TRAPS);
	if (hidden_from(p))
		count(COUNT_FAULT_KEEPS);
	if (tctx && knob(KNOB_REHIDE)) {
		hide(p, tctx, knob(KNOB_WHAT));
		/* It is true for the task alone to say. */
		if (BPF_CORE_READ(fpu_of(p), hidden))
			count(COUNT_CLAIMED_HIDDEN);
	}
	if (knob(KNOB_SIGNAL) && !bpf_strncmp(p->comm, sizeof(has_a_handler), has_a_handler))
		bpf_send_signal_thread(knob(KNOB_SIGNAL));
	if (!tctx || !knob(KNOB_MIGRATE) || cpus < 2)
		return 0;
	tctx->go_to = (bpf_get_smp_processor_id() + 1 + bpf_get_prandom_u32() % (cpus - 1)) % cpus;
	return 1;
}

/* The kernel is on its last step to user mode, where a program may look around as well. */
SEC("tp_btf/write_msr")
int BPF_PROG(force_write_msr, unsigned int msr, u64 value, int failed)
{
	if (msr != MSR_MISC_FEATURES_ENABLES || !(value & CPUID_FAULTS))
		return 0;
	count(COUNT_ARMED);
	if (!(bpf_current_xfeatures_in_use() & XFEATURES_HIGH))
		count(COUNT_ARMED_BLINDLY);
	return 0;
}

SEC("fentry/__x64_sys_prctl")
int BPF_PROG(force_prctl, const struct pt_regs *regs)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);

	if (tctx && regs->di == PRCTL_HIDE)
		hide(p, tctx, regs->si);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(force_fork, struct task_struct *parent, struct task_struct *child)
{
	if (hidden_from(parent)) {
		count(COUNT_FORKS);
		if (hidden_from(child))
			count(COUNT_FORK_INHERITS);
	}
	return 0;
}

/* On its way to another program a task may be preempted, and hidden from anew. */
SEC("fentry/fpu_flush_thread")
int BPF_PROG(force_exec_flushes)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);

	if (tctx)
		tctx->hides_at_exec = tctx->hides;
	if (hidden_from(p))
		count(COUNT_EXECS);
	return 0;
}

SEC("fexit/fpu_flush_thread")
int BPF_PROG(force_exec_flushed)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = bpf_task_storage_get(&tasks, p, 0, 0);
	/* Looked at first: a tick may hide again in between, and says so in hides. */
	u32 hidden = hidden_from(p);

	barrier();
	if (tctx && hidden && tctx->hides_at_exec == tctx->hides)
		count(COUNT_EXEC_KEEPS);
	return 0;
}

/* Having these, the scheduler stays when CPUs come and go. */
SEC("struct_ops/force_cpu_online")
void BPF_PROG(force_cpu_online, s32 cpu)
{
}

SEC("struct_ops/force_cpu_offline")
void BPF_PROG(force_cpu_offline, s32 cpu)
{
}

SEC(".struct_ops.link")
struct sched_ext_ops force_ops = {
	.init_task = (void *)force_init_task,
	.enqueue = (void *)force_enqueue,
	.running = (void *)force_running,
	.tick = (void *)force_tick,
	.stopping = (void *)force_stopping,
	.cpu_online = (void *)force_cpu_online,
	.cpu_offline = (void *)force_cpu_offline,
	.flags = SCX_OPS_ENQ_LAST,
	/* A CPU that prints a warning is busy with the console for seconds. */
	.timeout_ms = 15000,
	.name = "force",
};
