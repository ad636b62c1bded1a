/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This header has every type that crosses a border: between BPF and the agent,
 * and between the decisions and the native code that tests them.
 *
 * The header is read by three compilers: clang for BPF (after vmlinux.h),
 * bindgen for Rust, and the host compiler for native code. It therefore needs
 * no kernel header, and names the kernel's short integer types only where
 * vmlinux.h has not done so.
 */
#ifndef AVXSPEC_INTF_H
#define AVXSPEC_INTF_H

#ifndef __VMLINUX_H__
#include <stdbool.h>
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
#endif

/* The BPF compiler returns a struct only from a function that it inlines. */
#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif

/*
 * The verifier goes through a global function once, and not again on each path that leads to it:
 * many choices one after the other are more paths than it accepts. Weak, because native code has
 * the function in several objects.
 */
#define __verified_once __attribute__((__weak__, __noinline__))
#ifndef __arg_nonnull
#define __arg_nonnull
#endif

enum avx_limits {
	/* The slice of a task if no other task waits when it begins to run. */
	AVX_SLICE_MAX_NS = 20 * 1000 * 1000,
	/* A request is one of these on one CPU, and four on eight CPUs and more. It is the slice
	 * where others wait, and the most that a task at nice 0 may be owed. For that long a task
	 * that has just begun to run is not preempted by tasks that have not just woken up, nor, if
	 * it has had no more than it is owed, by tasks that weigh no more. */
	AVX_REQUEST_STEP_NS = 700 * 1000,
	/* A CPU takes a task that ran there the last time before the first one, if it is due at
	 * most this much later. This is more than a move costs, and less than matters to a task
	 * that waits. */
	AVX_WARM_NS = 1 * 1000 * 1000,
	/* For this long after it ran, a task waits rather than go to another cache. The kernel has
	 * the same value (sched_migration_cost_ns). */
	AVX_CACHE_HOT_NS = 500 * 1000,
	/* The weight of a task at nice 0. The kernel's range is 1 to 10000. */
	AVX_WEIGHT_NORMAL = 100,
	/* Buckets of the histograms of waits: the first one is for less than AVX_WAIT_FIRST_NS,
	 * each reaches twice as far as the one before, and the last one is for 0.5 s and
	 * more. */
	AVX_WAIT_FIRST_NS = 1024,
	AVX_WAIT_BUCKETS = 21,
	/* One in this many waits of tasks that are not AVX tasks is counted. */
	AVX_WAITS_SAMPLED = 64,
};

/*
 * The longest time that weights alone may keep a task waiting. It is far below the
 * kernel's watchdog (30 s), because the backlog of the moment comes on top.
 */
#define AVX_WAIT_MAX_S 5
#define AVX_WAIT_MAX_NS (AVX_WAIT_MAX_S * 1000ULL * 1000 * 1000)

/* The queues of a CPU. The queues of a cache belong to its first CPU. */
enum avx_queue_kind {
	QUEUE_PRIVATE, /* tasks that may use this CPU only */
	QUEUE_SHARED,  /* tasks that may move */
	QUEUE_AVX,     /* AVX tasks that may use an AVX core */
	NR_QUEUE_KINDS,
};

struct queue_ctx {
	u64 nr_cpus; /* CPUs that take from it by preference */
	u64 nr_waiting;
	u64 first_due; /* no task that waits is due before this, as far as was seen */

	/* Shared queues only: these cover all tasks that a cache's CPUs run, and all that wait for
	 * them in any queue. */
	u64 clock;
	u64 clock_at;	  /* the time up to which the clock has gone on */
	u64 contended_ns; /* for how long it has gone on, which it does while a task waits */
	u64 weight_waiting;
	u64 weight_running;
	u64 nr_running;
} __attribute__((aligned(64)));

/* How AVX work is detected, from the best way to none. */
enum avx_tier {
	AVX_TIER_TRAP,	   /* the kernel hides AVX-512 and tells of its first use */
	AVX_TIER_XSTATE,   /* wide registers are seen in use when the kernel saves them */
	AVX_TIER_COUNTERS, /* counters tell that clocks are low because of it */
	AVX_TIER_HINTS,	   /* threads say themselves that they do it */
	AVX_TIER_OBSERVE,  /* it is not detected: nothing is known, nothing is done */
};

