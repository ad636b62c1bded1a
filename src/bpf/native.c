/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The decisions as ordinary functions. The headers hold static inline
 * functions for the BPF compiler; this file gives them addresses, so that
 * native code calls the very lines that run in the kernel.
 */
#include "decode.bpf.h"
#include "fairness.bpf.h"
#include "queues.bpf.h"

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

u64 avx_queue_of(s32 only_cpu)
{
	return queue_of(only_cpu);
}

u32 avx_choose_next(const struct avx_contender *prev, const struct avx_contender *shared,
		    const struct avx_contender *private)
{
	return choose_next(prev, shared, private);
}

struct avx_insn avx_decode_insn(const u8 code[INSN_BYTES], u32 readable)
{
	return decode_insn(code, readable);
}

u32 avx_licence_of(const struct avx_insn *insn)
{
	return licence_of(insn);
}

bool avx_is_avx512(const struct avx_insn *insn)
{
	return is_avx512(insn);
}
