// SPDX-License-Identifier: GPL-2.0-only
/*
 * vcpu ROUNDS THREADS SEED: each thread runs a virtual machine of its own,
 * of one CPU, which sets all its vector registers and changes its XCR0. The
 * thread has AVX-512 hidden from it, as often as not, when it enters the guest,
 * and random bits in all of its own registers. Neither may lose any.
 *
 * Prints what it counted as name=number. Fails if a register was lost, if
 * XCR0 was not what it had to be, or if the guest did anything unexpected.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vectors.h"

enum count {
	ENTRIES,	/* guests entered */
	ENTERED_HIDDEN, /* ... with AVX-512 hidden right before */
	LEFT_HIDDEN,	/* ... and right after */
	GUESTS_REDUCED, /* ... whose own XCR0 lacked AVX-512 meanwhile */
	LOST,		/* registers of the thread that were not what they should be */
	GUEST_LOST,	/* likewise of the guest */
	XCR0_WRONG,	/* times that the guest found another XCR0 than it had set */
	NR_COUNTS,
};

static const char *const names[NR_COUNTS] = {
	"entries",	  "entered_hidden",	  "left_hidden",      "guests_reduced",
	"registers_lost", "guest_registers_lost", "guest_xcr0_wrong",
};

static atomic_ulong counts[NR_COUNTS];
static unsigned long rounds;
static int kvm;

#define FULL_XCR0 0xe7ULL
static const uint64_t guest_xcr0s[] = { 0xe7, 0x07, 0x03, 0x01 };

/* The guest's memory, which is all of its address space. */
enum {
	TABLES = 0x1000, /* three of a page each */
	CODE = 0x4000,
	PAGE_TO_SET = 0x8000,
	PAGE_GOT = 0xa000,
	MEMORY_SIZE = 0x10000,
};

/* How the guest says what it has done. */
enum {
	PORT_SET = 1,
	PORT_GOT = 2,
};

struct to_set {
	struct vectors vectors; /* with the XCR0 to have meanwhile */
	uint64_t spins;		/* for which to stay in the guest, to be preempted there */
};

struct machine {
	uint8_t *memory;
	struct kvm_run *run;
	int vcpu;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/*
 * What the guest executes: r12 points to what is to be set, r13 to where the
 * registers go; rbx is the full XCR0. Never called here.
 */
/* clang-format off */
static __attribute__((used, noinline)) void guest_code(void)
{
	_Static_assert(__builtin_offsetof(struct to_set, spins) == 2176, "the assembler counts on it");

	__asm__ __volatile__(
		".pushsection .rodata\n"
		"guest_begin:\n\t"
		"xorl %%ecx, %%ecx\n\t"
		"xorl %%edx, %%edx\n\t"
		"movl %%ebx, %%eax\n\t"
		"xsetbv\n\t"
		SET_ALL
		"ldmxcsr 2112(%%r12)\n\t"
		"movl 2120(%%r12), %%eax\n\t"
		"xsetbv\n\t"
		"movq 2176(%%r12), %%rcx\n"
		"1: loop 1b\n\t"
		"outb %%al, $1\n\t"
		"xorl %%ecx, %%ecx\n\t"
		"xgetbv\n\t"
		"movl %%eax, 2120(%%r13)\n\t"
		"movl %%edx, 2124(%%r13)\n\t"
		"xorl %%edx, %%edx\n\t"
		"movl %%ebx, %%eax\n\t"
		"xsetbv\n\t"
		GET_ALL
		"stmxcsr 2112(%%r13)\n\t"
		"outb %%al, $2\n\t"
		"jmp guest_begin\n"
		"guest_end:\n"
		".popsection\n"
		: : : "memory");
}
/* clang-format on */
extern const char guest_begin[], guest_end[];

/* One page of 2 MB at address 0, and the code. */
static void fill_memory(uint8_t *memory)
{
	uint64_t *tables = (uint64_t *)(memory + TABLES);

	tables[0] = (TABLES + 0x1000) | 0x3;
	tables[512] = (TABLES + 0x2000) | 0x3;
	tables[1024] = 0x83;
	memcpy(memory + CODE, guest_begin, guest_end - guest_begin);
}

/* The guest has what this machine has, as far as KVM allows. */
static void set_cpuid(int vcpu)
{
	static const int room = 200;
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + room * sizeof(cpuid->entries[0]));

	cpuid->nent = room;
	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, cpuid))
		die("KVM_GET_SUPPORTED_CPUID");
	for (unsigned int n = 0; n < cpuid->nent; n++) {
		const struct kvm_cpuid_entry2 *entry = &cpuid->entries[n];

		if (entry->function == 0xd && entry->index == 0 &&
		    (entry->eax & FULL_XCR0) != FULL_XCR0) {
			fprintf(stderr, "KVM believes this machine's XCR0 to be %#x\n", entry->eax);
			exit(1);
		}
	}
	if (ioctl(vcpu, KVM_SET_CPUID2, cpuid))
		die("KVM_SET_CPUID2");
	free(cpuid);
}

