/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many CPUs are AVX cores.
 *
 * Problem. Each AVX core too many has its clock lowered for nothing, and is one
 * that scalar work avoids. With one too few, AVX work waits. The published answer
 * is to give AVX cores the share of the machine that AVX work has of the CPU
 * time, by moving averages. It was reported to choose too many, and to change
 * its mind too often, for three reasons: on a machine that is not full the share
 * of the time is larger than the share of the machine; nothing says that
 * a task waits; and every fluctuation of the average becomes a change.
 *
 * Mechanism. The controller counts demand in CPUs: AVX work that ran, and AVX
 * work that waited, over the time that passed, as an average over a window. The set
 * grows when AVX work waits longer than the policy wants. It grows to what the demand
 * says, by at least one core: by more the more often it grows in a row, and where CPUs
 * idle. It shrinks when it was larger than necessary all through the dwell time: to
 * what would have been enough at the worst moment of that time, where each core would
 * have been used to no more than a part. The gap between the two thresholds and the
 * dwell time bound the number of changes whatever the load does.
 *
 * How long to wait before cores are given back depends on how soon they are needed
 * again, which is learnt: where the set had to grow soon after it shrank, the dwell time
 * is four times as long, up to a bound, and is halved again after two minutes without
 * regrets. So a load that ends frees its cores at once, and one that comes in bursts keeps
 * them. The dwell time is also longer if less is given back, because one core of ten costs
 * others in a fifth of a second what ten cores cost them in a fiftieth.
 *
 * Where CPUs are too few for all, the set is no larger than the share of AVX work in the
 * machine, with a tolerance of three quarters of a core: share.bpf.h says how large the
 * share is. Tasks come and go, so the share is averaged over a longer time. The average
 * begins anew if the share stays far from it. Cores that other work may have are given
 * back after the shortest dwell time. CPUs that idle for a while may be had beyond any share.
 *
 * A share is seldom a number of whole cores, and what others want comes and goes sooner than
 * the set can follow. So where AVX work has more than its share just now, other work is
 * preferred on AVX cores. Otherwise a server to which others leave hardly enough CPUs would
 * wait for long beside programs that never wait.
 *
 * Siblings that both run get little more than half of what each would get alone. So where CPUs
 * idle, AVX work is given so many that it has cores to itself to the degree to which the whole
 * machine could: all of it while there is a core for each task, and less the more CPUs are busy.
 * AVX work keeps what it has as long as it uses the part of it that the policy wants.
 *
 * The first AVX core is not sized but given to the task that runs AVX work. Code that learns of
 * such a task does not wait for the next look: see first_need(). On a machine of several nodes,
 * each node where AVX work begins has an AVX core of its own while as many CPUs idle anyway: to
 * go to another node costs far more than an AVX core that is not full. And a task that may use
 * none of the AVX cores, as in a container with CPUs of its own, gets one among the CPUs that it
 * may use, and keeps that as long as AVX work begins there.
 *
 * Limits. The demand of a task that stays an AVX task for too long is counted
 * in full: it is for remigrate.bpf.h to mend that.
 */
#ifndef AVXSPEC_SIZING_BPF_H
#define AVXSPEC_SIZING_BPF_H

#include "arithmetic.bpf.h"
#include "share.bpf.h"

/* What happened on all CPUs since the last look. */
struct avx_demand {
	u64 elapsed_ns;		  /* time on the wall */
	u64 total_ns;		  /* time that tasks ran, summed over CPUs */
	u64 avx_ns;		  /* time that AVX tasks ran, as part of total_ns */
	u64 wait_ns;		  /* time that AVX tasks waited in queues, summed over tasks */
	u64 nr_waits;		  /* AVX tasks that began to run */
	struct avx_waiting avx;	  /* AVX tasks that wait now */
	struct avx_waiting other; /* other tasks that wait now */
	u32 nr_cpus;		  /* online, and not isolated */
	u32 granule;		  /* CPUs of a core: siblings share a clock */
	u32 nr_nodes;		  /* nodes where AVX work began lately */
	u32 nr_confined;	  /* cores that are kept for AVX tasks that may use few others */
};

