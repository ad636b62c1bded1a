/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every type that crosses a border: between BPF and the agent, and between
 * the decisions and the native code that tests them.
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
 * The verifier goes once through what is global, and not again on each path that leads to it:
 * many choices one after the other are more paths than it has patience for. Weak, for native
 * code has it in several objects.
 */
#define __verified_once __attribute__((__weak__, __noinline__))
#ifndef __arg_nonnull
#define __arg_nonnull
#endif

enum avx_limits {
	/* Time that a task may run before the next one gets its turn, if none waits when it
	 * begins. */
	AVX_SLICE_MAX_NS = 20 * 1000 * 1000,
	/* A request is one of these on one CPU, and four on eight CPUs and more. It is granted at
	 * a time where others wait, and a task at nice 0 may save as much. One that has just begun
	 * to run is left alone for as long by those that weigh as much, or have not just woken
	 * up. */
	AVX_REQUEST_STEP_NS = 700 * 1000,
	/* By how much a task may be due after the first one, and be taken before it by the CPU
	 * where it ran the last time: more than a move costs, and less than anybody waits for. */
	AVX_WARM_NS = 1 * 1000 * 1000,
	/* For how long who has run waits rather than to go to another cache, as the kernel has it
	 * (sched_migration_cost_ns). */
	AVX_CACHE_HOT_NS = 500 * 1000,
	/* The weight of a task at nice 0. The kernel's range is 1 to 10000. */
	AVX_WEIGHT_NORMAL = 100,
	/* Buckets of the histograms of waits: the first one is for less than so many
	 * nanoseconds, each for twice as much as the one before, and the last one for
	 * 0.5 s and more. */
	AVX_WAIT_FIRST_NS = 1024,
	AVX_WAIT_BUCKETS = 21,
	/* Of the waits of tasks that are none of the AVX tasks, one in so many counts. */
	AVX_WAITS_SAMPLED = 64,
};

/*
 * The longest time that weights alone may keep a task waiting. Far below the
 * kernel's watchdog (30 s), because the backlog of the moment comes on top.
 */
#define AVX_WAIT_MAX_S 5
#define AVX_WAIT_MAX_NS (AVX_WAIT_MAX_S * 1000ULL * 1000 * 1000)

/* The queues of a CPU; those that a cache has belong to its first CPU. */
enum avx_queue_kind {
	QUEUE_PRIVATE, /* of tasks that may use this CPU only */
	QUEUE_SHARED,  /* ... that may move */
	QUEUE_AVX,     /* ... that are to move to AVX cores */
	NR_QUEUE_KINDS,
};

struct queue_ctx {
	u64 nr_cpus; /* that take from it by preference */
	u64 nr_waiting;
	u64 first_due; /* before this nobody is due who waits, as far as was seen */

	/* Of all that a cache's CPUs run, and that waits for them in any queue; shared queues. */
	u64 clock;
	u64 clock_at;	  /* up to when the clock has gone on, */
	u64 contended_ns; /* ... and for how long, since it does while somebody waits */
	u64 weight_waiting;
	u64 weight_running;
	u64 nr_running;
} __attribute__((aligned(64)));

/* How AVX work is found out about, from the best way to none. */
enum avx_tier {
	AVX_TIER_TRAP,	   /* the kernel hides AVX-512 and tells of its first use */
	AVX_TIER_XSTATE,   /* wide registers are seen in use when it saves them */
	AVX_TIER_COUNTERS, /* clocks are counted that are low for it */
	AVX_TIER_HINTS,	   /* threads say so themselves */
	AVX_TIER_OBSERVE,  /* it is not: nothing is known, nothing is done */
};

/* What the kernel says where AVX-512 is to be hidden. */
enum avx_hiding {
	HIDING_UNTRIED,
	HIDING_WORKS,
	HIDING_REFUSED, /* it is built for it, and the CPU is not up to it */
};

/* What a low clock says of the task that ran. */
enum avx_evidence {
	EVIDENCE_NONE, /* it did nothing that lowers the clock */
	EVIDENCE_WIDE, /* it did */
	EVIDENCE_OPEN, /* it may have, or others did */
};

/* What a thread says of its work; see contrib/hints. */
enum avx_hint_value {
	AVX_HINT_NONE,
	AVX_HINT_AVX512,
	AVX_HINT_AVX2_HEAVY, /* 256-bit multiplication and floating point */
};

