// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an instruction is, decided once per Bochs opcode at start-up.
 *
 * The table is made from Bochs's own list of opcodes: operands and encoding
 * from its attributes, weight from the mnemonic.
 *
 * Vector: an instruction with at least one xmm, ymm or zmm register operand,
 * legacy SSE and scalar floating point included.  VZEROUPPER, VZEROALL and
 * LDMXCSR have no such operand and are not.  MMX, x87 and AMX tile arithmetic
 * are not.
 *
 * Width: 128 for legacy SSE and for everything scalar, otherwise the vector
 * length of the VEX, XOP or EVEX prefix.  It is the length of the operation,
 * not of an operand: VEXTRACTF128 is 256, VPMOVDB from a zmm is 512, a gather
 * has the length of its destination.  EVEX with embedded rounding is 512 for a
 * packed operation (the hardware says so) and 128 for a scalar one.
 *
 * Mask: an instruction on opmask registers only (KMOV, KAND, KORTEST, ...),
 * which has no width.  A vector compare into a mask or VPMOVM2B has a vector
 * operand and is a vector instruction.
 *
 * AVX-512: whatever is EVEX-encoded, and the VEX-encoded mask instructions;
 * these are the instructions that raise #UD while XCR0[7:5] is clear.
 *
 * Heavy: floating-point arithmetic (add, subtract, multiply, divide, square
 * root, fused and dot products, minimum, maximum, compare, conversion from or
 * to floating point, rounding, range reduction, exponent and mantissa
 * extraction, scaling, fix-up, approximate reciprocals) and integer
 * multiplication (VPMUL*, VPMADD*, VPDP*, XOP's VPMACS* and VPMADCS*).
 *
 * Light: everything else.  Where that might surprise:
 *   - AES, PCLMULQDQ, GFNI, SHA, SM3, SM4: Intel's licence rules name floating
 *     point and integer multiplication only, and these run on units of their
 *     own beside the multiplier.  GF2P8MULB and PCLMULQDQ multiply, but without
 *     carries: no adder tree, which is what draws the power.
 *   - PSADBW, MPSADBW, VDBPSADBW: subtractions and additions.
 *   - VPMULTISHIFTQB: a bit shuffle that is only called multi-shift.
 *   - VFPCLASS*: looks at bit patterns, computes nothing and cannot fault.
 *   - Logic, moves, blends and permutes of floating-point data.
 */
#include "bochs.h"
#include "cpu/cpu.h"
#include "cpu/decoder/ia_opcodes.h"
#include "cpu/decoder/fetchdecode.h"
#include "oracle.h"
#include "classify.h"

Bit16u classify_kind[BX_IA_LAST];

struct opcode {
	const char *name; /* Bochs's identifier, "BX_IA_..." */
	const char *mnemonic;
	const char *operand[4]; /* Bochs's identifiers, "OP_Vps" */
	unsigned attributes;
};

#define bx_define_opcode(id, intel, gas, mem, reg, isa, dst, src1, src2, src3, attributes) \
	{ #id, intel, { #dst, #src1, #src2, #src3 }, attributes },
static const struct opcode opcodes[] = {
#include "cpu/decoder/ia_opcodes.def"
};
#undef bx_define_opcode

/* Beginnings of the heavy mnemonics, without the V of VEX and EVEX. */
static const char *const heavy_stems[] = {
	"add",	    "sub",    "mul",   "div",	 "sqrt",    "rcp",    "rsqrt",	  "min",
	"max",	    "hadd",   "hsub",  "dp",	 "fm",	    "fnm",    "fcm",	  "frcz",
	"cmp",	    "comi",   "comx",  "ucom",	 "cvt",	    "bcstne", "tcvt",	  "round",
	"rndscale", "reduce", "range", "getexp", "getmant", "scalef", "fixupimm", "pmuld",
	"pmulh",    "pmull",  "pmulu", "pmadd",	 "pmacs",   "pmadcs", "pdp",
};

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool is_heavy(const struct opcode *op)
{
	const char *stem = op->mnemonic + (op->mnemonic[0] == 'v');

	for (unsigned n = 0; n < sizeof(heavy_stems) / sizeof(heavy_stems[0]); n++) {
		if (starts_with(stem, heavy_stems[n]))
			return true;
	}
	return false;
}

/* "OP_Vps", "OP_Hps", "OP_Wps", "OP_mVps": the part that names the data. */
static const char *vector_operand(const char *operand)
{
	static const char *const forms[] = { "OP_V", "OP_H", "OP_W", "OP_mV" };

	for (unsigned n = 0; n < 4; n++) {
		if (starts_with(operand, forms[n]))
			return operand + strlen(forms[n]);
	}
	return NULL;
}

static const char *first_vector_operand(const struct opcode *op)
{
	for (unsigned n = 0; n < 4; n++) {
		const char *data = vector_operand(op->operand[n]);

		if (data)
			return data;
	}
	return NULL;
}

static bool names_scalar(const char *data)
{
	return !strcmp(data, "ss") || !strcmp(data, "sd") || !strcmp(data, "sh");
}

/*
 * The first operand decides: VBROADCASTSS makes a full vector of a scalar.  But
 * Bochs describes some scalar fused operations as if they were packed; their
 * mnemonics are right.
 */
static bool is_scalar(const struct opcode *op, const char *first)
{
	if ((op->attributes & BX_EVEX_VL_IGNORE) == BX_EVEX_VL_IGNORE || names_scalar(first))
		return true;
	return starts_with(op->mnemonic, "vf") &&
	       names_scalar(op->mnemonic + strlen(op->mnemonic) - 2);
}

static unsigned vector_kind(const struct opcode *op)
{
	const unsigned with_length = BX_PREPARE_AVX | BX_PREPARE_EVEX;
	const char *data = first_vector_operand(op);
	unsigned kind = KIND_VECTOR;

	/* INVPCID and its like use the form of a vector for a memory operand. */
	if (!data || !(op->attributes & (with_length | BX_PREPARE_SSE)))
		return 0;

	if (is_heavy(op))
		kind |= KIND_HEAVY;
	if ((op->attributes & with_length) && !is_scalar(op, data))
		kind |= KIND_BY_VL;
	if (op->attributes & BX_PREPARE_EVEX)
		kind |= KIND_AVX512;
	return kind;
}

static unsigned special_kind(unsigned opcode, const struct opcode *op)
{
	switch (opcode) {
	case BX_IA_NOP:
		return KIND_NOP;
	case BX_IA_HLT:
	case BX_IA_MWAIT:
	case BX_IA_MWAITX:
	case BX_IA_UMWAIT_Ed:
	case BX_IA_TPAUSE_Ed:
		return KIND_SLEEP;
	case BX_IA_WRFSBASE_Ed:
	case BX_IA_WRFSBASE_Eq:
		return KIND_FSBASE;
	case BX_IA_XSETBV:
		return KIND_XSETBV;
	}
	return starts_with(op->name, "BX_IA_REP_") ? KIND_STRING : 0;
}

static unsigned kind_of(unsigned opcode)
{
	const struct opcode *op = &opcodes[opcode];

	if (op->attributes & BX_PREPARE_OPMASK)
		return KIND_MASK | KIND_AVX512;
	return special_kind(opcode, op) | vector_kind(op);
}

static const char *encoding_of(const struct opcode *op)
{
	if (op->attributes & BX_PREPARE_EVEX)
		return "evex";
	/* XOP counts as VEX: the same register state enables it. */
	if (op->attributes & (BX_PREPARE_AVX | BX_PREPARE_OPMASK))
		return "vex";
	return "legacy";
}

/* One line per opcode, in Bochs's order: what a test compares with its list. */
static void list_kinds(FILE *file)
{
	fprintf(file, "opcode\tmnemonic\tencoding\tclass\twidth\tweight\tavx512\n");

	for (unsigned n = 0; n < BX_IA_LAST; n++) {
		unsigned kind = classify_kind[n];
		bool vector = kind & KIND_VECTOR;

		fprintf(file, "%s\t%s\t%s\t%s\t%s\t%s\t%u\n",
			opcodes[n].name + (starts_with(opcodes[n].name, "BX_IA_") ? 6 : 0),
			opcodes[n].mnemonic, encoding_of(&opcodes[n]),
			vector		   ? "vector"
			: kind & KIND_MASK ? "mask"
					   : "other",
			!vector		    ? "-"
			: kind & KIND_BY_VL ? "vl"
					    : "128",
			!vector		    ? "-"
			: kind & KIND_HEAVY ? "heavy"
					    : "light",
			!!(kind & KIND_AVX512));
	}
}

void classify_init(void)
{
	const char *path = getenv("ORACLE_CLASSES");
	FILE *file;

	for (unsigned n = 0; n < BX_IA_LAST; n++)
		classify_kind[n] = kind_of(n);

	if (!path)
		return;
	file = fopen(path, "w");
	if (!file) {
		fprintf(stderr, "oracle: cannot write ORACLE_CLASSES=%s: %s\n", path,
			strerror(errno));
		exit(1);
	}
	list_kinds(file);
	fclose(file);
}

unsigned classify_event(unsigned kind, const bxInstruction_c *i)
{
	unsigned width = ORACLE_V128_LIGHT;

	if (kind & KIND_BY_VL) {
		if (i->getVL() == BX_VL512)
			width = ORACLE_V512_LIGHT;
		else if (i->getVL() == BX_VL256)
			width = ORACLE_V256_LIGHT;
	}
	return width + !!(kind & KIND_HEAVY);
}