/* What the kernel answers when AVX-512 is to be hidden. */
enum avx_hiding {
	HIDING_UNTRIED,
	HIDING_WORKS,
	HIDING_REFUSED, /* the kernel is built for it, but not able to on this CPU */
};

/* What a low clock says of the task that ran. */
enum avx_evidence {
	EVIDENCE_NONE, /* it did nothing that lowers the clock */
	EVIDENCE_WIDE, /* it did something that lowers the clock */
	EVIDENCE_OPEN, /* it may have done so, or others did */
};

/* What a thread says of its work; see contrib/hints. */
enum avx_hint_value {
	AVX_HINT_NONE,
	AVX_HINT_AVX512,
	AVX_HINT_AVX2_HEAVY, /* 256-bit multiplication and floating point */
};

/* The layout is that of scx_layered. */
struct avx_hint {
	u64 hint; /* enum avx_hint_value */
	u64 work; /* what the thread has done so far, in a unit of its own; 0 if it does not say */
	u64 reserved[2];
};

/* Where a CPU is. A core, cache or node is named by its first CPU. */
struct avx_topology {
	u32 core;
	u32 llc;
	u32 node;
	u32 next_llc;  /* next cache in the ring of all caches */
	u32 core_cpus; /* usable CPUs of its core */
	u32 sibling;   /* another CPU of its core, or itself */
	u32 online;
	u32 usable; /* may be an AVX core: online, and not isolated */
};

/* Fractions are in units of 1/1024. */
#define AVX_WHOLE 1024

/* How the number of AVX cores is found. */
enum avx_sizing_method {
	SIZING_STATIC,	   /* avx_cpus of them */
	SIZING_SHARE,	   /* the share that AVX work has of the CPU time */
	SIZING_CONTROLLER, /* what AVX work needs, of time and of whole cores */
	SIZING_LIST,	   /* those in avx_cpu_list */
};

/* Which CPUs are taken first. */
enum avx_placement_method {
	PLACEMENT_PACK,	     /* on one node while there is room */
	PLACEMENT_SPREAD,    /* evenly over the nodes */
	PLACEMENT_FIRST_USE, /* where AVX work begins, until there is none */
};

/* The tasks for which there are AVX cores. */
enum avx_served {
	SERVED_NOBODY, /* AVX work is seen and counted, and nothing else is done */
	SERVED_HINTED, /* threads that say what their work is */
	SERVED_ALL,    /* all threads that do AVX work */
};

/* Says whether trials decide if there are AVX cores. */
enum avx_trials {
	TRIALS_OFF,
	TRIALS_ON,
	TRIALS_WITHOUT, /* they do, and there are none now: no knob says so, but the agent does */
};

/* What tasks pay whose clock is low because of others. */
enum avx_fairness {
	FAIRNESS_OFF,	     /* they pay for the time that they run */
	FAIRNESS_COMPENSATE, /* they pay for that time, less what they lose of it */
};

/* What wide vectors need, by how much of the clock it costs. */
enum avx_licence {
	LICENCE_NONE,
	LICENCE_1,
	LICENCE_2,
	NR_LICENCES,
};

/*
 * How much of a processor's clock is lost at each licence (1/1024) while no more than @up_to_cores
 * cores of its package are active.
 */
struct avx_clock_step {
	u64 up_to_cores;
	u64 lost[NR_LICENCES];
};

/* What is counted on a CPU, in this order, to know its clock. */
enum avx_clock_counters {
	NO_CLOCK_COUNTERS = 0,
	APERF_AND_MPERF = 2,		 /* cycles at its clock, and at a constant one */
	CYCLES_BY_LICENCE = NR_LICENCES, /* cycles of its core at each licence */
};

/* The clocks of this processor by active cores, if they are known, and the counters for them. */
#define AVX_CLOCK_STEPS 8
struct avx_clocks {
	u64 counters; /* enum avx_clock_counters */
	u64 nr_steps;
	struct avx_clock_step steps[AVX_CLOCK_STEPS];
};

/* What is AVX work. */
enum avx_classes {
	CLASSES_AVX512,
	CLASSES_AVX512_AVX2_HEAVY,
};

/* When a task is scalar again. */
enum avx_return_method {
	RETURN_SYSCALL,	 /* with its next system call */
	RETURN_SWITCH,	 /* when it is switched out */
	RETURN_TIMEOUT,	 /* when it did not use wide vectors for a while */
	RETURN_ADAPTIVE, /* with its next system call, unless it always comes back soon */
};