/* As scx_layered has it. */
struct avx_hint {
	u64 hint; /* enum avx_hint_value */
	u64 work; /* what the thread has done so far, in a unit of its own; 0 if it does not say */
	u64 reserved[2];
};

/* Where a CPU is; each of these is named by its first CPU. */
struct avx_topology {
	u32 core;
	u32 llc;
	u32 node;
	u32 next_llc;  /* all caches in a ring */
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

/* For whom there are AVX cores. */
enum avx_served {
	SERVED_NOBODY, /* AVX work is seen and counted, and nothing else is done */
	SERVED_HINTED, /* threads that say what their work is */
	SERVED_ALL,    /* whoever does AVX work */
};

/* Whether trials decide if there are AVX cores. */
enum avx_trials {
	TRIALS_OFF,
	TRIALS_ON,
	TRIALS_WITHOUT, /* ... and there are none now: no knob says so, but the agent */
};

/* What becomes of those whose clock is low because of others. */
enum avx_fairness {
	FAIRNESS_OFF,	     /* they pay for the time that they run */
	FAIRNESS_COMPENSATE, /* ... less what they lose of it */
};

/* What wide vectors need, by what it costs of the clock. */
enum avx_licence {
	LICENCE_NONE,
	LICENCE_1,
	LICENCE_2,
	NR_LICENCES,
};

/* Of a processor's clock, how much is lost at each licence (1/1024) while no more than
 * so many cores of its package are active. */
struct avx_clock_step {
	u64 up_to_cores;
	u64 lost[NR_LICENCES];
};

/* What is counted of a CPU, in this order, to know its clock. */
enum avx_clock_counters {
	NO_CLOCK_COUNTERS = 0,
	APERF_AND_MPERF = 2,		 /* cycles at its clock, and at a constant one */
	CYCLES_BY_LICENCE = NR_LICENCES, /* of its core, while it had each */
};

/* Those of this processor, by the number of cores, if they are known, and who tells. */
#define AVX_CLOCK_STEPS 8
struct avx_clocks {
	u64 counters; /* of avx_clock_counters */
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
	RETURN_ADAPTIVE, /* as with system calls, unless it always comes back soon */
};

/* Of a program, as /proc/PID/comm has it, padded with zeroes. */
#define AVX_NAME_WORDS 2
struct avx_name {
	u64 words[AVX_NAME_WORDS];
};

#define AVX_NAMES_MAX 16

/* The largest list of CPUs. */
#define AVX_LIST_CPUS 1024
#define AVX_LIST_WORDS (AVX_LIST_CPUS / 64)

/*
 * Every knob, with unit and range. The agent validates all of them at once. All are
 * of one size, so that there is nothing between them.
 */
struct avx_policy {
	/* For how long other work must have been due to be treated like AVX work
	 * on an AVX core, or AVX work like that, if it has more than its share;
	 * and AVX work to be taken by a scalar CPU: 0 to 1 s (ns) */
	u64 scalar_penalty_ns;
	u64 stranded_ns;
	/* For how long a task must have been due to be taken by a CPU of another
	 * cache that has work of its own: 0 to 1 s (ns) */
	u64 steal_ns;

	/* For whom there are AVX cores: enum avx_served */
	u64 avx_cores_for;
	/* What is AVX work: enum avx_classes. Of heavy AVX2 hints tell and nothing
	 * else, for every program uses some AVX2; in the tier counters it is whatever
	 * lowers the clock */
	u64 classes;

	/* How many AVX cores: enum avx_sizing_method */
	u64 sizing;
	/* CPUs, of SIZING_STATIC: 0 to all */
	u64 avx_cpus;
	/* A bit for each, of SIZING_LIST */
	u64 avx_cpu_list[AVX_LIST_WORDS];
	/* The weight of the newest value, of SIZING_SHARE: 1 to 1024 (1/1024) */
	u64 share_alpha;
	/* How much of an AVX core's time may be used before there is another,
	 * and below which there is one less: 1 to 1024 (1/1024), the second
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
	/* ... and how long the latter becomes where cores are soon needed again: 0 to
	 * 1 min (ns) */
	u64 shrink_dwell_max_ns;

