/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy in force.
 *
 * Problem. A policy changes while the scheduler runs, and no decision may see a
 * part of the old one and a part of the new one.
 *
 * Mechanism. Each policy lives in a map of its own, which nobody writes any more
 * once it is in force. What changes is which of these maps is looked up. Whoever
 * decides looks once and hands on what was found; the kernel keeps the map for as
 * long as a program that found it runs.
 */
#ifndef AVXSPEC_POLICY_BPF_H
#define AVXSPEC_POLICY_BPF_H

#include "state.bpf.h"

/* Set by the agent before loading: whether each reader makes sure of what it read. */
const volatile bool checks_policies = false;

struct policy_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct avx_policy_in_force);
} first_policy SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
	__array(values, struct policy_map);
} policies SEC(".maps") = {
	.values = { &first_policy },
};

static u64 checksum_of(const struct avx_policy_in_force *found)
{
	const u64 *words = (const u64 *)&found->policy;
	u64 sum = found->generation;

	for (u32 n = 0; n < sizeof(found->policy) / sizeof(*words); n++)
		sum = sum * AVX_CHECKSUM_FACTOR + words[n];
	return sum;
}

/* To be asked once for each decision. There is always one, but for the verifier. */
static const struct avx_policy *current_policy(void)
{
	const struct avx_policy_in_force *found;
	u32 zero = 0;
	struct policy_map *map = (void *)bpf_map_lookup_elem(&policies, &zero);

	if (!map)
		return NULL;
	found = bpf_map_lookup_elem(map, &zero);
	if (!found)
		return NULL;
	if (checks_policies) {
		stat_add(policies_read, 1);
		if (checksum_of(found) != found->checksum)
			stat_add(policies_torn, 1);
	}
	return &found->policy;
}

static u64 generation_of(const struct avx_policy *policy)
{
	return container_of(policy, struct avx_policy_in_force, policy)->generation;
}

#endif /* AVXSPEC_POLICY_BPF_H */
