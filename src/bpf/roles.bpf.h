/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The set of AVX cores: which CPUs are in it, and how it changes. sizing.bpf.h decides how many
 * there are, and placement.bpf.h decides which ones.
 */
#ifndef AVXSPEC_ROLES_BPF_H
#define AVXSPEC_ROLES_BPF_H

#include "decide/placement.bpf.h"
#include "decide/sizing.bpf.h"
#include "events.bpf.h"
#include "policy.bpf.h"
#include "state.bpf.h"

private(ROLES) struct bpf_cpumask __kptr *avx_cpus;
private(ROLES) struct bpf_cpumask __kptr *scalar_cpus;

/*
 * The holder of @is_resizing changes these. @sizing is not static: what the compiler takes
 * apart is no longer what its type says, and the kernel refuses it.
 */
struct avx_sizing sizing;
u32 is_resizing;
u32 nr_avx_cpus;
/* How many caches have AVX cores, and which cache was the last to get its first one. */
u32 nr_avx_llcs;
u32 last_avx_llc;
/* Cores of which only a part is AVX cores. */
u32 nr_half_done;

/* The agent sizes this before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct avx_cpu_role);
} cpu_roles SEC(".maps");

/*
 * Returns true if other work gets all of an AVX core rather than half of another core. This
 * needs AVX cores that are whole cores.
 */
static bool lends_idle_cores(void)
{
	return cpus_per_core > 1 && lend_idle_cores && !nr_half_done;
}

static bool start_resizing(void)
{
	return !__sync_val_compare_and_swap(&is_resizing, 0, 1);
}

static void end_resizing(void)
{
	__sync_lock_test_and_set(&is_resizing, 0);
}

static void count_role(const struct avx_topology *place, s32 n)
{
	struct cpu_ctx *core = lookup_cpu(place->core);
	struct cpu_ctx *llc = lookup_cpu(place->llc);
	struct cpu_ctx *node = lookup_cpu(place->node);
	struct queue_ctx *queue = lookup_queue(avx_queue(place->llc));

	if (!core || !llc || !node || !queue)
		return;
	queue->nr_cpus += n;
	nr_half_done -= is_half_done(core->core_avx, place->core_cpus);
	core->core_avx += n;
	nr_half_done += is_half_done(core->core_avx, place->core_cpus);
	if (n > 0 && !llc->llc_avx) {
		nr_avx_llcs++;
		last_avx_llc = place->llc;
	}
	llc->llc_avx += n;
	if (n < 0 && !llc->llc_avx)
		nr_avx_llcs--;
	node->node_avx += n;
}

static void write_into_book(u32 cpu, enum avx_role role)
{
	struct avx_cpu_role *book = bpf_map_lookup_elem(&cpu_roles, &cpu);
	u64 now = scx_bpf_now();

	if (!book)
		return;
	if (role == ROLE_SCALAR)
		book->avx_ns += since(book->since, now);
	book->role = role;
	book->since = now;
	book->changes++;
}

static void change_masks(s32 cpu, enum avx_role role, struct bpf_cpumask *avx,
			 struct bpf_cpumask *scalar)
{
	bpf_cpumask_set_cpu(cpu, role == ROLE_AVX ? avx : scalar);
	bpf_cpumask_clear_cpu(cpu, role == ROLE_AVX ? scalar : avx);
}

static void set_in_cache(u32 cpu, u32 llc, enum avx_role role)
{
	const struct cpu_ctx *first = lookup_cpu(llc);
	struct bpf_cpumask *avx, *scalar;

	if (!first)
		return;
	avx = first->llc_avx_cpus;
	scalar = first->llc_scalar_cpus;
	if (avx && scalar)
		change_masks(cpu, role, avx, scalar);
}

/*
 * Counts the change of role, and records it for people to read. Global, so that the verifier
 * goes through it once and not with each iteration of a loop.
 */
__noinline int book_role(u32 cpu, u32 role)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);

	if (!place)
		return 0;
	write_into_book(cpu, role);
	count_role(place, role == ROLE_AVX ? 1 : -1);
	stat_add(role_changes, 1);
	return 0;
}

/* Returns true if the role is new. Inline, for the reason that approach() gives. */
static __always_inline bool change_role(s32 cpu, enum avx_role role, enum avx_role_cause why)
{
	struct bpf_cpumask *avx = avx_cpus, *scalar = scalar_cpus;
	struct cpu_ctx *cctx = lookup_cpu(cpu);

	if (!cctx || !avx || !scalar || cctx->role == role)
		return false;

	cctx->role = role;
	nr_avx_cpus += role == ROLE_AVX ? 1 : -1;
	change_masks(cpu, role, avx, scalar);
	set_in_cache(cpu, cctx->llc, role);
	book_role(cpu, role);
	tell_role(cpu, role, why);
	return true;
}

