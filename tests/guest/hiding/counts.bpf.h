/* SPDX-License-Identifier: GPL-2.0-only */
/* What `rig force` reads: the members of enum count, which is there already. */
#ifndef COUNTS_BPF_H
#define COUNTS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NR_COUNTS);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

/* Not static, so that the loader finds the enum in the object's BTF. */
__noinline int count(enum count which)
{
	u32 key = which;
	u64 *value = bpf_map_lookup_elem(&counts, &key);

	if (value)
		*value += 1;
	return 0;
}

#endif
