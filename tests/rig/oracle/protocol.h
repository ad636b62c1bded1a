// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's calls: recognising and answering them.
 */
#ifndef ORACLE_PROTOCOL_H
#define ORACLE_PROTOCOL_H

/* Is this no-op a call?  Only to be asked of instructions decoded as NOP. */
bool protocol_is_call(const bxInstruction_c *i);
/* Answers the call that this CPU has just made. */
void protocol_answer(unsigned cpu);

#endif
