// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does the oracle count right in the kernel?  Runs code of exactly known
 * instruction counts with interrupts off when it is loaded, and compares.
 * Changes XCR0 for a moment, too, and sees whether the oracle sees that.
 *
 * Logs one line per case and counter, tab-separated, behind the prefix
 * "oracle-selftest:": case, counter (or the operation that was asked), expected,
 * measured, verdict; then one line "done" with the number of wrong ones.  The
 * module stays loaded, does nothing more and can be removed.
 */
#define pr_fmt(fmt) "oracle-selftest:\t" fmt

#include <linux/irqflags.h>
#include <linux/module.h>
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#include <asm/fpu/xcr.h>
#include <asm/linkage.h>

#define ORACLE_RETURN ASM_RET
#include "../selftest_bodies.h"

ORACLE_BODY(oracle_body_empty, "");
ORACLE_BODY(oracle_body_scalar, ORACLE_LOOP(1000, 10, "addq $3, %rdx"));
ORACLE_BODY(oracle_body_rep,
	    ORACLE_REPEAT(100, "movl $4096, %ecx\n\trep stosb\n\tsubq $4096, %rdi"));
ORACLE_BODY(oracle_body_256_light, ORACLE_LOOP(100, 10, "vpxor %ymm0, %ymm1, %ymm1"));
ORACLE_BODY(oracle_body_256_heavy, ORACLE_LOOP(100, 10, "vmulpd %ymm0, %ymm1, %ymm2"));
ORACLE_BODY(oracle_body_512_light, ORACLE_LOOP(100, 10, "vpaddq %zmm0, %zmm1, %zmm1"));
ORACLE_BODY(oracle_body_512_heavy, ORACLE_LOOP(100, 10, "vfmadd231pd %zmm0, %zmm1, %zmm2"));
/* Writes what XCR0 holds already. */
ORACLE_BODY(oracle_body_xsetbv, "xorl %ecx, %ecx\n\txgetbv\n\t" ORACLE_REPEAT(100, "xsetbv"));

#define IN_LOOP (1 + 100 * (10 + 2))
#define VECTORS 1000

static char buffer[4096];
static unsigned int wrong;

struct test {
	const char *name;
	void (*body)(void *memory);
	unsigned int feature; /* 0: none, and nothing of the FPU's */
	u64 retired;	      /* without the bracket's own */
	unsigned int vector;  /* counter of the vector instructions */
	u64 avx512;
	u64 xsetbv;
};

static const struct test tests[] = {
	{ "empty", oracle_body_empty, 0, 0, 0, 0 },
	{ "scalar", oracle_body_scalar, 0, 1 + 1000 * 12, 0, 0 },
	{ "rep", oracle_body_rep, 0, 300, 0, 0 },
	{ "256_light", oracle_body_256_light, X86_FEATURE_AVX2, IN_LOOP, ORACLE_V256_LIGHT, 0 },
	{ "256_heavy", oracle_body_256_heavy, X86_FEATURE_AVX2, IN_LOOP, ORACLE_V256_HEAVY, 0 },
	{ "512_light", oracle_body_512_light, X86_FEATURE_AVX512F, IN_LOOP, ORACLE_V512_LIGHT,
	  VECTORS },
	{ "512_heavy", oracle_body_512_heavy, X86_FEATURE_AVX512F, IN_LOOP, ORACLE_V512_HEAVY,
	  VECTORS },
	{ "xsetbv", oracle_body_xsetbv, X86_FEATURE_OSXSAVE, 2 + 100, 0, 0, 100 },
};

static void verdict(const char *name, unsigned int counter, u64 expected, u64 measured)
{
	bool same = expected == measured;

	wrong += !same;
	pr_info("%s\t%u\t%llu\t%llu\t%s\n", name, counter, expected, measured,
		same ? "exact" : "WRONG");
}

/* Reads the snapshot, which stays what it is until the next one. */
static void compare(const struct test *t, unsigned int cpu)
{
	unsigned int counter;

	verdict(t->name, ORACLE_RETIRED, t->retired + ORACLE_BRACKET_OVERHEAD,
		oracle_read(ORACLE_KERNEL + ORACLE_RETIRED, cpu));
	for (counter = ORACLE_V128_LIGHT; counter <= ORACLE_MASKS; counter++)
		verdict(t->name, counter, counter == t->vector ? VECTORS : 0,
			oracle_read(ORACLE_KERNEL + counter, cpu));
	verdict(t->name, ORACLE_AVX512, t->avx512, oracle_read(ORACLE_KERNEL + ORACLE_AVX512, cpu));
	verdict(t->name, ORACLE_XSETBV, t->xsetbv, oracle_read(ORACLE_XSETBV, cpu));
	verdict(t->name, ORACLE_USER + ORACLE_RETIRED, 0,
		oracle_read(ORACLE_USER + ORACLE_RETIRED, cpu));
}

static void run(const struct test *t)
{
	unsigned long flags;
	unsigned int cpu;

	if (t->feature)
		kernel_fpu_begin();
	local_irq_save(flags);
	cpu = oracle_self();
	t->body(buffer);
	local_irq_restore(flags);
	if (t->feature)
		kernel_fpu_end();
	compare(t, cpu);
}

/*
 * Reduces XCR0 for a moment, in which only the oracle is asked: of this CPU,
 * and of another one, whose XCR0 is its own.
 */
static void run_xcr0(void)
{
	u64 full, reduced, of_another, restored;
	unsigned int cpu, another;
	unsigned long flags;

	kernel_fpu_begin();
	local_irq_save(flags);
	cpu = oracle_self();
	another = (cpu + 1) % oracle_cpus();
	full = xgetbv(XCR_XFEATURE_ENABLED_MASK);
	xsetbv(XCR_XFEATURE_ENABLED_MASK, XFEATURE_MASK_FPSSE);
	reduced = oracle_xcr0(cpu);
	of_another = oracle_xcr0(another);
	xsetbv(XCR_XFEATURE_ENABLED_MASK, full);
	restored = oracle_xcr0(cpu);
	local_irq_restore(flags);
	kernel_fpu_end();

	verdict("xcr0_reduced", ORACLE_OP_XCR0, XFEATURE_MASK_FPSSE, reduced);
	if (another != cpu)
		verdict("xcr0_of_another", ORACLE_OP_XCR0, full, of_another);
	verdict("xcr0_restored", ORACLE_OP_XCR0, full, restored);
}

static int __init oracle_selftest_init(void)
{
	unsigned int i;

	if (!oracle_present()) {
		pr_err("this machine has no oracle\n");
		return -ENODEV;
	}
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		if (tests[i].feature && !boot_cpu_has(tests[i].feature))
			pr_info("%s\tskipped: the CPU lacks the instructions\n", tests[i].name);
		else
			run(&tests[i]);
	}
	if (boot_cpu_has(X86_FEATURE_OSXSAVE))
		run_xcr0();
	pr_info("done\t%u wrong\n", wrong);
	return 0;
}

static void __exit oracle_selftest_exit(void)
{
}

module_init(oracle_selftest_init);
module_exit(oracle_selftest_exit);
MODULE_DESCRIPTION("Self-test of the instruction-counting oracle at kernel level");
MODULE_LICENSE("GPL");
