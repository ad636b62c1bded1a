/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

/* Marsaglia's xorshift: anything that is never twice the same will do. */
static __attribute__((unused)) uint64_t random_bits(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
