// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whatever the kernel is asked for by one of its functions, the second argument is
 * what the test says. So it refuses what it would grant.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *of;
module_param(of, charp, 0444);
MODULE_PARM_DESC(of, "the function");

static unsigned long is;
module_param(is, ulong, 0444);
MODULE_PARM_DESC(is, "what its second argument is");

static int replace_argument(struct kprobe *probe, struct pt_regs *regs)
{
	regs->si = is;
	return 0;
}

static struct kprobe probe = { .pre_handler = replace_argument };

static int __init second_argument_init(void)
{
	probe.symbol_name = of;
	return register_kprobe(&probe);
}

static void __exit second_argument_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(second_argument_init);
module_exit(second_argument_exit);
MODULE_DESCRIPTION("Makes the kernel refuse what it would grant");
MODULE_LICENSE("GPL");
