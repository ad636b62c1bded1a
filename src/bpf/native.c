/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The decisions as ordinary functions. The headers hold static inline
 * functions for the BPF compiler; this file gives them addresses, so that
 * native code calls the very lines that run in the kernel.
 */
#include "decide/books.bpf.h"
#include "decide/class.bpf.h"
#include "decide/compensation.bpf.h"
#include "decide/decode.bpf.h"
#include "decide/elf.bpf.h"
#include "decide/fairness.bpf.h"
#include "decide/placement.bpf.h"
#include "decide/queues.bpf.h"
#include "decide/remigrate.bpf.h"
#include "decide/sizing.bpf.h"

bool avx_vtime_before(u64 a, u64 b)
{
	return vtime_before(a, b);
}

u64 avx_vtime_cost(u64 ran_ns, u64 weight)
{
	return vtime_cost(ran_ns, weight);
}

u64 avx_slice_for(const struct avx_load *load)
{
	return slice_for(load);
}

u64 avx_vtime_bound(u64 vtime, u64 clock, u64 credit_ns)
{
	return vtime_bound(vtime, clock, credit_ns);
}

u64 avx_vtime_rebase(u64 vtime, u64 from, u64 to)
{
	return vtime_rebase(vtime, from, to);
}

u64 avx_clock_advance(u64 clock, u64 started_vtime, bool overdue)
{
	return clock_advance(clock, started_vtime, overdue);
}

u64 avx_lasting_weight(u64 weight, bool just_woken)
{
	return lasting_weight(weight, just_woken);
}

struct avx_due avx_due_of(u64 vtime, u64 clock, u64 now, u64 weight, const struct avx_load *load)
{
	return due_of(vtime, clock, now, weight, load);
}

struct avx_due avx_due_since(struct avx_due due, u64 since)
{
	return due_since(due, since);
}

u64 avx_queue_of(u32 cpu, u32 kind)
{
	return queue_of(cpu, kind);
}

u32 avx_choose_next(s64 prev, s64 shared, s64 avx, s64 private)
{
	return choose_next(prev, shared, avx, private);
}

u32 avx_only_choice(u64 shared, u64 avx, u64 private)
{
	return only_choice(shared, avx, private);
}

/* A due time with a tag, and what it says of both. */
struct avx_tagged {
	u64 at;
	u64 id;
	bool with_weight;
	bool is_counted;
};

struct avx_tagged avx_tagged(u64 due_at, u64 id, bool with_weight)
{
	u64 at = tagged(due_at, tag_of(id, with_weight)), tag = at & TAG_MASK;

	return (struct avx_tagged){
		.at = at,
		.id = queue_of_tag(tag),
		.with_weight = tag_has_weight(tag),
		.is_counted = tag,
	};
}

s64 avx_yielding(s64 due_in, u64 penalty_ns)
{
	return yielding(due_in, penalty_ns);
}

s64 avx_stranded(s64 due_in, u64 bound_ns)
{
	return stranded(due_in, bound_ns);
}

struct avx_insn avx_decode_insn(const u8 code[INSN_BYTES], u32 readable)
{
	return decode_insn(code, readable);
}

u32 avx_insn_length(const u8 code[INSN_BYTES])
{
	return insn_length(code);
}

u32 avx_licence_of(const struct avx_insn *insn)
{
	return licence_of(insn);
}

bool avx_is_avx512(const struct avx_insn *insn)
{
	return is_avx512(insn);
}

u32 avx_size_avx_set(struct avx_sizing *sizing, const struct avx_policy *policy,
		     const struct avx_demand *demand)
{
	return size_avx_set(sizing, policy, demand);
}

u64 avx_fair_cpus(const struct avx_claim *avx, const struct avx_claim *other, u64 avx_weight,
		  u64 nr_cpus)
{
	return fair_cpus(avx, other, avx_weight, nr_cpus);
}

u32 avx_first_need(struct avx_sizing *sizing, const struct avx_policy *policy,
		   const struct avx_demand *demand)
{
	return first_need(sizing, policy, demand);
}

bool avx_is_listed(const struct avx_policy *policy, u32 cpu)
{
	return is_listed(policy, cpu);
}

u32 avx_role_cause(const struct avx_policy *policy, u32 role, u32 nr_avx, u32 granule)
{
	return role_cause(policy, role, nr_avx, granule);
}

u64 avx_preference_to_add(const struct avx_candidate *it, u64 placement)
{
	return preference_to_add(it, placement);
}

u64 avx_preference_to_remove(const struct avx_candidate *it, u64 placement)
{
	return preference_to_remove(it, placement);
}

void avx_phase_begins(struct avx_phase *phase, const struct avx_policy *policy, u64 ran)
{
	phase_begins(phase, policy, ran);
}

void avx_phase_goes_on(struct avx_phase *phase, u64 ran)
{
	phase_goes_on(phase, ran);
}

bool avx_phase_is_over(const struct avx_phase *phase, const struct avx_policy *policy, u32 boundary,
		       u64 ran)
{
	return phase_is_over(phase, policy, boundary, ran);
}

void avx_phase_ends(struct avx_phase *phase, u64 ran)
{
	phase_ends(phase, ran);
}

u32 avx_verdict_of(s32 trapnr, const u8 code[INSN_BYTES], u32 readable)
{
	return verdict_of(trapnr, code, readable);
}

bool avx_is_to_be_hidden(const struct avx_process *process, const struct avx_habit *habit,
			 const struct avx_moment *at)
{
	return is_to_be_hidden(process, habit, at);
}

void avx_wide_vectors_seen(struct avx_process *process, struct avx_habit *habit, u64 ran)
{
	wide_vectors_seen(process, habit, ran);
}

