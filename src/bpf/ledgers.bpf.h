/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The books of programs in cgroups are kept here. Their reader adds up what it wants. There are
 * BOOKS_MAX at most: the one that was not used for the longest time makes room.
 */
#ifndef AVXSPEC_LEDGERS_BPF_H
#define AVXSPEC_LEDGERS_BPF_H

#include "owner.bpf.h"
#include "state.bpf.h"

#define BOOKS_MAX 4096

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BOOKS_MAX);
	__type(key, struct avx_owner);
	__type(value, struct avx_book);
} ledgers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BOOKS_MAX);
	__type(key, struct avx_owner);
	__type(value, struct avx_light_fault);
} light_faults SEC(".maps");

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

/*
 * @p had a light fault at @ip, its number @nr. Only the first, the second, the fourth and so
 * on are kept: then the last one that is kept is a late one of many, and hardly any is written.
 */
static void note_light_fault(struct task_struct *p, u64 nr, u64 ip)
{
	struct avx_light_fault fault = { .ip = ip, .process = p->group_leader->pid };
	struct avx_owner owner;

	if (nr & (nr - 1))
		return;
	owner = owner_of(p);
	bpf_map_update_elem(&light_faults, &owner, &fault, BPF_ANY);
}

/* Adds what is new in the book of @p to that of its program. Global, for the verifier. */
__noinline int tell_books(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = lookup_task(p);
	struct avx_owner owner;
	struct avx_book *book;
	u64 *told, *now, *all;

	if (!tctx || !tctx->has_news)
		return 0;
	owner = owner_of(p);
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