	/* Which CPUs become AVX cores: enum avx_placement_method */
	u64 placement;
	/* Whether other work has all of an AVX core that idles before it shares another
	 * core, as far as AVX cores are whole ones: 0 or 1 */
	u64 lend_idle_cores;

	/* When a task is scalar again: enum avx_return_method */
	u64 return_method;
	/* For how long an AVX task may run before the next one: 100 us to 20 ms (ns) */
	u64 avx_slice_ns;
	/* Without wide vectors for so long it is, whatever the method says: 100
	 * us to 10 s (ns) */
	u64 return_timeout_ns;
	/* A task that would come back sooner than this is better left where it
	 * is: 0 to 100 ms (ns) */
	u64 worthwhile_ns;
	/* ... and is tried again after this at the latest: 1 ms to 10 s (ns) */
	u64 retry_max_ns;

	/* How long a task stays visible after it used the encoding of AVX-512 for
	 * something light: at first, and at most, for it doubles: 0 to 10 s (ns) */
	u64 backoff_min_ns;
	u64 backoff_max_ns;
	/* A task that uses both is kept on AVX cores if it used wide vectors that
	 * lately: 0 to 10 s (ns) */
	u64 mixed_memory_ns;
	/* How long nothing is hidden from a program that looks for what the CPU
	 * has: 0 to 10 s (ns) */
	u64 detection_grace_ns;

	/* How long the clock stays low after the last wide instruction: 0 to 10 ms
	 * (ns); and how much of it is lost: 0 to 1024 (1/1024) */
	u64 licence_hold_ns;
	u64 licence_drop;
	/* What becomes of those whose clock is low because of others: enum avx_fairness */
	u64 fairness;
	/* Whether the agent tries if they pay, and has none where they do not: enum avx_trials */
	u64 trials;

