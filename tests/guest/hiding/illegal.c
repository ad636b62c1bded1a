// SPDX-License-Identifier: GPL-2.0-only
/*
 * illegal ROUNDS SEED: instructions that are genuinely illegal, among others
 * that only fault while AVX-512 is hidden. Each raises its signal as often as
 * it is executed, with the usual information, and no other instruction does.
 * No vector register changes by it.
 *
 * Prints what it counted as name=number, and fails if that is not so.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vectors.h"

enum count {
	ILLEGAL,       /* executions that had to raise SIGILL */
	SIGILLS,       /* SIGILL that came with what belongs to it */
	PRIVILEGED,    /* executions that had to raise SIGSEGV, most of them by #GP */
	SIGSEGVS,      /* SIGSEGV that came with what belongs to it */
	SIGILL_WRONG,  /* SIGILL that was missing, was one too many, or told something wrong */
	SIGSEGV_WRONG, /* likewise */
	LOST,	       /* registers that were not what they should be */
	HIDDEN,	       /* times that AVX-512 was hidden just before */
	NR_COUNTS,
};

static const char *const names[NR_COUNTS] = {
	"illegal",	"sigills",	 "privileged",	   "sigsegvs",
	"sigill_wrong", "sigsegv_wrong", "registers_lost", "hidden",
};

static unsigned long counts[NR_COUNTS];

enum trap {
	TRAP_UD = 6,
	TRAP_GP = 13,
	TRAP_PF = 14,
};

/* What (%rsi) is for the instructions that have it as their operand. */
static uint8_t scratch[128] __attribute__((aligned(64)));
static const uint32_t bad_mxcsr = 0xffffffff;
/* XCOMP_BV without the bit for the compacted format; a component that never exists. */
static const uint8_t bad_xcomp[4096] __attribute__((aligned(64))) = { [520] = 0x01 };
static const uint8_t bad_xstate[4096] __attribute__((aligned(64))) = { [519] = 0x40 };
#define NOWHERE ((const void *)64)
#define NOT_CANONICAL ((const void *)(1ULL << 63))

/* A bit of CPUID's leaf 7: EBX, ECX, EDX of subleaf 0, EAX of subleaf 1. */
enum {
	B = 1,
	C = B + 32,
	D = C + 32,
	A1 = D + 32,
};

struct kind {
	const char *name;
	const char *bytes;
	size_t length;
	enum trap trap;
	const void *operand;
	/* Legal on CPUs that have this, so left out there. */
	int feature;
};

#define CODE(bytes) bytes, sizeof(bytes) - 1
#define UD(name, bytes) { name, CODE(bytes), TRAP_UD, scratch, 0 }
#define LACKING(name, bytes, feature) { name, CODE(bytes), TRAP_UD, scratch, feature }
#define GP(name, bytes) { name, CODE(bytes), TRAP_GP, scratch, 0 }
#define GP_OF(name, bytes, operand) { name, CODE(bytes), TRAP_GP, operand, 0 }
#define PF_OF(name, bytes, operand) { name, CODE(bytes), TRAP_PF, operand, 0 }

