/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an instruction is.
 *
 * Problem. Not everything that needs AVX-512 lowers the clock. The string
 * functions of the C library use its encoding for 256-bit work that costs
 * nothing; a task that is moved for that is moved for nothing. The clock goes
 * down for 512 bits, and further for 512 bits of floating point or integer
 * multiplication. For 256 bits of these it goes down a little.
 *
 * Mechanism. AVX and AVX-512 have only two prefixes, VEX and EVEX, which are laid
 * out alike: map, mandatory prefix, vector length, opcode. One table per opcode map
 * says by mandatory prefix which opcodes are heavy, and which work on one
 * element whatever the length says.
 *
 * Limits. Instructions without such a prefix, or with too many others before it, and
 * maps that came after FP16, are not understood. Opcodes that no CPU has get an answer
 * nevertheless, because such an instruction is illegal anyway. Addresses are taken for 64-bit
 * ones. 32-bit code differs only in the rare 16-bit address, whose length comes out wrong.
 *
 * What is heavy follows Intel's optimization manual (248966, "Intel AVX-512
 * Instructions and Frequency"): floating point arithmetic, with comparison and
 * conversion, and integer multiplication. Moves, shuffles and logic are light for
 * every type.
 */
#ifndef AVXSPEC_DECODE_BPF_H
#define AVXSPEC_DECODE_BPF_H

#include "../intf.h"

/* The longest instruction that a CPU accepts, and what is read of the code. */
#define INSN_MAX 15
#define INSN_BYTES 16

enum avx_insn_kind {
	INSN_OTHER,  /* neither VEX nor EVEX */
	INSN_VEX,    /* AVX, AVX2, and what else has their encoding */
	INSN_OPMASK, /* VEX-encoded, but of AVX-512: works on mask registers */
	INSN_EVEX,   /* AVX-512, of any vector length */
};

struct avx_insn {
	u32 kind;
	u32 width;  /* bits of its widest vector; 0: none, as in KMOV and ANDN */
	bool heavy; /* floating point arithmetic or integer multiplication */
};

/* Mandatory prefixes, as a set; the encoding numbers them from 0. */
enum avx_insn_prefixes {
	NP = 1 << 0,
	P66 = 1 << 1,
	PF3 = 1 << 2,
	PF2 = 1 << 3,
	ANY_PREFIX = NP | P66 | PF3 | PF2,
};

/* What a table says of an opcode. */
#define HEAVY(prefixes) (prefixes)
#define SCALAR(prefixes) ((prefixes) << 4)
#define NO_VECTOR (1 << 8)  /* with VEX it works on general, mask, tile or no registers */
#define OPMASK (1 << 9)	    /* with VEX it works on mask registers */
#define ONLY_EVEX (1 << 10) /* with VEX it is something else, packed and light */
#define IMM8 (1 << 11)
#define NO_MODRM (1 << 12)

/* The maps that each of the two prefixes has, as sets. */
#define NR_MAPS 7
#define VEX_MAPS (1 << 1 | 1 << 2 | 1 << 3)
#define EVEX_MAPS (VEX_MAPS | 1 << 5 | 1 << 6)

/* Floating point: packed; single elements with other prefixes, always, or at the next opcode. */
#define FLOAT HEAVY(ANY_PREFIX)
#define FLOAT_BY_PREFIX (FLOAT | SCALAR(PF3 | PF2))
#define FLOAT_SINGLE (FLOAT | SCALAR(ANY_PREFIX))
#define PACKED_THEN_SINGLE(opcode) [opcode] = FLOAT, [(opcode) + 1] = FLOAT_SINGLE

