// SPDX-License-Identifier: GPL-2.0-only
/* Masks of CPUs, those of the scheduler among them. */
#include <stdlib.h>

#include "internal.h"

static u32 distribute_from;

static u32 nr_words(void)
{
	return (sim_nr_cpus + 63) / 64;
}

/* Returns the first CPU from @from on that is in both masks, or sim_nr_cpus or more. */
u32 sim_next_and(u32 from, const struct cpumask *a, const struct cpumask *b)
{
	for (u32 word = from / 64; word < nr_words(); word++) {
		u64 both = a->bits[word] & b->bits[word];

		if (word == from / 64)
			both &= ~0ULL << from % 64;
		if (both)
			return word * 64 + __builtin_ctzll(both);
	}
	return SIM_CPUS_MAX;
}

u32 sim_any_and_distribute(const struct cpumask *a, const struct cpumask *b)
{
	u32 cpu = sim_next_and(distribute_from + 1, a, b);

	if (cpu >= sim_nr_cpus)
		cpu = sim_next_and(0, a, b);
	if (cpu < sim_nr_cpus)
		distribute_from = cpu;
	return cpu;
}

void sim_masks_reset(void)
{
	distribute_from = 0;
}

/* The scheduler keeps its masks for as long as it runs. */
struct sim_mask {
	struct bpf_cpumask mask;
	struct sim_mask *next;
};
static struct sim_mask *masks;

struct bpf_cpumask *bpf_cpumask_create(void)
{
	struct sim_mask *it = calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	it->next = masks;
	masks = it;
	return &it->mask;
}

void bpf_cpumask_release(struct bpf_cpumask *mask)
{
}

void sim_masks_forget(void)
{
	while (masks) {
		struct sim_mask *it = masks;

		masks = it->next;
		free(it);
	}
}

void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	assign_cpu(cpu, &mask->mask, true);
}

void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask)
{
	assign_cpu(cpu, &mask->mask, false);
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return test_cpu(cpu, mask);
}

u32 bpf_cpumask_first(const struct cpumask *mask)
{
	return sim_next_and(0, mask, mask);
}

bool bpf_cpumask_empty(const struct cpumask *mask)
{
	return bpf_cpumask_first(mask) >= sim_nr_cpus;
}

bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	return sim_next_and(0, a, b) < sim_nr_cpus;
}

bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a, const struct cpumask *b)
{
	u64 any = 0;

	for (u32 word = 0; word < nr_words(); word++) {
		to->mask.bits[word] = a->bits[word] & b->bits[word];
		any |= to->mask.bits[word];
	}
	return any;
}

u32 bpf_cpumask_weight(const struct cpumask *mask)
{
	u32 weight = 0;

	for (u32 word = 0; word < nr_words(); word++)
		weight += __builtin_popcountll(mask->bits[word]);
	return weight;
}

u32 bpf_cpumask_any_distribute(const struct cpumask *mask)
{
	return sim_any_and_distribute(mask, mask);
}
