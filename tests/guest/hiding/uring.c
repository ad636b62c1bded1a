// SPDX-License-Identifier: GPL-2.0-only
/*
 * uring ROUNDS SEED: has io_uring's worker threads, which share everything with
 * their process and never go to user mode, read for a task from which AVX-512
 * is hidden, with all its registers in use.
 *
 * Prints name=number; fails if a register was lost or nothing was read.
 */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vectors.h"

#define ENTRIES 8

struct ring {
	int file;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *map(int file, size_t size, off_t offset)
{
	void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset);

	if (place == MAP_FAILED)
		die("mmap");
	return place;
}

static void open_ring(struct ring *ring)
{
	struct io_uring_params params = { 0 };
	char *sq, *cq;

	ring->file = syscall(SYS_io_uring_setup, ENTRIES, &params);
	if (ring->file < 0)
		die("io_uring_setup");
	sq = map(ring->file, params.sq_off.array + params.sq_entries * 4, IORING_OFF_SQ_RING);
	cq = map(ring->file, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
		 IORING_OFF_CQ_RING);
	ring->sqes =
		map(ring->file, params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring->sq_tail = (void *)(sq + params.sq_off.tail);
	ring->sq_mask = (void *)(sq + params.sq_off.ring_mask);
	ring->sq_array = (void *)(sq + params.sq_off.array);
	ring->cq_head = (void *)(cq + params.cq_off.head);
	ring->cq_tail = (void *)(cq + params.cq_off.tail);
	ring->cq_mask = (void *)(cq + params.cq_off.ring_mask);
	ring->cqes = (void *)(cq + params.cq_off.cqes);
}

/* The next submission: a read that a worker has to do. */
static void queue_read(struct ring *ring, int file, void *buffer, unsigned int size)
{
	unsigned int tail = *ring->sq_tail, slot = tail & *ring->sq_mask;
	struct io_uring_sqe *sqe = &ring->sqes[slot];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_READ;
	sqe->flags = IOSQE_ASYNC;
	sqe->fd = file;
	sqe->addr = (uintptr_t)buffer;
	sqe->len = size;
	ring->sq_array[slot] = slot;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

/* What the finished read returned. */
static int take_result(struct ring *ring)
{
	unsigned int head = *ring->cq_head;
	int result;

	if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		return -1;
	result = ring->cqes[head & *ring->cq_mask].res;
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return result;
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 10;
	uint64_t random = argc > 2 ? strtoul(argv[2], NULL, 0) * 2 + 1 : 1;
	unsigned long reads = 0, lost = 0, hidden = 0;
	static struct vectors set, got, expected;
	struct ring ring;
	char buffer[64];
	FILE *file = tmpfile();

	if (!file || fwrite(argv[0], 1, 1, file) != 1 || fflush(file))
		die("a temporary file");
	open_ring(&ring);
	for (unsigned long n = 0; n < rounds; n++) {
		struct event event = {
			.load = random_bits(&random) % NR_LOADS,
			.number = SYS_io_uring_enter,
			.argument = { ring.file, 1, 1, IORING_ENTER_GETEVENTS },
		};

		randomize(&set, &random);
		expect(&set, &event, &expected);
		queue_read(&ring, fileno(file), buffer, sizeof(buffer));
		between(&set, &got, &event);
		lost += differences(&expected, &got, "io_uring");
		reads += take_result(&ring) == 1;
		lseek(fileno(file), 0, SEEK_SET);
		hidden += (got.xcr0 & XCR0_AVX512) == 0;
	}
	printf("rounds=%lu\nreads=%lu\nhidden=%lu\nregisters_lost=%lu\n", rounds, reads, hidden,
	       lost);
	return lost || reads != rounds;
}
