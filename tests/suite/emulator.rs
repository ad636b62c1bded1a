// SPDX-License-Identifier: GPL-2.0-only
//! What the patches of `tests/rig/bochs` give the emulated processor.

use anyhow::{Result, ensure};

use crate::rig::{Bochs, Flavour, Guest, Kernel, in_repository, program};

crate::tests! {
    emulator:
    cpuid_faults_for_the_task_that_asks(10),
}

fn cpuid_faults_for_the_task_that_asks() -> Result<()> {
    let programs = in_repository("tests/guest");
    let kernel = Kernel::get(Flavour::Stock)?;
    let module = kernel.module(&programs, "cpuid_msrs_module", "cpuid_msrs")?;
    let outcome = Guest::with_kernel(Bochs::cpus(1).into(), kernel)
        .program(&program::compile(&programs.join("cpuid_faulting.c"))?)
        .file("/cpuid_msrs.ko", &module)
        .command("cat /proc/cpuinfo")
        .command("cpuid_faulting")
        .command("insmod /cpuid_msrs.ko || { dmesg | grep cpuid-msrs: >&2; false; }")
        .boot()?;
    let is_known = outcome.stdout(0)?.split_whitespace().any(|flag| flag == "cpuid_fault");
    ensure!(is_known, "Linux does not see that CPUID can fault");
    outcome.all_succeeded()
}