/* Most are one or two bits away from a legal instruction. */
static const struct kind kinds[] = {
	UD("ud2", "\x0f\x0b"),
	UD("ud1", "\x0f\xb9\xc0"),
	UD("ud0", "\x0f\xff\xc0"),
	UD("lock mov %ecx,%eax", "\xf0\x89\xc8"),
	UD("lock nop", "\xf0\x90"),
	UD("push %es", "\x06"),
	UD("daa", "\x27"),
	UD("lea of a register", "\x8d\xc0"),
	UD("mov %eax,%cs", "\x8e\xc8"),

	/* 62 f1 6d 48 fe d9: vpaddd %zmm1,%zmm2,%zmm3 */
	UD("EVEX: bit 3 of P0", "\x62\xf9\x6d\x48\xfe\xd9"),
	UD("EVEX: bit 2 of P1 clear", "\x62\xf1\x69\x48\xfe\xd9"),
	UD("EVEX: map 0", "\x62\xf0\x6d\x48\xfe\xd9"),
	UD("EVEX: map 7", "\x62\xf7\x6d\x48\xfe\xd9"),
	UD("EVEX: L'L of 3", "\x62\xf1\x6d\x68\xfe\xd9"),
	UD("EVEX: zeroing by k0", "\x62\xf1\x6d\xc8\xfe\xd9"),
	UD("EVEX: rounding of integers", "\x62\xf1\x6d\x58\xfe\xd9"),
	UD("EVEX: after LOCK", "\xf0\x62\xf1\x6d\x48\xfe\xd9"),
	UD("EVEX: after 66", "\x66\x62\xf1\x6d\x48\xfe\xd9"),
	UD("EVEX: after F3", "\xf3\x62\xf1\x6d\x48\xfe\xd9"),
	UD("EVEX: after REX", "\x48\x62\xf1\x6d\x48\xfe\xd9"),
	UD("EVEX: no such opcode", "\x62\xf1\x7c\x48\x04\xd9"),
	/* 62 f1 fd 48 6f d1: vmovdqa64 %zmm1,%zmm2 */
	UD("EVEX: vvvv of a move", "\x62\xf1\xf5\x48\x6f\xd1"),
	UD("EVEX: V' of a move", "\x62\xf1\xfd\x40\x6f\xd1"),
	/* 62 f1 7d 49 7f 0e: vmovdqa32 %zmm1,(%rsi){%k1} */
	UD("EVEX: zeroing of memory", "\x62\xf1\x7d\xc9\x7f\x0e"),
	/* 62 f1 6d 49 76 d9: vpcmpeqd %zmm1,%zmm2,%k3{%k1} */
	UD("EVEX: zeroing of a mask", "\x62\xf1\x6d\xc9\x76\xd9"),
	UD("EVEX: k11", "\x62\x71\x6d\x48\x76\xd9"),
	/* 62 f2 7d 49 90 14 0e: vpgatherdd (%rsi,%zmm1,1),%zmm2{%k1} */
	UD("EVEX: gather by k0", "\x62\xf2\x7d\x48\x90\x14\x0e"),
	UD("EVEX: gather into its index", "\x62\xf2\x7d\x49\x90\x0c\x0e"),

	/* c4 e1 6d fe d9 or c5 ed fe d9: vpaddd %ymm1,%ymm2,%ymm3 */
	UD("VEX: map 0", "\xc4\xe0\x6d\xfe\xd9"),
	UD("VEX: map 31", "\xc4\xff\x6d\xfe\xd9"),
	UD("VEX: after LOCK", "\xf0\xc5\xed\xfe\xd9"),
	UD("VEX: after 66", "\x66\xc5\xed\xfe\xd9"),
	/* c5 fd 6f d1: vmovdqa %ymm1,%ymm2 */
	UD("VEX: vvvv of a move", "\xc5\xf5\x6f\xd1"),
	/* c5 f9 6e c0: vmovd %eax,%xmm0 */
	UD("VEX: L of vmovd", "\xc5\xfd\x6e\xc0"),
	/* c5 f8 90 ca: kmovw %k2,%k1; c5 ec 41 cb: kandw %k3,%k2,%k1 */
	UD("VEX: L of kmovw", "\xc5\xfc\x90\xca"),
	UD("VEX: kandw without L", "\xc5\xe8\x41\xcb"),

	/* Of these, each CPU with AVX-512 has others. */
	LACKING("vpmadd52luq", "\x62\xf2\xed\x48\xb4\xd9", B + 21),
	LACKING("vexp2ps", "\x62\xf2\x7d\x48\xc8\xd1", B + 27),
	LACKING("vpermb", "\x62\xf2\x6d\x48\x8d\xd9", C + 1),
	LACKING("vpshldd", "\x62\xf3\x6d\x48\x71\xd9\x05", C + 6),
	LACKING("vgf2p8mulb", "\x62\xf2\x6d\x48\xcf\xd9", C + 8),
	LACKING("vaesenc of zmm", "\x62\xf2\x6d\x48\xdc\xd9", C + 9),
	LACKING("vpclmulqdq of zmm", "\x62\xf3\x6d\x48\x44\xd9\x00", C + 10),
	LACKING("vpdpbusd", "\x62\xf2\x6d\x48\x50\xd9", C + 11),
	LACKING("vpshufbitqmb", "\x62\xf2\x6d\x48\x8f\xd9", C + 12),
	LACKING("vpopcntd", "\x62\xf2\x7d\x48\x55\xd1", C + 14),
	LACKING("vp2intersectd", "\x62\xf2\x6f\x48\x68\xd1", D + 8),
	LACKING("vaddph", "\x62\xf5\x6c\x48\x58\xd9", D + 23),
	LACKING("ldtilecfg", "\xc4\xe2\x78\x49\x06", D + 24),
	LACKING("vdpbf16ps", "\x62\xf2\x6e\x48\x52\xd9", A1 + 5),

	GP("hlt", "\xf4"),
	GP("mov %cr0,%rax", "\x0f\x20\xc0"),
	GP("wrmsr", "\x0f\x30"),
	GP("xsetbv", "\x0f\x01\xd1"),
	GP("lgdt (%rsi)", "\x0f\x01\x16"),
	GP("cli", "\xfa"),
	GP("in $0x80,%al", "\xe4\x80"),
	GP_OF("xrstor64 of a reserved header", "\x48\x0f\xae\x2e", bad_xcomp),
	GP_OF("xrstor64 of a reserved component", "\x48\x0f\xae\x2e", bad_xstate),
	GP_OF("ldmxcsr of reserved bits", "\x0f\xae\x16", &bad_mxcsr),
	/* These have two reasons to fault while AVX-512 is hidden. */
	GP_OF("misaligned vmovdqa64", "\x62\xf1\xfd\x48\x6f\x06", scratch + 1),
	GP_OF("vmovdqu64 from no address", "\x62\x61\xfe\x48\x6f\x3e", NOT_CANONICAL),
	PF_OF("vmovdqu64 from nowhere", "\x62\xf1\xfe\x48\x6f\x06", NOWHERE),
	PF_OF("vmovdqu64 to nowhere", "\x62\x61\xfe\x48\x7f\x3e", NOWHERE),
};

