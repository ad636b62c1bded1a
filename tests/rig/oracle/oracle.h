/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol between the oracle and the guest it watches.
 *
 * The oracle is an instrumentation library inside the Bochs emulator.  It
 * counts every retired instruction of every CPU and answers questions about
 * the counts.  A guest asks with a *call*: the eight-byte no-op
 *
 *	0f 1f 84 00 <ORACLE_MAGIC>	nopl ORACLE_MAGIC(%rax,%rax,1)
 *
 * with RAX = operation, RCX and RDX = arguments; the result is in RAX.  No
 * other register, no flag and no memory is touched.  Everywhere else the
 * instruction does nothing and needs no privilege, so the same binary runs on
 * real machines, where RAX keeps its value: only ORACLE_OP_IDENTIFY tells the
 * two apart, and it has to be asked first.
 *
 * Calls are not counted.  Between the call RESET and the call SNAPSHOT exactly
 * the instructions that retire between them are counted: on the calling CPU
 * those that stand between the two no-ops (the one that loads RAX for SNAPSHOT
 * is among them), on the other CPUs those that Bochs executes meanwhile.
 *
 * This file is shared by user programs, kernel modules and the library itself
 * (C and C++, no libc), so that all three use the same numbers.
 */
#ifndef ORACLE_H
#define ORACLE_H

#define ORACLE_MAGIC 0x5ca7512f
#define ORACLE_VERSION 2

/* Answer to ORACLE_OP_IDENTIFY: "ORACLE" in ASCII, then the version. */
#define ORACLE_IDENTITY (0x4f5241434c450000ULL | ORACLE_VERSION)

/* Results of operations that have nothing else to say. */
#define ORACLE_DONE 1ULL
#define ORACLE_INVALID 0xffffffffffffffffULL  /* no such operation, counter or CPU */
#define ORACLE_NO_TRACE 0xfffffffffffffffeULL /* Bochs has no trace file */

enum oracle_op {
	/* No operation is 0, the value RAX has most often by accident. */
	ORACLE_OP_IDENTIFY = 0x100,    /* ORACLE_IDENTITY */
	ORACLE_OP_RESET = 0x101,       /* all counters of all CPUs to 0 */
	ORACLE_OP_SNAPSHOT = 0x102,    /* latch all counters of all CPUs */
	ORACLE_OP_READ = 0x103,	       /* latched counter RCX of CPU RDX */
	ORACLE_OP_CPUS = 0x104,	       /* number of CPUs */
	ORACLE_OP_SELF = 0x105,	       /* number of the calling CPU (its APIC id) */
	ORACLE_OP_TRACE_START = 0x106, /* DONE, or NO_TRACE */
	ORACLE_OP_TRACE_STOP = 0x107,  /* DONE, or NO_TRACE */
	ORACLE_OP_MARK = 0x108,	       /* write RCX into a running trace */
	ORACLE_OP_XCR0 = 0x109,	       /* XCR0 that CPU RDX has at this moment */
	ORACLE_OP_CHECKPOINT = 0x10a,  /* from here the machine goes on in copies */
};

/*
 * Counter ids.  A counter kept per privilege level is ORACLE_KERNEL or
 * ORACLE_USER plus one of enum oracle_event; the level is the one in which the
 * instruction began, so SYSCALL is a user instruction and SYSRET a kernel one.
 * What runs under VMX counts by its own level, and does not count where it exits
 * to the hypervisor instead of completing.
 */
#define ORACLE_KERNEL 0 /* every privilege level but 3 */
#define ORACLE_USER 64	/* privilege level 3 */

enum oracle_event {
	ORACLE_RETIRED = 0,    /* instructions that completed */
	ORACLE_V128_LIGHT = 1, /* vector instructions by width and weight, */
	ORACLE_V128_HEAVY = 2, /* as classify.cc defines them */
	ORACLE_V256_LIGHT = 3,
	ORACLE_V256_HEAVY = 4,
	ORACLE_V512_LIGHT = 5,
	ORACLE_V512_HEAVY = 6,
	ORACLE_MASKS = 7,	     /* opmask instructions, in no width */
	ORACLE_AVX512 = 8,	     /* EVEX-encoded of any width, and opmask */
	ORACLE_SYSCALLS = 9,	     /* SYSCALL and SYSENTER */
	ORACLE_INTERRUPTS = 10,	     /* external, NMI included */
	ORACLE_SOFT_INTERRUPTS = 11, /* INT n with n > 31 */
	ORACLE_EXCEPTION = 32,	     /* plus vector 0..31: faults, traps, INT n */
};

#define ORACLE_VECTORS 32

/*
 * Counters of a whole CPU.  A CPU asleep in MWAIT is woken whenever another one
 * executes MONITOR, which is Bochs's way and not the guest's: idle CPUs keep
 * each other busy.  A guest that idles with HLT gives meaningful numbers.
 */
#define ORACLE_HALTS 128	/* times it went to sleep (HLT, MWAIT) */
#define ORACLE_HALTED_TICKS 129 /* ticks asleep */
#define ORACLE_TICKS 130	/* ticks since the reset, same on all CPUs */
#define ORACLE_NOW 131		/* ticks since power-on, as in the trace */
#define ORACLE_XSETBV 132	/* XSETBV instructions, which need level 0 */
#define ORACLE_COUNTERS 133

typedef unsigned long long oracle_u64;

#define ORACLE_STRING_(x) #x
#define ORACLE_STRING(x) ORACLE_STRING_(x)
/* The call as assembler text, for brackets written in assembler. */
#define ORACLE_CALL_ASM ".byte 0x0f, 0x1f, 0x84, 0x00; .long " ORACLE_STRING(ORACLE_MAGIC)

static inline oracle_u64 oracle_call(oracle_u64 op, oracle_u64 arg1, oracle_u64 arg2)
{
	oracle_u64 result = op;

	__asm__ __volatile__(ORACLE_CALL_ASM : "+a"(result) : "c"(arg1), "d"(arg2) : "memory");
	return result;
}

static inline int oracle_present(void)
{
	return oracle_call(ORACLE_OP_IDENTIFY, 0, 0) == ORACLE_IDENTITY;
}

static inline void oracle_reset(void)
{
	oracle_call(ORACLE_OP_RESET, 0, 0);
}

static inline void oracle_snapshot(void)
{
	oracle_call(ORACLE_OP_SNAPSHOT, 0, 0);
}

static inline oracle_u64 oracle_read(unsigned int counter, unsigned int cpu)
{
	return oracle_call(ORACLE_OP_READ, counter, cpu);
}

static inline unsigned int oracle_cpus(void)
{
	return (unsigned int)oracle_call(ORACLE_OP_CPUS, 0, 0);
}

static inline unsigned int oracle_self(void)
{
	return (unsigned int)oracle_call(ORACLE_OP_SELF, 0, 0);
}

static inline oracle_u64 oracle_trace_start(void)
{
	return oracle_call(ORACLE_OP_TRACE_START, 0, 0);
}

static inline oracle_u64 oracle_trace_stop(void)
{
	return oracle_call(ORACLE_OP_TRACE_STOP, 0, 0);
}

static inline void oracle_mark(oracle_u64 value)
{
	oracle_call(ORACLE_OP_MARK, value, 0);
}

static inline void oracle_checkpoint(void)
{
	oracle_call(ORACLE_OP_CHECKPOINT, 0, 0);
}

static inline oracle_u64 oracle_xcr0(unsigned int cpu)
{
	return oracle_call(ORACLE_OP_XCR0, 0, cpu);
}

#endif
