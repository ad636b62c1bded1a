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

/* What asks for attention. */
#define ASLEEP 1
#define ALWAYS 2

struct oracle_cpu oracle_cpus_state[ORACLE_MAX_CPUS];
unsigned char oracle_attention[ORACLE_MAX_CPUS];
Bit64u oracle_retired[ORACLE_MAX_CPUS][4];

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

static Bit64u retired_in_kernel(unsigned cpu)
{
	return oracle_retired[cpu][0] + oracle_retired[cpu][1] + oracle_retired[cpu][2];
}

Bit64u oracle_retired_total(unsigned cpu)
{
	return oracle_cpus_state[cpu].retired_before_reset + retired_in_kernel(cpu) +
	       oracle_retired[cpu][3];
}

void counters_reset(unsigned cpu)
{
	reset_at = oracle_now(cpu);

	for (unsigned n = 0; n < BX_SMP_PROCESSORS; n++) {
		struct oracle_cpu *c = &oracle_cpus_state[n];

		c->retired_before_reset = oracle_retired_total(n);
		memset(c->count, 0, sizeof(c->count));
		memset(oracle_retired[n], 0, sizeof(oracle_retired[n]));
		c->asleep_since = reset_at;
	}
}

void counters_snapshot(unsigned cpu)
{
	Bit64u now = oracle_now(cpu);

	for (unsigned n = 0; n < BX_SMP_PROCESSORS; n++) {
		struct oracle_cpu *c = &oracle_cpus_state[n];

		memcpy(latched[n], c->count, sizeof(latched[n]));
		latched[n][ORACLE_KERNEL + ORACLE_RETIRED] = retired_in_kernel(n);
		latched[n][ORACLE_USER + ORACLE_RETIRED] = oracle_retired[n][3];
		if (counters_is_asleep(n))
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

	if (counters_is_asleep(cpu))
		counters_wake(cpu);
	c->count[ORACLE_HALTS]++;
	c->asleep_since = oracle_now(cpu);
	oracle_attention[cpu] |= ASLEEP;
}

void counters_wake(unsigned cpu)
{
	struct oracle_cpu *c = &oracle_cpus_state[cpu];

	c->count[ORACLE_HALTED_TICKS] += oracle_now(cpu) - c->asleep_since;
	oracle_attention[cpu] &= ~ASLEEP;
}

bool counters_is_asleep(unsigned cpu)
{
	return oracle_attention[cpu] & ASLEEP;
}

void counters_attend_to_all(void)
{
	for (unsigned n = 0; n < ORACLE_MAX_CPUS; n++)
		oracle_attention[n] |= ALWAYS;
}
