// SPDX-License-Identifier: GPL-2.0-only
//! AVX work and AVX cores, by the counts of the emulator.

pub mod books;
pub mod counters;
pub mod fairness;
mod occupancy;
pub mod prospect;
pub mod shares;
pub mod tiers;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::counts::counts_of;
use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::census::Row;
use crate::rig::guest::Outcome;
use crate::rig::process::text_of;
use crate::rig::{Bochs, Flavour, Guest, census, in_repository, program};

crate::tests! {
    avx:
    wide_work_goes_to_avx_cores_before_it_begins(50),
    string_functions_of_a_quiet_library_are_no_avx_work(41),
    programs_see_avx512_and_those_that_need_it_start(34),
    no_linker_saves_more_than_it_has_room_for(28),
    who_looks_late_finds_what_is_hidden(30),
    the_end_of_no_phase_is_missed(70),
    the_way_to_an_avx_core_does_not_end_the_phase(40),
    openssl_encrypts_on_avx_cores_what_it_encrypts_elsewhere(42),
    nginx_serves_tls_from_avx_cores(50),
    who_ran_before_the_scheduler_keeps_its_string_functions_on_avx_cores(58),
    who_occupies_an_avx_core_is_read_from_a_trace(1),
    policies_are_switched_live_and_each_decision_sees_a_whole_one(124),
}

const CPUS: usize = 4;

/// With one of them, and nobody there: CPUs with high numbers come first.
const AVX_CPU: usize = 3;

/// With what does AVX work, and what counts it.
pub fn phases_guest(machine: Bochs, flavour: Flavour) -> Result<Guest> {
    Ok(scheduler_guest(machine, flavour)?
        .program(&program::compile(&in_repository("tests/guest/avx/phases.c"))?))
}

pub const WIDE: [&str; 2] = ["v512_light", "v512_heavy"];

/// As many threads as CPUs alternate between scalar work, 512-bit work and a system
/// call, or something more than that. What they do in a second is counted, long after
/// the first of them, with one AVX core and this policy.
fn alternate(policy: &str, more: &str) -> Result<Vec<Row>> {
    let outcome = phases_guest(Bochs::cpus(CPUS), Flavour::Patched)?
        .command(&script(&format!(
            "start_scheduler --policy static --set avx-cpus=1 {policy}
             phases 4 1000000 200 20 {more} & phases=$!
             sleep 0.3
             oraclectl run -- sleep 1
             kill $phases
             stop_scheduler"
        )))
        .limit(400)
        .boot()?;
    user_rows(outcome.stdout(0)?)
}

pub fn user_rows(report: &str) -> Result<Vec<Row>> {
    Ok(census::read(report)?.into_iter().filter(|row| row.level == "user").collect())
}

/// What `scx_avxspec status --json` wrote to a file.
fn status(outcome: &Outcome, file: &str) -> Result<Value> {
    outcome.stdout(0)?;
    Ok(serde_json::from_slice(&outcome.file(file)?)?)
}

/// Wide instructions on scalar CPUs, which are all but the AVX cores, and on all.
fn wide_work(rows: &[Row], avx_cores: &[usize]) -> (u64, u64) {
    let wide = |of: &dyn Fn(&Row) -> bool| -> u64 {
        rows.iter().filter(|row| of(row)).map(|row| row.sum(&WIDE)).sum()
    };
    (wide(&|row| !avx_cores.contains(&row.cpu)), wide(&|_| true))
}

fn wide_work_goes_to_avx_cores_before_it_begins() -> Result<()> {
    ensure_both_where_they_belong(&alternate("", "")?)
}

/// Which otherwise have the encoding of AVX-512, and keep a task from being a scalar one.
fn string_functions_of_a_quiet_library_are_no_avx_work() -> Result<()> {
    ensure_both_where_they_belong(&alternate("", "string")?)
}

/// However a program is linked, and whether it is marked as needing AVX-512 to start.
const LINKED: [(&str, &[&str]); 6] = [
    ("dynamic", &[]),
    ("static", &["-static"]),
    ("static_pie", &["-static-pie"]),
    ("marked_dynamic", &[MARK]),
    ("marked_static", &["-static", MARK]),
    ("marked_static_pie", &["-static-pie", MARK]),
];
const MARK: &str = "-Wl,-z,x86-64-v4";