/* Gives @cpu a role. A task that no longer belongs there is asked to leave. */
static void set_role(s32 cpu, enum avx_role role, enum avx_role_cause why)
{
	if (change_role(cpu, role, why))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* After AVX work began somewhere, more is to be expected there for so long. */
#define IN_USE_NS (1000 * 1000 * 1000ULL)

static bool is_in_use(u64 used_at, u64 now)
{
	return used_at && since(used_at, now) < IN_USE_NS;
}

/*
 * Returns the context of the first CPU of the core of @cpu, where what concerns the core is
 * noted.
 */
static struct cpu_ctx *core_of(u32 cpu)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);

	return place ? lookup_cpu(place->core) : NULL;
}

/* Notes a use @now. Other CPUs read this, so it is not written each time. */
static __always_inline void note(u64 *used_at, u64 now)
{
	if (since(*used_at, now) > IN_USE_NS / 16)
		*used_at = now;
}

/* AVX work begins on @cpu: that is noted for its node. */
static void use_node_of(u32 cpu)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
	struct cpu_ctx *node = place ? lookup_cpu(place->node) : NULL;

	if (node)
		node->node_used_at = scx_bpf_now();
}

/*
 * Returns how well @cpu, which is @idle or not, is suited to become a CPU of @role, which it is
 * not yet. Global, so that the verifier goes through it once and not with each iteration of a
 * loop.
 */
__noinline u64 suitability(u32 cpu, u32 role, u64 placement, bool idle)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
	const struct cpu_ctx *core, *llc, *node, *cctx = lookup_cpu(cpu);
	u64 now = scx_bpf_now();
	struct avx_candidate it;

	if (!place || !place->usable || is_avx_cpu(cpu) == (role == ROLE_AVX))
		return NOT_ELIGIBLE;
	core = lookup_cpu(place->core);
	llc = lookup_cpu(place->llc);
	node = lookup_cpu(place->node);
	if (!cctx || !core || !llc || !node)
		return NOT_ELIGIBLE;

	it = (struct avx_candidate){
		.cpu = cpu,
		.core_cpus = place->core_cpus,
		.core_avx = core->core_avx,
		.llc_avx = llc->llc_avx,
		.node_avx = node->node_avx,
		.in_use = sizing.for_nodes && is_in_use(node->node_used_at, now),
		.confined = is_in_use(role == ROLE_AVX ? core->confined_at : core->kept_at, now),
		.busy = role == ROLE_AVX ? !idle : cctx->runs_avx,
	};
	return role == ROLE_AVX ? preference_to_add(&it, placement)
				: preference_to_remove(&it, placement);
}

/* Returns the CPU that is to change its role to @role next, or a negative number. */
static s32 best_to_become(enum avx_role role, u64 placement)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u64 best = NOT_ELIGIBLE;
	s32 found = -1;
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		u64 suits = suitability(cpu, role, placement, bpf_cpumask_test_cpu(cpu, idle));

		if (suits > best) {
			best = suits;
			found = cpu;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/*
 * Changes the role of one CPU if the set is to be of another size. Returns true if no further
 * change is needed or possible here. Inline, because the kernel takes no more than eight nested
 * calls.
 */
static __always_inline bool approach(u32 size, const struct avx_policy *policy)
{
	enum avx_role role = nr_avx_cpus < size ? ROLE_AVX : ROLE_SCALAR;
	s32 cpu;

	if (nr_avx_cpus == size || (role == ROLE_AVX && follows_use(policy)))
		return true;
	cpu = best_to_become(role, policy->placement);
	if (cpu >= 0)
		set_role(cpu, role, role_cause(policy, role, nr_avx_cpus, cpus_per_core));
	return cpu < 0 || nr_avx_cpus == size;
}

/*
 * There is AVX work on @cpu: it becomes an AVX core if there are fewer than @size. If it is
 * this CPU, what runs there need not leave.
 */
static void take_for_use(u32 cpu, u32 size, const struct avx_policy *policy)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);

	if (place && place->usable && nr_avx_cpus < size &&
	    change_role(cpu, ROLE_AVX, role_cause(policy, ROLE_AVX, nr_avx_cpus, 1)) &&
	    cpu != bpf_get_smp_processor_id())
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* An AVX core that runs no AVX work becomes a scalar CPU if no AVX work waits at its cache. */
static void give_back_unused(const struct avx_policy *policy)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct cpu_ctx *cctx = lookup_cpu(cpu);
		const struct queue_ctx *queue = cctx ? lookup_queue(avx_queue(cctx->llc)) : NULL;

		if (queue && !queue->nr_waiting && !cctx->runs_avx)
			set_role(cpu, ROLE_SCALAR, role_cause(policy, ROLE_SCALAR, 0, 1));
	}
}