/* What there is to know of each opcode, by the number of its map. */
static const u16 insn_maps[NR_MAPS][256] = {
/* 0F */
[1] = {
	[0x10 ... 0x11] = SCALAR(PF3 | PF2), /* moves */
	[0x2a] = FLOAT_BY_PREFIX,	     /* conversions */
	[0x2c ... 0x2d] = FLOAT_BY_PREFIX,   /* conversions */
	[0x2e ... 0x2f] = FLOAT_SINGLE,	     /* (U)COMISx */
	[0x41 ... 0x4b] = NO_VECTOR | OPMASK,
	[0x51] = FLOAT_BY_PREFIX,	   /* SQRTx */
	[0x52 ... 0x53] = FLOAT_BY_PREFIX, /* RSQRTx, RCPx */
	[0x58 ... 0x5a] = FLOAT_BY_PREFIX, /* ADDx, MULx, CVTx2x */
	[0x5b] = FLOAT,			   /* CVTDQ2PS ... */
	[0x5c ... 0x5f] = FLOAT_BY_PREFIX, /* SUBx, MINx, DIVx, MAXx */
	[0x70 ... 0x73] = IMM8,		   /* shuffles, shifts */
	[0x77] = NO_VECTOR | NO_MODRM,	   /* VZEROUPPER, VZEROALL */
	[0x78 ... 0x79] = FLOAT_BY_PREFIX, /* CVT(T)x2U... */
	[0x7a] = FLOAT,			   /* CVTx2QQ, CVTU... */
	[0x7b] = FLOAT_BY_PREFIX,	   /* CVTx2QQ, CVTUSI2Sx */
	[0x7c ... 0x7d] = FLOAT,	   /* HADDPx, HSUBPx */
	[0x90 ... 0x93] = NO_VECTOR | OPMASK,
	[0x98 ... 0x99] = NO_VECTOR | OPMASK,
	[0xae] = NO_VECTOR,		 /* VLDMXCSR, VSTMXCSR */
	[0xc2] = FLOAT_BY_PREFIX | IMM8, /* CMPx */
	[0xc4 ... 0xc6] = IMM8,		 /* PINSRW, PEXTRW, SHUFPx */
	[0xd0] = FLOAT,			 /* ADDSUBPx */
	[0xd5] = HEAVY(P66),		 /* PMULLW */
	[0xe4 ... 0xe5] = HEAVY(P66),	 /* PMULHUW, PMULHW */
	[0xe6] = FLOAT,			 /* CVTx */
	[0xf4 ... 0xf5] = HEAVY(P66),	 /* PMULUDQ, PMADDWD */
},

/* 0F 38. With F3 much of it is VPMOVx, which narrows integers. */
[2] = {
	[0x04] = HEAVY(P66),			       /* PMADDUBSW */
	[0x0b] = HEAVY(P66),			       /* PMULHRSW */
	[0x13] = HEAVY(P66),			       /* CVTPH2PS */
	[0x28] = HEAVY(P66),			       /* PMULDQ */
	[0x2c] = ONLY_EVEX | HEAVY(P66),	       /* SCALEFPx */
	[0x2d] = ONLY_EVEX | HEAVY(P66) | SCALAR(P66), /* SCALEFSx */
	[0x40] = HEAVY(P66),			       /* PMULLD, PMULLQ */
	PACKED_THEN_SINGLE(0x42),		       /* GETEXPPx */
	[0x49] = NO_VECTOR,			       /* tiles */
	[0x4b] = NO_VECTOR,			       /* tiles */
	PACKED_THEN_SINGLE(0x4c),		       /* RCP14Px */
	PACKED_THEN_SINGLE(0x4e),		       /* RSQRT14Px */
	[0x50 ... 0x53] = HEAVY(ANY_PREFIX),	       /* PDPx, DPBF16PS */
	[0x5c] = NO_VECTOR,			       /* tiles */
	[0x5e] = NO_VECTOR,			       /* tiles */
	[0x6c] = NO_VECTOR,			       /* tiles */
	[0x72] = HEAVY(PF3 | PF2),		       /* CVTNEPS2BF16 */
	[0x96 ... 0x97] = FLOAT,		       /* FMA: packed */
	PACKED_THEN_SINGLE(0x98),
	PACKED_THEN_SINGLE(0x9a),
	PACKED_THEN_SINGLE(0x9c),
	PACKED_THEN_SINGLE(0x9e),
	[0xa6 ... 0xa7] = FLOAT,
	PACKED_THEN_SINGLE(0xa8),
	PACKED_THEN_SINGLE(0xaa),
	PACKED_THEN_SINGLE(0xac),
	PACKED_THEN_SINGLE(0xae),
	[0xb0 ... 0xb1] = HEAVY(ANY_PREFIX), /* CVTNEx, bfloat16 */
	[0xb4 ... 0xb5] = HEAVY(P66),	     /* PMADD52x */
	[0xb6 ... 0xb7] = FLOAT,
	PACKED_THEN_SINGLE(0xb8),
	PACKED_THEN_SINGLE(0xba),
	PACKED_THEN_SINGLE(0xbc),
	PACKED_THEN_SINGLE(0xbe),
	[0xc8] = HEAVY(P66),		     /* EXP2Px */
	[0xca] = HEAVY(P66),		     /* RCP28Px */
	[0xcb] = HEAVY(P66) | SCALAR(P66),   /* RCP28Sx */
	[0xcc] = HEAVY(P66),		     /* RSQRT28Px */
	[0xcd] = HEAVY(P66) | SCALAR(P66),   /* RSQRT28Sx */
	[0xd2 ... 0xd3] = HEAVY(ANY_PREFIX), /* PDPWx */
	[0xf2 ... 0xf3] = NO_VECTOR,	     /* ANDN, BLSx */
	[0xf5 ... 0xf7] = NO_VECTOR,	     /* BZHI, MULX, SARX ... */
	[0xe0 ... 0xef] = NO_VECTOR,	     /* CMPccXADD */
},

/* 0F 3A, all with an immediate byte */
[3] = {
	[0x08 ... 0x09] = FLOAT,	      /* ROUNDPx, RNDSCALEPx */
	[0x0a ... 0x0b] = FLOAT_SINGLE,	      /* ROUNDSx, RNDSCALESx */
	[0x1d] = FLOAT,			      /* CVTPS2PH */
	PACKED_THEN_SINGLE(0x26),	      /* GETMANTPx */
	[0x30 ... 0x33] = NO_VECTOR | OPMASK, /* KSHIFTx */
	[0x40 ... 0x41] = FLOAT,	      /* DPPx */
	PACKED_THEN_SINGLE(0x50),	      /* RANGEPx */
	PACKED_THEN_SINGLE(0x54),	      /* FIXUPIMMPx */
	PACKED_THEN_SINGLE(0x56),	      /* REDUCEPx */
	[0x5c ... 0x5f] = FLOAT,	      /* AMD's FMA of four operands */
	[0x67] = SCALAR(ANY_PREFIX),	      /* FPCLASSSx */
	[0x68 ... 0x69] = FLOAT,
	[0x6a ... 0x6b] = FLOAT_SINGLE,
	[0x6c ... 0x6d] = FLOAT,
	[0x6e ... 0x6f] = FLOAT_SINGLE,
	[0x78 ... 0x79] = FLOAT,
	[0x7a ... 0x7b] = FLOAT_SINGLE,
	[0x7c ... 0x7d] = FLOAT,
	[0x7e ... 0x7f] = FLOAT_SINGLE,
	[0xc2] = FLOAT_BY_PREFIX, /* CMPPH, CMPSH */
	[0xf0] = NO_VECTOR,	  /* RORX */
},

/* FP16, at the places of map 1 */
[5] = {
	[0x10 ... 0x11] = SCALAR(ANY_PREFIX), /* MOVSH */
	[0x1d] = FLOAT | SCALAR(NP),	      /* CVTSS2SH, CVTPS2PHX */
	[0x2a] = FLOAT_SINGLE,		      /* conversions */
	[0x2c ... 0x2d] = FLOAT_SINGLE,	      /* conversions */
	[0x2e ... 0x2f] = FLOAT_SINGLE,	      /* (U)COMISH */
	[0x51 ... 0x5a] = FLOAT_BY_PREFIX,
	[0x5b] = FLOAT,
	[0x5c ... 0x5f] = FLOAT_BY_PREFIX,
	[0x78 ... 0x79] = FLOAT_BY_PREFIX,
	[0x7a] = FLOAT,
	[0x7b] = FLOAT_BY_PREFIX,
	[0x7c ... 0x7d] = FLOAT,
},

/* FP16, at the places of map 2 */
[6] = {
	[0x13] = FLOAT | SCALAR(NP), /* CVTSH2SS, CVTPH2PSX */
	PACKED_THEN_SINGLE(0x2c),    PACKED_THEN_SINGLE(0x42),
	PACKED_THEN_SINGLE(0x4c),    PACKED_THEN_SINGLE(0x4e),
	PACKED_THEN_SINGLE(0x56), /* FMADDCPH */
	[0x96 ... 0x97] = FLOAT,  /* FMA */
	PACKED_THEN_SINGLE(0x98),    PACKED_THEN_SINGLE(0x9a),
	PACKED_THEN_SINGLE(0x9c),    PACKED_THEN_SINGLE(0x9e),
	[0xa6 ... 0xa7] = FLOAT,     PACKED_THEN_SINGLE(0xa8),
	PACKED_THEN_SINGLE(0xaa),    PACKED_THEN_SINGLE(0xac),
	PACKED_THEN_SINGLE(0xae),    [0xb6 ... 0xb7] = FLOAT,
	PACKED_THEN_SINGLE(0xb8),    PACKED_THEN_SINGLE(0xba),
	PACKED_THEN_SINGLE(0xbc),    PACKED_THEN_SINGLE(0xbe),
	PACKED_THEN_SINGLE(0xd6), /* FMULCPH */
},
};