/// The C library sees no AVX-512 while it starts, unless the program needs it to, or the
/// operator named it, or the policy is another one; everybody else does.
fn programs_see_avx512_and_those_that_need_it_start() -> Result<()> {
    let source = in_repository("tests/guest/avx/sees.c");
    let mut guest = scheduler_guest(Bochs::cpus(2), Flavour::Patched)?.program(&lazy()?);
    for (name, arguments) in LINKED {
        let program = program::compile_with(arguments, &source)?;
        let notes = text_of(Command::new("readelf").arg("--notes").arg(&program))?;
        ensure_eq!(notes.contains("x86-64-v4"), arguments.contains(&MARK), "{name}");
        guest = guest.program_as(name, &program);
    }
    let all = LINKED.map(|(name, _)| name).join(" ");
    let each = format!("for name in {all}; do echo $name $($name); done");
    let outcome = guest
        .command(&script(&format!(
            "start_scheduler
             {each}
             echo again $(sh -c 'exec dynamic')
             {LAZY}
             scx_avxspec policy set never-hide=static,dynamic >&2
             echo named $(dynamic)
             scx_avxspec policy set never-hide= quiet-library=off >&2
             echo loud $(static)
             stop_scheduler"
        )))
        .boot()?;
    let quiet = ["dynamic", "static", "static_pie", "again"];
    let loud = ["marked_dynamic", "marked_static", "marked_static_pie", "named", "loud"];
    let lines = |names: &[&str], library: u32| -> Vec<String> {
        let line = |name| format!("{name} constructor=1 main=1 library={library}");
        names.iter().map(line).collect()
    };
    let mut expected = [lines(&quiet, 0), lines(&loud, 1)].concat();
    let mut found: Vec<&str> = outcome.stdout(0)?.lines().collect();
    expected.sort();
    found.sort();
    ensure_eq!(found, expected);
    Ok(())
}

/// Calls functions that the dynamic linker has to find, while the C library is told not to use
/// XSAVEC, and so asks CPUID how long an image is when it starts.
fn lazy() -> Result<PathBuf> {
    let arguments = ["-Wl,-z,lazy", "-Wl,--no-as-needed", "-lm"];
    program::compile_with(&arguments, &in_repository("tests/guest/avx/lazy.c"))
}

const LAZY: &str = "for n in 1 2 3 4 5; do
     GLIBC_TUNABLES=glibc.cpu.hwcaps=-XSAVEC lazy >&2 || fail lazy $?
 done";

/// Nothing lies behind AVX-512 in an image here, so that CPUID tells less than its length while
/// AVX-512 is hidden. So nothing is hidden meanwhile.
fn no_linker_saves_more_than_it_has_room_for() -> Result<()> {
    let desktop = Bochs::cpus(2).without_protection_keys();
    let outcome = scheduler_guest(desktop, Flavour::Patched)?
        .program(&lazy()?)
        .program(&program::compile_with(&[], &in_repository("tests/guest/avx/sees.c"))?)
        .command(&script(&format!("start_scheduler\n{LAZY}\nsees\nstop_scheduler")))
        .boot()?;
    ensure_eq!(outcome.stdout(0)?, "constructor=1 main=1 library=1\n");
    let lazy = "calls=8\noverwritten=0\n".repeat(5);
    ensure!(outcome.commands[0].stderr.contains(&lazy), "{}", outcome.commands[0].stderr);
    Ok(())
}

/// The kernel does not call a program of BPF where another task is in the middle of it, and tells
/// how often that was. Here system calls follow each other so fast that ticks meet them.
fn the_end_of_no_phase_is_missed() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(2), Flavour::Patched)?
        .package("bpftool")
        .command(&script(
            "start_scheduler --policy fault-migrate
             phases 6 1000000000 2 10 & phases=$!
             sleep 20
             thread=$(ls /proc/$phases/task | sort -n | tail -n 1)
             scx_avxspec explain $thread | sed -n 's/phases ended: \\([0-9]*\\) syscall.*/ends=\\1/p'
             /usr/sbin/bpftool prog show name avxspec_syscall_done
             kill $phases
             stop_scheduler",
        ))
        .limit(300)
        .boot()?;
    let told = outcome.stdout(0)?;
    let ends = told.lines().find_map(|line| line.strip_prefix("ends="));
    ensure!(ends.is_some_and(|ends| ends.parse().is_ok_and(|ends: u64| ends > 1000)), "{told}");
    ensure!(told.contains("avxspec_syscall") && !told.contains("recursion_misses"), "{told}");
    Ok(())
}

/// A library that is loaded after the program was seen at AVX work looks for AVX-512 between two
/// phases; unless nobody is to be waited for.
fn who_looks_late_finds_what_is_hidden() -> Result<()> {
    let outcome = scheduler_guest(Bochs::cpus(2), Flavour::Patched)?
        .program(&program::compile(&in_repository("tests/guest/avx/looks_later.c"))?)
        .command(&script(
            "start_scheduler --policy fault-migrate
             looks_later
             scx_avxspec policy set detection-grace=0s >&2
             looks_later
             stop_scheduler",
        ))
        .limit(200)
        .boot()?;
    ensure_eq!(outcome.stdout(0)?, "hidden=1 found=1\nhidden=1 found=0\n");
    Ok(())
}

