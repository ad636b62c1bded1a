// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's side of the tests of the patch: what no user program can do or see.
 *
 *  - /sys/module/hiding_test/parameters/cpus shows for each CPU what is in its
 *    XCR0 and what the patch believes to be missing from it.
 *  - exec_checks: how often /bin/true was started while the kernel used AVX-512 in
 *    the middle of it; reduced_in_exec: how often XCR0 was reduced before that.
 *    It does so if loaded with use_in_exec=1. With guest_in_exec=1 it enters a
 *    confidential guest instead, and leaves it again, as KVM would.
 *  - reduced_for_kvm: how often KVM was made to look for XCR0 as if AVX-512 were
 *    hidden from the task that loads it, if kvm_loads_reduced=1. kvm.ko has to be
 *    there already.
 *  - reduced_at_stop: how many CPUs were made to look as if they were in user
 *    mode with AVX-512 hidden at the moment when hiding has been switched off;
 *    reduced_after_stop: how many still were when all that was done.
 *  - wrong: results of the kernel's AVX-512 that were not right, and guests that
 *    would have been entered with a reduced XCR0.
 */
#include <linux/binfmts.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include <asm/fpu/api.h>
#include <asm/fpu/types.h>
#include <asm/fpu/xcr.h>

#define AVX512 (XFEATURE_MASK_OPMASK | XFEATURE_MASK_ZMM_Hi256 | XFEATURE_MASK_Hi16_ZMM)

static u32 __percpu *hidden;
static u64 full_xcr0;
static unsigned long switch_address;
static struct tracepoint *exec_tracepoint;

static bool use_in_exec;
module_param(use_in_exec, bool, 0400);
static bool guest_in_exec;
module_param(guest_in_exec, bool, 0400);
static bool kvm_loads_reduced;
module_param(kvm_loads_reduced, bool, 0400);

/* What later kernels export to KVM alone. */
static typeof(fpu_alloc_guest_fpstate) *alloc_guest;
static typeof(fpu_free_guest_fpstate) *free_guest;
static typeof(fpu_swap_kvm_fpstate) *swap_guest;

static struct fpu_guest guest;
static DEFINE_SPINLOCK(guest_lock);

static atomic_t exec_checks, reduced_in_exec, reduced_for_kvm, reduced_at_stop, reduced_after_stop,
	wrong;

struct view {
	u64 xcr0;
	u32 hidden;
};

static void look(void *views)
{
	struct view *view = (struct view *)views + smp_processor_id();

	view->xcr0 = xgetbv(XCR_XFEATURE_ENABLED_MASK);
	view->hidden = *this_cpu_ptr(hidden);
}

static int show_cpus(char *buffer, const struct kernel_param *param)
{
	struct view *views = kcalloc(nr_cpu_ids, sizeof(*views), GFP_KERNEL);
	int cpu, length = 0;

	if (!views)
		return -ENOMEM;
	cpus_read_lock();
	on_each_cpu(look, views, 1);
	for_each_online_cpu(cpu) length +=
		sysfs_emit_at(buffer, length, "cpu=%d xcr0=0x%llx hidden=0x%x\n", cpu,
			      views[cpu].xcr0, views[cpu].hidden);
	cpus_read_unlock();
	kfree(views);
	return length;
}

static int show_count(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(param->arg));
}

static const struct kernel_param_ops cpus_ops = { .get = show_cpus };
static const struct kernel_param_ops count_ops = { .get = show_count };

module_param_cb(cpus, &cpus_ops, NULL, 0400);
module_param_cb(exec_checks, &count_ops, &exec_checks, 0400);
module_param_cb(reduced_in_exec, &count_ops, &reduced_in_exec, 0400);
module_param_cb(reduced_for_kvm, &count_ops, &reduced_for_kvm, 0400);
module_param_cb(reduced_at_stop, &count_ops, &reduced_at_stop, 0400);
module_param_cb(reduced_after_stop, &count_ops, &reduced_after_stop, 0400);
module_param_cb(wrong, &count_ops, &wrong, 0400);

/* The kernel's own use of AVX-512: sums that a lost register would falsify. */
static void use_avx512(void)
{
	u64 terms[8], sums[8];
	int lane;

	for (lane = 0; lane < 8; lane++)
		terms[lane] = get_random_u64();
	kernel_fpu_begin();
	asm volatile("vmovdqu64 %1, %%zmm31\n\t"
		     "vpaddq %%zmm31, %%zmm31, %%zmm17\n\t"
		     "vpaddq %%zmm17, %%zmm31, %%zmm1\n\t"
		     "vmovdqu64 %%zmm1, %0"
		     : "=m"(sums)
		     : "m"(terms));
	kernel_fpu_end();
	for (lane = 0; lane < 8; lane++)
		if (sums[lane] != 3 * terms[lane])
			atomic_inc(&wrong);
}

