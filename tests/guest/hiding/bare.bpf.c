/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least that makes a scheduler which hides: what the patch costs is
 * measured with it, so it must cost nothing itself that can be avoided.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "prctl.h"

char _license[] SEC("license") = "GPL";

enum knob {
	KNOB_WHAT, /* what ops.running() hides; 0: it does not even ask */
	KNOB_CPUS, /* set by the loader */
	NR_KNOBS,
};

extern u32 bpf_task_hide_xfeatures(struct task_struct *p, u32 what) __ksym;

#include "knobs.bpf.h"

SEC("struct_ops/bare_running")
void BPF_PROG(bare_running, struct task_struct *p)
{
	u32 what = knob(KNOB_WHAT);

	if (what)
		bpf_task_hide_xfeatures(p, what);
}

SEC("fmod_ret/bpf_hidden_xfeature_used")
int BPF_PROG(bare_used, struct pt_regs *regs, u32 hidden, int trapnr)
{
	return 0;
}

SEC("fentry/__x64_sys_prctl")
int BPF_PROG(bare_prctl, const struct pt_regs *regs)
{
	if (regs->di == PRCTL_HIDE)
		bpf_task_hide_xfeatures(bpf_get_current_task_btf(), regs->si);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops bare_ops = {
	.running = (void *)bare_running,
	.name = "bare",
};
