// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps, natively. The first word of a map's definition holds a pointer to the map once it is used.
 * To libbpf that word is a type and nothing else.
 */
#include <stdlib.h>

#include "kernel.h"

static struct sim_map *all_maps;
static u32 nr_slots;

static struct sim_map **home_of(void *map)
{
	return map;
}

static struct sim_map *new_map(void *map, u32 value_size, u32 entries)
{
	struct sim_map *it = calloc(1, sizeof(*it));

	if (!it)
		abort();
	it->value_size = value_size;
	it->data = entries ? calloc(entries, value_size) : NULL;
	it->next = all_maps;
	all_maps = it;
	*home_of(map) = it;
	return it;
}

/* There is one ring buffer, and each entry of it is an event. */
#define RING_EVENTS (AVX_EVENTS_BYTES / sizeof(struct avx_event))

static struct avx_event ring[RING_EVENTS];
static u64 ring_written, ring_read;

void *sim_ringbuf_reserve(u64 size)
{
	if (size != sizeof(*ring) || ring_written - ring_read == RING_EVENTS)
		return NULL;
	return &ring[ring_written % RING_EVENTS];
}

void sim_ringbuf_submit(void)
{
	ring_written++;
}

bool sim_take_event(struct avx_event *event)
{
	if (ring_read == ring_written)
		return false;
	*event = ring[ring_read++ % RING_EVENTS];
	return true;
}

static bool others_make_storage;

/* The definitions themselves are reset with all other variables of the scheduler. */
void sim_maps_reset(void)
{
	while (all_maps) {
		struct sim_map *it = all_maps;

		all_maps = it->next;
		free(it->data);
		free(it->keys);
		free(it->homes);
		free(it);
	}
	nr_slots = 0;
	others_make_storage = false;
	ring_read = ring_written;
}

/* The places of the keys of a hash: there is always an empty one. */
#define HOMES (2 * SIM_ENTRIES_MAX)

/* Returns the key's place. As in the kernel, this takes no longer if there are more keys. */
static u32 *home_of_key(struct sim_map *it, const void *key, u32 key_size)
{
	const u8 *bytes = key;
	u32 hash = 0, *home;

	for (u32 n = 0; n < key_size; n++)
		hash = 31 * hash + bytes[n];
	do
		home = &it->homes[hash++ % HOMES];
	while (*home && memcmp(it->keys + (size_t)(*home - 1) * key_size, key, key_size));
	return home;
}

static void *lookup_hash(struct sim_map *it, const void *key, u32 key_size)
{
	u32 home = *home_of_key(it, key, key_size);

	return home ? it->data + (size_t)(home - 1) * it->value_size : NULL;
}

void *sim_map_lookup_slowly(void *map, u32 type, const void *key, u32 key_size, u32 value_size,
			    u32 cpu)
{
	struct sim_map *it = *home_of(map);
	u32 n;

	if (type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_LRU_HASH)
		return it ? lookup_hash(it, key, key_size) : NULL;
	if (!it)
		it = new_map(map, value_size, SIM_ENTRIES_MAX);
	n = type == BPF_MAP_TYPE_PERCPU_ARRAY ? cpu : *(const u32 *)key;
	if (key_size != sizeof(u32) || n >= SIM_ENTRIES_MAX)
		return NULL;
	return it->data + (size_t)n * value_size;
}

/* Only hashes are written this way, with keys that are new. */
long sim_map_update(void *map, const void *key, u32 key_size, const void *value, u32 value_size)
{
	struct sim_map *it = *home_of(map);

	if (!it) {
		it = new_map(map, value_size, SIM_ENTRIES_MAX);
		it->keys = calloc(SIM_ENTRIES_MAX, key_size);
		it->homes = calloc(HOMES, sizeof(*it->homes));
	}
	if (!it->keys || !it->homes || it->entries == SIM_ENTRIES_MAX)
		return -ENOSPC;
	memcpy(it->keys + (size_t)it->entries * key_size, key, key_size);
	memcpy(it->data + (size_t)it->entries * value_size, value, value_size);
	it->entries++;
	*home_of_key(it, key, key_size) = it->entries;
	return 0;
}

/* From now on others are always faster to make the first storage of a task. */
void sim_let_others_make_storage(void)
{
	others_make_storage = true;
}

void *sim_task_storage(void *map, struct task_struct *p, u32 value_size, u64 flags)
{
	struct sim_map *it = *home_of(map);
	void **storage;

	if (!it) {
		it = new_map(map, value_size, 0);
		it->slot = nr_slots++;
		if (nr_slots > SIM_STORAGES)
			abort();
	}
	/* The idle task has no storage. */
	if (!p->sim)
		return NULL;
	if (others_make_storage && !p->sim->has_storage && flags & BPF_LOCAL_STORAGE_GET_F_CREATE) {
		p->sim->has_storage = true;
		return NULL;
	}
	storage = &p->sim->storage[it->slot];
	if (!*storage && flags & BPF_LOCAL_STORAGE_GET_F_CREATE)
		*storage = calloc(1, value_size);
	return *storage;
}

void sim_task_storage_delete(void *map, struct task_struct *p)
{
	struct sim_map *it = *home_of(map);

	if (!it)
		return;
	free(p->sim->storage[it->slot]);
	p->sim->storage[it->slot] = NULL;
}