/* What KVM_RUN does around a guest whose registers the host never sees. */
static void enter_guest(void)
{
	spin_lock(&guest_lock);
	swap_guest(&guest, true);
	if (xgetbv(XCR_XFEATURE_ENABLED_MASK) != full_xcr0)
		atomic_inc(&wrong);
	swap_guest(&guest, false);
	spin_unlock(&guest_lock);
}

/*
 * The new program's registers are in memory, the old one's were never saved: it
 * takes kernel_fpu_begin() or the swap for a guest itself to make XCR0 full.
 */
static void on_exec(void *unused, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
{
	if (*this_cpu_ptr(hidden))
		atomic_inc(&reduced_in_exec);
	if (!use_in_exec && !guest_in_exec)
		return;
	if (guest_in_exec)
		enter_guest();
	else
		use_avx512();
	if (!strcmp(bprm->filename, "/bin/true"))
		atomic_inc(&exec_checks);
}

static void reduce_this_cpu(void *unused)
{
	xsetbv(XCR_XFEATURE_ENABLED_MASK, full_xcr0 & ~AVX512);
	*this_cpu_ptr(hidden) = AVX512;
}

static int on_switch_off(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	return regs->di == switch_address ? 0 : 1;
}

/*
 * A CPU that has not left user mode since its task was let go looks like this. As long as hiding
 * is not off yet, its return to user mode would make XCR0 full.
 */
static int on_switched_off(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	smp_call_function(reduce_this_cpu, NULL, 1);
	atomic_add(num_online_cpus() - 1, &reduced_at_stop);
	return 0;
}

static struct kretprobe switch_probe = {
	.kp.symbol_name = "static_key_disable",
	.entry_handler = on_switch_off,
	.handler = on_switched_off,
};

static int on_stopped(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	int cpu;

	for_each_online_cpu(cpu) if (*per_cpu_ptr(hidden, cpu)) atomic_inc(&reduced_after_stop);
	return 0;
}

static struct kretprobe stopped_probe = {
	.kp.symbol_name = "fpu_hiding_stop",
	.handler = on_stopped,
};

/*
 * Just before KVM reads XCR0. A module loader that is hidden from has usually been
 * switched out once by then, which makes XCR0 full: but nothing promises that.
 */
static int on_kvm(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	reduce_this_cpu(NULL);
	atomic_inc(&reduced_for_kvm);
	return 0;
}

static struct kretprobe kvm_probe = {
	.kp.symbol_name = "kvm_mmu_vendor_module_init",
	.handler = on_kvm,
};

/* Addresses that are not exported, as debuggers find them. */
static unsigned long address_of(const char *name)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	unsigned long (*lookup)(const char *name);

	if (register_kprobe(&probe))
		return 0;
	lookup = (void *)probe.addr;
	unregister_kprobe(&probe);
	return lookup(name);
}

static void find_exec(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "sched_process_exec"))
		exec_tracepoint = tracepoint;
}

static int __init hiding_test_init(void)
{
	int error;

	hidden = (u32 __percpu *)address_of("fpu_hidden");
	switch_address = address_of("fpu_hiding");
	for_each_kernel_tracepoint(find_exec, NULL);
	alloc_guest = (void *)address_of("fpu_alloc_guest_fpstate");
	free_guest = (void *)address_of("fpu_free_guest_fpstate");
	swap_guest = (void *)address_of("fpu_swap_kvm_fpstate");
	if (!hidden || !switch_address || !exec_tracepoint || !alloc_guest || !free_guest ||
	    !swap_guest)
		return -ENOENT;

	kernel_fpu_begin();
	full_xcr0 = xgetbv(XCR_XFEATURE_ENABLED_MASK);
	kernel_fpu_end();

	if (!alloc_guest(&guest))
		return -ENOMEM;
	fpstate_set_confidential(&guest);

	error = register_kretprobe(&switch_probe);
	if (error)
		goto free;
	error = register_kretprobe(&stopped_probe);
	if (error)
		goto unregister_switch;
	error = tracepoint_probe_register(exec_tracepoint, on_exec, NULL);
	if (error)
		goto unregister_stopped;
	if (kvm_loads_reduced) {
		error = register_kretprobe(&kvm_probe);
		if (error)
			goto unregister_exec;
	}
	return 0;

unregister_exec:
	tracepoint_probe_unregister(exec_tracepoint, on_exec, NULL);
	tracepoint_synchronize_unregister();
unregister_stopped:
	unregister_kretprobe(&stopped_probe);
unregister_switch:
	unregister_kretprobe(&switch_probe);
free:
	free_guest(&guest);
	return error;
}

static void __exit hiding_test_exit(void)
{
	if (kvm_loads_reduced)
		unregister_kretprobe(&kvm_probe);
	tracepoint_probe_unregister(exec_tracepoint, on_exec, NULL);
	tracepoint_synchronize_unregister();
	unregister_kretprobe(&stopped_probe);
	unregister_kretprobe(&switch_probe);
	free_guest(&guest);
}

module_init(hiding_test_init);
module_exit(hiding_test_exit);
MODULE_DESCRIPTION("Test of hiding xfeatures");
MODULE_LICENSE("GPL");
