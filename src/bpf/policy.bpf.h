/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy in force.
 *
 * Problem. A policy changes while the scheduler runs, and no decision may see a
 * part of the old one and a part of the new one.
 *
 * Mechanism. There is room for some. The agent writes a policy where nobody looks,
 * and then says that this is where to look. Whoever decides looks once and hands on
 * what was found. The agent writes to a slot again when all who may have found
 * something there have ended, for which the kernel lets it wait: so nobody may look
 * who can sleep meanwhile, but in a critical section of RCU.
 */
#ifndef AVXSPEC_POLICY_BPF_H
#define AVXSPEC_POLICY_BPF_H

#include "state.bpf.h"

/* Set by the agent before loading: whether each reader makes sure of what it read. */
const volatile bool checks_policies = false;

/* Written by the agent alone. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, AVX_POLICY_SLOTS);
	__type(key, u32);
	__type(value, struct avx_policy_in_force);
} policies SEC(".maps");
u32 policy_slot;

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
	u32 slot = policy_slot;
	const struct avx_policy_in_force *found = bpf_map_lookup_elem(&policies, &slot);

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
