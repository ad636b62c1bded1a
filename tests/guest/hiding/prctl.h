/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PRCTL_H
#define PRCTL_H

/* prctl(2) with this operation has the scheduler of the tests hide its second argument. */
#define PRCTL_HIDE 0x48494445L

#endif
