/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All vector registers of a thread: setting them, letting something happen,
 * and looking what is in them afterwards, with no compiled code in between.
 */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "prctl.h"
#include "random.h"

#define XCR0_YMM 0x04ULL
#define XCR0_AVX512 0xe0ULL

#define MXCSR_INITIAL 0x1f80U
/* Everything but the exception masks, which stay set. */
#define MXCSR_FREE 0xe07fU

struct vectors {
	uint64_t zmm[32][8];
	uint64_t k[8];
	uint32_t mxcsr;
	uint64_t xcr0; /* as user mode saw it just before it looked */
} __attribute__((aligned(64)));

/* What of a struct vectors is put into the registers. */
enum load {
	LOAD_ALL,   /* everything: ZMM_Hi256 is in use, so nothing may be hidden */
	LOAD_HIGH,  /* zmm16-31 and k0-7 besides ymm0-15 */
	LOAD_CLEAN, /* ymm0-15; all that belongs to AVX-512 is in its initial state */
	LOAD_SSE,   /* xmm0-15; likewise, and all that belongs to AVX */
	NR_LOADS,
};

struct event {
	enum load load;
	/* VEX instructions double ymm0-15 afterwards, and have to zero what is above. */
	int alter;
	/* A system call, or if negative, a loop of so many rounds. */
	long number;
	long argument[4];
	long result;
	/* What a system call just before it hides, or 0 for no such call. */
	long hide;
	uint64_t xcr0; /* as user mode saw it just before it happened */
	/* Rounds of a loop after a system call: what it left is alive, and may be hidden. */
	long linger;
};

/* An image in which every component is in its initial state. */
static const struct {
	uint8_t before_mxcsr[24];
	uint32_t mxcsr;
	uint8_t rest[1024 - 28];
} initial_image __attribute__((aligned(64))) = { .mxcsr = MXCSR_INITIAL };
static const uint32_t initial_mxcsr = MXCSR_INITIAL;

/* Assembler has its own idea of what a line is. */
/* clang-format off */
#define FOR_16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) \
	X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define FOR_HIGH_16(X) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) \
	X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define FOR_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define SET_ZMM(n) "vmovdqu64 " #n "*64(%%r12), %%zmm" #n "\n\t"
#define SET_YMM(n) "vmovdqu " #n "*64(%%r12), %%ymm" #n "\n\t"
#define SET_XMM(n) "movups " #n "*64(%%r12), %%xmm" #n "\n\t"
#define SET_K(n) "kmovq 2048+" #n "*8(%%r12), %%k" #n "\n\t"
#define DOUBLE_YMM(n) "vpaddq %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n\t"
#define GET_ZMM(n) "vmovdqu64 %%zmm" #n ", " #n "*64(%%r13)\n\t"
#define GET_K(n) "kmovq %%k" #n ", 2048+" #n "*8(%%r13)\n\t"
/* From where r12 points, and to where r13 does. */
#define SET_ALL FOR_16(SET_ZMM) FOR_HIGH_16(SET_ZMM) FOR_8(SET_K)
#define GET_ALL FOR_16(GET_ZMM) FOR_HIGH_16(GET_ZMM) FOR_8(GET_K)
/* What r14 says of what r12 points to; ends at 3. */
#define LOAD_AS_THE_EVENT_SAYS \
	"ldmxcsr 2112(%%r12)\n\t" \
	"cmpl $1, (%%r14)\n\t" \
	"je 1f\n\t" \
	"ja 2f\n\t" \
	/* LOAD_ALL */ \
	SET_ALL \
	"jmp 3f\n\t" \
	"1:\n\t" /* LOAD_HIGH */ \
	"vzeroall\n\t" \
	FOR_HIGH_16(SET_ZMM) FOR_8(SET_K) FOR_16(SET_YMM) \
	"jmp 3f\n\t" \
	"2:\n\t" /* LOAD_CLEAN, LOAD_SSE */ \
	/* While AVX-512 is hidden XRSTOR would pass over its components. */ \
	"vpxord %%zmm31, %%zmm31, %%zmm31\n\t" \
	"movl $0xe4, %%eax\n\t" \
	"xorl %%edx, %%edx\n\t" \
	"xrstor64 (%[initial])\n\t" \
	/* RFBM[2] made that load MXCSR as well. */ \
	"ldmxcsr 2112(%%r12)\n\t" \
	FOR_16(SET_XMM) \
	"cmpl $2, (%%r14)\n\t" \
	"ja 3f\n\t" \
	FOR_16(SET_YMM) \
	"3:\n\t"
#define LOOK_AT_XCR0 \
	"xorl %%ecx, %%ecx\n\t" \
	"xgetbv\n\t" \
	"movl %%eax, 2120(%%r13)\n\t" \
	"movl %%edx, 2124(%%r13)\n\t"
#define LOOK_AT_ALL \
	GET_ALL \
	"stmxcsr 2112(%%r13)\n\t" \
	/* Compiled code expects these. */ \
	"vzeroupper\n\t" \
	"ldmxcsr %[mxcsr]\n\t"
/* What of the compiler's is overwritten between setting and looking. */
#define LEFT_BEHIND \
	"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc", \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
	"xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

/*
 * Sets the registers from @set, lets @event happen, stores them in @got. What
 * the event is must not need a stack frame of its own.
 */
static __attribute__((noinline, unused)) void between(const struct vectors *set,
						      struct vectors *got, struct event *event)
{
	register const struct vectors *r12 __asm__("r12") = set;
	register struct vectors *r13 __asm__("r13") = got;
	register struct event *r14 __asm__("r14") = event;

