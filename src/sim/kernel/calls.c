// SPDX-License-Identifier: GPL-2.0-only
/*
 * Callbacks: which one is under way, which there were since they are noted, and what BPF
 * programs hold.
 */
#include <stdlib.h>

#include "internal.h"

static struct sim_call *noted_calls;
static u32 nr_noted_calls, room_for_calls;
static bool notes_calls;

static struct sim_call present_call;

/* Locks and references. None of them may outlive the program that took it. */
static u32 nr_held;
static const char *holder;

static void note(enum sim_callback callback, struct sim_task *task)
{
	if (!notes_calls || !task)
		return;
	if (nr_noted_calls == room_for_calls) {
		room_for_calls = room_for_calls ? 2 * room_for_calls : 1024;
		noted_calls = realloc(noted_calls, room_for_calls * sizeof(*noted_calls));
		if (!noted_calls)
			abort();
	}
	noted_calls[nr_noted_calls++] = (struct sim_call){ .task = task, .callback = callback };
}

/* Returns the call that this one interrupts. */
struct sim_call sim_begin_call(enum sim_callback callback, struct sim_task *task)
{
	struct sim_call before = present_call;

	note(callback, task);
	present_call = (struct sim_call){ .task = task, .callback = callback };
	return before;
}

void sim_end_call(struct sim_call before)
{
	present_call = before;
}

struct sim_call sim_present_call(void)
{
	return present_call;
}

bool sim_is_within(enum sim_callback callback)
{
	return present_call.callback == callback;
}

/* Returns true if the scheduler is asked where @task is to wait. */
bool sim_is_placing(const struct sim_task *task)
{
	return present_call.task == task &&
	       (sim_is_within(SIM_SELECT_CPU) || sim_is_within(SIM_ENQUEUE));
}

void sim_hold(const char *function)
{
	nr_held++;
	holder = function;
}

void sim_let_loose(const char *function)
{
	if (nr_held)
		nr_held--;
	else
		sim_fail("%s() lets go of what it does not hold", function);
}

/* This is called between any two events. */
void sim_check_held(void)
{
	if (nr_held)
		sim_fail("%s() does not let go of what it holds", holder);
}

void sim_note_calls(void)
{
	notes_calls = true;
}

u32 sim_noted_calls(const struct sim_call **calls)
{
	*calls = noted_calls;
	return nr_noted_calls;
}

/* The calls of the next scheduler are not noted. */
void sim_calls_forget(void)
{
	notes_calls = false;
}

void sim_calls_reset(void)
{
	sim_calls_forget();
	nr_noted_calls = 0;
	nr_held = 0;
	present_call = (struct sim_call){ .callback = SIM_NO_CALLBACK };
}
