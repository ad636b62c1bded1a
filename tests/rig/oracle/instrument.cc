// SPDX-License-Identifier: GPL-2.0-only
/*
 * The callbacks of the Bochs core: which event counts as what.
 *
 * An instruction is counted when Bochs reports it as executed.  That report
 * comes from the end of the instruction's handler, which a fault never reaches:
 * exception() leaves it by longjmp.  Traps and interrupts are taken between
 * instructions, after the report.  What remains to be told apart is
 *   - a REP instruction that an event interrupts between two iterations: it is
 *     reported, with RIP back at its start and RF set, and reported again each
 *     time it resumes.  Only the report without RF completes it.
 *   - the end-of-trace marker, which is announced but never reported.
 */
#include "bochs.h"
#include "cpu/cpu.h"
#include "cpu/msr.h"
#include "classify.h"
#include "counters.h"
#include "profile.h"
#include "protocol.h"
#include "trace.h"

unsigned char oracle_began_at[ORACLE_MAX_CPUS];

static unsigned current_cpl(unsigned cpu)
{
	return BX_CPU(cpu)->sregs[BX_SEG_REG_CS].selector.rpl;
}

void oracle_init(void)
{
	classify_init();
	trace_init();
	profile_init();
	if (profile_on)
		counters_attend_to_all();
}

void oracle_exit(void)
{
	/* A second call is harmless: the trace is off then. */
	if (trace_on)
		trace_stop(0);
	profile_exit();
}

static void wake(unsigned cpu)
{
	counters_wake(cpu);
	if (trace_on)
		trace_sleep(cpu, "wake");
}

static bool is_interrupted_repetition(unsigned cpu, const bxInstruction_c *i)
{
	return i->repUsedL() && BX_CPU(cpu)->get_RF();
}

/*
 * Anything but an ordinary instruction on a CPU that is awake.  Returns false
 * if the instruction is not to be counted after all.
 */
static bool look_again(unsigned cpu, unsigned kind, const bxInstruction_c *i)
{
	/* HLT itself retires on a CPU that its handler has already put to sleep. */
	if (counters_is_asleep(cpu) && !(kind & KIND_SLEEP))
		wake(cpu);

	if ((kind & KIND_NOP) && protocol_is_call(i)) {
		protocol_answer(cpu);
		return false;
	}
	if ((kind & KIND_STRING) && is_interrupted_repetition(cpu, i))
		return false;
	if ((kind & KIND_FSBASE) && trace_on)
		trace_fs_base(cpu, oracle_began_at[cpu],
			      BX_CPU(cpu)->sregs[BX_SEG_REG_FS].cache.u.segment.base);
	if (kind & KIND_XSETBV)
		oracle_cpus_state[cpu].count[ORACLE_XSETBV]++;
	return true;
}

static void count_vector(unsigned cpu, Bit64u *count, unsigned kind, const bxInstruction_c *i)
{
	unsigned event = kind & KIND_MASK ? (unsigned)ORACLE_MASKS : classify_event(kind, i);

	count[event]++;
	if (kind & KIND_AVX512)
		count[ORACLE_AVX512]++;
	if (trace_on)
		trace_vector(cpu, oracle_began_at[cpu], event, i);
}

/* One that has retired, of which more may be told than that. */
void oracle_look_at(unsigned cpu, bxInstruction_c *i)
{
	unsigned level = oracle_began_at[cpu];
	unsigned kind = classify_kind[i->getIaOpcode()];

	if (!look_again(cpu, kind, i))
		return;
	oracle_retired[cpu][level]++;
	if (profile_on)
		profile_reached(BX_CPU(cpu)->prev_rip);
	if (kind & (KIND_VECTOR | KIND_MASK))
		count_vector(cpu, &oracle_cpus_state[cpu].count[counters_of_level(level)], kind, i);
}

/*
 * A fault belongs to the level that is current, not to the one in which the
 * last instruction began: fetching the first instruction after a change of
 * level may fault.
 */
void oracle_exception(unsigned cpu, unsigned vector, unsigned error_code)
{
	unsigned cpl = current_cpl(cpu);

	if (vector < ORACLE_VECTORS)
		oracle_cpus_state[cpu].count[counters_of_level(cpl) + ORACLE_EXCEPTION + vector]++;
	if (trace_on)
		trace_exception(cpu, cpl, vector, error_code, BX_CPU(cpu)->prev_rip);
}

/* Comes before every delivery; only software interrupts need to know later. */
void oracle_delivery(unsigned cpu, unsigned vector)
{
	oracle_cpus_state[cpu].delivering = vector;
}

void oracle_interrupt(unsigned cpu, unsigned vector)
{
	unsigned cpl = current_cpl(cpu);

	oracle_cpus_state[cpu].count[counters_of_level(cpl) + ORACLE_INTERRUPTS]++;
	if (trace_on)
		trace_interrupt(cpu, cpl, "interrupt", vector);
}

/* INT3, INTO and INT n have been delivered; Bochs does not call them exceptions. */
static void software_interrupt(unsigned cpu, unsigned cpl, bx_address from)
{
	struct oracle_cpu *c = &oracle_cpus_state[cpu];
	Bit64u *count = &c->count[counters_of_level(cpl)];

	if (c->delivering < ORACLE_VECTORS) {
		count[ORACLE_EXCEPTION + c->delivering]++;
		if (trace_on)
			trace_exception(cpu, cpl, c->delivering, 0, from);
		return;
	}
	count[ORACLE_SOFT_INTERRUPTS]++;
	if (trace_on)
		trace_interrupt(cpu, cpl, "softint", c->delivering);
}

/* Called while the branch executes, with the new level already in force. */
void oracle_far_branch(unsigned cpu, unsigned what, bx_address from)
{
	unsigned cpl = oracle_began_at[cpu];

	switch (what) {
	case BX_INSTR_IS_SYSCALL:
	case BX_INSTR_IS_SYSENTER:
		oracle_cpus_state[cpu].count[counters_of_level(cpl) + ORACLE_SYSCALLS]++;
		if (trace_on)
			trace_syscall(cpu, cpl, from);
		break;
	case BX_INSTR_IS_SYSRET:
	case BX_INSTR_IS_SYSEXIT:
		if (trace_on)
			trace_return(cpu, "sysret");
		break;
	case BX_INSTR_IS_IRET:
		if (trace_on && cpl != 3 && current_cpl(cpu) == 3)
			trace_return(cpu, "iret");
		break;
	case BX_INSTR_IS_INT:
		software_interrupt(cpu, cpl, from);
		break;
	}
}

void oracle_sleep(unsigned cpu)
{
	counters_fall_asleep(cpu);
	if (trace_on)
		trace_sleep(cpu, "halt");
}

void oracle_translation(unsigned cpu, unsigned what, bx_phy_address value)
{
	if (trace_on && what == BX_INSTR_MOV_CR3)
		trace_address_space(cpu, value);
}

void oracle_wrmsr(unsigned cpu, unsigned msr, Bit64u value)
{
	if (trace_on && msr == BX_MSR_FSBASE)
		trace_fs_base(cpu, current_cpl(cpu), value);
}