	/* Whether AVX-512 is hidden from a program while its C library chooses its
	 * string functions: 0 or 1 */
	u64 quiet_library;
	/* From which programs nothing is hidden; what is not used is empty */
	struct avx_name never_hide[AVX_NAMES_MAX];
};

/* A policy with what tells it from others, and whether it is whole. */
struct avx_policy_in_force {
	u64 generation;
	u64 checksum; /* of the generation and all knobs, by Horner's rule */
	struct avx_policy policy;
};

/* So many policies may be somebody's, the one in force being one of them. */
#define AVX_POLICY_SLOTS 8

#define AVX_CHECKSUM_FACTOR 1099511628211ULL

enum avx_class {
	CLASS_DEFAULT, /* never seen with wide vectors */
	CLASS_SCALAR,  /* has used them, does not now */
	CLASS_AVX,     /* uses them now */
	NR_CLASSES,
};

enum avx_role {
	ROLE_SCALAR, /* a CPU for everything but AVX work */
	ROLE_AVX,    /* an AVX core */
};

/* What a fault of something hidden was about. */
enum avx_verdict {
	VERDICT_WIDE,	   /* 512 bits: what all this is for */
	VERDICT_LIGHT,	   /* the encoding of AVX-512, and no more than 256 bits */
	VERDICT_DETECTION, /* CPUID, which tells what there is */
	VERDICT_RESTORE,   /* XRSTOR of registers that were visible when saved */
	VERDICT_OTHER,	   /* illegal, or out of reach of the decoder */
	NR_VERDICTS,
};

/* What happened to a task that may be the end of its phase. */
enum avx_boundary {
	BOUNDARY_SYSCALL, /* it made a system call */
	BOUNDARY_SWITCH,  /* it was switched out */
	BOUNDARY_UNUSED,  /* ... and used none at that moment, where more is not known */
	BOUNDARY_TICK,	  /* time passed */
	BOUNDARY_HINT,	  /* it said so */
	BOUNDARY_ALONE,	  /* AVX cores are not for its program */
	NR_BOUNDARIES,
};

/* Why a CPU has another role. */
enum avx_role_cause {
	ROLE_FOR_LIST,	 /* the policy says which ones are AVX cores, */
	ROLE_FOR_NUMBER, /* ... or how many */
	ROLE_FIRST_NEED, /* there was AVX work, and no AVX core */
	ROLE_GROWTH,	 /* AVX work needs more of them */
	ROLE_SHRINKING,	 /* ... or fewer */
	NR_ROLE_CAUSES,
};

/* What is told to whoever follows. */
enum avx_event_kind {
	EVENT_BEGAN, /* a phase */
	EVENT_ENDED, /* ... is over */
	EVENT_FAULT, /* by something that needs no AVX core */
	EVENT_SENT,  /* a task that has done AVX work goes to a CPU of another role */
	EVENT_ROLE,  /* a CPU has another role */
	NR_EVENT_KINDS,
};

/* How much can wait to be read, in bytes: a power of two, and whole pages. */
#define AVX_EVENTS_BYTES (256 * 1024)

struct avx_event {
	u64 at; /* CLOCK_MONOTONIC (ns) */
	u32 kind;
	/* Of EVENT_BEGAN enum avx_cause, of EVENT_ENDED enum avx_boundary, of EVENT_FAULT
	 * enum avx_verdict, of EVENT_SENT enum avx_role, of EVENT_ROLE enum avx_role_cause */
	u32 why;
	/* Of EVENT_ENDED how long the task ran in it (ns), of EVENT_SENT the idle CPU to which
	 * it goes, or negative for a queue, of EVENT_ROLE enum avx_role */
	s64 detail;
	u32 cpu; /* where */
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
	u64 judged_by; /* what was in force when that was looked up: see in_force_for_programs() */
	u64 grace_end; /* nothing is hidden before */
};

/* What a task is used to do; all zero for a new one. */
struct avx_habit {
	u32 class;	   /* enum avx_class */
	bool mixed;	   /* an AVX task that is kept for its light faults */
	bool wide_before;  /* it has used wide vectors, at @wide_at */
	u64 wide_at;	   /* ... as far as was seen */
	u64 visible_until; /* its back-off */
	u64 backoff_ns;	   /* ... how long it was */
	/* Moving averages of samples of its code: what part of the 512-bit instructions
	 * was light, and of all instructions heavy and of 256 bits (1/1024) */
	u32 light512;
	u32 heavy256;
};

/* What is known when it is to be decided whether to hide. */
struct avx_moment {
	u64 ran; /* for how long the task has run */
	u64 now; /* time on the wall */
};

/* What is known of a task's phases; all zero for one that had none. */
struct avx_phase {
	u64 began;    /* the present or last phase */
	u64 used;     /* wide vectors were seen to be in use the last time */
	u64 ended;    /* the last phase; 0 if there was none */
	u64 scalar;   /* moving average of how long it was scalar in between */
	u64 keep;     /* for how long it is not worth to let it go, */
	u64 patience; /* ... and was the last time that it was not */
	u64 tries;    /* how many phases told since that it still is not */
};

/* Why a phase began. */
enum avx_cause {
	CAUSE_FAULT,  /* a wide instruction */
	CAUSE_MIXED,  /* a light one, soon after wide ones */
	CAUSE_SAMPLE, /* wide registers were in use */
	CAUSE_HINT,   /* the thread said so */
	NR_CAUSES,
};

/* What a task did since it was first seen. */
struct avx_book {
	u64 avx_ns;    /* ran as an AVX task, */
	u64 scalar_ns; /* ... and between its phases */
	u64 phases[NR_CAUSES];
	u64 ends[NR_BOUNDARIES];
	u64 faults[NR_VERDICTS];
	u64 sent_to_avx;    /* was asked to go to an AVX core, */
	u64 sent_to_scalar; /* ... or away from one */
	u64 watched_ns;	    /* ran while it was seen to that clocks are paid for, */
	u64 lost_ns;	    /* ... and lost to clocks that others had made low */
};

/* Whose books are one: the tasks of a program, by the name of its first thread, in a cgroup. */
struct avx_owner {
	u64 cgroup;
	struct avx_name program;
};

/* Where a light instruction of the same was that faulted. */
struct avx_light_fault {
	u64 ip;
	u64 process;
};

/* What the same got done while two policies are compared. */
struct avx_progress {
	u64 awake_ns; /* it ran, or waited for a CPU */
	u64 ran_ns;
	u64 activities;	  /* each from a wake-up until the task slept again */
	u64 instructions; /* if they are counted */
	u64 weight;	  /* of the task that was the last to tell */
	u64 said;	  /* work, as its threads say themselves */
};

/* As many bytes of an instruction as there can be, and one for good measure. */
#define AVX_CODE_WORDS 2

/* What is known of a task. */
struct task_ctx {
	u64 vtime;	   /* measured by @clock */
	u64 clock;	   /* the shared queue of the cache where the task last waited */
	u64 weight_queued; /* what it adds to what waits by that clock, while it does */
	u64 settled;	   /* up to which running time it has paid, */
	u64 contended;	   /* ... and what its clock had counted as contended then */
	u64 slept_at;	   /* where its clock was when it went to sleep, or 0 */
	u64 ran_until;	   /* when it was seen that it had run */
	u64 queued_at;	   /* since when it waits, or waited the last time */
	u64 quiet_until;   /* hidden while its C library starts, 0 afterwards */
	u64 program;	   /* which one it is in, by the kernel's count of them */
	bool hidden;	   /* AVX-512 is hidden from it, as far as we asked */
	bool hinted;	   /* an AVX task because it says so, and for as long */
	struct avx_habit habit;
	struct avx_phase phase;
	u64 code[AVX_CODE_WORDS]; /* of its last fault, */
	u32 verdict;		  /* ... and what that was about, enum avx_verdict */
	u32 cause;		  /* why its present or last phase began, enum avx_cause, */
	u32 boundary;		  /* ... and ended, enum avx_boundary */
	u64 generation;		  /* of the policy by which it did */
	u32 came_from;		  /* the CPU where it faulted the last time */
	u32 evidence;		  /* of the tier counters, at the last look, enum avx_evidence */
	u64 booked_at;		  /* up to which running time its time is in the book, */
	u64 watched_at;		  /* ... and up to which its clock was watched */
	bool has_news;		  /* there is something in the book that is not told */
	struct avx_book book;	  /* what it did, */
	struct avx_book told;	  /* ... and what of it is told */
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
	u64 unshared;	    /* ... or not, for it goes to an idle core from one that it shared */
	u64 overdue;	    /* tasks queued at the longest wait instead of their weight's */
	u64 wakeup_kicks;   /* CPUs whose task was interrupted, since who woke up is due before */
	u64 rescues;	    /* idle CPUs woken by the tick for a task that waited */
	u64 avx_ns;	    /* time that AVX tasks ran, */
	u64 avx_apart_ns;   /* ... of which those that may use no AVX core, */
	u64 scalar_ns;	    /* ... and tasks between such phases, as far as is told */
	u64 lowered_ns;	    /* time at a low clock as a scalar CPU, as far as can be told */
	u64 lowered_avx_ns; /* ... and as an AVX core */
	u64 avx_waits;	    /* AVX tasks that began to run, */
	u64 avx_wait_ns;    /* ... having waited for AVX cores for so long in all */
	u64 queued_avx;	    /* tasks queued for AVX cores */
	u64 wide_faults;    /* faults by something hidden: 512-bit instructions */
	u64 light_faults;   /* ... shorter ones with the encoding of AVX-512 */
	u64 other_faults;   /* ... and everything else */
	u64 samples;	    /* times that wide vectors were seen in use */
	u64 hints;	    /* times that a thread said that its work is another kind */
	u64 phases;	    /* ends of a task's time as an AVX task */
	u64 looks;	    /* ticks that looked at the task that ran, */
	u64 looks_wide;	    /* ... and found it at AVX work, */
	u64 looks_beside;   /* ... or at other work, on a CPU that did AVX work lately */
	u64 in_place;	    /* AVX tasks on scalar CPUs: they may use no AVX core, or waited */
	u64 preempted;	    /* AVX cores with other work that were to choose anew */
	u64 role_changes;   /* CPUs that became AVX cores, or were no more */
	u64 quiet_starts;   /* programs that started with a quiet C library, */
	u64 loud_starts;    /* ... or not, since they may need x86-64-v4 */
	u64 events_lost;    /* events that somebody followed, and for which was no room */
	u64 policies_read;  /* times that a policy was looked up, if they are checked, */
	u64 policies_torn;  /* ... and was not what the agent wrote */
	/* How long tasks waited in queues, by their class: all AVX tasks, and of the others
	 * one in AVX_WAITS_SAMPLED. */
	u64 waits[NR_CLASSES][AVX_WAIT_BUCKETS];
};

/* What a CPU is, and was. Times are those of the scheduler's clock. */
struct avx_cpu_role {
	u64 role;   /* enum avx_role, */
	u64 since;  /* ... and since when */
	u64 avx_ns; /* time as an AVX core before */
	u64 changes;
};

#endif /* AVXSPEC_INTF_H */
