// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's calls: recognising and answering them.
 */
#include "bochs.h"
#include "cpu/cpu.h"
#include "checkpoint.h"
#include "counters.h"
#include "profile.h"
#include "trace.h"
#include "protocol.h"

bool protocol_is_call(const bxInstruction_c *i)
{
	/*
	 * The decoder sets the displacement only of no-ops with a memory operand;
	 * the others may hold what an earlier instruction left there.
	 */
	return i->ilen() == 8 && !i->modC0() && (Bit32u)i->displ32s() == ORACLE_MAGIC;
}

/* The others stand between two instructions while this CPU makes its call. */
static Bit64u xcr0_of(Bit64u cpu)
{
	return cpu < BX_SMP_PROCESSORS ? BX_CPU(cpu)->xcr0.get32() : ORACLE_INVALID;
}

void protocol_answer(unsigned cpu)
{
	Bit64u op = BX_CPU(cpu)->get_reg64(BX_64BIT_REG_RAX);
	Bit64u arg1 = BX_CPU(cpu)->get_reg64(BX_64BIT_REG_RCX);
	Bit64u arg2 = BX_CPU(cpu)->get_reg64(BX_64BIT_REG_RDX);
	Bit64u result = ORACLE_DONE;

	switch (op) {
	case ORACLE_OP_IDENTIFY:
		result = ORACLE_IDENTITY;
		break;
	case ORACLE_OP_RESET:
		counters_reset(cpu);
		if (profile_on)
			profile_reset();
		break;
	case ORACLE_OP_SNAPSHOT:
		counters_snapshot(cpu);
		if (profile_on)
			profile_write();
		break;
	case ORACLE_OP_READ:
		result = counters_read(arg1, arg2);
		break;
	case ORACLE_OP_CPUS:
		result = BX_SMP_PROCESSORS;
		break;
	case ORACLE_OP_SELF:
		result = cpu;
		break;
	case ORACLE_OP_TRACE_START:
		result = trace_start(cpu) ? ORACLE_DONE : ORACLE_NO_TRACE;
		break;
	case ORACLE_OP_TRACE_STOP:
		result = trace_stop(cpu) ? ORACLE_DONE : ORACLE_NO_TRACE;
		break;
	case ORACLE_OP_MARK:
		trace_mark(cpu, arg1);
		break;
	case ORACLE_OP_XCR0:
		result = xcr0_of(arg2);
		break;
	case ORACLE_OP_CHECKPOINT:
		checkpoint_stand();
		break;
	default:
		result = ORACLE_INVALID;
	}

	BX_CPU(cpu)->set_reg64(BX_64BIT_REG_RAX, result);
}
