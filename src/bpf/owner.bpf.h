/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The owner of a task's books, for the scheduler and for the programs that measure beside it.
 */
#ifndef AVXSPEC_OWNER_BPF_H
#define AVXSPEC_OWNER_BPF_H

#include "intf.h"

static struct avx_owner owner_of(struct task_struct *p)
{
	struct avx_owner owner = { .cgroup = p->cgroups->dfl_cgrp->kn->id };

	bpf_probe_read_kernel(&owner.program, sizeof(owner.program), p->group_leader->comm);
	return owner;
}

#endif /* AVXSPEC_OWNER_BPF_H */