/* What sizing remembers from one look to the next. */
struct avx_sizing {
	u64 now;       /* the sum of all times that elapsed */
	u64 grown_at;  /* when the set grew the last time */
	u64 needed_at; /* when the set had no core to spare the last time, or lost one */
	u64 peak;      /* the largest demand since the look after needed_at, in CPU_BUSY */
	u64 spare_ns;  /* the time of CPUs that were more than enough since needed_at */
	u64 shrunk_at; /* when the set lost a core the last time, or 0 if that is no regret */
	u64 patience;  /* how long it takes to lose all cores */
	u64 learnt_at; /* when patience was decided the last time */
	u64 total;     /* moving average of what ran, in CPU_BUSY */
	u64 avx;       /* moving average of AVX work that ran, in CPU_BUSY */
	u64 demand;    /* moving average of AVX work that ran or waited, in CPU_BUSY */
	u64 fair;      /* moving average of what AVX work may have where others want CPUs */
	u64 recent;    /* what AVX work may have, as fair is, but over recent time only */
	u64 fair_for;  /* for how long fair has been averaged */
	u64 apart_for; /* for how long fair and recent are far apart, weighted by how far */
	u64 weight;    /* mean weight of the AVX tasks that waited the last time, or 0 */
	u32 nr_avx;    /* CPUs that are AVX cores */
	u32 for_nodes; /* AVX cores that have to be there for each node to have some, or 0 */
	u32 by_idle;   /* is true if the set grew the last time because CPUs idled */
	u32 has_more;  /* is true if AVX work has more than its share now */
};

/* Returns how many CPUs were busy if tasks ran for @ns in @elapsed_ns, in CPU_BUSY. */
static __always_inline u64 cpus_busy(u64 ns, u64 elapsed_ns)
{
	return ns / 1000 * CPU_BUSY / at_least_one(elapsed_ns / 1000);
}

static __always_inline u32 round_up_to_cores(u64 cpus, const struct avx_demand *demand)
{
	u64 granule = at_least_one(demand->granule);

	return at_most((cpus + granule - 1) / granule * granule, demand->nr_cpus);
}

/* Returns @parts divided by @whole, rounded up. */
static __always_inline u64 share_of(u64 parts, u64 whole)
{
	return (parts + at_least_one(whole) - 1) / at_least_one(whole);
}

/* Returns the number of CPUs of which @demand would use no more than @fill (1/1024). */
static __always_inline u64 cpus_for(u64 demand, u64 fill)
{
	return share_of(demand, CPU_BUSY / AVX_WHOLE * fill);
}

/* This is the published method, as it stands. */
static __always_inline u32 size_by_share(struct avx_sizing *sizing, const struct avx_policy *policy,
					 const struct avx_demand *demand)
{
	u64 total = cpus_busy(demand->total_ns, demand->elapsed_ns);
	u64 avx = cpus_busy(demand->avx_ns, demand->elapsed_ns);

	sizing->total = moving_average(sizing->total, total, policy->share_alpha);
	sizing->avx = moving_average(sizing->avx, avx, policy->share_alpha);
	return round_up_to_cores(share_of(sizing->avx * demand->nr_cpus, sizing->total), demand);
}

/*
 * Returns the weight of the newest value in an average over @average_ns, or over as many looks as
 * the unit can tell (1/1024).
 */
static __always_inline u64 weight_of_new(const struct avx_demand *demand, u64 average_ns)
{
	u64 elapsed_ns = at_least_one(demand->elapsed_ns);

	return at_least_one(AVX_WHOLE * elapsed_ns / (elapsed_ns + average_ns));
}

/*
 * These are windows, over one of which demand is averaged. What AVX work may have is averaged
 * over the first number, and its recent value over the second. The two are apart by a half for the
 * third if that is no busy moment of others; if they are apart by less it takes longer.
 */
#define SHARE_WINDOWS 200
#define RECENT_WINDOWS 8
#define APART_WINDOWS 10

/*
 * Averages what AVX work may have, since it began: the value is noisy, and small changes of it
 * are not worth a change of the set. The second half of that time is enough, because in the first
 * half tasks that later stay AVX tasks may still come and go. If the value stays far from the
 * average, because a task came or went, what was before does not count.
 */