#define NR_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Asked for once: CPUID may fault while AVX-512 is hidden, and unhide it. */
static uint32_t leaf_7[4];

static void read_leaf_7(void)
{
	uint32_t last_subleaf, unused;

	__cpuid_count(7, 0, last_subleaf, leaf_7[0], leaf_7[1], leaf_7[2]);
	if (last_subleaf)
		__cpuid_count(7, 1, leaf_7[3], unused, unused, unused);
}

static int is_legal_here(const struct kind *kind)
{
	int bit = kind->feature - B;

	return kind->feature && leaf_7[bit / 32] >> bit % 32 & 1;
}

/* What stands around the instruction, so that it is not always it that faults first. */
enum surround {
	LEGAL_BEFORE = 1,
	LEGAL_AFTER = 2,
	NR_SURROUNDS = 4,
};

/* kortestw %k0,%k0; vmovdqa64 %zmm31,%zmm31: neither changes a register. */
static const char legal[] = "\xc5\xf8\x98\xc0\x62\x01\xfd\x48\x6f\xff";
/* To where execute() goes on: a call would write below its stack pointer. */
static const char jmp_r11[] = "\x41\xff\xe3";

struct stub {
	uint8_t code[48];
	const uint8_t *at;    /* the instruction */
	const uint8_t *after; /* what follows it */
};

static struct stub *stubs;

static uint8_t *append(uint8_t *to, const char *bytes, size_t length)
{
	memcpy(to, bytes, length);
	return to + length;
}

