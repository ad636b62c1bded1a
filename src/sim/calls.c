// SPDX-License-Identifier: GPL-2.0-only
/* Callbacks, noted from when somebody wants to know. */
#include <stdlib.h>

#include "internal.h"

static struct sim_call *noted_calls;
static u32 nr_noted_calls, room_for_calls;
static bool notes_calls;

void sim_note_call(enum sim_callback callback, struct sim_task *task)
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

void sim_note_calls(void)
{
	notes_calls = true;
}

u32 sim_noted_calls(const struct sim_call **calls)
{
	*calls = noted_calls;
	return nr_noted_calls;
}

void sim_calls_reset(void)
{
	notes_calls = false;
	nr_noted_calls = 0;
}