/* The name of a program, as in /proc/PID/comm, padded with zeroes. */
#define AVX_NAME_WORDS 2
struct avx_name {
	u64 words[AVX_NAME_WORDS];
};

#define AVX_NAMES_MAX 16

/* The largest list of CPUs. */
#define AVX_LIST_CPUS 1024
#define AVX_LIST_WORDS (AVX_LIST_CPUS / 64)

/*
 * Every knob, with unit and range. The agent validates all of them at once. All consist
 * of words of one size, so that there is no padding between them.
 */
struct avx_policy {
	/* The first is how long other work must have been due to be treated like AVX
	 * work on an AVX core, or AVX work to be treated like other work, if AVX work
	 * has more than its share. The second is how long AVX work must have been due
	 * to be taken by a scalar CPU: 0 to 1 s (ns) */
	u64 scalar_penalty_ns;
	u64 stranded_ns;
	/* How long a task must have been due to be taken by a CPU of another cache
	 * that has work of its own: 0 to 1 s (ns) */
	u64 steal_ns;

	/* The tasks for which there are AVX cores: enum avx_served */
	u64 avx_cores_for;
	/* What is AVX work: enum avx_classes. Only hints tell of heavy AVX2, because
	 * every program uses some AVX2. In the tier counters AVX work is whatever
	 * lowers the clock */
	u64 classes;

	/* How many AVX cores: enum avx_sizing_method */
	u64 sizing;
	/* How many CPUs, with SIZING_STATIC: 0 to all */
	u64 avx_cpus;
	/* A bit for each CPU, with SIZING_LIST */
	u64 avx_cpu_list[AVX_LIST_WORDS];
	/* The weight of the newest value, with SIZING_SHARE: 1 to 1024 (1/1024) */
	u64 share_alpha;
	/* How much of the AVX cores' time may be used before there is one more,
	 * and below how much there is one less: 1 to 1024 (1/1024). The second is
	 * smaller than the first */
	u64 grow_fill;
	u64 shrink_fill;
	/* Over how long demand is averaged: 1 to 1000 ms (ns) */
	u64 window_ns;
	/* How long AVX work may wait on average: 0 to 100 ms (ns) */
	u64 wait_target_ns;
	/* The least time between one change and the next, where the set grows
	 * and where it shrinks: 0 to 10 s (ns) */
	u64 grow_dwell_ns;
	u64 shrink_dwell_ns;
	/* The most that shrink_dwell_ns becomes where cores are soon needed again: 0
	 * to 1 min (ns) */
	u64 shrink_dwell_max_ns;

	/* Which CPUs become AVX cores: enum avx_placement_method */
	u64 placement;
	/* 1 if other work takes all of an idle AVX core before it shares another core, as
	 * far as AVX cores are whole cores; otherwise 0 */
	u64 lend_idle_cores;

	/* When a task is scalar again: enum avx_return_method */
	u64 return_method;
	/* The longest slice of an AVX task: 100 us to 20 ms (ns) */
	u64 avx_slice_ns;
	/* A task is scalar again after this time without wide vectors, whatever the
	 * method says: 100 us to 10 s (ns) */
	u64 return_timeout_ns;
	/* A task that would come back sooner than this is better left where it
	 * is: 0 to 100 ms (ns) */
	u64 worthwhile_ns;
	/* The longest time that a task is left where it is before it is tried again: 1 ms to
	 * 10 s (ns) */
	u64 retry_max_ns;

	/* How long AVX-512 stays visible to a task after it used the encoding for
	 * something light. That time doubles from the first value up to the second: 0
	 * to 10 s (ns) */
	u64 backoff_min_ns;
	u64 backoff_max_ns;
	/* A task that uses light instructions as well is kept on AVX cores if it used
	 * wide vectors within this time: 0 to 10 s (ns) */
	u64 mixed_memory_ns;
	/* How long nothing is hidden from a program after it looked for what the CPU
	 * has: 0 to 10 s (ns) */
	u64 detection_grace_ns;

