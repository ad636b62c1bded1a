/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ORACLE_CHECKPOINT_H
#define ORACLE_CHECKPOINT_H

/* Stands here for good, and returns in every copy that is asked for. */
void checkpoint_stand(void);

#endif
