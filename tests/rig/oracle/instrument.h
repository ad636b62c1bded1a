// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the Bochs core asks of an instrumentation library.
 *
 * All of Bochs includes this file, so a change here rebuilds everything: it
 * holds declarations only, and the logic lives in the .cc files.  Callbacks
 * that the oracle has no use for are empty and cost nothing.
 */
#ifndef ORACLE_INSTRUMENT_H
#define ORACLE_INSTRUMENT_H

class bxInstruction_c;

/*
 * Privilege level in which the current instruction of each CPU began.  It is
 * noted before execution because SYSCALL, IRET and their like have changed the
 * level by the time they retire.
 */
extern unsigned char oracle_began_at[];

/*
 * Nearly all instructions only add to their number, which is done where they end:
 * what their opcode asks for beyond that, and whether their CPU asks for more,
 * whatever the opcode; how many there were since the last reset, by privilege level.
 */
extern Bit16u classify_kind[];
extern unsigned char oracle_attention[];
extern Bit64u oracle_retired[][4];

void oracle_init(void);
void oracle_exit(void);
void oracle_look_at(unsigned cpu, bxInstruction_c *i);
void oracle_exception(unsigned cpu, unsigned vector, unsigned error_code);
void oracle_delivery(unsigned cpu, unsigned vector);
void oracle_interrupt(unsigned cpu, unsigned vector);
void oracle_far_branch(unsigned cpu, unsigned what, bx_address from);
void oracle_sleep(unsigned cpu);
void oracle_translation(unsigned cpu, unsigned what, bx_phy_address value);
void oracle_wrmsr(unsigned cpu, unsigned msr, Bit64u value);

#define BX_INSTR_INIT_ENV() oracle_init()
#define BX_INSTR_EXIT_ENV() oracle_exit()

#define BX_INSTR_BEFORE_EXECUTION(cpu_id, i) \
	(oracle_began_at[cpu_id] = (unsigned char)BX_CPU_THIS_PTR sregs[BX_SEG_REG_CS].selector.rpl)
#define BX_INSTR_AFTER_EXECUTION(cpu_id, i)                                       \
	do {                                                                      \
		if (classify_kind[(i)->getIaOpcode()] | oracle_attention[cpu_id]) \
			oracle_look_at(cpu_id, i);                                \
		else                                                              \
			oracle_retired[cpu_id][oracle_began_at[cpu_id]]++;        \
	} while (0)

#define BX_INSTR_EXCEPTION(cpu_id, vector, error_code) oracle_exception(cpu_id, vector, error_code)
#define BX_INSTR_INTERRUPT(cpu_id, vector) oracle_delivery(cpu_id, vector)
#define BX_INSTR_HWINTERRUPT(cpu_id, vector, cs, eip) oracle_interrupt(cpu_id, vector)
#define BX_INSTR_FAR_BRANCH(cpu_id, what, prev_cs, prev_eip, new_cs, new_eip) \
	oracle_far_branch(cpu_id, what, prev_eip)
#define BX_INSTR_HLT(cpu_id) oracle_sleep(cpu_id)
#define BX_INSTR_TLB_CNTRL(cpu_id, what, new_cr3) oracle_translation(cpu_id, what, new_cr3)
#define BX_INSTR_WRMSR(cpu_id, addr, value) oracle_wrmsr(cpu_id, addr, value)

#define BX_INSTR_INITIALIZE(cpu_id)
#define BX_INSTR_EXIT(cpu_id)
#define BX_INSTR_RESET(cpu_id, type)
/* MWAIT announces itself a second time through BX_INSTR_HLT. */
#define BX_INSTR_MWAIT(cpu_id, addr, len, flags)
#define BX_INSTR_DEBUG_PROMPT()
#define BX_INSTR_DEBUG_CMD(cmd)
#define BX_INSTR_CNEAR_BRANCH_TAKEN(cpu_id, branch_eip, new_eip)
#define BX_INSTR_CNEAR_BRANCH_NOT_TAKEN(cpu_id, branch_eip)
#define BX_INSTR_UCNEAR_BRANCH(cpu_id, what, branch_eip, new_eip)
#define BX_INSTR_OPCODE(cpu_id, i, opcode, len, is32, is64)
#define BX_INSTR_CLFLUSH(cpu_id, laddr, paddr)
#define BX_INSTR_CACHE_CNTRL(cpu_id, what)
#define BX_INSTR_PREFETCH_HINT(cpu_id, what, seg, offset)
#define BX_INSTR_REPEAT_ITERATION(cpu_id, i)
#define BX_INSTR_LIN_ACCESS(cpu_id, lin, phy, len, memtype, rw)
#define BX_INSTR_PHY_ACCESS(cpu_id, phy, len, memtype, rw)
#define BX_INSTR_INP(addr, len)
#define BX_INSTR_INP2(addr, len, val)
#define BX_INSTR_OUTP(addr, len, val)
#define BX_INSTR_VMEXIT(cpu_id, reason, qualification)

#endif