/* The fields of an instruction that has one of the two prefixes, and where they are. */
struct insn_layout {
	u32 kind;
	u32 map;
	u32 prefix; /* one of enum avx_insn_prefixes */
	u32 vector; /* L, or L'L: 128 << vector is the width */
	u32 opcode; /* the byte at which the opcode is */
	bool b;	    /* EVEX: broadcast; with registers only, rounding or no exceptions */
};

/*
 * These are prefixes for segments and for the size of addresses; any other prefix before
 * VEX or EVEX is illegal. Nothing in use has more than two of them.
 */
#define MAX_LEGACY_PREFIXES 2

static __always_inline bool is_legacy_prefix(u8 byte)
{
	const u64 segments = 1ULL << 0x26 | 1ULL << 0x2e | 1ULL << 0x36 | 1ULL << 0x3e;
	const u64 others = 1ULL << (0x64 & 63) | 1ULL << (0x65 & 63) | 1ULL << (0x67 & 63);

	return (byte < 64 ? segments >> byte : byte < 128 ? others >> (byte & 63) : 0) & 1;
}

static __always_inline u8 insn_byte(const u8 code[INSN_BYTES], u32 at)
{
	/* An address that is known to be aligned would be or-ed with @at, which BPF forbids. */
	__asm__ __volatile__("" : "+r"(code));
	return code[at & (INSN_BYTES - 1)];
}

