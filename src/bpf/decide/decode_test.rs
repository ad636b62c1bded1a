// SPDX-License-Identifier: GPL-2.0-only
//! The decoder of `decode.bpf.h` against an independent disassembler.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind, Instruction, MemorySize, OpKind};
use proptest::prelude::*;

use super::native::{decode_insn, insn_length, is_avx512, licence_of};
use crate::bpf::intf::{
    INSN_BYTES, INSN_EVEX, INSN_OPMASK, INSN_OTHER, INSN_VEX, LICENCE_1, LICENCE_2, LICENCE_NONE,
    avx_insn,
};

const BYTES: usize = INSN_BYTES as usize;
const MAPS: [u8; 5] = [1, 2, 3, 5, 6];

/// What the disassembler says, in our words, and the length of it; `None` for what no
/// CPU executes.
fn expected(instruction: &Instruction) -> Option<(avx_insn, u32)> {
    let Known { kind, heavy, .. } = KNOWN[instruction.code() as usize];
    if instruction.is_invalid() {
        return None;
    }
    if kind == INSN_OTHER {
        return Some((avx_insn::default(), 0));
    }
    let in_memory = VECTORS_IN_MEMORY[instruction.memory_size() as usize];
    let width = registers(instruction).chain([in_memory]).max()?;
    Some((avx_insn { kind, width, heavy: heavy && width > 0 }, instruction.len() as u32))
}

/// What follows from the name of an instruction.
#[derive(Clone, Copy)]
struct Known {
    kind: u32,
    heavy: bool,
    exempt: bool,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    Code::values()
        .map(|code| {
            let name = format!("{:?}", code.mnemonic());
            let kind = match code.op_code().encoding() {
                // All of AVX-512, and nothing else.
                EncodingKind::VEX if name.starts_with('K') => INSN_OPMASK,
                EncodingKind::VEX => INSN_VEX,
                EncodingKind::EVEX => INSN_EVEX,
                _ => INSN_OTHER,
            };
            Known { kind, heavy: is_heavy(&name.to_uppercase()), exempt: is_prefetch(&name) }
        })
        .collect()
});

/// Prefetches of Xeon Phi by half a vector of indices. They name the indices only;
/// the decoder says what they fetch. No CPU that has them lowers its clock.
fn is_prefetch(name: &str) -> bool {
    name.starts_with("Vgatherpf") || name.starts_with("Vscatterpf")
}

/// By name: arithmetic on floating point, and multiplication of integers.
fn is_heavy(name: &str) -> bool {
    const INTEGER: [&str; 7] = ["PMULL", "PMULH", "PMULD", "PMULUD", "PMADD", "PDP", "P4DP"];
    const FLOAT: [&str; 37] = [
        "4FMADD", "4FNMADD", "ADD", "ADDSUB", "BCSTNE", "CMP", "COMI", "CVT", "DIV", "DP", "EXP2",
        "FCMADDC", "FCMULC", "FIXUPIMM", "FMADD", "FMADDC", "FMSUB", "FMULC", "FNMADD", "FNMSUB",
        "GETEXP", "GETMANT", "HADD", "HSUB", "MAX", "MIN", "MUL", "RANGE", "RCP", "REDUCE",
        "RNDSCALE", "ROUND", "RSQRT", "SCALEF", "SQRT", "SUB", "UCOMI",
    ];
    let Some(name) = name.strip_prefix('V') else { return false };
    INTEGER.iter().chain(&FLOAT).any(|stem| name.starts_with(stem))
}

/// The bits of each vector register that it names, as operand or in an address.
fn registers(instruction: &Instruction) -> impl Iterator<Item = u32> {
    let operands = (0..instruction.op_count())
        .filter(|&n| instruction.op_kind(n) == OpKind::Register)
        .map(|n| instruction.op_register(n));
    operands
        .chain([instruction.memory_index()])
        .filter(|register| register.is_vector_register())
        .map(|register| register.size() as u32 * 8)
}

