// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does the oracle count right?  Runs code of exactly known instruction counts
 * in user mode and compares; compares XCR0 with what XGETBV says, too.
 *
 * Prints one line per case and counter, tab-separated: case, counter (or the
 * operation that was asked), expected, measured, relative error, verdict.  A
 * bracket may be interrupted, but what the kernel does then is counted as
 * kernel, so user counts must be exact.  The exit status is 1 if a relative
 * error is above 0.001, 3 without an oracle.
 *
 * Build: gcc -static -O2 -Wall -o selftest selftest.c
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "selftest_bodies.h"

#define TOLERANCE 0.001

ORACLE_BODY(body_empty, "");
ORACLE_BODY(body_scalar, ORACLE_LOOP(1000, 10, "addq $3, %rdx"));
ORACLE_BODY(body_multiply, ORACLE_LOOP(100, 10, "imulq %rdx, %rdx"));
ORACLE_BODY(body_sse_light, ORACLE_LOOP(100, 10, "paddd %xmm0, %xmm1"));
ORACLE_BODY(body_sse_heavy, ORACLE_LOOP(100, 10, "mulsd %xmm0, %xmm1"));
ORACLE_BODY(body_sse_multiply, ORACLE_LOOP(100, 10, "pmulld %xmm0, %xmm1"));
ORACLE_BODY(body_sse_load, ORACLE_LOOP(100, 10, "movups (%rdi), %xmm1"));
ORACLE_BODY(body_128_light, ORACLE_LOOP(100, 10, "vpaddd %xmm0, %xmm1, %xmm1"));
ORACLE_BODY(body_128_heavy, ORACLE_LOOP(100, 10, "vfmadd231ps %xmm0, %xmm1, %xmm2"));
ORACLE_BODY(body_scalar_heavy, ORACLE_LOOP(100, 10, "vfmadd231sd %xmm0, %xmm1, %xmm2"));
/* vfnmsub231ss with VEX.L set, which the instruction ignores. */
ORACLE_BODY(body_scalar_ignored_length, ORACLE_LOOP(100, 10, ".byte 0xc4, 0xe2, 0x75, 0xbf, 0xd0"));
ORACLE_BODY(body_256_light, ORACLE_LOOP(100, 10, "vpxor %ymm0, %ymm1, %ymm1"));
ORACLE_BODY(body_256_store, ORACLE_LOOP(100, 10, "vmovdqu %ymm1, 64(%rdi)"));
ORACLE_BODY(body_256_heavy, ORACLE_LOOP(100, 10, "vfmadd231pd %ymm0, %ymm1, %ymm2"));
ORACLE_BODY(body_256_multiply, ORACLE_LOOP(100, 10, "vpmuludq %ymm0, %ymm1, %ymm2"));
ORACLE_BODY(body_zeroupper, ORACLE_REPEAT(100, "vzeroupper"));
ORACLE_BODY(body_512_light, ORACLE_LOOP(100, 10, "vpaddq %zmm0, %zmm1, %zmm1"));
ORACLE_BODY(body_512_masked, ORACLE_LOOP(100, 10, "vmovdqu32 (%rdi), %zmm1{%k1}{z}"));
ORACLE_BODY(body_512_heavy, ORACLE_LOOP(100, 10, "vfmadd231pd %zmm0, %zmm1, %zmm2"));
ORACLE_BODY(body_512_rounding, ORACLE_LOOP(100, 10, "vaddpd {rz-sae}, %zmm0, %zmm1, %zmm2"));
ORACLE_BODY(body_512_multiply, ORACLE_LOOP(100, 10, "vpmulld %zmm0, %zmm1, %zmm2"));
ORACLE_BODY(body_evex_scalar, ORACLE_LOOP(100, 10, "vaddsd {rz-sae}, %xmm0, %xmm1, %xmm2"));
ORACLE_BODY(body_evex_128, ORACLE_LOOP(100, 10, "vpaddd %xmm16, %xmm17, %xmm18"));
ORACLE_BODY(body_evex_256_light, ORACLE_LOOP(100, 10, "vpternlogd $0x96, %ymm16, %ymm17, %ymm18"));
ORACLE_BODY(body_evex_256_heavy, ORACLE_LOOP(100, 10, "vmulps %ymm16, %ymm17, %ymm18"));
ORACLE_BODY(body_masks, ORACLE_LOOP(100, 10, "kxorw %k1, %k2, %k3"));
ORACLE_BODY(body_mask_moves, ORACLE_LOOP(100, 10, "kmovw %edx, %k1"));
ORACLE_BODY(body_compare_to_mask, ORACLE_LOOP(100, 10, "vpcmpeqb %ymm16, %ymm17, %k1"));
ORACLE_BODY(body_rep, ORACLE_REPEAT(100, "movl $4096, %ecx\n\trep stosb\n\tsubq $4096, %rdi"));
ORACLE_BODY(body_rep_zero, ORACLE_REPEAT(100, "xorl %ecx, %ecx\n\trep stosb"));
ORACLE_BODY(body_syscalls,
	    "movl $200, %r8d\n\t1:\n\tmovl $39, %eax\n\tsyscall\n\tdecl %r8d\n\tjnz 1b");
