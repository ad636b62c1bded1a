// SPDX-License-Identifier: GPL-2.0-only
/* Timers of the scheduler. */
#include "internal.h"

/* The timers that are started. */
static struct bpf_timer *timers;

void sim_timer_start(struct bpf_timer *timer, u64 ns)
{
	timer->at = scx_bpf_now() + ns;
	if (timer->is_started)
		return;
	timer->is_started = true;
	timer->next = timers;
	timers = timer;
}

bool sim_next_timer(u64 *at)
{
	bool found = false;

	for (struct bpf_timer *timer = timers; timer; timer = timer->next) {
		if (found && timer->at >= *at)
			continue;
		*at = timer->at;
		found = true;
	}
	return found;
}

/* Runs one timer that is due. What it asks of CPUs is done before the next one runs. */
void sim_run_timer(void)
{
	int key = 0;

	sim_this_cpu = 0; /* which never goes */
	for (struct bpf_timer **link = &timers; *link; link = &(*link)->next) {
		struct bpf_timer *timer = *link;

		if (timer->at > scx_bpf_now())
			continue;
		*link = timer->next;
		timer->is_started = false;
		timer->callback(NULL, &key, timer);
		return;
	}
}

void sim_timers_forget(void)
{
	timers = NULL;
}
