/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The books of programs in cgroups; whoever reads them adds up what is wanted. There are so
 * many at most; who was not heard of for the longest time makes room.
 */
#ifndef AVXSPEC_LEDGERS_BPF_H
#define AVXSPEC_LEDGERS_BPF_H

#include "state.bpf.h"

#define BOOKS_MAX 4096

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BOOKS_MAX);
	__type(key, struct avx_owner);
	__type(value, struct avx_book);
} ledgers SEC(".maps");

#define BOOK_WORDS (sizeof(struct avx_book) / sizeof(u64))

static const struct avx_book empty_book;

static struct avx_book *book_of(const struct avx_owner *owner)
{
	struct avx_book *book = bpf_map_lookup_elem(&ledgers, owner);

	if (book)
		return book;
	bpf_map_update_elem(&ledgers, owner, &empty_book, BPF_NOEXIST);
	return bpf_map_lookup_elem(&ledgers, owner);
}

/* What is new in the book of @p. Global, for the verifier. */
__noinline int tell_books(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = lookup_task(p);
	struct avx_owner owner = {};
	struct avx_book *book;
	u64 *told, *now, *all;

	if (!tctx || !tctx->has_news)
		return 0;
	owner.cgroup = p->cgroups->dfl_cgrp->kn->id;
	bpf_probe_read_kernel(&owner.program, sizeof(owner.program), p->group_leader->comm);
	book = book_of(&owner);
	if (!book)
		return 0;

	tctx->has_news = false;
	stat_add(scalar_ns, tctx->book.scalar_ns - tctx->told.scalar_ns);
	now = (u64 *)&tctx->book;
	told = (u64 *)&tctx->told;
	all = (u64 *)book;
	for (u32 n = 0; n < BOOK_WORDS; n++) {
		if (now[n] == told[n])
			continue;
		__sync_fetch_and_add(&all[n], now[n] - told[n]);
		told[n] = now[n];
	}
	return 0;
}

#endif /* AVXSPEC_LEDGERS_BPF_H */
