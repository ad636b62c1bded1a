// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trace: what the guest did when, as text.  trace.cc has the format.
 */
#ifndef ORACLE_TRACE_H
#define ORACLE_TRACE_H

/* True between TRACE_START and TRACE_STOP; asked before every call below. */
extern bool trace_on;

/* Opens the file that ORACLE_TRACE names, if any. */
void trace_init(void);

/* False if there is no file to write to. */
bool trace_start(unsigned cpu);
bool trace_stop(unsigned cpu);

/* A vector or mask instruction has retired; event is an enum oracle_event. */
void trace_vector(unsigned cpu, unsigned cpl, unsigned event, const bxInstruction_c *i);

void trace_syscall(unsigned cpu, unsigned cpl, bx_address from);
void trace_return(unsigned cpu, const char *how);
void trace_exception(unsigned cpu, unsigned cpl, unsigned vector, unsigned error_code,
		     bx_address rip);
void trace_interrupt(unsigned cpu, unsigned cpl, const char *which, unsigned vector);
void trace_address_space(unsigned cpu, Bit64u cr3);
void trace_fs_base(unsigned cpu, unsigned cpl, Bit64u base);
void trace_sleep(unsigned cpu, const char *what);
/* Does nothing while the trace is off. */
void trace_mark(unsigned cpu, Bit64u value);

#endif