static __always_inline void average_share(struct avx_sizing *sizing,
					  const struct avx_policy *policy,
					  const struct avx_demand *demand, u64 fair)
{
	u64 recent_ns = RECENT_WINDOWS * policy->window_ns;
	u64 lately_ns = at_most(sizing->fair_for, recent_ns);
	u64 half_ns = at_most(sizing->fair_for / 2, SHARE_WINDOWS * policy->window_ns);
	u64 average_ns = at_least(lately_ns, half_ns);
	u64 distance;

	sizing->recent = moving_average(sizing->recent, fair, weight_of_new(demand, lately_ns));
	sizing->fair = moving_average(sizing->fair, fair, weight_of_new(demand, average_ns));
	sizing->fair_for = sizing->nr_avx ? sizing->fair_for + demand->elapsed_ns : 0;
	distance = difference(sizing->recent, sizing->fair) * AVX_WHOLE;
	distance = at_most(distance / at_least_one(sizing->fair), AVX_WHOLE / 2);
	if (distance > AVX_WHOLE / 4)
		sizing->apart_for += 2 * demand->elapsed_ns * distance / AVX_WHOLE;
	else
		sizing->apart_for = 0;
	if (sizing->apart_for > APART_WINDOWS * policy->window_ns) {
		sizing->fair = sizing->recent;
		sizing->fair_for = at_most(sizing->fair_for, recent_ns);
	}
}

/* AVX work may have this beyond its share: how many others wait is chance, to some degree. */
#define SHARE_SLACK (CPU_BUSY / 2)

/* Averages what runs, and what AVX work may have. */
__verified_once int follow_share(struct avx_sizing *sizing __arg_nonnull,
				 const struct avx_policy *policy __arg_nonnull,
				 const struct avx_demand *demand __arg_nonnull)
{
	u64 total = cpus_busy(demand->total_ns, demand->elapsed_ns);
	u64 weight = weight_of_new(demand, RECENT_WINDOWS * policy->window_ns);
	struct avx_claim avx = { demand->avx, cpus_busy(demand->avx_ns, demand->elapsed_ns) };
	struct avx_claim other = { demand->other, total - at_most(avx.running, total) };
	u64 known = sizing->weight ? sizing->weight : AVX_WEIGHT_NORMAL;
	u64 fair = fair_cpus(&avx, &other, known, demand->nr_cpus);

	if (!sizing->total)
		sizing->total = (u64)demand->nr_cpus * CPU_BUSY;
	sizing->total = at_least_one(moving_average(sizing->total, total, weight));
	average_share(sizing, policy, demand, fair);
	sizing->has_more = sizing->avx > fair + SHARE_SLACK;
	if (demand->avx.nr)
		sizing->weight = mean_weight(&demand->avx, known);
	return 0;
}

/* Returns how many cores' worth of CPUs idled lately. */
static __always_inline u64 idle_cores(const struct avx_sizing *sizing,
				      const struct avx_demand *demand)
{
	return since(sizing->total, (u64)demand->nr_cpus * CPU_BUSY) /
	       (at_least_one(demand->granule) * CPU_BUSY);
}

/* Returns the CPUs of the nearest number of whole cores, at least one; the last may be smaller. */
static __always_inline u64 nearest_cores(u64 cpus_busy, const struct avx_demand *demand)
{
	u64 core = at_least_one(demand->granule), halves = cpus_busy / (CPU_BUSY / 2);

	if (halves + 1 >= 2ULL * demand->nr_cpus)
		return demand->nr_cpus;
	return at_least((halves + core) / (2 * core), 1) * core;
}

/*
 * Returns the most CPUs that AVX work may have. Its share is less where more of it runs, and so
 * less of it waits, and the share fluctuates. So the set has to be wrong by three quarters of a
 * core, or by a bit less, because an average never comes to quite all CPUs. CPUs that idled lately
 * may be had as well.
 */
__verified_once u32 most_cpus(const struct avx_sizing *sizing __arg_nonnull,
			      const struct avx_demand *demand __arg_nonnull)
{
	u64 core = at_least_one(demand->granule), slack = core * CPU_BUSY / 4 - CPU_BUSY / 64;
	u64 least = nearest_cores(since(slack, sizing->fair), demand);
	u64 most = nearest_cores(sizing->fair + slack, demand);
	u64 idle = idle_cores(sizing, demand);

	if (idle)
		least = at_least(least, sizing->nr_avx + idle * core);
	return at_most(at_least(at_most(sizing->nr_avx, most), least), demand->nr_cpus);
}

