/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Programs start with a quiet C library: one that does not see AVX-512.
 *
 * Problem. The C library's string functions have the encoding of AVX-512. A task
 * that calls them between its bursts faults at them all the time, and has to be
 * kept on AVX cores with all its work.
 *
 * Mechanism. AVX-512 is hidden from a program from exec until its C library has
 * chosen its string functions. It does that before it sets up thread-local storage.
 * All other code looks for AVX-512 afterwards, and finds it.
 *
 * Nothing is hidden from a program that needs AVX-512 to start, by its own mark or that
 * of its dynamic linker: see elf.bpf.h. The marks are read in its memory before it begins
 * to run. If they cannot be read, nothing is hidden either.
 *
 * Nothing is hidden where CPUID(0xD, 0) tells a smaller size of an image while AVX-512 is hidden.
 * A C library that was told not to use XSAVEC keeps that size, and its trampolines for lazy
 * binding would write past the end of the image as soon as AVX-512 is visible. The size is the
 * same where something behind AVX-512 is in use, as protection keys are. Elsewhere the agent does
 * not load these BPF programs.
 *
 * Limits. Marks of other libraries are not looked for: a program is known to need
 * AVX-512 only by its own mark or that of its dynamic linker. A program that asks the C
 * library instead of the CPU is told that there is no AVX-512. The operator names such
 * programs: never-hide. A 64-bit program that a 32-bit program starts does not get a
 * quiet C library. Nor does a program that starts on a CPU where this code was
 * interrupted while it looked at another one: the kernel does not call a BPF program
 * within itself. Neither counter has such a program.
 */
#ifndef AVXSPEC_QUIET_BPF_H
#define AVXSPEC_QUIET_BPF_H

#include "decide/elf.bpf.h"
#include "policy.bpf.h"
#include "state.bpf.h"
#include "visibility.bpf.h"

#define PT_LOAD 1
#define PT_PHDR 6
#define PT_GNU_PROPERTY 0x6474e553

#define AT_NULL 0
#define AT_PHDR 3
#define AT_PHNUM 5
#define AT_BASE 7
#define MAX_AUX 32

/* The kernel accepts no program with more of them. */
#define MAX_SEGMENTS 1170

/* An ELF object in memory, by its program headers. */
struct elf_object {
	u64 headers;
	u64 nr_headers;
};

/*
 * Where the address 0 of the file is in memory: the address of the headers, less the
 * address that the file has for them.
 */
struct elf_bias {
	bool is_known;
	u64 value;
};

static void learn_bias(struct elf_bias *bias, const struct elf64_phdr *segment, u64 headers)
{
	if (bias->is_known)
		return;
	if (segment->p_type == PT_PHDR)
		bias->value = headers - segment->p_vaddr;
	else if (segment->p_type == PT_LOAD && !segment->p_offset)
		bias->value = headers - sizeof(struct elf64_hdr) - segment->p_vaddr;
	else
		return;
	bias->is_known = true;
}

/*
 * Returns true if the object is known not to need AVX-512. Global, so that the verifier goes
 * through it once for both objects.
 */
__noinline bool does_without_avx512(u64 headers, u64 nr_headers)
{
	struct elf64_phdr segment, properties = {};
	struct elf_bias bias = {};
	u32 note[NOTE_WORDS] = {}, length;
	u32 n;

	bpf_for(n, 0, at_most(nr_headers, MAX_SEGMENTS)) {
		if (bpf_copy_from_user(&segment, sizeof(segment),
				       (void *)(headers + n * sizeof(segment))))
			return false;
		learn_bias(&bias, &segment, headers);
		if (segment.p_type == PT_GNU_PROPERTY)
			properties = segment;
	}
	if (!properties.p_type)
		return true;

	length = at_most(properties.p_filesz, NOTE_BYTES);
	if (!bias.is_known || !length ||
	    bpf_copy_from_user(note, length, (void *)(bias.value + properties.p_vaddr)))
		return false;
	return !needs_x86_64_v4(note, length);
}

/* Finds the program headers of the object that the kernel loaded at @base. */
static bool object_at(u64 base, struct elf_object *object)
{
	struct elf64_hdr header;

	if (bpf_copy_from_user(&header, sizeof(header), (void *)base))
		return false;
	object->headers = base + header.e_phoff;
	object->nr_headers = header.e_phnum;
	return true;
}

/*
 * Finds what the kernel told the program about itself and its dynamic linker. A static
 * program has no dynamic linker.
 */
static bool find_objects(struct elf_object *program, u64 *linker)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u64 mm, n;

	if (bpf_probe_read_kernel(&mm, sizeof(mm), &p->mm) || !mm)
		return false;
	mm += bpf_core_field_offset(struct mm_struct, saved_auxv);

	bpf_for(n, 0, MAX_AUX) {
		struct {
			u64 type;
			u64 value;
		} aux;

		if (bpf_probe_read_kernel(&aux, sizeof(aux), (void *)(mm + n * sizeof(aux))))
			return false;
		if (aux.type == AT_NULL)
			break;
		if (aux.type == AT_PHDR)
			program->headers = aux.value;
		if (aux.type == AT_PHNUM)
			program->nr_headers = aux.value;
		if (aux.type == AT_BASE)
			*linker = aux.value;
	}
	return program->headers && program->nr_headers;
}

/* Returns true if nothing that the kernel loaded needs AVX-512. */
static bool starts_without_avx512(void)
{
	struct elf_object program = {}, linker = {};
	u64 base = 0;

	if (!find_objects(&program, &base) ||
	    !does_without_avx512(program.headers, program.nr_headers))
		return false;
	if (!base)
		return true;
	return object_at(base, &linker) && does_without_avx512(linker.headers, linker.nr_headers);
}

/*
 * Returns true if @p is to start with a quiet C library. @p executed another program, so it is the
 * first thread of its process.
 */
static bool wants_quiet(struct task_struct *p)
{
	const struct avx_process *process = bpf_task_storage_get(&processes, p, 0, 0);
	const struct avx_policy *policy;
	bool wanted;

	bpf_rcu_read_lock();
	policy = current_policy();
	wanted = policy && wants_quiet_libraries(policy);
	bpf_rcu_read_unlock();
	return wanted && process && !process->named;
}

/* The calling task executes another program if there was no @error. Nothing of it has run yet. */
static int executed(long error)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = lookup_task(p);

	if (error || !tctx || p->thread_info.flags & THREAD_OF_32_BITS || !wants_quiet(p))
		return 0;
	if (starts_without_avx512()) {
		begin_quiet(p, tctx);
		stat_add(quiet_starts, 1);
	} else {
		stat_add(loud_starts, 1);
	}
	return 0;
}

SEC("?fexit.s/__x64_sys_execve")
int BPF_PROG(avxspec_execve, const struct pt_regs *regs, long error)
{
	return executed(error);
}

SEC("?fexit.s/__x64_sys_execveat")
int BPF_PROG(avxspec_execveat, const struct pt_regs *regs, long error)
{
	return executed(error);
}

#endif /* AVXSPEC_QUIET_BPF_H */