/* 64-bit mode from the beginning: there is no AVX in real mode. */
static void set_mode(int vcpu)
{
	struct kvm_segment data = {
		.limit = 0xffffffff,
		.selector = 0x10,
		.type = 3,
		.present = 1,
		.s = 1,
		.g = 1,
	};
	struct kvm_sregs sregs;

	if (ioctl(vcpu, KVM_GET_SREGS, &sregs))
		die("KVM_GET_SREGS");
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
	sregs.cs = data;
	sregs.cs.selector = 0x8;
	sregs.cs.type = 0xb;
	sregs.cs.l = 1;
	sregs.cr3 = TABLES;
	sregs.cr0 = 0x80000013;	     /* PG, ET, MP, PE */
	sregs.cr4 = 0x40000 | 0x620; /* OSXSAVE; OSXMMEXCPT, OSFXSR, PAE */
	sregs.efer = 0x500;	     /* LMA, LME */
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs))
		die("KVM_SET_SREGS");
}

static void make(struct machine *machine)
{
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY_SIZE };
	struct kvm_regs regs = {
		.rip = CODE,
		.rflags = 2,
		.rbx = FULL_XCR0,
		.r12 = PAGE_TO_SET,
		.r13 = PAGE_GOT,
	};

	if (vm < 0)
		die("KVM_CREATE_VM");
	/* Where KVM keeps what it needs for real mode: away from our memory. */
	if (ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000UL))
		die("KVM_SET_TSS_ADDR");
	machine->memory =
		mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (machine->memory == MAP_FAILED)
		die("mmap");
	fill_memory(machine->memory);
	region.userspace_addr = (uintptr_t)machine->memory;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		die("KVM_SET_USER_MEMORY_REGION");
	machine->vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (machine->vcpu < 0)
		die("KVM_CREATE_VCPU");
	machine->run = mmap(NULL, ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
			    MAP_SHARED, machine->vcpu, 0);
	if (machine->run == MAP_FAILED)
		die("mmap of the virtual CPU");
	set_cpuid(machine->vcpu);
	set_mode(machine->vcpu);
	if (ioctl(machine->vcpu, KVM_SET_REGS, &regs))
		die("KVM_SET_REGS");
}

/* Runs the guest until it has done what it says through @port. */
static void enter(struct machine *machine, int port, uint64_t *random)
{
	static _Thread_local struct vectors set, got, expected;
	struct event event = {
		.load = random_bits(random) % NR_LOADS,
		.alter = random_bits(random) % 2,
		.number = SYS_ioctl,
		.argument = { machine->vcpu, KVM_RUN },
		.hide = random_bits(random) % 4 ? 0xe0 : 0,
	};
	const struct kvm_run *run = machine->run;

	randomize(&set, random);
	expect(&set, &event, &expected);
	between(&set, &got, &event);

	counts[LOST] += differences(&expected, &got, "KVM_RUN");
	counts[ENTRIES]++;
	counts[ENTERED_HIDDEN] += (event.xcr0 & XCR0_AVX512) == 0;
	counts[LEFT_HIDDEN] += (got.xcr0 & XCR0_AVX512) == 0;
	if (event.result || run->exit_reason != KVM_EXIT_IO || run->io.port != port) {
		fprintf(stderr, "KVM_RUN returned %ld: exit reason %u, port %u, not %d\n",
			event.result, run->exit_reason, run->io.port, port);
		exit(1);
	}
}

static void *work(void *seed)
{
	uint64_t random = (uint64_t)seed;
	struct machine machine;
	struct to_set *set;
	struct vectors *got;

	make(&machine);
	set = (struct to_set *)(machine.memory + PAGE_TO_SET);
	got = (struct vectors *)(machine.memory + PAGE_GOT);
	for (unsigned long n = 0; n < rounds; n++) {
		randomize(&set->vectors, &random);
		set->vectors.xcr0 = guest_xcr0s[random_bits(&random) % 4];
		set->spins = 1 + random_bits(&random) % (random_bits(&random) % 8 ? 100 : 50000);
		memset(got, 0, sizeof(*got));
		enter(&machine, PORT_SET, &random);
		enter(&machine, PORT_GOT, &random);
		counts[GUEST_LOST] += differences(&set->vectors, got, "the guest");
		counts[XCR0_WRONG] += got->xcr0 != set->vectors.xcr0;
		counts[GUESTS_REDUCED] += set->vectors.xcr0 != FULL_XCR0;
	}
	return NULL;
}

static int run(int threads, uint64_t seed)
{
	pthread_t thread[threads];

	kvm = open("/dev/kvm", O_RDWR);
	if (kvm < 0)
		die("/dev/kvm");
	for (int n = 0; n < threads; n++)
		pthread_create(&thread[n], NULL, work, (void *)random_bits(&seed));
	for (int n = 0; n < threads; n++)
		pthread_join(thread[n], NULL);
	for (int n = 0; n < NR_COUNTS; n++)
		printf("%s=%lu\n", names[n], counts[n]);
	return counts[LOST] || counts[GUEST_LOST] || counts[XCR0_WRONG];
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 3 ? strtoul(argv[3], NULL, 0) * 2 + 1 : 1;

	rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 10;
	return run(argc > 2 ? atoi(argv[2]) : 1, seed);
}