/// The bits of the vector that what is in memory becomes part of: conversions to
/// something narrower name no register of that size. A single element takes the
/// smallest.
static VECTORS_IN_MEMORY: LazyLock<Vec<u32>> = LazyLock::new(|| {
    MemorySize::values()
        .map(|size| {
            let name = format!("{size:?}");
            if let Some(rest) = name.strip_prefix("Broadcast") {
                rest.split('_').next().and_then(|bits| bits.parse().ok()).unwrap_or_default()
            } else if name.starts_with("Packed") {
                size.size() as u32 * 8
            } else if name.starts_with("Float") {
                128
            } else {
                0
            }
        })
        .collect()
});

fn disassemble(code: &[u8]) -> Instruction {
    Decoder::new(64, code, DecoderOptions::NONE).decode()
}

/// More other prefixes than anybody writes, which the decoder does not look behind.
fn has_many_prefixes(code: &[u8]) -> bool {
    code.iter().take(3).all(|byte| [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67].contains(byte))
}

/// Both about the same bytes, in words if they differ.
fn compare(code: &[u8; BYTES]) -> Result<Instruction, String> {
    let instruction = disassemble(&code[..15]);
    let found = (decode_insn(code, BYTES as u32), insn_length(code));
    match expected(&instruction) {
        Some(expected)
            if expected != found
                && !KNOWN[instruction.code() as usize].exempt
                && !has_many_prefixes(code) =>
        {
            Err(format!("{code:02x?}: {:?} is {expected:?}, found {found:?}", instruction.code()))
        }
        _ => Ok(instruction),
    }
}

/// ModRM and what may follow: a register and an address with each opcode extension,
/// and the other forms of an address.
fn operands() -> Vec<[u8; 6]> {
    let extended = (0..8).flat_map(|reg| [[0xc0 | reg << 3, 0], [0x44 | reg << 3, 0x11]]);
    // %rcx, (%rcx), (%rip), (%rcx,%rdx), absolute, 32 bits of displacement
    let others = [[0xc1, 0], [0x01, 0], [0x0d, 0], [0x0c, 0x11], [0x0c, 0x25], [0x8c, 0x11]];
    extended.chain(others).map(|[modrm, sib]| [modrm, sib, 0, 0, 0, 0]).collect()
}

/// The two prefixes with each map, mandatory prefix, length, W, and the choices
/// of vvvv, aaa and b that make a difference.
fn prefixes() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for bits in 0..1u8 << 7 {
        let [pp, w, ll] = [bits & 3, bits >> 2 & 1, bits >> 3 & 3];
        // Inverted: 1111 is no register, 1101 is the third.
        let vvvv = [0x78, 0x68][usize::from(bits >> 5 & 1)];
        let masked = bits >> 6 & 1;
        for map in MAPS {
            for b in [0, 0x10] {
                let payload = w << 7 | vvvv | 4 | pp;
                all.push(vec![0x62, 0xf0 | map, payload, ll << 5 | b | 8 | masked]);
            }
            if ll < 2 && masked == 0 {
                all.push(vec![0xc4, 0xe0 | map, w << 7 | vvvv | ll << 2 | pp]);
            }
        }
        if ll < 2 && masked == 0 && w == 0 {
            all.push(vec![0xc5, 0x80 | vvvv | ll << 2 | pp]);
        }
    }
    all
}