ORACLE_BODY(body_ud2, ORACLE_REPEAT(20, "nop\n\tud2"));
ORACLE_BODY(body_int3, ORACLE_REPEAT(20, "nop\n\tint3"));
ORACLE_BODY(body_page_fault, ORACLE_LOOP(64, 1, "movb $1, (%rdi)\n\taddq $4096, %rdi"));
ORACLE_BODY(body_vector_fault, ORACLE_LOOP(64, 1, "vmovups %ymm0, (%rdi)\n\taddq $4096, %rdi"));
ORACLE_BODY(body_rep_fault, "movl $262144, %ecx\n\trep stosb");
ORACLE_BODY(body_nops, ORACLE_REPEAT(100, ".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n\tnop"));

/* Large enough for a few timer interrupts: some fall between two iterations. */
#define LONG_REP_BYTES (64UL << 20)
ORACLE_BODY(body_long_rep, "movl $67108864, %ecx\n\trep stosb");

enum needs {
	NEEDS_NOTHING,
	NEEDS_AVX2,
	NEEDS_AVX512
};
enum memory {
	OWN_BUFFER,
	FRESH_PAGES,
	LONG_BUFFER
};

#define EXPECT(c, v) { (c), (v), 1 }
#define IN_LOOP (1 + 100 * (10 + 2))
#define VECTORS 1000

struct expectation {
	unsigned int counter;
	unsigned long long value;
	int used;
};

