/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy in force.
 *
 * Problem. A policy changes while the scheduler runs, and no decision may see a part of
 * the old one and a part of the new one.
 *
 * Mechanism. There are several slots. The agent writes a policy into a slot where no
 * program looks, and then makes that slot the one to look at. A decision looks once and
 * passes on what it found. The agent writes to a slot again when all programs that may
 * have found something there have ended. The kernel lets it wait for that. So a program
 * that can sleep may look only within an RCU critical section.
 */
#ifndef AVXSPEC_POLICY_BPF_H
#define AVXSPEC_POLICY_BPF_H

#include "state.bpf.h"

/* Set by the agent before loading. It is true if each reader checks what it read. */
const volatile bool checks_policies = false;

/* Only the agent writes these. */
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

/* Called once for each decision. There always is a policy; NULL is for the verifier only. */
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