void avx_learn_from_fault(struct avx_process *process, struct avx_habit *habit,
			  const struct avx_policy *policy, u32 verdict, const struct avx_moment *at)
{
	learn_from_fault(process, habit, policy, verdict, at);
}

bool avx_is_hint_of_avx(const struct avx_policy *policy, u64 hint)
{
	return is_hint_of_avx(policy, hint);
}

bool avx_was_seen_at(const struct avx_habit *habit, u64 ran)
{
	return was_seen_at(habit, ran);
}

bool avx_is_kept(const struct avx_habit *habit, const struct avx_policy *policy, u64 ran)
{
	return is_kept(habit, policy, ran);
}

bool avx_becomes_scalar(struct avx_habit *habit)
{
	return becomes_scalar(habit);
}

bool avx_is_never_hidden_from(const struct avx_policy *policy, const struct avx_name *program)
{
	return is_never_hidden_from(policy, program);
}

bool avx_needs_x86_64_v4(const u32 note[NOTE_WORDS], u32 length)
{
	return needs_x86_64_v4(note, length);
}

u32 avx_wait_bucket(u64 wait_ns)
{
	return wait_bucket(wait_ns);
}

u64 avx_held_low(u64 last_avx, u64 now, u64 hold_ns)
{
	return held_low(last_avx, now, hold_ns);
}

bool avx_is_sampled(u64 ran, u32 pid)
{
	return is_sampled(ran, pid);
}

u32 avx_judge_look(u32 *beside, bool is_wide)
{
	return judge_look(beside, is_wide);
}

void avx_book_time(struct task_ctx *tctx, bool as_avx, u64 ran)
{
	book_time(tctx, as_avx, ran);
}

void avx_book_beginning(struct task_ctx *tctx, u32 cause, u64 generation, u64 ran)
{
	book_beginning(tctx, cause, generation, ran);
}

void avx_book_end(struct task_ctx *tctx, u32 boundary, u64 generation, u64 ran)
{
	book_end(tctx, boundary, generation, ran);
}

void avx_book_fault(struct task_ctx *tctx, u32 verdict)
{
	book_fault(tctx, verdict);
}

void avx_weigh_phase(struct avx_worth *worth, const struct avx_policy *policy, u64 since_last_ns,
		     bool moves)
{
	weigh_phase(worth, policy, since_last_ns, moves);
}

void avx_weigh_wait(struct avx_worth *worth, const struct avx_policy *policy, u64 wait_ns,
		    u64 spared_ns)
{
	weigh_wait(worth, policy, wait_ns, spared_ns);
}

u64 avx_spared_asleep(const struct avx_policy *policy, u64 slept_ns, u64 others_share,
		      u32 core_cpus)
{
	return spared_asleep(policy, slept_ns, others_share, core_cpus);
}

u32 avx_judge_worth(struct avx_worth *worth, const struct avx_policy *policy, u64 now)
{
	return judge_worth(worth, policy, now);
}

bool avx_is_left_alone(const struct avx_worth *worth, u64 now)
{
	return is_left_alone(worth, now);
}

void avx_hold_goes_on(struct avx_hold *hold, u64 task, u64 now)
{
	hold_goes_on(hold, task, now);
}

void avx_hold_runs_out(struct avx_hold *hold, u64 now, u64 hold_ns)
{
	hold_runs_out(hold, now, hold_ns);
}

u64 avx_suffered(const struct avx_hold *own, const struct avx_hold *beside, u64 task, u64 from,
		 u64 to)
{
	return suffered(own, beside, task, from, to);
}

u32 avx_evidence_of(u64 share, const struct avx_hold *own, const struct avx_hold *beside, u64 task,
		    u64 from, u64 to)
{
	return evidence_of(share, own, beside, task, from, to);
}

void avx_learn_from_cycles(struct avx_counted *counted, const struct avx_clock_step *step,
			   const u64 *cycles)
{
	learn_from_cycles(counted, step, cycles);
}

void avx_learn_from_clock(struct avx_counted *counted, const struct avx_clock_step *step, u64 clock,
			  u64 ideal)
{
	learn_from_clock(counted, step, clock, ideal);
}

u64 avx_ideal_clock(u64 ideal, u64 now)
{
	return ideal_clock(ideal, now);
}

u64 avx_relative_clock(u64 aperf, u64 mperf)
{
	return relative_clock(aperf, mperf);
}

u64 avx_suffered_by_count(u64 share, const struct avx_hold *own, u64 task, u64 from, u64 to)
{
	return suffered_by_count(share, own, task, from, to);
}

u64 avx_lost_to_clocks(const struct avx_clock_step *step, u64 at_licence_1, u64 at_licence_2,
		       bool needs_licence_1)
{
	return lost_to_clocks(step, at_licence_1, at_licence_2, needs_licence_1);
}

u64 avx_given_back(const struct avx_clock_step *step, u64 lost_ns, u64 seen_ns, u64 ran_ns)
{
	return given_back(step, lost_ns, seen_ns, ran_ns);
}

struct avx_clock_step avx_clocks_step(const struct avx_clocks *clocks, u64 active_cores,
				      u64 licence_drop)
{
	return clock_step(clocks, step_number(clocks, active_cores), licence_drop);
}

/* After a sample of code, the licences that it needs as an AVX task and as none. */
struct avx_needs {
	u32 wide;
	u32 narrow;
};

struct avx_needs avx_learn_from_code(struct avx_habit *habit, const u8 code[INSN_BYTES])
{
	struct avx_insn insn = decode_insn(code, INSN_MAX);

	learn_from_code(habit, &insn);
	return (struct avx_needs){
		.wide = licence_needed(habit, true),
		.narrow = licence_needed(habit, false),
	};
}