static void write_stub(struct stub *stub, const struct kind *kind, int surround)
{
	uint8_t *to = stub->code;

	if (surround & LEGAL_BEFORE)
		to = append(to, legal, sizeof(legal) - 1);
	stub->at = to;
	to = append(to, kind->bytes, kind->length);
	stub->after = to;
	if (surround & LEGAL_AFTER)
		to = append(to, legal, sizeof(legal) - 1);
	append(to, jmp_r11, sizeof(jmp_r11) - 1);
}

static int write_stubs(void)
{
	size_t size = NR_KINDS * NR_SURROUNDS * sizeof(*stubs);

	stubs = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stubs == MAP_FAILED)
		return -1;
	for (size_t n = 0; n < NR_KINDS * NR_SURROUNDS; n++)
		write_stub(&stubs[n], &kinds[n / NR_SURROUNDS], n % NR_SURROUNDS);
	return mprotect(stubs, size, PROT_READ | PROT_EXEC);
}

/*
 * What is being executed, and what the signal handler saw of it: volatile, as
 * the compiler believes that execute() does not touch this.
 */
static volatile struct {
	const struct kind *kind;
	const struct stub *stub;
	int times; /* how often the handler lets it be executed */
	int yields;
	int signals;
	int right;
} current;

/* A signal that comes again and again is not waited out. */
#define TOO_MANY 20
/* Who gets so many wrong does not have to hear of all. */
#define ENOUGH_SAID 50

/*
 * A handler must not unhide what it is to be hidden from, so nothing that it
 * calls may touch a vector register.
 */
#define PLAIN __attribute__((target("general-regs-only")))

static PLAIN int is_right(int signal, const siginfo_t *info, const greg_t *registers)
{
	const uint8_t *at = current.stub->at;

	if ((const uint8_t *)registers[REG_RIP] != at ||
	    registers[REG_TRAPNO] != (greg_t)current.kind->trap)
		return 0;
	switch (current.kind->trap) {
	case TRAP_UD:
		return signal == SIGILL && info->si_code == ILL_ILLOPN && info->si_addr == at;
	case TRAP_GP:
		return signal == SIGSEGV && info->si_code == SI_KERNEL && !info->si_addr;
	default:
		return signal == SIGSEGV && info->si_code == SEGV_MAPERR &&
		       info->si_addr == current.kind->operand;
	}
}

static PLAIN void give_up(const greg_t *registers)
{
	dprintf(STDERR_FILENO, "illegal: %s: no end of signals at %#llx\n",
		current.kind ? current.kind->name : "nothing", registers[REG_RIP]);
	_exit(1);
}

/*
 * Changes nothing in the frame but the instruction pointer. Whoever is hidden
 * from after a system call in here returns to registers that may be in use.
 */
static PLAIN void on_signal(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	if (++current.signals > TOO_MANY || !current.kind)
		give_up(registers);
	current.right += is_right(signal, info, registers);
	if ((const uint8_t *)registers[REG_RIP] == current.stub->at &&
	    current.signals >= current.times)
		registers[REG_RIP] = (greg_t)current.stub->after;
	if (current.yields)
		syscall(SYS_sched_yield);
}

struct attempt {
	struct event event; /* before the instruction */
	const uint8_t *code;
	const void *operand;
};

/*
 * Like between(), with an instruction after the event. XCR0 is looked at just
 * before that. Of general registers the instruction may change %rax only.
 */
static __attribute__((noinline)) void execute(const struct vectors *set, struct vectors *got,
					      struct attempt *attempt)
{
	register const struct vectors *r12 __asm__("r12") = set;
	register struct vectors *r13 __asm__("r13") = got;
	register struct attempt *r14 __asm__("r14") = attempt;

	_Static_assert(__builtin_offsetof(struct attempt, code) == 80, "likewise");
	_Static_assert(__builtin_offsetof(struct attempt, operand) == 88, "likewise");

