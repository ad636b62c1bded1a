/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hides xfeatures from the tasks of any scheduler, beside it: at each switch
 * to a task it asks, and is refused while there is no scheduler. For tests
 * that bring schedulers of their own, as those of Linux do.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

enum knob {
	KNOB_WHAT,	 /* what is hidden at each switch: xfeatures, flags */
	KNOB_VISIBLE_IN, /* one in so many switches hides nothing instead */
	KNOB_RESCHEDULE, /* a fault ends the task's slice */
	KNOB_CPUS,	 /* set by the loader */
	NR_KNOBS,
};

enum count {
	COUNT_HIDES,	   /* calls that put something in force */
	COUNT_UD_TRAPS,	   /* first uses that raised #UD */
	COUNT_GP_TRAPS,	   /* ... and #GP */
	COUNT_OTHER_TRAPS, /* ... and anything else: there is none */
	NR_COUNTS,
};

extern u32 bpf_task_hide_xfeatures(struct task_struct *p, u32 what) __ksym;

#include "counts.bpf.h"
#include "knobs.bpf.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(beside_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 visible_in = knob(KNOB_VISIBLE_IN);
	u32 what = knob(KNOB_WHAT);

	if (visible_in && bpf_get_prandom_u32() % visible_in == 0)
		what = 0;
	if (bpf_task_hide_xfeatures(next, what))
		count(COUNT_HIDES);
	return 0;
}

SEC("fmod_ret/bpf_hidden_xfeature_used")
int BPF_PROG(beside_used, struct pt_regs *regs, u32 hidden, int trapnr)
{
	count(trapnr == 6 ? COUNT_UD_TRAPS : trapnr == 13 ? COUNT_GP_TRAPS : COUNT_OTHER_TRAPS);
	return knob(KNOB_RESCHEDULE) != 0;
}
