/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How a thread tells scx_avxspec what its work is, and how much it has done.
 *
 *	struct scx_avxspec_hints hints;
 *
 *	if (scx_avxspec_open_hints(&hints) == 0) {
 *		scx_avxspec_hint(&hints, SCX_AVXSPEC_AVX512);
 *		multiply_matrices();
 *		scx_avxspec_hint(&hints, SCX_AVXSPEC_NONE);
 *		scx_avxspec_done(&hints, nr_matrices);
 *		scx_avxspec_close_hints(&hints);
 *	}
 *
 * Each thread opens its own, once. A hint is a system call, so it is for phases of
 * tens of microseconds and more, and it holds until the thread gives another one or
 * executes another program. How much a thread has done is asked while trials run, of AVX
 * cores or of policies: by that a program is left alone if it gets less done with AVX cores.
 * To say so every few milliseconds is often enough. What is needed is the right to write to
 * the file, and to enter its directory, which only root has unless somebody changes their
 * modes:
 *
 *	chmod o+x /sys/fs/bpf
 *	chmod o+w /sys/fs/bpf/scx_avxspec_hints
 *
 * That holds until the machine is booted. A filter of system calls, as services and pods
 * may have one, has to let bpf(2) and pidfd_open(2) pass.
 *
 * Where no scheduler listens, opening fails or hints do nothing: no reason to stop.
 *
 * syscall() is no part of ISO C: with -std=c11 and the like it takes -D_GNU_SOURCE.
 */
#ifndef SCX_AVXSPEC_HINTS_H
#define SCX_AVXSPEC_HINTS_H

#include <linux/bpf.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCX_AVXSPEC_HINTS "/sys/fs/bpf/scx_avxspec_hints"

enum scx_avxspec_work {
	SCX_AVXSPEC_NONE,	/* nothing that lowers the clock */
	SCX_AVXSPEC_AVX512,	/* 512-bit instructions */
	SCX_AVXSPEC_AVX2_HEAVY, /* 256-bit multiplication or floating point; heard if
				 * the policy has classes=avx512+avx2-heavy */
};

struct scx_avxspec_hints {
	int map;
	int thread;	  /* by its pidfd */
	uint64_t said[4]; /* what its work is, and how much it has done; the rest is not used */
};

/* PIDFD_THREAD of <sys/pidfd.h>, where that is too old to know it. */
#define SCX_AVXSPEC_PIDFD_THREAD 0200

/* For the calling thread; -1 with errno if that cannot be. */
static inline int scx_avxspec_open_hints(struct scx_avxspec_hints *hints)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.pathname = (uintptr_t)SCX_AVXSPEC_HINTS;
	attr.file_flags = BPF_F_WRONLY;
	memset(hints, 0, sizeof(*hints));
	hints->map = syscall(SYS_bpf, BPF_OBJ_GET, &attr, sizeof(attr));
	if (hints->map < 0)
		return -1;

	hints->thread = syscall(SYS_pidfd_open, syscall(SYS_gettid), SCX_AVXSPEC_PIDFD_THREAD);
	if (hints->thread < 0) {
		close(hints->map);
		return -1;
	}
	return 0;
}

/* What the thread says now; -1 with errno if nobody could be told. */
static inline int scx_avxspec_say(const struct scx_avxspec_hints *hints)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = hints->map;
	attr.key = (uintptr_t)&hints->thread;
	attr.value = (uintptr_t)hints->said;
	return syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr));
}

/* From now on the thread does this work. */
static inline int scx_avxspec_hint(struct scx_avxspec_hints *hints, enum scx_avxspec_work work)
{
	hints->said[0] = work;
	return scx_avxspec_say(hints);
}

/* The thread has done so much more, in whatever its program counts what it gets done. */
static inline int scx_avxspec_done(struct scx_avxspec_hints *hints, uint64_t more)
{
	hints->said[1] += more;
	return scx_avxspec_say(hints);
}

static inline void scx_avxspec_close_hints(const struct scx_avxspec_hints *hints)
{
	close(hints->thread);
	close(hints->map);
}

#endif /* SCX_AVXSPEC_HINTS_H */
