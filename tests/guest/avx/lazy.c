// SPDX-License-Identifier: GPL-2.0-only
/*
 * lazy: calls functions of libm for the first time, so that the dynamic linker looks for
 * each of them and saves all vector registers around that: linked with -z lazy. Where it
 * took an image to be shorter than it is, it writes past the end of its buffer, which lies
 * above what the caller has on its stack: over the canaries here.
 *
 * AVX-512 is in use meanwhile. Prints name=number.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../hiding/vectors.h"

#define NR_CANARIES 512
#define CANARY 0x5ca1ab1e0ddba11ULL

static volatile double x = 0.5;
static unsigned long calls, overwritten;

/* Upper halves, masks and zmm16-31, of which the compiler does not know that there are any. */
static void use_everything(void)
{
	__asm__ __volatile__("vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0\n\t"
			     "vpternlogd $0xff, %%zmm31, %%zmm31, %%zmm31\n\t"
			     "kxnorq %%k1, %%k1, %%k1"
			     :
			     :
			     : "xmm0");
}

static __attribute__((noinline)) void call(double (*function)(void))
{
	volatile uint64_t canaries[NR_CANARIES];

	for (int n = 0; n < NR_CANARIES; n++)
		canaries[n] = CANARY;
	use_everything();
	function();
	for (int n = 0; n < NR_CANARIES; n++)
		overwritten += canaries[n] != CANARY;
	calls++;
}

#define CALLER(name)                    \
	static double call_##name(void) \
	{                               \
		return name(x);         \
	}

CALLER(sin)
CALLER(cos)
CALLER(tan)
CALLER(exp)
CALLER(log)
CALLER(asin)
CALLER(acos)
CALLER(atan)

int main(void)
{
	call(call_sin);
	call(call_cos);
	call(call_tan);
	call(call_exp);
	call(call_log);
	call(call_asin);
	call(call_acos);
	call(call_atan);
	printf("calls=%lu\noverwritten=%lu\n", calls, overwritten);
	return overwritten != 0;
}
