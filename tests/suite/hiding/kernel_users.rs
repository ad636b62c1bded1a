// SPDX-License-Identifier: GPL-2.0-only
//! What in the kernel uses AVX-512, or swaps the registers of user mode, works
//! as ever while AVX-512 is hidden from everybody.

use anyhow::{Context, Result, ensure};

use super::lifetime::{check_in_exec, guest_with_module};
use super::registers::seed;
use super::{forcing_guest, judge, test_program};
use crate::rig::{Bochs, Flavour, Guest, Kernel, census, in_repository};
use crate::suite::counts::counts_of;

crate::tests! {
    hiding:
    raid6_loses_two_disks_and_no_data(41),
    the_kernel_encrypts_with_avx512_as_plain_c_does(7),
    guests_of_kvm_and_their_threads_lose_no_register(12),
    confidential_guests_are_entered_with_everything(9),
}

/// Modules in the order in which they are loaded, as far as a kernel has them: what
/// is a module in one may be built into another.
const RAID: [&str; 10] = [
    "libcrc32c",
    "xor",
    "raid6_pq",
    "async_tx",
    "async_memcpy",
    "async_xor",
    "async_pq",
    "async_raid6_recov",
    "md-mod",
    "raid456",
];
const CRYPTOGRAPHY: [&str; 7] = [
    "crypto_algapi",
    "crypto_skcipher",
    "libchacha",
    "chacha-x86_64",
    "chacha",
    "af_alg",
    "algif_skcipher",
];
/// What /proc/crypto calls the ChaCha20 that uses AVX-512, before and since it
/// became a part of the library.
const WITH_AVX512: [&str; 2] = [": chacha20-simd\n", ": chacha20-lib\n"];
const KVM: [&str; 3] = ["irqbypass", "kvm", "kvm-intel"];

/// How `rig force` is to hide here.
const FORCE: &str = "rig force --set what=0xe0 --set visible_in=5 --set tick_flips=3 \
                     --set migrate=1 --set slice_us=2000";
/// What its scheduler must have done, and what must never happen.
const FORCED: [&str; 2] = ["hides", "ud_traps"];
const FORBIDDEN: [&str; 3] = ["refused", "other_traps", "registers_lost"];

/// Those that are modules of the guest's kernel, and not built into it.
fn present(modules: &[&'static str]) -> Result<Vec<&'static str>> {
    let kernel = Kernel::get(Flavour::Patched)?;
    Ok(modules.iter().copied().filter(|name| kernel.in_tree_module(name).is_ok()).collect())
}

/// Puts modules of the guest's kernel into its /modules.
fn with_modules(guest: Guest, modules: &[&str]) -> Result<Guest> {
    let kernel = Kernel::get(Flavour::Patched)?;
    let put = |guest: Guest, name: &&str| -> Result<Guest> {
        Ok(guest.file(&format!("/modules/{name}.ko"), &kernel.in_tree_module(name)?))
    };
    modules.iter().try_fold(guest.limit(600), put)
}

/// Its modules try all algorithms as they are loaded, and choose one; its
/// threads use that beside programs that are hidden from.
fn raid6_loses_two_disks_and_no_data() -> Result<()> {
    let modules = present(&RAID)?;
    let outcome = with_modules(forcing_guest(Bochs::cpus(2))?, &modules)?
        .package("mdadm")
        .program(&test_program("vectors")?)
        .file("/lib.sh", &in_repository("tests/guest/lib.sh"))
        .file("/raid.sh", &in_repository("tests/guest/hiding/raid.sh"))
        .command(&format!("{FORCE} -- sh /raid.sh {}", modules.join(" ")))
        .command("oraclectl report; dmesg")
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    judge(&counts, &FORCED, &FORBIDDEN)?;
    judge(&counts, &["cycles_checked", "migrations"], &[])?;

    let words = outcome.stdout(1)?;
    for said in ["raid6: avx512x4 gen()", "raid6: using avx512x2 recovery algorithm"] {
        ensure!(words.contains(said), "the kernel did not say {said:?}:\n{words}");
    }
    let chosen = words
        .lines()
        .find_map(|line| line.split_once("raid6: using algorithm "))
        .context("no algorithm was chosen")?;
    ensure!(chosen.1.starts_with("avx512"), "the kernel chose {}", chosen.1);
    let wide = |row: &census::Row| row.sum(&["v512_light", "v512_heavy"]);
    let rows = census::read(words)?;
    let in_kernel: u64 = rows.iter().filter(|row| row.level == "kernel").map(wide).sum();
    ensure!(in_kernel > 100_000, "{in_kernel} instructions of 512 bits rebuilt an array");
    Ok(())
}

fn the_kernel_encrypts_with_avx512_as_plain_c_does() -> Result<()> {
    let modules = present(&CRYPTOGRAPHY)?;
    let outcome = with_modules(forcing_guest(Bochs::cpus(2))?, &modules)?
        .program(&test_program("crypto")?)
        .command("grep -qw avx512vl /proc/cpuinfo && grep -qw avx512bw /proc/cpuinfo")
        .command(&format!(
            "for module in {}; do insmod /modules/$module.ko || exit 1; done
             # Later kernels let programs have few algorithms, unless told otherwise.
             limit=/proc/sys/crypto/af_alg_restrict
             [ ! -e $limit ] || echo 0 >$limit
             {FORCE} -- crypto 150 3 {}",
            modules.join(" "),
            seed()
        ))
        .command("grep -A 1 '^name *: chacha20$' /proc/crypto")
        .boot()?;
    outcome.all_succeeded()?;
    let driver = outcome.stdout(2)?;
    let is_wide = WITH_AVX512.iter().any(|name| driver.contains(name));
    ensure!(is_wide, "the kernel encrypts with {driver}");
    let counts = counts_of(&outcome, 1)?;
    judge(&counts, &FORCED, &FORBIDDEN)?;
    judge(&counts, &["requests", "requested_hidden"], &["wrong_texts"])
}

/// KVM remembers the XCR0 that it finds when its module for the processor is
/// loaded, and puts it back after each guest that has another one.
fn guests_of_kvm_and_their_threads_lose_no_register() -> Result<()> {
    let [interrupts, general, processor] = KVM;
    let outcome = with_modules(guest_with_module()?, &KVM)?
        .program(&test_program("vcpu")?)
        .command(&format!(
            "insmod /modules/{interrupts}.ko && insmod /modules/{general}.ko || exit 1
             insmod /hiding_test.ko kvm_loads_reduced=1 || exit 1
             {FORCE} -- sh -c 'insmod /modules/{processor}.ko && vcpu 150 3 {}' || exit 1
             cd /sys/module/hiding_test/parameters
             echo reduced_for_kvm=$(cat reduced_for_kvm)
             ! grep -v 'xcr0=0x2e7 hidden=0x0$' cpus",
            seed()
        ))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    judge(&counts, &FORCED, &FORBIDDEN)?;
    judge(
        &counts,
        &["entries", "entered_hidden", "left_hidden", "guests_reduced", "reduced_for_kvm"],
        &["guest_registers_lost", "guest_xcr0_wrong"],
    )
}

/// Of these KVM neither saves nor loads any register: so nothing but the swap
/// itself makes XCR0 full, where the thread's own are in memory already.
fn confidential_guests_are_entered_with_everything() -> Result<()> {
    check_in_exec("guest_in_exec")
}