static __always_inline struct insn_layout insn_layout(const u8 code[INSN_BYTES])
{
	struct insn_layout layout = { .kind = INSN_OTHER };
	u32 at = 0;
	u8 payload;

	while (at < MAX_LEGACY_PREFIXES && is_legacy_prefix(insn_byte(code, at)))
		at++;

	switch (insn_byte(code, at)) {
	case 0xc5:
		payload = insn_byte(code, at + 1);
		layout.kind = INSN_VEX;
		layout.map = 1;
		layout.vector = payload >> 2 & 1;
		layout.opcode = at + 2;
		break;
	case 0xc4:
		payload = insn_byte(code, at + 2);
		layout.kind = INSN_VEX;
		layout.map = insn_byte(code, at + 1) & 31;
		layout.vector = payload >> 2 & 1;
		layout.opcode = at + 3;
		break;
	case 0x62:
		payload = insn_byte(code, at + 2);
		layout.kind = INSN_EVEX;
		layout.map = insn_byte(code, at + 1) & 7;
		layout.vector = insn_byte(code, at + 3) >> 5 & 3;
		layout.b = insn_byte(code, at + 3) & 0x10;
		layout.opcode = at + 4;
		break;
	default:
		return layout;
	}
	layout.prefix = 1 << (payload & 3);
	return layout;
}

