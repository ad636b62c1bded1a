// SPDX-License-Identifier: GPL-2.0-only
//! The oracle against programs whose instruction counts are known. Every count
//! that other tests rely on rests on this.

use anyhow::{Context, Result, ensure};

use crate::ensure_eq;
use crate::rig::{Bochs, Flavour, Guest, Kernel, census, in_repository, program};

crate::tests! {
    oracle:
    counts_known_programs_exactly_on_one_cpu(8),
    counts_known_programs_exactly_on_two_cpus(4),
    reports_traces_and_classifies(9),
}

fn counts_known_programs_exactly_on_one_cpu() -> Result<()> {
    known_programs(1)
}

fn counts_known_programs_exactly_on_two_cpus() -> Result<()> {
    known_programs(2)
}

const MODULE: &str = "oracle_selftest";
const MODULE_LINE: &str = "oracle-selftest:";

/// One count: what the program is made to do, what the oracle saw.
pub struct Case {
    pub name: String,
    pub expected: u64,
    pub measured: u64,
}

impl Case {
    pub fn error(&self) -> f64 {
        self.measured.abs_diff(self.expected) as f64 / self.expected.max(1) as f64
    }
}

/// Runs all programs of known counts, in user mode and in the kernel.
pub fn measure_cases(cpus: usize) -> Result<Vec<Case>> {
    let selftest = program::compile(&in_repository("tests/rig/oracle/selftest.c"))?;
    let kernel = Kernel::get(Flavour::Patched)?;
    let module = kernel.module(&in_repository("tests/rig/oracle"), "selftest_module", MODULE)?;
    let outcome = Guest::with_kernel(Bochs::cpus(cpus).into(), kernel)
        .program(&selftest)
        .file("/selftest.ko", &module)
        .command("selftest")
        .command(&format!(
            "insmod /selftest.ko && dmesg | sed -n 's/.*{MODULE_LINE}[[:space:]]*//p'"
        ))
        .limit(600)
        .boot()?;
    let (user, in_kernel) = (outcome.stdout(0)?, outcome.stdout(1)?);
    ensure!(user.contains("# 0 cases skipped"), "{user}");
    ensure!(!in_kernel.contains("\tskipped: "), "{in_kernel}");
    ensure_eq!(in_kernel.lines().last(), Some("done\t0 wrong"), "{in_kernel}");
    let mut cases = read_cases("user", user)?;
    let kernel_cases = read_cases("kernel", in_kernel)?;
    ensure!(!cases.is_empty() && !kernel_cases.is_empty());
    cases.extend(kernel_cases);
    Ok(cases)
}

/// Lines of case, counter, expected and measured, separated by tabs.
fn read_cases(level: &str, table: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [name, counter, expected, measured, ..] = fields[..] else {
            continue;
        };
        if (name, counter) == ("case", "counter") {
            continue;
        }
        cases.push(Case {
            name: format!("{level}: {name}, {counter}"),
            expected: expected.parse().with_context(|| line.to_owned())?,
            measured: measured.parse().with_context(|| line.to_owned())?,
        });
    }
    Ok(cases)
}

fn known_programs(cpus: usize) -> Result<()> {
    for case in measure_cases(cpus)? {
        ensure_eq!(case.measured, case.expected, "{} was counted wrong", case.name);
    }
    Ok(())
}

fn reports_traces_and_classifies() -> Result<()> {
    let outcome = Guest::new(Bochs::cpus(1).traces().into(), Flavour::Patched)
        .package("openssl")
        .command("oraclectl xcr0")
        .command("oraclectl report")
        .command(
            "oraclectl trace start; oraclectl mark 51966
             oraclectl run -- openssl dgst -sha256 /bin/busybox
             oraclectl mark 47806; oraclectl trace stop",
        )
        .limit(400)
        .boot()?;
    ensure_eq!(outcome.stdout(0)?, "cpu=0 xcr0=0x2e7\n");
    let since_power_on = census::read(outcome.stdout(1)?)?;
    ensure!(since_power_on[2].get("xsetbv") > 0, "nobody switched AVX-512 on");
    let rows = census::read(outcome.stdout(2)?)?;
    ensure_eq!(rows.len(), 3, "user, kernel and all of one CPU");
    let user = &rows[0];
    ensure_eq!((user.cpu, user.level.as_str()), (0, "user"));
    // glibc's string functions use EVEX in every process on such a CPU.
    ensure!(user.get("avx512") > 0 && user.get("syscalls") > 10);
    ensure!(user.get("retired") > user.get("avx512"));
    ensure!(rows[1].get("retired") > 0 && rows[2].get("ticks") > 0);

    let trace = String::from_utf8(outcome.host_file("oracle.trace")?)?;
    for event in ["mark at=", "run at=", "syscall at=", "sysret at=", "exception at=", "cr3 at="] {
        ensure!(trace.contains(event), "no {event:?} in the trace");
    }
    ensure!(trace.contains("value=51966") && trace.contains("value=47806"));
    classes_are_right(&String::from_utf8(outcome.host_file("oracle.classes")?)?)
}

