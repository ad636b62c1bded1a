/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What threads say of themselves. There is one map: the agent of the scheduler pins it, and the
 * programs that measure beside the scheduler use that one.
 */
#ifndef AVXSPEC_SAID_BPF_H
#define AVXSPEC_SAID_BPF_H

#include "intf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct avx_hint);
} hints SEC(".maps");

#endif /* AVXSPEC_SAID_BPF_H */