	_Static_assert(__builtin_offsetof(struct vectors, k) == 2048, "the assembler counts on it");
	_Static_assert(__builtin_offsetof(struct vectors, mxcsr) == 2112, "likewise");
	_Static_assert(__builtin_offsetof(struct vectors, xcr0) == 2120, "likewise");
	_Static_assert(__builtin_offsetof(struct event, number) == 8, "likewise");
	_Static_assert(__builtin_offsetof(struct event, hide) == 56, "likewise");
	_Static_assert(__builtin_offsetof(struct event, linger) == 72, "likewise");

	__asm__ __volatile__(
		LOAD_AS_THE_EVENT_SAYS

		"movq 56(%%r14), %%rsi\n\t"
		"testq %%rsi, %%rsi\n\t"
		"jz 7f\n\t"
		"movl $157, %%eax\n\t" /* prctl */
		"movl %[hide], %%edi\n\t"
		"syscall\n\t"
		"7: xorl %%ecx, %%ecx\n\t"
		"xgetbv\n\t"
		"movl %%eax, 64(%%r14)\n\t"
		"movl %%edx, 68(%%r14)\n\t"

		"movq 8(%%r14), %%rax\n\t"
		"testq %%rax, %%rax\n\t"
		"js 4f\n\t"
		"movq 16(%%r14), %%rdi\n\t"
		"movq 24(%%r14), %%rsi\n\t"
		"movq 32(%%r14), %%rdx\n\t"
		"movq 40(%%r14), %%r10\n\t"
		"xorl %%r8d, %%r8d\n\t"
		"xorl %%r9d, %%r9d\n\t"
		"syscall\n\t"
		"jmp 5f\n\t"
		"4: incq %%rax\n\t"
		"jnz 4b\n\t"
		"5: movq %%rax, 48(%%r14)\n\t"
		"movq 72(%%r14), %%rax\n\t"
		"8: testq %%rax, %%rax\n\t"
		"jz 9f\n\t"
		"decq %%rax\n\t"
		"jmp 8b\n\t"
		"9:\n\t"

		"cmpl $0, 4(%%r14)\n\t"
		"je 6f\n\t"
		FOR_16(DOUBLE_YMM)
		"6:\n\t"
		LOOK_AT_XCR0

		LOOK_AT_ALL
		:
		: "r"(r12), "r"(r13), "r"(r14), [initial] "r"(&initial_image),
		  [mxcsr] "m"(initial_mxcsr), [hide] "i"(PRCTL_HIDE)
		: LEFT_BEHIND);
}

/* clang-format on */

/* What has to be in the registers after @event, if @set was put there before. */
static __attribute__((unused)) void expect(const struct vectors *set, const struct event *event,
					   struct vectors *expected)
{
	*expected = *set;
	for (int n = 0; n < 16; n++) {
		if (event->load != LOAD_ALL || event->alter)
			memset(&expected->zmm[n][4], 0, 32);
		if (event->load == LOAD_SSE)
			memset(&expected->zmm[n][2], 0, 48);
		for (int lane = 0; event->alter && lane < 4; lane++)
			expected->zmm[n][lane] *= 2;
	}
	if (event->load >= LOAD_CLEAN) {
		memset(expected->zmm[16], 0, 16 * 64);
		memset(expected->k, 0, sizeof(expected->k));
	}
}

/* The number of registers that differ; @what says of which case, on stderr. */
static __attribute__((unused)) int differences(const struct vectors *expected,
					       const struct vectors *got, const char *what)
{
	int wrong = 0;

	for (int n = 0; n < 32; n++) {
		if (!memcmp(expected->zmm[n], got->zmm[n], 64))
			continue;
		if (!wrong++)
			fprintf(stderr,
				"%s: zmm%d: %016lx..%016lx expected, %016lx..%016lx found\n", what,
				n, expected->zmm[n][0], expected->zmm[n][7], got->zmm[n][0],
				got->zmm[n][7]);
	}
	for (int n = 0; n < 8; n++) {
		if (expected->k[n] == got->k[n])
			continue;
		if (!wrong++)
			fprintf(stderr, "%s: k%d: %016lx expected, %016lx found\n", what, n,
				expected->k[n], got->k[n]);
	}
	if (expected->mxcsr != got->mxcsr && !wrong++)
		fprintf(stderr, "%s: mxcsr: %08x expected, %08x found\n", what, expected->mxcsr,
			got->mxcsr);
	return wrong;
}

/* No register is left zero: zeros that stay zeros prove nothing. */
static __attribute__((unused)) void randomize(struct vectors *vectors, uint64_t *state)
{
	for (int n = 0; n < 32; n++)
		for (int lane = 0; lane < 8; lane++)
			vectors->zmm[n][lane] = random_bits(state) | 1;
	for (int n = 0; n < 8; n++)
		vectors->k[n] = random_bits(state) | 1;
	vectors->mxcsr = MXCSR_INITIAL | (random_bits(state) & MXCSR_FREE);
}

static __attribute__((unused)) uint64_t xgetbv(uint32_t which)
{
	uint32_t low, high;

	__asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(which));
	return low | (uint64_t)high << 32;
}

static __attribute__((unused)) int sees_avx512(void)
{
	return (xgetbv(0) & XCR0_AVX512) == XCR0_AVX512;
}

/* Uses AVX-512, and nothing of it that would have to be zeroed again; returns what is set. */
static __attribute__((unused)) uint32_t set_mask(void)
{
	uint32_t mask;

	__asm__ __volatile__("kxnorw %%k1, %%k1, %%k1\n\t"
			     "kmovw %%k1, %0"
			     : "=r"(mask));
	return mask;
}

#endif