static const struct test {
	const char *name;
	void (*body)(void *memory);
	enum needs needs;
	enum memory memory;
	unsigned long long retired; /* without the bracket's own */
	struct expectation also[3];
} tests[] = {
	{ "empty", body_empty, NEEDS_NOTHING, OWN_BUFFER, 0, {} },
	{ "scalar", body_scalar, NEEDS_NOTHING, OWN_BUFFER, 1 + 1000 * 12, {} },
	{ "scalar_multiply", body_multiply, NEEDS_NOTHING, OWN_BUFFER, IN_LOOP, {} },
	{ "nops", body_nops, NEEDS_NOTHING, OWN_BUFFER, 200, {} },
	{ "sse_light",
	  body_sse_light,
	  NEEDS_NOTHING,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_LIGHT, VECTORS) } },
	{ "sse_heavy",
	  body_sse_heavy,
	  NEEDS_NOTHING,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_HEAVY, VECTORS) } },
	{ "sse_multiply",
	  body_sse_multiply,
	  NEEDS_NOTHING,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_HEAVY, VECTORS) } },
	{ "sse_load",
	  body_sse_load,
	  NEEDS_NOTHING,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_LIGHT, VECTORS) } },
	{ "vex_128_light",
	  body_128_light,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_LIGHT, VECTORS) } },
	{ "vex_128_heavy",
	  body_128_heavy,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_HEAVY, VECTORS) } },
	{ "vex_scalar_heavy",
	  body_scalar_heavy,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_HEAVY, VECTORS) } },
	{ "vex_scalar_ignored_length",
	  body_scalar_ignored_length,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_HEAVY, VECTORS) } },
	{ "vex_256_light",
	  body_256_light,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V256_LIGHT, VECTORS) } },
	{ "vex_256_store",
	  body_256_store,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V256_LIGHT, VECTORS) } },
	{ "vex_256_heavy",
	  body_256_heavy,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V256_HEAVY, VECTORS) } },
	{ "vex_256_multiply",
	  body_256_multiply,
	  NEEDS_AVX2,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V256_HEAVY, VECTORS) } },
	{ "zeroupper", body_zeroupper, NEEDS_AVX2, OWN_BUFFER, 100, {} },
	{ "512_light",
	  body_512_light,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V512_LIGHT, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "512_masked",
	  body_512_masked,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V512_LIGHT, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "512_heavy",
	  body_512_heavy,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V512_HEAVY, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "512_rounding",
	  body_512_rounding,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V512_HEAVY, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "512_multiply",
	  body_512_multiply,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V512_HEAVY, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "evex_scalar_rounding",
	  body_evex_scalar,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_HEAVY, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "evex_128",
	  body_evex_128,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V128_LIGHT, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "evex_256_light",
	  body_evex_256_light,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V256_LIGHT, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "evex_256_heavy",
	  body_evex_256_heavy,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V256_HEAVY, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "masks",
	  body_masks,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_MASKS, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "mask_moves",
	  body_mask_moves,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_MASKS, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "compare_to_mask",
	  body_compare_to_mask,
	  NEEDS_AVX512,
	  OWN_BUFFER,
	  IN_LOOP,
	  { EXPECT(ORACLE_V256_LIGHT, VECTORS), EXPECT(ORACLE_AVX512, VECTORS) } },
	{ "rep", body_rep, NEEDS_NOTHING, OWN_BUFFER, 300, {} },
	{ "rep_zero", body_rep_zero, NEEDS_NOTHING, OWN_BUFFER, 200, {} },
	{ "rep_interrupted", body_long_rep, NEEDS_NOTHING, LONG_BUFFER, 2, {} },
	{ "syscalls",
	  body_syscalls,
	  NEEDS_NOTHING,
	  OWN_BUFFER,
	  1 + 200 * 4,
	  { EXPECT(ORACLE_SYSCALLS, 200) } },
	/* The kernel repairs these faults: what faulted retires once, when it is retried. */
	{ "page_fault",
	  body_page_fault,
	  NEEDS_NOTHING,
	  FRESH_PAGES,
	  1 + 64 * 4,
	  { EXPECT(ORACLE_EXCEPTION + 14, 64) } },
	{ "vector_fault",
	  body_vector_fault,
	  NEEDS_AVX2,
	  FRESH_PAGES,
	  1 + 64 * 4,
	  { EXPECT(ORACLE_V256_LIGHT, 64), EXPECT(ORACLE_EXCEPTION + 14, 64) } },
	{ "rep_fault",
	  body_rep_fault,
	  NEEDS_NOTHING,
	  FRESH_PAGES,
	  2,
	  { EXPECT(ORACLE_EXCEPTION + 14, 64) } },
};

static char buffer[4096 + 4096] __attribute__((aligned(4096)));
static int failures;

static void verdict(const char *name, unsigned int counter, unsigned long long expected,
		    unsigned long long measured)
{
	double error = (double)measured - (double)expected;
	int bad;

	if (error < 0)
		error = -error;
	if (expected)
		error /= (double)expected;
	bad = error > TOLERANCE;
	failures += bad;
	printf("%s\t%u\t%llu\t%llu\t%g\t%s\n", name, counter, expected, measured, error,
	       bad		      ? "WRONG"
	       : measured == expected ? "exact"
				      : "near");
}

static unsigned long long expected_of(const struct test *t, unsigned int counter)
{
	if (counter == ORACLE_RETIRED)
		return t->retired + ORACLE_BRACKET_OVERHEAD;
	for (unsigned int n = 0; n < 3; n++) {
		if (t->also[n].used && t->also[n].counter == counter)
			return t->also[n].value;
	}
	return 0;
}