/*
 * Returns true if AVX work waited for longer than it should, there was enough of it, and it may
 * have more CPUs.
 */
static __always_inline bool is_too_small(const struct avx_sizing *sizing,
					 const struct avx_policy *policy,
					 const struct avx_demand *demand, u32 most)
{
	return demand->wait_ns > policy->wait_target_ns * demand->nr_waits &&
	       cpus_for(sizing->demand, policy->grow_fill) > sizing->nr_avx &&
	       most > sizing->nr_avx;
}

/* Returns the CPUs of a core for each node where AVX work began, if as many CPUs idle; or 0. */
static __always_inline u32 one_for_each_node(const struct avx_sizing *sizing,
					     const struct avx_demand *demand)
{
	u64 idle = since(sizing->total, (u64)demand->nr_cpus * CPU_BUSY);
	u64 cpus = (u64)demand->nr_nodes * at_least_one(demand->granule);

	if (demand->nr_nodes < 2 || idle < cpus * CPU_BUSY)
		return 0;
	return round_up_to_cores(cpus, demand);
}

/*
 * Returns how many CPUs let @avx, in CPU_BUSY, have cores to itself to the degree to which the
 * whole machine could, as far as CPUs idle. Returns 0 if there is no AVX work, if less than a
 * core's worth of CPUs idles, or if cores have no siblings.
 */
__verified_once u32 cpus_to_be_apart(u64 avx, const struct avx_sizing *sizing __arg_nonnull,
				     const struct avx_demand *demand __arg_nonnull)
{
	u64 core = at_least_one(demand->granule), whole = (u64)demand->nr_cpus * CPU_BUSY;
	u64 idle = idle_cores(sizing, demand);
	u64 stretch = whole * AVX_WHOLE / at_least_one(sizing->total);
	u64 wanted = avx * at_most(stretch, core * AVX_WHOLE) / AVX_WHOLE;

	if (core == 1 || !idle || !avx)
		return 0;
	return at_most(nearest_cores(wanted, demand), sizing->nr_avx + idle * core);
}

/* Returns the CPUs of the cores of which each is the first that some AVX tasks may use. */
static __always_inline u32 for_confined(const struct avx_demand *demand)
{
	return round_up_to_cores((u64)demand->nr_confined * at_least_one(demand->granule), demand);
}

/* Returns what would be enough if demand were always @peak, and @most may be had. */
static __always_inline u32 enough_for(u64 peak, const struct avx_sizing *sizing,
				      const struct avx_policy *policy,
				      const struct avx_demand *demand, u32 most)
{
	u32 enough = round_up_to_cores(cpus_for(peak, policy->shrink_fill), demand);

	enough = at_least(enough, cpus_to_be_apart(peak, sizing, demand));
	if (enough)
		enough = at_least(at_least(enough, sizing->for_nodes), for_confined(demand));
	return at_most(enough, most);
}

/*
 * CPUs that idle beside AVX work that waits may as well be AVX cores. A task that waits then
 * counts at once, and not when its wait ends. But a quarter of the idle CPUs at a time is enough,
 * because a task that begins to run leaves another CPU to another task.
 */
static __always_inline u64 grown_by_idle(const struct avx_sizing *sizing,
					 const struct avx_demand *demand)
{
	u64 idle = since(share_of(demand->total_ns, demand->elapsed_ns), demand->nr_cpus);
	u64 wanted = share_of(demand->avx_ns, demand->elapsed_ns) + demand->avx.nr;

	return at_most(wanted, sizing->nr_avx + idle / 4);
}

/*
 * In a closed system all tasks wait while there are too few cores, and the
 * demand seems to be that of all tasks. So the set grows by a quarter at first,
 * and doubles if that was not enough. After a step that idle CPUs made larger,
 * the next one is a first one again.
 */
static __always_inline u32 one_step_larger(struct avx_sizing *sizing,
					   const struct avx_policy *policy,
					   const struct avx_demand *demand, u32 most)
{
	bool is_again = sizing->grown_at && !sizing->by_idle &&
			sizing->now - sizing->grown_at <= 2 * policy->grow_dwell_ns;
	u64 step = is_again ? sizing->nr_avx : at_least_one(sizing->nr_avx / 4);
	u64 needed = cpus_for(sizing->demand, policy->grow_fill);
	u64 with_idle = grown_by_idle(sizing, demand);

	needed = at_most(needed, sizing->nr_avx + step);
	sizing->by_idle = needed < with_idle;
	needed = round_up_to_cores(at_least(needed, with_idle), demand);
	return at_most(needed, most);
}

