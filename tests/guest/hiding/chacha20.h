/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ChaCha20 as RFC 8439 defines it, one byte at a time: to compare with, not to
 * be fast.
 */
#ifndef CHACHA20_H
#define CHACHA20_H

#include <stddef.h>
#include <stdint.h>

#define CHACHA20_KEY_SIZE 32
/* Linux's: the block counter before the nonce of 12 bytes. */
#define CHACHA20_IV_SIZE 16

static inline uint32_t chacha20_load(const uint8_t *bytes)
{
	return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline uint32_t chacha20_rotated(uint32_t word, int bits)
{
	return word << bits | word >> (32 - bits);
}

/* Section 2.1 */
static inline void chacha20_quarter_round(uint32_t *x, int a, int b, int c, int d)
{
	x[a] += x[b];
	x[d] = chacha20_rotated(x[d] ^ x[a], 16);
	x[c] += x[d];
	x[b] = chacha20_rotated(x[b] ^ x[c], 12);
	x[a] += x[b];
	x[d] = chacha20_rotated(x[d] ^ x[a], 8);
	x[c] += x[d];
	x[b] = chacha20_rotated(x[b] ^ x[c], 7);
}

/* Section 2.3 */
static inline void chacha20_block(const uint32_t *state, uint8_t *stream)
{
	uint32_t x[16];

	for (int n = 0; n < 16; n++)
		x[n] = state[n];
	for (int round = 0; round < 20; round += 2) {
		for (int n = 0; n < 4; n++)
			chacha20_quarter_round(x, n, 4 + n, 8 + n, 12 + n);
		for (int n = 0; n < 4; n++)
			chacha20_quarter_round(x, n, 4 + (n + 1) % 4, 8 + (n + 2) % 4,
					       12 + (n + 3) % 4);
	}
	for (int n = 0; n < 64; n++)
		stream[n] = (x[n / 4] + state[n / 4]) >> n % 4 * 8;
}

/* Section 2.4 */
static inline void chacha20(const uint8_t *key, const uint8_t *iv, const uint8_t *from, uint8_t *to,
			    size_t length)
{
	uint32_t state[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
	uint8_t stream[64];

	for (int n = 0; n < 8; n++)
		state[4 + n] = chacha20_load(key + 4 * n);
	for (int n = 0; n < 4; n++)
		state[12 + n] = chacha20_load(iv + 4 * n);
	for (size_t n = 0; n < length; n++) {
		if (n % 64 == 0) {
			chacha20_block(state, stream);
			state[12]++;
		}
		to[n] = from[n] ^ stream[n % 64];
	}
}

#endif
