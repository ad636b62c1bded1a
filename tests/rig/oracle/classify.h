// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an instruction is: vector or not, how wide, how heavy.
 */
#ifndef ORACLE_CLASSIFY_H
#define ORACLE_CLASSIFY_H

/* 0 is the common case: an ordinary instruction of which nothing is asked. */
enum {
	KIND_VECTOR = 0x01,
	KIND_HEAVY = 0x02,
	KIND_BY_VL = 0x04, /* width from the encoding's vector length, else 128 */
	KIND_AVX512 = 0x08,
	KIND_MASK = 0x10,
	/* The rest need a second look when they retire. */
	KIND_NOP = 0x20,     /* may be a call to the oracle */
	KIND_STRING = 0x40,  /* may be an interrupted repetition */
	KIND_SLEEP = 0x80,   /* HLT, MWAIT */
	KIND_FSBASE = 0x100, /* WRFSBASE */
	KIND_XSETBV = 0x200,
};

/* Fills the table of instrument.h, and lists it in the file that ORACLE_CLASSES names. */
void classify_init(void);

/* Width and weight of a vector instruction as an enum oracle_event. */
unsigned classify_event(unsigned kind, const bxInstruction_c *i);

#endif