	/* How long the clock stays low after the last wide instruction: 0 to 10 ms
	 * (ns); and how much of it is lost: 0 to 1024 (1/1024) */
	u64 licence_hold_ns;
	u64 licence_drop;
	/* What tasks pay whose clock is low because of others: enum avx_fairness */
	u64 fairness;
	/* Says whether the agent tries if AVX cores pay, and has none if not: enum avx_trials */
	u64 trials;

	/* 1 if AVX-512 is hidden from a program while its C library chooses its
	 * string functions; otherwise 0 */
	u64 quiet_library;
	/* Programs from which nothing is hidden; unused entries are empty */
	struct avx_name never_hide[AVX_NAMES_MAX];
};

/* A policy, with what tells it from others, and what tells whether it is whole. */
struct avx_policy_in_force {
	u64 generation;
	u64 checksum; /* of the generation and all knobs, by Horner's rule */
	struct avx_policy policy;
};

/* How many policies may be in use at a time, with the one in force among them. */
#define AVX_POLICY_SLOTS 8

#define AVX_CHECKSUM_FACTOR 1099511628211ULL

enum avx_class {
	CLASS_DEFAULT, /* never seen with wide vectors */
	CLASS_SCALAR,  /* has used wide vectors, but does not now */
	CLASS_AVX,     /* uses wide vectors now */
	NR_CLASSES,
};

enum avx_role {
	ROLE_SCALAR, /* a CPU for everything but AVX work */
	ROLE_AVX,    /* an AVX core */
};

/* What a fault by something hidden was about. */
enum avx_verdict {
	VERDICT_WIDE,	   /* 512 bits: this is AVX work */
	VERDICT_LIGHT,	   /* the encoding of AVX-512, and no more than 256 bits */
	VERDICT_DETECTION, /* CPUID, which tells what the CPU has */
	VERDICT_RESTORE,   /* XRSTOR of registers that were visible when saved */
	VERDICT_OTHER,	   /* an illegal instruction, or one out of reach of the decoder */
	NR_VERDICTS,
};

/* What happened to a task that may be the end of its phase. */
enum avx_boundary {
	BOUNDARY_SYSCALL, /* it made a system call */
	BOUNDARY_SWITCH,  /* it was switched out */
	BOUNDARY_UNUSED,  /* it used no wide vectors at a look, where no more is known */
	BOUNDARY_TICK,	  /* time passed */
	BOUNDARY_HINT,	  /* it said so */
	BOUNDARY_ALONE,	  /* AVX cores are not for its program */
	NR_BOUNDARIES,
};

/* Why a CPU has another role. */
enum avx_role_cause {
	ROLE_FOR_LIST,	 /* the policy says which CPUs are AVX cores */
	ROLE_FOR_NUMBER, /* the policy says how many AVX cores there are */
	ROLE_FIRST_NEED, /* there was AVX work, and no AVX core */
	ROLE_GROWTH,	 /* AVX work needs more of them */
	ROLE_SHRINKING,	 /* AVX work needs fewer of them */
	NR_ROLE_CAUSES,
};

/* What events tell their followers. */
enum avx_event_kind {
	EVENT_BEGAN, /* a phase began */
	EVENT_ENDED, /* a phase is over */
	EVENT_FAULT, /* a fault by something that needs no AVX core */
	EVENT_SENT,  /* a task that has done AVX work goes to a CPU of another role */
	EVENT_ROLE,  /* a CPU has another role */
	NR_EVENT_KINDS,
};

/* How many bytes of events can wait to be read: a power of two, and whole pages. */
#define AVX_EVENTS_BYTES (256 * 1024)

struct avx_event {
	u64 at; /* CLOCK_MONOTONIC (ns) */
	u32 kind;
	/* For EVENT_BEGAN enum avx_cause, for EVENT_ENDED enum avx_boundary, for EVENT_FAULT
	 * enum avx_verdict, for EVENT_SENT enum avx_role, for EVENT_ROLE enum avx_role_cause */
	u32 why;
	/* For EVENT_ENDED how long the task ran in the phase (ns), for EVENT_SENT the idle CPU to
	 * which it goes, or negative for a queue, for EVENT_ROLE enum avx_role */
	s64 detail;
	u32 cpu; /* the CPU where it happened, or that has another role */
	s32 thread;
	s32 process;
	u32 missed; /* events before this one that found no room */
	struct avx_name comm;
};

