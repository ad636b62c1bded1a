// SPDX-License-Identifier: GPL-2.0-only
/* Timers of the scheduler. */
#include "internal.h"

static struct bpf_timer *timers;

void sim_timer_init(struct bpf_timer *timer)
{
	timer->next = timers;
	timers = timer;
}

void sim_timer_start(struct bpf_timer *timer, u64 ns)
{
	timer->at = scx_bpf_now() + ns;
	timer->is_started = true;
}

bool sim_next_timer(u64 *at)
{
	bool found = false;

	for (struct bpf_timer *timer = timers; timer; timer = timer->next) {
		if (!timer->is_started || (found && timer->at >= *at))
			continue;
		*at = timer->at;
		found = true;
	}
	return found;
}

void sim_run_timers(void)
{
	int key = 0;

	sim_this_cpu = 0; /* which never goes */
	for (struct bpf_timer *timer = timers; timer; timer = timer->next) {
		if (!timer->is_started || timer->at > scx_bpf_now())
			continue;
		timer->is_started = false;
		timer->callback(NULL, &key, timer);
	}
}

void sim_timers_forget(void)
{
	timers = NULL;
}
