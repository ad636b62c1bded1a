/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least that makes a fair scheduler: one queue, sorted by virtual time. What
 * another one costs is measured against it.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define QUEUE 0
#define LOCAL 0x8000000000000002ULL /* SCX_DSQ_LOCAL; the header's needs a loader */
#define SLICE_NS (20 * 1000 * 1000ULL)
#define WEIGHT_NORMAL 100

u64 clock;

s32 BPF_STRUCT_OPS_SLEEPABLE(vtime_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

void BPF_STRUCT_OPS(vtime_enable, struct task_struct *p)
{
	p->scx.dsq_vtime = clock;
}

s32 BPF_STRUCT_OPS(vtime_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, LOCAL, SLICE_NS, 0);
	return cpu;
}

void BPF_STRUCT_OPS(vtime_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime;

	/* A sleeper keeps one slice of the time that it did not use. */
	if (time_before(vtime, clock - SLICE_NS))
		vtime = clock - SLICE_NS;
	scx_bpf_dsq_insert_vtime(p, QUEUE, SLICE_NS, vtime, enq_flags);
}

void BPF_STRUCT_OPS(vtime_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE, 0);
}

void BPF_STRUCT_OPS(vtime_running, struct task_struct *p)
{
	if (time_before(clock, p->scx.dsq_vtime))
		clock = p->scx.dsq_vtime;
}

void BPF_STRUCT_OPS(vtime_stopping, struct task_struct *p, bool runnable)
{
	p->scx.dsq_vtime += (SLICE_NS - p->scx.slice) * WEIGHT_NORMAL / p->scx.weight;
}

/* clang-format off */
SCX_OPS_DEFINE(vtime,
	       .init		= (void *)vtime_init,
	       .enable		= (void *)vtime_enable,
	       .select_cpu	= (void *)vtime_select_cpu,
	       .enqueue		= (void *)vtime_enqueue,
	       .dispatch	= (void *)vtime_dispatch,
	       .running		= (void *)vtime_running,
	       .stopping	= (void *)vtime_stopping,
	       .name		= "vtime");
/* clang-format on */