/* What is known of a process; all zero at exec. */
struct avx_process {
	bool convicted;	 /* seen with 512-bit vectors */
	bool named;	 /* the operator says that nothing is to be hidden from it */
	bool left_alone; /* it says itself that it gets less done with AVX cores */
	bool exempt;	 /* nothing is hidden from it, whatever it does */
	u64 judged_by;	 /* what was in force at the last lookup: see in_force_for_programs() */
	u64 grace_end;	 /* nothing is hidden before this */
};

/* What a task usually does; all zero for a new one. */
struct avx_habit {
	u32 class;	   /* enum avx_class */
	bool mixed;	   /* an AVX task that is kept for its light faults */
	bool wide_before;  /* it has used wide vectors, the last time at @wide_at */
	u64 wide_at;	   /* when it last used wide vectors, as far as was seen */
	u64 visible_until; /* when its back-off ends */
	u64 backoff_ns;	   /* how long its last back-off was */
	/* Moving averages of samples of its code: what part of the 512-bit instructions was
	 * light, and what part of all instructions was heavy and of 256 bits (1/1024) */
	u32 light512;
	u32 heavy256;
};

/* A moment in the life of a task, by its run time and by the time on the wall. */
struct avx_moment {
	u64 ran; /* for how long the task has run */
	u64 now; /* time on the wall */
};

/* What is known of a task's phases; all zero for one that had none. */
struct avx_phase {
	u64 began;    /* when the present or last phase began */
	u64 used;     /* when wide vectors were last seen in use */
	u64 ended;    /* when the last phase ended; 0 if there was none */
	u64 scalar;   /* moving average of how long it is scalar between phases */
	u64 keep;     /* how long a phase is kept open, because to end it is not worth it */
	u64 patience; /* how long it was kept open the last time, or 0 if to end it is worth it */
	u64 tries;    /* how many phases since that decision told that it still is not worth it */
};

/* Why a phase began. */
enum avx_cause {
	CAUSE_FAULT,  /* a wide instruction */
	CAUSE_MIXED,  /* a light instruction, soon after wide ones */
	CAUSE_SAMPLE, /* wide registers were in use */
	CAUSE_HINT,   /* the thread said so */
	NR_CAUSES,
};

/* What a task did since it was first seen. */
struct avx_book {
	u64 avx_ns;    /* time that it ran as an AVX task */
	u64 scalar_ns; /* time that it ran between its phases */
	u64 phases[NR_CAUSES];
	u64 ends[NR_BOUNDARIES];
	u64 faults[NR_VERDICTS];
	u64 sent_to_avx;    /* times that it was asked to go to an AVX core */
	u64 sent_to_scalar; /* times that it was asked to leave one */
	u64 watched_ns;	    /* time that it ran while its clock was watched */
	u64 lost_ns;	    /* time that it lost to clocks that others had made low */
};

/* The tasks with one book: those of a program, by the name of its first thread, in a cgroup. */
struct avx_owner {
	u64 cgroup;
	struct avx_name program;
};

/* Where a light instruction of an owner was that faulted. */
struct avx_light_fault {
	u64 ip;
	u64 process;
};

/* What the tasks of an owner got done while two policies are compared. */
struct avx_progress {
	u64 awake_ns; /* time that they ran, or waited for a CPU */
	u64 ran_ns;
	u64 activities;	  /* each from a wake-up until the task slept again */
	u64 instructions; /* if they are counted */
	u64 weight;	  /* of the task that was the last to tell */
	u64 said;	  /* work that its threads say they did */
};

/* Two words have room for the longest instruction, and for one byte more. */
#define AVX_CODE_WORDS 2

