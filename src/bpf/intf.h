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

enum avx_limits {
	/* Time that a task may run before the next one gets its turn, when few wait. */
	AVX_SLICE_MAX_NS = 20 * 1000 * 1000,
	/* The same when many wait: below this, switching costs more than it gives. */
	AVX_SLICE_MIN_NS = 1 * 1000 * 1000,
	/* The weight of a task at nice 0. The kernel's range is 1 to 10000. */
	AVX_WEIGHT_NORMAL = 100,
};

/*
 * The longest time that weights alone may keep a task waiting. Far below the
 * kernel's watchdog (30 s), because the backlog of the moment comes on top.
 */
#define AVX_WAIT_MAX_S 5
#define AVX_WAIT_MAX_NS (AVX_WAIT_MAX_S * 1000ULL * 1000 * 1000)

/*
 * What happened on one CPU since the scheduler was loaded. Only that CPU
 * writes its copy; a reader adds up all of them.
 */
struct avx_cpu_stats {
	u64 direct;	    /* wakeups that went straight to an idle CPU */
	u64 queued_shared;  /* tasks queued where any allowed CPU takes them */
	u64 queued_private; /* tasks queued for the only CPU they may use */
	u64 taken_shared;   /* tasks that this CPU took from the shared queue */
	u64 taken_private;  /* tasks that this CPU took from its own queue */
	u64 kept;	    /* slices given again to the task that was running */
	u64 overdue;	    /* tasks queued at the longest wait instead of their weight's */
	u64 kicks;	    /* idle CPUs woken for a task that was just queued */
	u64 rescues;	    /* idle CPUs woken by the tick for a task that waited */
	u64 run_ns;	    /* time that tasks ran */
};

#endif /* AVXSPEC_INTF_H */