/*
 * The set is to have @larger CPUs. CPUs that were taken because they idled do not idle any more:
 * the averages would follow too late, and the CPUs would be given back meanwhile.
 */
static __always_inline u32 grow_to(struct avx_sizing *sizing, u32 larger)
{
	sizing->grown_at = sizing->now;
	sizing->fair = at_least(sizing->fair, (u64)larger * CPU_BUSY);
	sizing->recent = at_least(sizing->recent, (u64)larger * CPU_BUSY);
	return larger;
}

/*
 * Cores that are needed within this time after they were given back were given back too soon:
 * others may use kept cores as well while these idle, and a task that waits until they are there
 * again pays each time.
 */
#define REGRET_NS (10 * 1000 * 1000 * 1000ULL)
#define FORGET_NS (12 * REGRET_NS)

static __always_inline void regret(struct avx_sizing *sizing)
{
	if (!sizing->shrunk_at || sizing->now - sizing->shrunk_at > REGRET_NS)
		return;
	sizing->patience *= 4;
	sizing->learnt_at = sizing->now;
	sizing->shrunk_at = 0;
}

static __always_inline void forget_regrets(struct avx_sizing *sizing,
					   const struct avx_policy *policy)
{
	if (sizing->now - sizing->learnt_at > FORGET_NS) {
		sizing->patience /= 2;
		sizing->learnt_at = sizing->now;
	}
	sizing->patience = at_least(at_most(sizing->patience, policy->shrink_dwell_max_ns),
				    policy->shrink_dwell_ns);
}

/*
 * Returns true if cores have been more than enough for so long that they are given back. That
 * takes the patience if the whole set was, and longer the smaller the part is that was, because it
 * is worth less, and sooner needed again. Cores that others may have go after the shortest dwell
 * time.
 */
static __always_inline bool is_too_large(const struct avx_sizing *sizing,
					 const struct avx_policy *policy, u32 most)
{
	u64 most_ns = at_least(policy->shrink_dwell_max_ns, policy->shrink_dwell_ns);
	u64 unneeded_ns = sizing->now - sizing->needed_at;

	if (sizing->nr_avx > most)
		return unneeded_ns >= policy->shrink_dwell_ns;
	return sizing->spare_ns >= sizing->nr_avx * sizing->patience || unneeded_ns >= most_ns;
}

static __always_inline void begin_dwell(struct avx_sizing *sizing)
{
	sizing->needed_at = sizing->now;
	sizing->spare_ns = 0;
}

/*
 * Returns true if no task did AVX work, or waits to do some: the time of a wait counts only when
 * the wait ends.
 */
static __always_inline bool is_idle(const struct avx_demand *demand)
{
	return !demand->avx_ns && !demand->nr_waits && !demand->wait_ns && !demand->avx.nr;
}

/* A task needs an AVX core now, perhaps between two looks. Returns how many there are to be. */
static __always_inline u32 first_need(struct avx_sizing *sizing, const struct avx_policy *policy,
				      const struct avx_demand *demand)
{
	bool is_fixed = policy->sizing == SIZING_STATIC || policy->sizing == SIZING_LIST;

	if (!sizing->nr_avx && !is_fixed) {
		regret(sizing);
		sizing->nr_avx = round_up_to_cores(1, demand);
		begin_dwell(sizing);
	}
	return sizing->nr_avx;
}

/* A task needs an AVX core, and may use none that is there. Returns how many there are to be. */
static __always_inline u32 another_need(struct avx_sizing *sizing, const struct avx_policy *policy,
					const struct avx_demand *demand)
{
	if (policy->sizing == SIZING_CONTROLLER && policy->avx_cores_for != SERVED_NOBODY) {
		regret(sizing);
		sizing->nr_avx = round_up_to_cores(sizing->nr_avx + 1, demand);
		begin_dwell(sizing);
	}
	return sizing->nr_avx;
}

