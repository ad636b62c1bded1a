// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeping, resetting, latching and reading the counts.
 *
 * Bochs executes all CPUs in one host thread, one trace of instructions after
 * the other, so a copy made in a callback is atomic for the guest.
 */
#include "bochs.h"
#include "cpu/cpu.h"
#include "pc_system.h"
#include "counters.h"

struct oracle_cpu oracle_cpus_state[ORACLE_MAX_CPUS];

static Bit64u latched[ORACLE_MAX_CPUS][ORACLE_COUNTERS];
static Bit64u reset_at;

Bit64u oracle_now(unsigned cpu)
{
	Bit64u ticks = bx_pc_system.time_ticks();

	/*
	 * With one CPU a tick is an instruction, and what has run since time was
	 * last brought up to date is known.  With several, time advances once per
	 * round of all CPUs, and a position within the round has no meaning.
	 */
	if (BX_SMP_PROCESSORS == 1)
		ticks += BX_CPU(cpu)->get_icount() - BX_CPU(cpu)->get_icount_last_sync();
	return ticks;
}

Bit64u oracle_retired_total(const struct oracle_cpu *c)
{
	return c->retired_before_reset + c->count[ORACLE_KERNEL + ORACLE_RETIRED] +
	       c->count[ORACLE_USER + ORACLE_RETIRED];
}

void counters_reset(unsigned cpu)
{
	reset_at = oracle_now(cpu);

	for (unsigned n = 0; n < BX_SMP_PROCESSORS; n++) {
		struct oracle_cpu *c = &oracle_cpus_state[n];

		c->retired_before_reset = oracle_retired_total(c);
		memset(c->count, 0, sizeof(c->count));
		c->asleep_since = reset_at;
	}
}

void counters_snapshot(unsigned cpu)
{
	Bit64u now = oracle_now(cpu);

	for (unsigned n = 0; n < BX_SMP_PROCESSORS; n++) {
		struct oracle_cpu *c = &oracle_cpus_state[n];

		memcpy(latched[n], c->count, sizeof(latched[n]));
		if (c->asleep)
			latched[n][ORACLE_HALTED_TICKS] += now - c->asleep_since;
		latched[n][ORACLE_TICKS] = now - reset_at;
		latched[n][ORACLE_NOW] = now;
	}
}

Bit64u counters_read(Bit64u counter, Bit64u cpu)
{
	if (counter >= ORACLE_COUNTERS || cpu >= BX_SMP_PROCESSORS)
		return ORACLE_INVALID;
	return latched[cpu][counter];
}

void counters_fall_asleep(unsigned cpu)
{
	struct oracle_cpu *c = &oracle_cpus_state[cpu];

	if (c->asleep)
		counters_wake(cpu);
	c->count[ORACLE_HALTS]++;
	c->asleep_since = oracle_now(cpu);
	c->asleep = 1;
}

void counters_wake(unsigned cpu)
{
	struct oracle_cpu *c = &oracle_cpus_state[cpu];

	c->count[ORACLE_HALTED_TICKS] += oracle_now(cpu) - c->asleep_since;
	c->asleep = 0;
}
