// SPDX-License-Identifier: GPL-2.0-only
/*
 * crypto ROUNDS PROCESSES SEED: has the kernel encrypt with ChaCha20, by AF_ALG,
 * for tasks from which AVX-512 is hidden at the moment when they ask for it, and
 * which have all their vector registers in use; compares what comes out with
 * plain C, and the registers with what they were.
 *
 * Prints what it counted as name=number. Fails if anything differs.
 */
#define _GNU_SOURCE
#include <linux/if_alg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chacha20.h"
#include "vectors.h"

enum count {
	REQUESTS,	  /* texts encrypted */
	REQUESTED_HIDDEN, /* ... with AVX-512 hidden right before */
	WRONG_TEXTS,	  /* ... that are not what plain C makes of them */
	LOST,		  /* registers that were not what they should be */
	NR_COUNTS,
};

static const char *const names[NR_COUNTS] = {
	"requests",
	"requested_hidden",
	"wrong_texts",
	"registers_lost",
};

/* Shared by all processes. */
static atomic_ulong *counts;

/* A few pages: the kernel goes through them in several steps. */
#define MAX_LENGTH 9000

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void fill(uint8_t *bytes, size_t size, uint64_t *random)
{
	for (size_t n = 0; n < size; n++)
		bytes[n] = random_bits(random) >> 20;
}

/* RFC 8439, section 2.4.2: the first bytes of the text and of what it becomes. */
static void check_plain(void)
{
	static const uint8_t iv[CHACHA20_IV_SIZE] = { 1, [11] = 0x4a };
	static const uint8_t expected[] = { 0x6e, 0x2e, 0x35, 0x9a, 0x25, 0x68, 0xf9, 0x80 };
	uint8_t key[CHACHA20_KEY_SIZE], got[sizeof(expected)];

	for (int n = 0; n < CHACHA20_KEY_SIZE; n++)
		key[n] = n;
	chacha20(key, iv, (const uint8_t *)"Ladies a", got, sizeof(got));
	if (memcmp(got, expected, sizeof(got))) {
		fprintf(stderr, "crypto: what it compares with is no ChaCha20\n");
		exit(1);
	}
}

/* A socket of which the encrypted text is read. */
static int ask(int cipher, const uint8_t *iv, const uint8_t *text, size_t length)
{
	union {
		char bytes[CMSG_SPACE(sizeof(uint32_t)) +
			   CMSG_SPACE(sizeof(struct af_alg_iv) + CHACHA20_IV_SIZE)];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec vector = { .iov_base = (void *)text, .iov_len = length };
	struct msghdr message = {
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
		.msg_iov = &vector,
		.msg_iovlen = 1,
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	struct af_alg_iv *to;
	int request = accept(cipher, NULL, 0);

	if (request < 0)
		die("accept");
	header->cmsg_level = SOL_ALG;
	header->cmsg_type = ALG_SET_OP;
	header->cmsg_len = CMSG_LEN(sizeof(uint32_t));
	*(uint32_t *)CMSG_DATA(header) = ALG_OP_ENCRYPT;
	header = CMSG_NXTHDR(&message, header);
	header->cmsg_level = SOL_ALG;
	header->cmsg_type = ALG_SET_IV;
	header->cmsg_len = CMSG_LEN(sizeof(*to) + CHACHA20_IV_SIZE);
	to = (void *)CMSG_DATA(header);
	to->ivlen = CHACHA20_IV_SIZE;
	memcpy(to->iv, iv, CHACHA20_IV_SIZE);
	if (sendmsg(request, &message, 0) != (ssize_t)length)
		die("sendmsg");
	return request;
}

static int open_cipher(void)
{
	struct sockaddr_alg address = {
		.salg_family = AF_ALG,
		.salg_type = "skcipher",
		.salg_name = "chacha20",
	};
	int cipher = socket(AF_ALG, SOCK_SEQPACKET, 0);

	if (cipher < 0 || bind(cipher, (struct sockaddr *)&address, sizeof(address)))
		die("AF_ALG with chacha20");
	return cipher;
}

static void encrypt_some(uint64_t *random)
{
	static uint8_t key[CHACHA20_KEY_SIZE], iv[CHACHA20_IV_SIZE];
	static uint8_t text[MAX_LENGTH], expected_text[MAX_LENGTH], got_text[MAX_LENGTH];
	static struct vectors set, got, expected;
	/* Most messages are short; and it is there that the code has its cases. */
	size_t length = 1 + random_bits(random) % (random_bits(random) % 4 ? 1100 : MAX_LENGTH);
	int cipher = open_cipher(), request;
	struct event event = {
		.load = random_bits(random) % NR_LOADS,
		.alter = random_bits(random) % 2,
		.number = SYS_read,
		.hide = 0xe0,
	};

	fill(key, sizeof(key), random);
	fill(iv, sizeof(iv), random);
	fill(text, length, random);
	if (setsockopt(cipher, SOL_ALG, ALG_SET_KEY, key, sizeof(key)))
		die("ALG_SET_KEY");
	request = ask(cipher, iv, text, length);
	memset(got_text, 0, sizeof(got_text));
	chacha20(key, iv, text, expected_text, length);

	/* It is when they are read that the bytes are encrypted. */
	event.argument[0] = request;
	event.argument[1] = (long)got_text;
	event.argument[2] = length;
	randomize(&set, random);
	expect(&set, &event, &expected);
	between(&set, &got, &event);

	if (event.result != (long)length || memcmp(got_text, expected_text, length)) {
		fprintf(stderr, "crypto: %zu bytes, read returned %ld, wrong\n", length,
			event.result);
		counts[WRONG_TEXTS]++;
	}
	counts[LOST] += differences(&expected, &got, "read of AF_ALG");
	counts[REQUESTED_HIDDEN] += (event.xcr0 & XCR0_AVX512) == 0;
	counts[REQUESTS]++;
	close(request);
	close(cipher);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 10;
	int processes = argc > 2 ? atoi(argv[2]) : 1, status, failed = 0;
	uint64_t seed = argc > 3 ? strtoul(argv[3], NULL, 0) * 2 + 1 : 1;

	check_plain();
	counts = mmap(NULL, NR_COUNTS * sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		die("mmap");
	for (int n = 0; n < processes; n++) {
		uint64_t random = random_bits(&seed);
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (child)
			continue;
		for (unsigned long round = 0; round < rounds; round++)
			encrypt_some(&random);
		exit(0);
	}
	while (wait(&status) > 0)
		failed |= status;
	for (int n = 0; n < NR_COUNTS; n++)
		printf("%s=%lu\n", names[n], counts[n]);
	return failed || counts[WRONG_TEXTS] || counts[LOST] ||
	       counts[REQUESTS] != rounds * processes;
}