static int is_vector_counter(unsigned int counter)
{
	return counter >= ORACLE_V128_LIGHT && counter <= ORACLE_AVX512;
}

/* Retired and all vector counters always; the others where the case names them. */
static void compare(const struct test *t)
{
	unsigned int cpu = oracle_self();

	for (unsigned int counter = 0; counter < ORACLE_USER; counter++) {
		unsigned long long expected = expected_of(t, counter);

		if (expected || counter == ORACLE_RETIRED || is_vector_counter(counter))
			verdict(t->name, counter, expected,
				oracle_read(ORACLE_USER + counter, cpu));
	}
}

static void *fresh_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("selftest: cannot map memory");
		exit(1);
	}
	/* One fault per page, also where the system prefers huge pages. */
	madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

static void run(const struct test *t)
{
	void *memory = buffer;
	size_t bytes = 0;

	if (t->memory == FRESH_PAGES) {
		bytes = 64 * 4096;
		memory = fresh_pages(bytes);
	} else if (t->memory == LONG_BUFFER) {
		bytes = LONG_REP_BYTES;
		memory = fresh_pages(bytes);
	}
	/* Touches the body's own page, so that only the data can fault. */
	t->body(t->memory == FRESH_PAGES ? fresh_pages(64 * 4096) : memory);
	t->body(memory);
	compare(t);
	if (bytes)
		munmap(memory, bytes);
}

static volatile sig_atomic_t signals;

static void skip_ud2(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	signals++;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void count_trap(int signal)
{
	(void)signal;
	signals++;
}

/*
 * The handlers run in user mode as well, so the retired counts cannot be known
 * here; the exceptions can.
 */
static void run_faults(void)
{
	struct sigaction ud = { .sa_sigaction = skip_ud2, .sa_flags = SA_SIGINFO };
	struct sigaction trap = { .sa_handler = count_trap };

	sigaction(SIGILL, &ud, NULL);
	sigaction(SIGTRAP, &trap, NULL);

	body_ud2(buffer);
	verdict("ud2", ORACLE_EXCEPTION + 6, 20,
		oracle_read(ORACLE_USER + ORACLE_EXCEPTION + 6, oracle_self()));
	verdict("ud2_handled", ORACLE_EXCEPTION + 6, 20, signals);
	signals = 0;
	body_int3(buffer);
	verdict("int3", ORACLE_EXCEPTION + 3, 20,
		oracle_read(ORACLE_USER + ORACLE_EXCEPTION + 3, oracle_self()));
	verdict("int3_handled", ORACLE_EXCEPTION + 3, 20, signals);
}

static unsigned long long xgetbv0(void)
{
	unsigned int low, high;

	__asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (unsigned long long)high << 32 | low;
}

static void run_xcr0(void)
{
	verdict("xcr0_as_xgetbv", ORACLE_OP_XCR0, xgetbv0(), oracle_xcr0(oracle_self()));
	verdict("xcr0_of_no_cpu", ORACLE_OP_XCR0, ORACLE_INVALID, oracle_xcr0(oracle_cpus()));
}

static enum needs available(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
		return NEEDS_AVX512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return NEEDS_AVX2;
	return NEEDS_NOTHING;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("selftest: cannot pin myself to a CPU");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	enum needs have = available();
	unsigned int skipped = 0;

	if (!oracle_present()) {
		fputs("selftest: this machine has no oracle\n", stderr);
		return 3;
	}
	pin(argc > 1 ? atoi(argv[1]) : 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("case\tcounter\texpected\tmeasured\terror\tverdict\n");
	for (unsigned int n = 0; n < sizeof(tests) / sizeof(tests[0]); n++) {
		if (tests[n].needs <= have)
			run(&tests[n]);
		else
			skipped++;
	}
	run_faults();
	if (have >= NEEDS_AVX2)
		run_xcr0();
	printf("# %u cases skipped for want of AVX2 or AVX-512, %d wrong\n", skipped, failures);
	return failures != 0;
}