fn ensure_both_where_they_belong(rows: &[Row]) -> Result<()> {
    let (on_scalar, all) = wide_work(rows, &[AVX_CPU]);
    ensure!(all > 2_500_000, "{all} wide instructions in a second");
    ensure!(on_scalar * 1000 <= all, "{on_scalar} of {all} wide instructions on scalar CPUs");

    // And the rest is done where it belongs.
    let on_avx: u64 = rows.iter().filter(|row| row.cpu == AVX_CPU).map(scalar_work).sum();
    let elsewhere: u64 = rows.iter().filter(|row| row.cpu != AVX_CPU).map(scalar_work).sum();
    ensure!(elsewhere > 5 * on_avx, "{on_avx} scalar instructions on the AVX core");
    Ok(())
}

fn scalar_work(row: &Row) -> u64 {
    row.get("retired") - row.sum(&WIDE)
}

/// The switch that takes a task to an AVX core must not be taken for the end of its phase.
fn the_way_to_an_avx_core_does_not_end_the_phase() -> Result<()> {
    let (on_scalar, all) = wide_work(&alternate("--set return=switch", "")?, &[AVX_CPU]);
    ensure!(all > 1_000_000, "{all} wide instructions in a second");
    ensure!(on_scalar * 10 <= all, "{on_scalar} of {all} wide instructions on scalar CPUs");
    Ok(())
}

fn who_ran_before_the_scheduler_keeps_its_string_functions_on_avx_cores() -> Result<()> {
    let share = shares::wide_on_scalar_evex()?;
    ensure!(share <= 0.05, "{share} of the wide instructions are executed on scalar CPUs");
    Ok(())
}

/// OpenSSL as Debian has it. It avoids AVX-512 on this very CPU model because of what it
/// does to the clock; the variable gives it the CPU's own feature bits back.
pub const WITH_AVX512: &str = "export OPENSSL_ia32cap=:0xd39ffffb";

/// The C library's own AVX-512 is switched off.
pub const SCALAR_LIBRARY: &str =
    "export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW";

/// The same bytes with and without AVX-512, and with the scheduler.
const ENCRYPT: &str =
    "openssl enc -chacha20 -K 0123 -iv 4567 -in /bin/busybox 2>/dev/null | sha256sum";

/// A program that looks for AVX-512 by itself, and late, finds it under the scheduler.
fn openssl_encrypts_on_avx_cores_what_it_encrypts_elsewhere() -> Result<()> {
    let outcome = scheduler_guest(Bochs::cpus(2), Flavour::Patched)?
        .package("openssl")
        .command(ENCRYPT)
        .command(&script(&format!(
            "{WITH_AVX512}
             start_scheduler --policy static --set avx-cpus=1
             {ENCRYPT} >&2
             oraclectl run -- openssl speed -seconds 2 -bytes 16384 -evp chacha20-poly1305
             {ENCRYPT} >&2
             stop_scheduler"
        )))
        .limit(400)
        .boot()?;
    let sums: Vec<&str> =
        outcome.commands[1].stderr.lines().filter(|line| line.ends_with(" -")).collect();
    let expected = outcome.stdout(0)?.trim();
    ensure!(sums == [expected, expected], "{expected} without, {sums:?} with AVX-512");

    let rows = user_rows(outcome.stdout(1)?)?;
    ensure_encrypted_on_avx_core(&rows, 10_000_000)
}

/// Of two CPUs the second: more than `least` wide instructions there, and few on the other.
fn ensure_encrypted_on_avx_core(rows: &[Row], least: u64) -> Result<()> {
    let (on_scalar, all) = wide_work(rows, &[1]);
    let on_avx = all - on_scalar;
    ensure!(on_avx > least, "{on_avx} wide instructions on the AVX core");
    ensure!(
        on_scalar * 50 <= on_avx,
        "{on_scalar} wide instructions on the scalar CPU, {on_avx} on the other"
    );
    Ok(())
}

