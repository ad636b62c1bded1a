// SPDX-License-Identifier: GPL-2.0-only
/*
 * Do the registers behind CPUID faulting do what Intel's manual says?  Tries
 * them when it is loaded, on the CPU where that happens: loading fails where
 * they do not, and the kernel's log says in what.
 */
#define pr_fmt(fmt) "cpuid-msrs: " fmt

#include <linux/irqflags.h>
#include <linux/module.h>
#include <asm/msr.h>

#define REFUSE_UNLESS(condition)                    \
	do {                                        \
		if (!(condition)) {                 \
			pr_err("%s\n", #condition); \
			return -EIO;                \
		}                                   \
	} while (0)

static u64 features(void)
{
	u64 value = ~0ULL;

	rdmsrl_safe(MSR_MISC_FEATURES_ENABLES, &value);
	return value;
}

static int try_platform_info(void)
{
	u64 value;

	REFUSE_UNLESS(!rdmsrl_safe(MSR_PLATFORM_INFO, &value));
	REFUSE_UNLESS(value & MSR_PLATFORM_INFO_CPUID_FAULT);
	REFUSE_UNLESS(wrmsrl_safe(MSR_PLATFORM_INFO, value));
	return 0;
}

static int try_features(void)
{
	unsigned int bit;

	REFUSE_UNLESS(features() == 0);
	for (bit = 1; bit < 64; bit++) {
		REFUSE_UNLESS(wrmsrl_safe(MSR_MISC_FEATURES_ENABLES, BIT_ULL(bit)));
		REFUSE_UNLESS(features() == 0);
	}
	REFUSE_UNLESS(
		!wrmsrl_safe(MSR_MISC_FEATURES_ENABLES, MSR_MISC_FEATURES_ENABLES_CPUID_FAULT));
	REFUSE_UNLESS(features() == MSR_MISC_FEATURES_ENABLES_CPUID_FAULT);
	/* The kernel has CPL 0: this must not fault. */
	REFUSE_UNLESS(cpuid_eax(0) > 0);
	REFUSE_UNLESS(!wrmsrl_safe(MSR_MISC_FEATURES_ENABLES, 0));
	REFUSE_UNLESS(features() == 0);
	return 0;
}

static int __init cpuid_msrs_init(void)
{
	unsigned long flags;
	int error;

	/* A change of tasks may write the register. */
	local_irq_save(flags);
	error = try_platform_info() ?: try_features();
	local_irq_restore(flags);
	return error;
}

static void __exit cpuid_msrs_exit(void)
{
}

module_init(cpuid_msrs_init);
module_exit(cpuid_msrs_exit);
MODULE_DESCRIPTION("Test of the registers behind CPUID faulting");
MODULE_LICENSE("GPL");