static __always_inline u32 size_by_demand(struct avx_sizing *sizing,
					  const struct avx_policy *policy,
					  const struct avx_demand *demand)
{
	u64 sample = cpus_busy(demand->avx_ns + demand->wait_ns, demand->elapsed_ns);
	u64 weight = weight_of_new(demand, policy->window_ns);
	u32 nr_avx = sizing->nr_avx, apart, most, enough;
	bool waits;

	sizing->demand = moving_average(sizing->demand, sample, weight);
	sizing->avx =
		moving_average(sizing->avx, cpus_busy(demand->avx_ns, demand->elapsed_ns), weight);
	follow_share(sizing, policy, demand);
	forget_regrets(sizing, policy);
	most = at_least(most_cpus(sizing, demand), for_confined(demand));
	sizing->for_nodes = one_for_each_node(sizing, demand);
	apart = cpus_to_be_apart(sizing->avx, sizing, demand);
	/* The least work counts as some, so that the last core goes only when there is none. */
	sample = is_idle(demand) ? 0 : at_least_one(sample);
	enough = enough_for(sample, sizing, policy, demand, most);
	if (enough >= nr_avx)
		begin_dwell(sizing);
	/* Cores that are first spare in this look may have been in use for a part of it. */
	sizing->peak = sizing->spare_ns ? at_least(sizing->peak, sample) : 0;
	sizing->spare_ns += since(enough, nr_avx) * demand->elapsed_ns;

	if (!nr_avx && demand->avx_ns)
		return first_need(sizing, policy, demand);
	if (sample && nr_avx < sizing->for_nodes) {
		regret(sizing);
		return sizing->for_nodes;
	}
	waits = is_too_small(sizing, policy, demand, most);
	if (waits || (sample && nr_avx < apart)) {
		if (sizing->grown_at && sizing->now - sizing->grown_at < policy->grow_dwell_ns)
			return nr_avx;
		regret(sizing);
		if (waits)
			return grow_to(sizing, one_step_larger(sizing, policy, demand, most));
		sizing->by_idle = true;
		return grow_to(sizing, apart);
	}
	if (enough >= nr_avx || !is_too_large(sizing, policy, most))
		return nr_avx;
	sample = at_least(sample, sizing->peak);
	enough = enough_for(sample, sizing, policy, demand, most);
	sizing->demand = at_most(sizing->demand, sample);
	sizing->avx = at_most(sizing->avx, sample);
	/* Cores that others get are no regret. */
	sizing->shrunk_at = nr_avx > most ? 0 : sizing->now;
	begin_dwell(sizing);
	return at_most(enough, nr_avx);
}

/* Takes a regular look. Returns how many CPUs are to be AVX cores from now on. */
__verified_once u32 size_avx_set(struct avx_sizing *sizing __arg_nonnull,
				 const struct avx_policy *policy __arg_nonnull,
				 const struct avx_demand *demand __arg_nonnull)
{
	sizing->now += demand->elapsed_ns;
	if (policy->sizing != SIZING_CONTROLLER)
		sizing->has_more = false;
	/* The number that was needed is kept, and known when tasks are served again. */
	if (policy->avx_cores_for == SERVED_NOBODY)
		return 0;
	switch (policy->sizing) {
	case SIZING_STATIC:
		sizing->nr_avx = at_most(policy->avx_cpus, demand->nr_cpus);
		break;
	case SIZING_LIST:
		break;
	case SIZING_SHARE:
		sizing->nr_avx = size_by_share(sizing, policy, demand);
		break;
	default:
		sizing->nr_avx = size_by_demand(sizing, policy, demand);
	}
	return sizing->nr_avx;
}

/* Returns why the next CPU gets @role, while @nr_avx CPUs are AVX cores. */
static __always_inline enum avx_role_cause role_cause(const struct avx_policy *policy,
						      enum avx_role role, u32 nr_avx, u32 granule)
{
	if (policy->sizing == SIZING_LIST)
		return ROLE_FOR_LIST;
	if (policy->sizing == SIZING_STATIC)
		return ROLE_FOR_NUMBER;
	if (role == ROLE_SCALAR)
		return ROLE_SHRINKING;
	/* All CPUs of the first core are for the first task that needs it. */
	return nr_avx < at_least_one(granule) ? ROLE_FIRST_NEED : ROLE_GROWTH;
}

#endif /* AVXSPEC_SIZING_BPF_H */