/// CPU 1 is the AVX core: a thread does its burst there, comes back from an interrupt to it,
/// and goes on with scalar work after a system call, while CPU 0 sleeps, and on for a while.
fn who_occupies_an_avx_core_is_read_from_a_trace() -> Result<()> {
    let trace = "# comment
0 0 0 halt at=1
5000 1 3 exception at=1 vector=6 error=0 rip=1 fs=a
6000 1 0 iret at=2 rax=0 fs=a
30000 1 3 interrupt at=3 vector=236 fs=a
31000 1 0 iret at=4 rax=0 fs=a
7000 1 3 run at=2 end=29000 end_at=3 class=512h v512h=9 fs=a rip=1
50500 1 3 syscall at=5 nr=1 fs=a rip=1
51000 1 0 sysret at=6 rax=0 fs=a
85000 0 0 wake at=2
95000 1 0 halt at=7";
    let at = |with_idle_scalar, with_scalar_on_avx, with_better_place| occupancy::Looks {
        with_idle_scalar,
        with_scalar_on_avx,
        with_better_place,
    };
    // At 0, 1000 and so on up to 84000 CPU 0 sleeps; from 51000 on the work is scalar.
    ensure_eq!(occupancy::looks_at(trace, 1)?, at(85, 34, 34));
    // Half of the core as it is: the other half is no better.
    ensure_eq!(occupancy::looks_at(trace, 2)?, at(85, 34, 0));
    // On the same core comes somebody else.
    let crowded = trace.replace(" 1 ", " 2 ") + "\n60000 3 0 iret at=1 fs=c";
    let quiet = "\n0 3 0 halt at=1\n0 1 0 wake at=1";
    ensure_eq!(occupancy::looks_at(&(crowded + quiet), 2)?, at(85, 34, 25));
    Ok(())
}

/// Which a server may show to whoever does not mind who signed it.
pub const CERTIFICATE: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 \
         -subj /CN=here -keyout /tmp/key.pem -out /tmp/certificate.pem 2>/dev/null";

/// nginx as Debian has it, whose worker encrypts what it sends; the client decrypts it
/// without AVX-512.
fn nginx_serves_tls_from_avx_cores() -> Result<()> {
    let outcome = scheduler_guest(Bochs::cpus(2), Flavour::Patched)?
        .package("nginx-light")
        .package("openssl")
        .package("curl")
        .file("/tmp/nginx.conf", &in_repository("tests/guest/avx/nginx.conf"))
        .command(&script(&format!(
            "fetch() {{
                 curl --silent --insecure https://127.0.0.1/bin/busybox | sha256sum >&2
             }}
             ip link set lo up
             {CERTIFICATE}
             start_scheduler --policy static --set avx-cpus=1
             ({WITH_AVX512}; exec nginx -c /tmp/nginx.conf) || fail nginx does not start
             sha256sum </bin/busybox >&2
             fetch
             oraclectl reset
             for n in 1 2 3; do fetch; done
             oraclectl report
             nginx -c /tmp/nginx.conf -s quit
             stop_scheduler"
        )))
        .limit(400)
        .boot()?;
    let rows = user_rows(outcome.stdout(0)?)?;
    let sums: Vec<&str> =
        outcome.commands[0].stderr.lines().filter(|line| line.ends_with(" -")).collect();
    ensure!(sums.len() == 5 && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    ensure_encrypted_on_avx_core(&rows, 1_000_000)
}

const SWITCHES: u64 = 1000;

/// At random, while threads alternate between scalar and wide work. Each decision computes the
/// checksum of what it read; what is refused changes nothing.
fn policies_are_switched_live_and_each_decision_sees_a_whole_one() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(2), Flavour::Patched)?
        .program(&program::compile(&in_repository("tests/guest/avx/switch_policies.c"))?)
        .command(&script(&format!(
            "start_scheduler --check-policies --stats 0.5 --set return=syscall --set trials=off
             phases 4 1000000 20 2 & phases=$!
             switch_policies {SWITCHES} /run/scx_avxspec/control
             kill $phases
             scx_avxspec policy set sizing=static avx-cpus=2 >&2
             scx_avxspec policy set avx-cpus=1 sizing=lots >&2
             echo refused=$?
             scx_avxspec policy show >/tmp/policy
             sed -n 's/^# policy /generation=/p' /tmp/policy
             sed -n 's/^avx-cpus = /avx-cpus=/p' /tmp/policy
             sleep 1
             stop_scheduler
             awk '/policies read/ {{ read += $(NF - 4); torn += $(NF - 1) }}
                  END {{ print \"read=\" read \"\\ntorn=\" torn }}' /tmp/scheduler.out"
        )))
        .limit(400)
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure_eq!(counts["granted"], SWITCHES);
    ensure_eq!(counts["generation"], 1 + SWITCHES + 1);
    ensure_eq!((counts["refused"], counts["avx-cpus"]), (1, 2));
    ensure!(counts["read"] > 10 * SWITCHES, "{counts:?}");
    ensure_eq!(counts["torn"], 0);
    Ok(())
}
