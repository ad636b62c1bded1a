// SPDX-License-Identifier: GPL-2.0-only
/*
 * The profile: how often each place in the kernel was reached.
 */
#ifndef ORACLE_PROFILE_H
#define ORACLE_PROFILE_H

/* True if there is a file to write to; asked before profile_reached(). */
extern bool profile_on;

/* Opens the file that ORACLE_PROFILE names, if any. */
void profile_init(void);
void profile_exit(void);

/* An instruction has retired, and the next one is at this address. */
void profile_reached(bx_address rip);

/* What was counted is forgotten, or written down. */
void profile_reset(void);
void profile_write(void);

#endif