/* Returns an entry of the tables, or -1 for a map that has none. */
static __always_inline s32 insn_entry(const struct insn_layout *layout, u8 opcode)
{
	bool is_evex = layout->kind == INSN_EVEX;
	u32 entry;

	if (layout->map >= NR_MAPS || !((is_evex ? EVEX_MAPS : VEX_MAPS) >> layout->map & 1))
		return -1;
	entry = insn_maps[layout->map][opcode];
	return entry & ONLY_EVEX && !is_evex ? 0 : entry;
}

/*
 * The number of bytes of a displacement, by mod and by the base register. This is a
 * table and not a few conditions, because the kernel's verifier goes through all of these.
 */
static const u8 displacements[4][8] = {
	[0][5] = 4,
	[1][0 ... 7] = 1,
	[2][0 ... 7] = 4,
};

/* Returns the number of bytes of ModRM and of the address that it begins. */
static __always_inline u32 modrm_length(u8 modrm, u8 sib)
{
	u32 mod = modrm >> 6, rm = modrm & 7;
	bool has_sib = rm == 4 && mod != 3;
	u32 base = has_sib ? sib & 7 : rm;

	return 1 + has_sib + displacements[mod][base];
}

static __always_inline u32 insn_width(const struct insn_layout *layout, u32 entry, u8 modrm)
{
	if (entry & NO_VECTOR)
		return 0;
	if (entry & SCALAR(layout->prefix))
		return 128;
	/* The rounding mode takes the place of the length, which then is the longest. */
	if (layout->b && modrm >> 6 == 3)
		return 512;
	return 128U << layout->vector;
}

/*
 * Returns the instruction that begins with @code, of which @readable bytes are known.
 * The bytes after ModRM need not be known.
 */
static __always_inline struct avx_insn decode_insn(const u8 code[INSN_BYTES], u32 readable)
{
	struct insn_layout layout = insn_layout(code);
	struct avx_insn insn = { .kind = INSN_OTHER };
	u8 modrm = insn_byte(code, layout.opcode + 1);
	s32 entry;

	if (layout.kind == INSN_OTHER || layout.opcode + 2 > readable)
		return insn;
	entry = insn_entry(&layout, insn_byte(code, layout.opcode));
	if (entry < 0)
		return insn;

	insn.kind = entry & OPMASK ? INSN_OPMASK : layout.kind;
	insn.width = insn_width(&layout, entry, modrm);
	insn.heavy = entry & HEAVY(layout.prefix) && !(entry & NO_VECTOR);
	return insn;
}

/* Returns the number of bytes of an instruction, or 0 if it is not understood. */
static __always_inline u32 insn_length(const u8 code[INSN_BYTES])
{
	struct insn_layout layout = insn_layout(code);
	s32 entry = insn_entry(&layout, insn_byte(code, layout.opcode));
	u32 length = layout.opcode + 1;

	if (layout.kind == INSN_OTHER || entry < 0)
		return 0;
	if (!(entry & NO_MODRM))
		length += modrm_length(insn_byte(code, length), insn_byte(code, length + 1));
	if (entry & IMM8 || layout.map == 3)
		length++;
	return length <= INSN_MAX ? length : 0;
}

/* Returns the frequency licence that an instruction asks for on Skylake-SP: 0, 1 or 2. */
static __always_inline u32 licence_of(const struct avx_insn *insn)
{
	if (insn->width == 512)
		return insn->heavy ? 2 : 1;
	return insn->width == 256 && insn->heavy;
}

/* Returns true if no machine without AVX-512 executes the instruction. */
static __always_inline bool is_avx512(const struct avx_insn *insn)
{
	return insn->kind == INSN_EVEX || insn->kind == INSN_OPMASK;
}

#endif /* AVXSPEC_DECODE_BPF_H */
