/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events tell followers what happens.
 *
 * Most of the time nobody follows. So all that is looked at then is one variable, and that
 * only where a phase begins or ends, after a fault, where a CPU changes its role and
 * where a task is sent away: a switch without AVX work does not look at it.
 *
 * Limits. An event that finds no room is lost. The next event that finds room tells how
 * many were lost.
 */
#ifndef AVXSPEC_EVENTS_BPF_H
#define AVXSPEC_EVENTS_BPF_H

#include "state.bpf.h"

/* Is true while anybody follows. The agent writes it. */
u32 events_followed;
/* Events that found no room since the last one that did. */
u32 events_missed;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, AVX_EVENTS_BYTES);
} events SEC(".maps");

static __always_inline struct avx_event *new_event(enum avx_event_kind kind, u32 why, s64 detail,
						   u32 cpu)
{
	struct avx_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&events_missed, 1);
		stat_add(events_lost, 1);
		return NULL;
	}
	*event = (struct avx_event){
		.at = bpf_ktime_get_ns(),
		.kind = kind,
		.why = why,
		.detail = detail,
		.cpu = cpu,
		.missed = __sync_lock_test_and_set(&events_missed, 0),
	};
	return event;
}

/* Global, like the two functions below, for the verifier. */
__noinline int write_event_of_task(struct task_struct *p __arg_trusted, u32 kind, u32 why,
				   s64 detail)
{
	struct avx_event *event = new_event(kind, why, detail, bpf_get_smp_processor_id());

	if (!event)
		return 0;
	event->thread = p->pid;
	event->process = p->group_leader->pid;
	bpf_probe_read_kernel(&event->comm, sizeof(event->comm), p->comm);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

__noinline int write_event_of_cpu(u32 cpu, u32 role, u32 why)
{
	struct avx_event *event = new_event(EVENT_ROLE, why, role, cpu);

	if (event)
		bpf_ringbuf_submit(event, 0);
	return 0;
}

/*
 * Tells that a task goes to an AVX core, or away from one when it is scalar again. Nothing
 * is told of tasks that never did AVX work, and have to go where AVX tasks come: the reader
 * of events is one of them, and would have to read about itself.
 */
__noinline int write_event_of_sent(struct task_struct *p __arg_trusted, u32 role, s64 to_cpu)
{
	const struct task_ctx *tctx = lookup_task(p);

	if (tctx && tctx->habit.class != CLASS_DEFAULT)
		write_event_of_task(p, EVENT_SENT, role, to_cpu);
	return 0;
}

static __always_inline void tell(struct task_struct *p, enum avx_event_kind kind, u32 why,
				 s64 detail)
{
	if (events_followed)
		write_event_of_task(p, kind, why, detail);
}

static __always_inline void tell_sent(struct task_struct *p, enum avx_role role, s64 to_cpu)
{
	if (events_followed)
		write_event_of_sent(p, role, to_cpu);
}

static __always_inline void tell_role(u32 cpu, enum avx_role role, enum avx_role_cause why)
{
	if (events_followed)
		write_event_of_cpu(cpu, role, why);
}

#endif /* AVXSPEC_EVENTS_BPF_H */
