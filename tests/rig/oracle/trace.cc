// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trace: what the guest did when, as text.
 *
 * The file is the one that the environment variable ORACLE_TRACE names when
 * Bochs starts; it is written between the calls TRACE_START and TRACE_STOP.
 * Lines that begin with # are comments.  Every other line is one event:
 *
 *	TICK CPU CPL EVENT KEY=VALUE...
 *
 * separated by single spaces.  TICK is the time since power-on in Bochs's ticks
 * (ips of them are a second of the guest; with several CPUs time advances once
 * per round, some tens of instructions).  CPL is the privilege level in which
 * the event began.  at= on every line is the number of instructions this CPU
 * had retired since power-on, the exact clock of one CPU.  Numbers are decimal,
 * except addresses, error= and bases, which are hexadecimal without 0x.
 *
 *	run at= end= end_at= class= v128l= v128h= v256l= v256h= v512l= v512h= masks= fs= rip=
 *	    Vector instructions of one class.  class= is mask, 128, 256l, 256h,
 *	    512l or 512h, in rising order.  The run begins with an instruction of
 *	    its class (TICK, at=, rip=) and its last one retired at end=, end_at=.
 *	    Instructions of lower classes that come on the way, or less than
 *	    ORACLE_RUN_GAP retired instructions after the last of its own class,
 *	    are counted in the run but do not prolong it.  It ends with an
 *	    instruction of a higher class, with a gap of ORACLE_RUN_GAP, and with
 *	    every event below but mark.  So each vector instruction is in
 *	    exactly one run.
 *	syscall at= nr= fs= rip=	SYSCALL or SYSENTER, nr= is RAX
 *	sysret at= rax= fs=		return to user mode from one
 *	iret at= rax= fs=		return to user mode by IRET
 *	exception at= vector= error= rip= fs=
 *	interrupt at= vector= fs=	external interrupt, NMI
 *	softint at= vector= fs=		INT n with n > 31
 *	cr3 at= base=			change of address space; the bits that
 *					tell user from kernel tables and the
 *					process-context id are left out, and
 *					writes of the same base
 *	fsbase at= base=		write of the FS base by MSR or WRFSBASE
 *	halt at=, wake at=		the CPU sleeps
 *	mark at= value=			the call MARK
 *
 * fs= is the base of FS at that moment: user threads have distinct ones.
 *
 * A run is written when it ends but carries the tick of its start, so lines are
 * not sorted by time.
 */
#include "bochs.h"
#include "cpu/cpu.h"
#include "pc_system.h"
#include "counters.h"
#include "trace.h"

#define ORACLE_RUN_GAP 1000
#define BUFFER_BYTES (1 << 20)

enum run_class {
	CLASS_MASK,
	CLASS_128,
	CLASS_256L,
	CLASS_256H,
	CLASS_512L,
	CLASS_512H
};

static const char *const class_names[] = { "mask", "128", "256l", "256h", "512l", "512h" };

struct run {
	bool open;
	unsigned cpl;
	enum run_class rank;
	Bit64u start, end;
	Bit64u start_at, end_at;
	Bit64u fs;
	bx_address rip;
	Bit64u count[ORACLE_MASKS + 1]; /* by enum oracle_event */
};

bool trace_on;

static FILE *file;
static struct run runs[ORACLE_MAX_CPUS];
static Bit64u address_space[ORACLE_MAX_CPUS];

static enum run_class class_of(unsigned event)
{
	switch (event) {
	case ORACLE_MASKS:
		return CLASS_MASK;
	case ORACLE_V256_LIGHT:
		return CLASS_256L;
	case ORACLE_V256_HEAVY:
		return CLASS_256H;
	case ORACLE_V512_LIGHT:
		return CLASS_512L;
	case ORACLE_V512_HEAVY:
		return CLASS_512H;
	}
	return CLASS_128;
}

static Bit64u fs_base(unsigned cpu)
{
	return BX_CPU(cpu)->sregs[BX_SEG_REG_FS].cache.u.segment.base;
}

static void end_run(unsigned cpu)
{
	struct run *r = &runs[cpu];

	if (!r->open)
		return;
	r->open = false;
	fprintf(file,
		FMT_LL "u %u %u run at=" FMT_LL "u end=" FMT_LL "u end_at=" FMT_LL "u class=%s",
		r->start, cpu, r->cpl, r->start_at, r->end, r->end_at, class_names[r->rank]);
	fprintf(file, " v128l=" FMT_LL "u v128h=" FMT_LL "u v256l=" FMT_LL "u v256h=" FMT_LL "u",
		r->count[ORACLE_V128_LIGHT], r->count[ORACLE_V128_HEAVY],
		r->count[ORACLE_V256_LIGHT], r->count[ORACLE_V256_HEAVY]);
	fprintf(file,
		" v512l=" FMT_LL "u v512h=" FMT_LL "u masks=" FMT_LL "u fs=" FMT_LL "x rip=" FMT_LL
		"x\n",
		r->count[ORACLE_V512_LIGHT], r->count[ORACLE_V512_HEAVY], r->count[ORACLE_MASKS],
		r->fs, (Bit64u)r->rip);
}