/// Every opcode that there is, in every form, and the codes that were met.
#[test]
fn all_opcodes_are_what_a_disassembler_says() {
    let operands = operands();
    let mut met = BTreeSet::new();
    let mut wrong = Vec::new();
    for prefix in prefixes() {
        for opcode in 0..=255 {
            for operands in &operands {
                let mut code = [0; BYTES];
                let bytes = prefix.iter().copied().chain([opcode]).chain(*operands);
                code.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
                match compare(&code) {
                    Ok(instruction) => _ = met.insert(instruction.code()),
                    Err(message) => wrong.push(message),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));

    let missed: Vec<Code> =
        Code::values().filter(|&code| is_ours(code) && !met.contains(&code)).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
}

/// Instructions of 64-bit code with one of the two prefixes. Knights Corner had
/// another meaning for some of them.
fn is_ours(code: Code) -> bool {
    let op_code = code.op_code();
    KNOWN[code as usize].kind != INSN_OTHER
        && op_code.is_instruction()
        && op_code.mode64()
        && !format!("{code:?}").contains("_KNC_")
}

#[test]
fn a_million_random_instructions_are_what_a_disassembler_says() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut valid = 0;
    while valid < 1_000_000 {
        let mut code: [u8; BYTES] = std::array::from_fn(|_| next() as u8);
        let choice = next().to_le_bytes().map(usize::from);
        let begin = usize::from(choice[0] % 8 == 0);
        if begin == 1 {
            code[0] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67, 0x66][choice[1] % 8];
        }
        code[begin] = [0xc4, 0xc5, 0x62, 0x62][choice[2] % 4];
        // A map that exists, most of the time.
        if choice[3] % 16 != 0 && code[begin] != 0xc5 {
            code[begin + 1] = code[begin + 1] & 0xf0 | MAPS[choice[4] % MAPS.len()];
        }
        let instruction = compare(&code).unwrap_or_else(|message| unreachable!("{message}"));
        valid += usize::from(!instruction.is_invalid());
    }
}

proptest! {
    #[test]
    fn bytes_without_such_a_prefix_are_not_understood(mut code: [u8; BYTES], first: u8) {
        prop_assume!(![0xc4, 0xc5, 0x62, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67].contains(&first));
        code[0] = first;
        prop_assert_eq!(decode_insn(&code, BYTES as u32), avx_insn::default());
    }

    #[test]
    fn an_instruction_is_understood_once_modrm_is_there(mut code: [u8; BYTES]) {
        code[0] = 0xc5;
        let whole = decode_insn(&code, BYTES as u32);
        for readable in 0..4 {
            prop_assert_eq!(decode_insn(&code, readable), avx_insn::default());
        }
        prop_assert_eq!(decode_insn(&code, 4), whole);
    }
}

#[test]
fn what_the_c_library_does_to_strings_costs_nothing() {
    // vmovdqu64 (%rsi),%ymm16; vpcmpeqb (%rdi),%ymm16,%k0; kmovd %k0,%eax
    for code in [
        &[0x62, 0xe1, 0xfe, 0x28, 0x6f, 0x06][..],
        &[0x62, 0xf3, 0x7d, 0x20, 0x3f, 0x07, 0x00],
        &[0xc5, 0xfb, 0x93, 0xc0],
    ] {
        let insn = decode(code);
        assert!(is_avx512(&insn) && licence_of(&insn) == LICENCE_NONE, "{insn:?}");
    }
}

#[test]
fn licences_go_by_width_and_weight() {
    let cases: [(&[u8], u32); 6] = [
        (&[0xc5, 0xf4, 0x58, 0xd0], LICENCE_1), // vaddps %ymm0,%ymm1,%ymm2
        (&[0xc5, 0xf5, 0xfe, 0xd0], LICENCE_NONE), // vpaddd %ymm0,%ymm1,%ymm2
        (&[0x62, 0xf1, 0x75, 0x48, 0xfe, 0xd0], LICENCE_1), // vpaddd %zmm0,%zmm1,%zmm2
        (&[0x62, 0xf1, 0x74, 0x48, 0x58, 0xd0], LICENCE_2), // vaddps %zmm0,%zmm1,%zmm2
        (&[0x62, 0xf1, 0xf5, 0x48, 0xf4, 0xd0], LICENCE_2), // vpmuludq %zmm0,%zmm1,%zmm2
        (&[0x62, 0xf1, 0x74, 0x08, 0x58, 0xd0], LICENCE_NONE), // vaddps %xmm0,%xmm1,%xmm2 by EVEX
    ];
    for (code, licence) in cases {
        assert_eq!(licence_of(&decode(code)), licence, "{code:02x?}");
    }
}

fn decode(code: &[u8]) -> avx_insn {
    let mut bytes = [0; BYTES];
    bytes[..code.len()].copy_from_slice(code);
    let insn = decode_insn(&bytes, code.len() as u32);
    assert_ne!(insn.kind, INSN_OTHER, "{code:02x?}");
    insn
}