	/* clang-format off */
	__asm__ __volatile__(
		LOAD_AS_THE_EVENT_SAYS

		"movq 8(%%r14), %%rax\n\t"
		"testq %%rax, %%rax\n\t"
		"js 4f\n\t"
		"movq 16(%%r14), %%rdi\n\t"
		"movq 24(%%r14), %%rsi\n\t"
		"syscall\n\t"
		"jmp 5f\n\t"
		"4: incq %%rax\n\t"
		"jnz 4b\n\t"
		"5: movq %%rax, 48(%%r14)\n\t"

		LOOK_AT_XCR0
		/* For XRSTOR, which could do no harm to what is not requested. */
		"movl $0xe6, %%eax\n\t"
		"xorl %%edx, %%edx\n\t"
		"movq 88(%%r14), %%rsi\n\t"
		"leaq 6f(%%rip), %%r11\n\t"
		"jmp *80(%%r14)\n\t"
		"6:\n\t"

		LOOK_AT_ALL
		:
		: "r"(r12), "r"(r13), "r"(r14), [initial] "r"(&initial_image),
		  [mxcsr] "m"(initial_mxcsr)
		: LEFT_BEHIND);
	/* clang-format on */
}

/* Most of them let the scheduler hide AVX-512 until the instruction. */
static void describe(struct event *event, uint64_t *random)
{
	static const struct timespec moment = { .tv_nsec = 20000 };

	memset(event, 0, sizeof(*event));
	event->load = random_bits(random) % NR_LOADS;
	switch (random_bits(random) % 4) {
	case 0:
		event->number = SYS_getpid;
		break;
	case 1:
		event->number = SYS_sched_yield;
		break;
	case 2:
		event->number = SYS_nanosleep;
		event->argument[0] = (long)&moment;
		break;
	default:
		event->number = -(long)(1 + random_bits(random) % 2000);
	}
}

static void judge_signals(void)
{
	int is_ud = current.kind->trap == TRAP_UD;
	int wrong = abs(current.signals - current.times) + current.signals - current.right;

	counts[is_ud ? ILLEGAL : PRIVILEGED] += current.times;
	counts[is_ud ? SIGILLS : SIGSEGVS] += current.right;
	counts[is_ud ? SIGILL_WRONG : SIGSEGV_WRONG] += wrong;
	if (wrong && counts[SIGILL_WRONG] + counts[SIGSEGV_WRONG] < ENOUGH_SAID)
		fprintf(stderr, "illegal: %s: %d signals expected, %d came, %d of them right\n",
			current.kind->name, current.times, current.signals, current.right);
}

static void check(size_t kind, uint64_t *random)
{
	static struct vectors set, got, expected;
	struct attempt attempt;

	current.kind = &kinds[kind];
	current.stub = &stubs[kind * NR_SURROUNDS + random_bits(random) % NR_SURROUNDS];
	current.times = 1 + random_bits(random) % 2;
	current.yields = random_bits(random) % 2;
	current.signals = 0;
	current.right = 0;

	randomize(&set, random);
	describe(&attempt.event, random);
	attempt.code = current.stub->code;
	attempt.operand = current.kind->operand;
	execute(&set, &got, &attempt);

	judge_signals();
	expect(&set, &attempt.event, &expected);
	counts[LOST] += differences(&expected, &got, current.kind->name);
	counts[HIDDEN] += (got.xcr0 & XCR0_AVX512) != XCR0_AVX512;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	uint64_t random = argc > 2 ? strtoul(argv[2], NULL, 0) * 2 + 1 : 1;
	size_t kind = random_bits(&random) % NR_KINDS;

	if (write_stubs()) {
		perror("illegal: no memory for code");
		return 1;
	}
	read_leaf_7();
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);

	/* In turn, so that few rounds have them all. */
	for (unsigned long round = 0; round < rounds; kind = (kind + 1) % NR_KINDS) {
		if (is_legal_here(&kinds[kind]))
			continue;
		check(kind, &random);
		round++;
	}

	for (int n = 0; n < NR_COUNTS; n++)
		printf("%s=%lu\n", names[n], counts[n]);
	return counts[SIGILL_WRONG] || counts[SIGSEGV_WRONG] || counts[LOST];
}