/// What Intel's licence rules say of some instructions, for all encodings of
/// each: floating point and integer multiplication are heavy, the rest is light.
const WEIGHTS: &[(&str, &[&str])] = &[
    (
        "heavy",
        &[
            "addps",
            "vaddps",
            "vaddsd",
            "vsubpd",
            "vmulps",
            "vdivpd",
            "vsqrtps",
            "vminps",
            "vmaxpd",
            "vcmppd",
            "vcvtdq2ps",
            "vcvtps2dq",
            "vroundps",
            "vrndscalepd",
            "vrcp14ps",
            "vrsqrt14pd",
            "vreduceps",
            "vscalefpd",
            "vgetexpps",
            "vfmadd132ps",
            "vfmadd231pd",
            "vfnmsub213ss",
            "vfmaddsub132pd",
            "vhaddps",
            "vdpps",
            "vpmulld",
            "vpmullq",
            "vpmuludq",
            "vpmulhuw",
            "vpmaddwd",
            "vpmaddubsw",
            "vpmadd52luq",
            "vpmadd52huq",
            "vpdpbusd",
            "vpdpwssds",
        ],
    ),
    (
        "light",
        &[
            "movaps",
            "vmovdqu64",
            "vmovaps",
            "vpxor",
            "vpxord",
            "vpternlogd",
            "vpaddd",
            "vpaddq",
            "vpsubb",
            "vpcmpeqb",
            "vpsadbw",
            "vpsllw",
            "vpsrlvq",
            "vprolq",
            "vpermq",
            "vpermt2w",
            "vpermb",
            "vpshufb",
            "vpunpcklbw",
            "vblendps",
            "vpblendmb",
            "vbroadcastss",
            "vpbroadcastb",
            "vaesenc",
            "vpclmulqdq",
            "vpminub",
            "vpmaxsq",
            "vpabsd",
            "vandps",
            "vxorpd",
            "vshufps",
            "vpmovzxbw",
            "vpcompressd",
            "vpexpandq",
            "vgatherdps",
            "vscatterqpd",
            "vpmultishiftqb",
            "vpopcntd",
            "vplzcntq",
            "vpconflictd",
        ],
    ),
];

fn classes_are_right(list: &str) -> Result<()> {
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split('\t').collect()).collect();
    // Columns: opcode, mnemonic, encoding, class, width, weight, avx512. MMX
    // shares mnemonics with SSE and is no vector instruction here.
    let vectors: Vec<&Vec<&str>> =
        rows.iter().filter(|row| row.len() == 7 && row[3] == "vector").collect();
    ensure!(vectors.len() > 2000, "{} vector opcodes", vectors.len());
    for (weight, mnemonics) in WEIGHTS {
        for mnemonic in *mnemonics {
            let mut named = vectors.iter().filter(|row| row[1] == *mnemonic).peekable();
            ensure!(named.peek().is_some(), "no opcode of {mnemonic}");
            for row in named {
                ensure_eq!(row[5], *weight, "{}", row[0]);
            }
        }
    }
    for row in &vectors {
        ensure_eq!(row[6] == "1", row[2] == "evex", "{}", row[0]);
    }
    for row in rows.iter().filter(|row| row.len() == 7 && row[3] == "mask") {
        ensure!(row[1].starts_with('k') && row[6] == "1", "{}", row[0]);
    }
    Ok(())
}