static void begin_run(unsigned cpu, unsigned cpl, enum run_class rank, const bxInstruction_c *i)
{
	struct run *r = &runs[cpu];

	memset(r, 0, sizeof(*r));
	r->open = true;
	r->cpl = cpl;
	r->rank = rank;
	r->start = oracle_now(cpu);
	r->start_at = oracle_retired_total(cpu);
	r->fs = fs_base(cpu);
	/* The instruction has retired: RIP is behind it. */
	r->rip = BX_CPU(cpu)->prev_rip - i->ilen();
}

/* Ends the run in progress and writes what all lines have in common. */
static void begin_line(unsigned cpu, unsigned cpl, const char *event)
{
	end_run(cpu);
	fprintf(file, FMT_LL "u %u %u %s at=" FMT_LL "u", oracle_now(cpu), cpu, cpl, event,
		oracle_retired_total(cpu));
}

static unsigned current_cpl(unsigned cpu)
{
	return BX_CPU(cpu)->sregs[BX_SEG_REG_CS].selector.rpl;
}

void trace_init(void)
{
	const char *path = getenv("ORACLE_TRACE");

	if (!path)
		return;
	file = fopen(path, "w");
	if (!file) {
		fprintf(stderr, "oracle: cannot write ORACLE_TRACE=%s: %s\n", path,
			strerror(errno));
		exit(1);
	}
	/* exit() flushes what a guest that never stops its trace leaves behind. */
	setvbuf(file, NULL, _IOFBF, BUFFER_BYTES);
}

bool trace_start(unsigned cpu)
{
	if (!file)
		return false;
	if (!trace_on)
		fprintf(file, "# oracle trace %u, started at tick " FMT_LL "u, %u CPUs, gap %u\n",
			ORACLE_VERSION, oracle_now(cpu), (unsigned)BX_SMP_PROCESSORS,
			ORACLE_RUN_GAP);
	trace_on = true;
	return true;
}

bool trace_stop(unsigned cpu)
{
	if (!file)
		return false;
	if (trace_on) {
		for (unsigned n = 0; n < BX_SMP_PROCESSORS; n++)
			end_run(n);
		fprintf(file, "# stopped at tick " FMT_LL "u\n", oracle_now(cpu));
		fflush(file);
	}
	trace_on = false;
	return true;
}

void trace_vector(unsigned cpu, unsigned cpl, unsigned event, const bxInstruction_c *i)
{
	struct run *r = &runs[cpu];
	enum run_class rank = class_of(event);
	Bit64u at = oracle_retired_total(cpu);

	if (r->open && (rank > r->rank || cpl != r->cpl || at - r->end_at >= ORACLE_RUN_GAP))
		end_run(cpu);
	if (!r->open)
		begin_run(cpu, cpl, rank, i);

	r->count[event]++;
	if (rank == r->rank) {
		r->end = oracle_now(cpu);
		r->end_at = at;
	}
}

void trace_syscall(unsigned cpu, unsigned cpl, bx_address from)
{
	begin_line(cpu, cpl, "syscall");
	fprintf(file, " nr=" FMT_LL "u fs=" FMT_LL "x rip=" FMT_LL "x\n",
		BX_CPU(cpu)->get_reg64(BX_64BIT_REG_RAX), fs_base(cpu), (Bit64u)from);
}

void trace_return(unsigned cpu, const char *how)
{
	begin_line(cpu, 0, how);
	fprintf(file, " rax=" FMT_LL "d fs=" FMT_LL "x\n",
		(Bit64s)BX_CPU(cpu)->get_reg64(BX_64BIT_REG_RAX), fs_base(cpu));
}

void trace_exception(unsigned cpu, unsigned cpl, unsigned vector, unsigned error_code,
		     bx_address rip)
{
	begin_line(cpu, cpl, "exception");
	fprintf(file, " vector=%u error=%x rip=" FMT_LL "x fs=" FMT_LL "x\n", vector, error_code,
		(Bit64u)rip, fs_base(cpu));
}

void trace_interrupt(unsigned cpu, unsigned cpl, const char *which, unsigned vector)
{
	begin_line(cpu, cpl, which);
	fprintf(file, " vector=%u fs=" FMT_LL "x\n", vector, fs_base(cpu));
}

void trace_address_space(unsigned cpu, Bit64u cr3)
{
	/* Bits 0..11 are the context id, bit 12 picks Linux's user half, 63 is "no flush". */
	Bit64u base = cr3 & ~((Bit64u)1 << 63) & ~(Bit64u)0x1fff;

	if (base == address_space[cpu])
		return;
	address_space[cpu] = base;
	begin_line(cpu, current_cpl(cpu), "cr3");
	fprintf(file, " base=" FMT_LL "x\n", base);
}

void trace_fs_base(unsigned cpu, unsigned cpl, Bit64u base)
{
	begin_line(cpu, cpl, "fsbase");
	fprintf(file, " base=" FMT_LL "x\n", base);
}

void trace_sleep(unsigned cpu, const char *what)
{
	begin_line(cpu, 0, what);
	fputc('\n', file);
}

void trace_mark(unsigned cpu, Bit64u value)
{
	if (!trace_on)
		return;
	fprintf(file, FMT_LL "u %u %u mark at=" FMT_LL "u value=" FMT_LL "u\n", oracle_now(cpu),
		cpu, current_cpl(cpu), oracle_retired_total(cpu), value);
}
