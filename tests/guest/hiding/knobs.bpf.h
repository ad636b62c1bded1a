/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What `rig force` sets: the members of enum knob, which is there already. The
 * loader finds them by name.
 */
#ifndef KNOBS_BPF_H
#define KNOBS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_KNOBS);
	__type(key, u32);
	__type(value, u64);
} knobs SEC(".maps");

/* Not static, so that the loader finds the enum in the object's BTF. */
__noinline u64 knob(enum knob which)
{
	u32 key = which;
	u64 *value = bpf_map_lookup_elem(&knobs, &key);

	return value ? *value : 0;
}

#endif
