// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counts: one array per CPU, indexed by the counter ids of oracle.h.
 *
 * A counter's id is its index, so that reading needs no translation and a
 * snapshot is one copy.  Counting never stops; a reset only zeroes.
 */
#ifndef ORACLE_COUNTERS_H
#define ORACLE_COUNTERS_H

#include "oracle.h"

/* Bochs numbers CPUs by their 8-bit APIC id. */
#define ORACLE_MAX_CPUS 256

struct oracle_cpu {
	/* But for ORACLE_RETIRED, which is counted in oracle_retired. */
	Bit64u count[ORACLE_COUNTERS];
	/* Retired in both levels before the last reset: the trace's clock goes on. */
	Bit64u retired_before_reset;
	Bit64u asleep_since;
	/* Vector of the delivery in progress, for software interrupts. */
	unsigned delivering;
};

extern struct oracle_cpu oracle_cpus_state[ORACLE_MAX_CPUS];

/* Ticks since power-on as this CPU sees them. */
Bit64u oracle_now(unsigned cpu);
/* Instructions this CPU has retired since power-on. */
Bit64u oracle_retired_total(unsigned cpu);

void counters_reset(unsigned cpu);
void counters_snapshot(unsigned cpu);
/* A latched value; ORACLE_INVALID if there is no such counter or CPU. */
Bit64u counters_read(Bit64u counter, Bit64u cpu);

void counters_fall_asleep(unsigned cpu);
void counters_wake(unsigned cpu);
bool counters_is_asleep(unsigned cpu);

/* From now on oracle_look_at() hears of every instruction. */
void counters_attend_to_all(void);

/* First index of the counters of a privilege level. */
static inline unsigned counters_of_level(unsigned cpl)
{
	return cpl == 3 ? ORACLE_USER : ORACLE_KERNEL;
}

#endif