/* What is known of a task. */
struct task_ctx {
	u64 vtime;	   /* measured by @clock */
	u64 clock;	   /* the shared queue of the cache where the task last waited */
	u64 weight_queued; /* what it adds to weight_waiting of @clock while it waits */
	u64 settled;	   /* the run time up to which it has paid */
	u64 contended;	   /* contended_ns of @clock when it last paid or began to run */
	u64 slept_at;	   /* the value of @clock when it went to sleep, or 0 */
	u64 ran_until;	   /* when it was last seen that it had run */
	u64 queued_at;	   /* when it began to wait, now or the last time */
	u64 quiet_until;   /* the end, in run time, of a quiet start of its C library, or 0 */
	u64 program;	   /* the program that it is in, by the kernel's count of them */
	bool hidden;	   /* AVX-512 is hidden from it, as far as the kernel was asked */
	bool hinted;	   /* it is an AVX task because it says so, for as long as it does */
	struct avx_habit habit;
	struct avx_phase phase;
	u64 code[AVX_CODE_WORDS]; /* code of its last fault */
	u32 verdict;		  /* what that fault was about, enum avx_verdict */
	u32 cause;		  /* why its present or last phase began, enum avx_cause */
	u32 boundary;		  /* why its last phase ended, enum avx_boundary */
	u64 generation;		  /* of the policy by which a phase last began or ended */
	u32 came_from;		  /* the CPU that it left for AVX work, or where that was seen */
	u32 evidence;		  /* of the last look in the tier counters, enum avx_evidence */
	u64 booked_at;		  /* the run time up to which its time is in the book */
	u64 watched_at;		  /* the run time up to which its clock was watched */
	bool has_news;		  /* the book has something that was not told yet */
	struct avx_book book;	  /* what it did */
	struct avx_book told;	  /* the part of the book that was told */
};

/*
 * What happened on one CPU since the scheduler was loaded. Only that CPU
 * writes its copy; a reader adds up all of them.
 */
struct avx_cpu_stats {
	u64 direct;	    /* tasks that found an idle CPU when they were to be queued */
	u64 queued_shared;  /* tasks queued where any allowed CPU takes them */
	u64 queued_private; /* tasks queued for the only CPU they may use */
	u64 kept;	    /* slices given again to the task that was running */
	u64 unshared;	    /* tasks that went to an idle core from one that they shared */
	u64 overdue;	    /* tasks queued at the longest wait instead of their weight's */
	u64 wakeup_kicks;   /* tasks preempted by one that woke up and is due before */
	u64 rescues;	    /* idle CPUs woken by the tick for a task that waited */
	u64 avx_ns;	    /* time that AVX tasks ran */
	u64 avx_apart_ns;   /* the part of it by tasks that may use no AVX core */
	u64 scalar_ns;	    /* time that tasks ran between phases, as far as is told */
	u64 lowered_ns;	    /* time at a low clock as a scalar CPU, as far as can be told */
	u64 lowered_avx_ns; /* time at a low clock as an AVX core, as far as can be told */
	u64 avx_waits;	    /* AVX tasks that began to run */
	u64 avx_wait_ns;    /* time that they had waited for AVX cores, in all */
	u64 queued_avx;	    /* tasks queued for AVX cores */
	u64 wide_faults;    /* faults by hidden 512-bit instructions */
	u64 light_faults;   /* faults by shorter instructions with the encoding of AVX-512 */
	u64 other_faults;   /* faults by everything else that was hidden */
	u64 samples;	    /* times that wide vectors were seen in use */
	u64 hints;	    /* times that a thread said that its work is another kind */
	u64 phases;	    /* ends of a task's time as an AVX task */
	u64 looks;	    /* ticks that looked at the task that ran */
	u64 looks_wide;	    /* ticks that found it at AVX work */
	u64 looks_beside;   /* ticks that found other work, on a CPU that did AVX work lately */
	u64 in_place;	    /* AVX tasks on scalar CPUs: they may use no AVX core, or waited */
	u64 preempted;	    /* AVX cores that were asked to make room for AVX work */
	u64 role_changes;   /* CPUs that became AVX cores, or ceased to be such */
	u64 quiet_starts;   /* programs that started with a quiet C library */
	u64 loud_starts;    /* programs that did not, because they may need x86-64-v4 */
	u64 events_lost;    /* events that somebody followed and that found no room */
	u64 policies_read;  /* times that a policy was looked up, if policies are checked */
	u64 policies_torn;  /* times that a policy was not what the agent wrote */
	/* How long tasks waited in queues, by their class: AVX tasks while there are AVX cores,
	 * and one in AVX_WAITS_SAMPLED of the others. */
	u64 waits[NR_CLASSES][AVX_WAIT_BUCKETS];
};

/* What a CPU is, and was. Times are those of the scheduler's clock. */
struct avx_cpu_role {
	u64 role;   /* enum avx_role */
	u64 since;  /* when it got that role */
	u64 avx_ns; /* earlier time as an AVX core */
	u64 changes;
};

#endif /* AVXSPEC_INTF_H */