/*
 * CPUs may have other roles than when the AVX work began that runs there: a phase may outlive
 * its AVX core, and the policy may be new. So the set follows what runs now.
 */
static void follow_use(u32 size, const struct avx_policy *policy)
{
	u32 cpu;

	give_back_unused(policy);
	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct cpu_ctx *cctx = lookup_cpu(cpu);

		if (cctx && cctx->runs_avx)
			take_for_use(cpu, size, policy);
	}
}

/* The AVX cores are those that the operator listed, as far as they are usable. */
static void follow_list(const struct avx_policy *policy)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_cpu_ids) {
		const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
		bool is_avx = place && place->usable && is_listed(policy, cpu);

		set_role(cpu, is_avx ? ROLE_AVX : ROLE_SCALAR, ROLE_FOR_LIST);
	}
	sizing.nr_avx = nr_avx_cpus;
}

static struct avx_demand demand_of(u64 elapsed_ns, const struct avx_policy *policy)
{
	return (struct avx_demand){
		.elapsed_ns = elapsed_ns,
		.nr_cpus = nr_usable_cpus,
		.granule = granule_of(policy, cpus_per_core),
	};
}

/*
 * AVX work begins on @cpu, and there may be no AVX core for it. @here is true if it may use
 * none of the AVX cores that exist: then @cpu itself has to become one. The first AVX core
 * cannot wait for the next look. Global, so that the verifier does not go through it for each
 * path that leads here.
 */
__noinline int ensure_an_avx_core(u32 cpu, bool here)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
	const struct avx_policy *policy = current_policy();
	bool is_enough = nr_avx_cpus && nr_avx_cpus >= sizing.nr_avx;
	struct avx_demand demand;
	u32 size;

	if (!policy || !place || (here && !place->usable))
		return 0;
	if (is_enough && (!here || policy->sizing != SIZING_CONTROLLER))
		return 0;
	if (!start_resizing())
		return 0;
	demand = demand_of(0, policy);
	size = here && nr_avx_cpus ? another_need(&sizing, policy, &demand)
				   : first_need(&sizing, policy, &demand);
	if (here || follows_use(policy))
		take_for_use(cpu, size, policy);
	else
		approach(size, policy);
	end_resizing();
	return 0;
}

/* Creates an empty mask in @place, where there is none yet. */
static s32 create_mask(struct bpf_cpumask __kptr **place)
{
	struct bpf_cpumask *mask = bpf_cpumask_create();

	if (!mask)
		return -ENOMEM;
	mask = bpf_kptr_xchg(place, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

/* Creates the scratch mask of @cpu, and the masks of the cache of which it is the first CPU. */
static s32 create_masks_of(u32 cpu)
{
	struct cpu_ctx *cctx = lookup_cpu(cpu);
	s32 err = cctx ? create_mask(&cctx->scratch) : -ENOENT;

	if (err || cctx->llc != cpu)
		return err;
	err = create_mask(&cctx->llc_cpus);
	if (err || !classifies())
		return err;
	err = create_mask(&cctx->llc_avx_cpus);
	return err ?: create_mask(&cctx->llc_scalar_cpus);
}

/*
 * Adds @cpu to the masks as a scalar CPU, which all CPUs are at first. A CPU that is offline is
 * left out, so that no task goes there.
 */
static void join_masks(u32 cpu)
{
	const struct avx_topology *place = bpf_map_lookup_elem(&topology, &cpu);
	struct cpu_ctx *first = place && place->online ? lookup_cpu(place->llc) : NULL;
	struct bpf_cpumask *scalar, *llc_cpus;

	if (!first)
		return;
	bpf_rcu_read_lock();
	scalar = scalar_cpus;
	llc_cpus = first->llc_cpus;
	if (llc_cpus)
		bpf_cpumask_set_cpu(cpu, llc_cpus);
	if (scalar)
		bpf_cpumask_set_cpu(cpu, scalar);
	set_in_cache(cpu, place->llc, ROLE_SCALAR);
	bpf_rcu_read_unlock();
}

static s32 init_masks(void)
{
	s32 err = 0;
	u32 cpu;

	if (classifies()) {
		err = create_mask(&avx_cpus);
		err = err ?: create_mask(&scalar_cpus);
	}
	if (err)
		return err;

	bpf_for(cpu, 0, nr_cpu_ids) {
		err = create_masks_of(cpu);
		if (err)
			return err;
	}
	bpf_for(cpu, 0, nr_cpu_ids)
		join_masks(cpu);
	return 0;
}

#endif /* AVXSPEC_ROLES_BPF_H */
