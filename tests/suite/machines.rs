// SPDX-License-Identifier: GPL-2.0-only
//! The rig itself: machines boot, report faithfully, and never linger.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::ensure_eq;
use crate::rig::machine::Machine;
use crate::rig::{Bochs, Flavour, Guest, Qemu, qemu};

crate::tests! {
    machines:
    qemu_runs_commands_and_brings_back_what_they_left(6),
    qemu_has_the_topology_ordered(4),
    bochs_has_the_topology_ordered(12),
    bochs_has_avx512_vmx_and_a_sane_clock(2),
    a_hanging_guest_fails_within_its_limit(16),
    a_panicking_guest_fails_and_shows_why(6),
    an_oopsing_guest_fails_and_shows_why(5),
    a_warning_guest_fails_and_shows_why(5),
    an_impossible_machine_is_refused_with_a_reason(1),
    a_killed_rig_leaves_no_guest(5),
    kvm_is_used_only_where_it_works(3),
}

fn qemu_runs_commands_and_brings_back_what_they_left() -> Result<()> {
    let source = tempfile::NamedTempFile::new()?;
    std::fs::write(source.path(), "from the host")?;
    let outcome = Guest::new(Qemu::cpus(4).into(), Flavour::Stock)
        .package("bash")
        .file("/etc/given", source.path())
        .command("nproc; uname -r; cat /etc/given")
        .command("echo complaint >&2; exit 3")
        .command("bash -c 'echo ${BASH_VERSION%%.*}'; sleep 2; printf '\\0\\1' >/tmp/left")
        .collect("/tmp/left")
        .boot()?;
    let first = outcome.stdout(0)?;
    ensure!(first.starts_with("4\n6.12."), "{first:?}");
    ensure!(first.ends_with("-scx_avxspec\nfrom the host"), "{first:?}");
    ensure_eq!(outcome.commands[1].status, 3);
    ensure_eq!(outcome.commands[1].stderr, "complaint\n");
    ensure_eq!(outcome.stdout(2)?, "5\n");
    let slept = outcome.commands[2].seconds;
    ensure!((2.0..60.0).contains(&slept), "sleep 2 took {slept} s");
    ensure_eq!(outcome.file("/tmp/left")?, b"\0\x01");
    ensure!(outcome.file("/tmp/right").is_err());
    ensure!(outcome.stdout(1).is_err(), "a failed command must not pass");
    Ok(())
}

fn qemu_has_the_topology_ordered() -> Result<()> {
    let outcome = Guest::new(Qemu::topology(2, 2, 2).numa_nodes(2).into(), Flavour::Stock)
        .command(
            "cd /sys/devices/system
         cat cpu/cpu0/topology/thread_siblings_list cpu/cpu0/topology/package_cpus_list
         cat cpu/cpu0/cache/index3/shared_cpu_list
         cat node/node0/cpulist node/node1/cpulist",
        )
        .boot()?;
    ensure_eq!(outcome.stdout(0)?, "0-1\n0-3\n0-3\n0-3\n4-7\n");
    Ok(())
}

/// Who shares a core with a CPU decides what the scheduler does with it.
fn bochs_has_the_topology_ordered() -> Result<()> {
    let each_cpu = "cd /sys/devices/system/cpu
         for cpu in cpu[0-9]*; do cat $cpu/topology/thread_siblings_list; done
         cat cpu3/cache/index2/shared_cpu_list cpu3/cache/index3/shared_cpu_list";
    let cores = Guest::new(Bochs::cpus(4).into(), Flavour::Stock).command(each_cpu).boot()?;
    ensure_eq!(cores.stdout(0)?, "0\n1\n2\n3\n3\n0-3\n");
    let pairs =
        Guest::new(Bochs::cpus(4).siblings().into(), Flavour::Stock).command(each_cpu).boot()?;
    ensure_eq!(pairs.stdout(0)?, "0-1\n0-1\n2-3\n2-3\n2-3\n0-3\n");
    Ok(())
}

fn bochs_has_avx512_vmx_and_a_sane_clock() -> Result<()> {
    let outcome = Guest::new(Bochs::cpus(2).into(), Flavour::Patched)
        .command(
            "for flag in avx512vl xsaves vmx; do grep -c \"^flags.* $flag \" /proc/cpuinfo; done",
        )
        .command("sleep 3")
        .limit(400)
        .boot()?;
    ensure_eq!(outcome.stdout(0)?, "2\n2\n2\n");
    let slept = outcome.commands[1].seconds;
    ensure!((3.0..3.5).contains(&slept), "sleep 3 took {slept} s");
    Ok(())
}

fn an_impossible_machine_is_refused_with_a_reason() -> Result<()> {
    let too_many = Guest::new(Bochs::cpus(5).into(), Flavour::Patched).command("true").boot();
    let Err(error) = too_many else { bail!("Bochs took 5 CPUs") };
    ensure!(format!("{error:#}").contains("1 to 4 CPUs, not 5"), "{error:#}");
    Ok(())
}

/// Boots a guest that runs `script` and cannot end well; returns the error.
fn failure_of(script: &str, limit: u64) -> Result<String> {
    let machine: Machine = Qemu::cpus(1).into();
    match Guest::new(machine, Flavour::Stock).command(script).limit(limit).boot() {
        Ok(_) => bail!("the rig took a broken guest for a sound one"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

/// A busy machine may need longer than the first limits until its guest is up at all.
fn a_hanging_guest_fails_within_its_limit() -> Result<()> {
    let mut error = String::new();
    for limit in [15, 60, 240] {
        error = failure_of("echo about to hang >/dev/console; sleep 100000", limit)?;
        ensure!(error.contains(&format!("the guest hangs: {limit} s are over")), "{error}");
        if error.contains("about to hang") {
            return Ok(());
        }
    }
    bail!("the guest never got as far as its command: {error}")
}

fn a_panicking_guest_fails_and_shows_why() -> Result<()> {
    let error = failure_of("echo c >/proc/sysrq-trigger; sleep 100000", 120)?;
    ensure!(error.contains("sysrq triggered crash"), "{error}");
    Ok(())
}

fn an_oopsing_guest_fails_and_shows_why() -> Result<()> {
    let error =
        failure_of("echo EXCEPTION >/sys/kernel/debug/provoke-crash/DIRECT; sleep 100000", 120)?;
    ensure!(error.contains("lkdtm_EXCEPTION"), "{error}");
    Ok(())
}

fn a_warning_guest_fails_and_shows_why() -> Result<()> {
    let error = failure_of("echo WARNING >/sys/kernel/debug/provoke-crash/DIRECT", 120)?;
    ensure!(error.contains("WARNING: "), "{error}");
    ensure!(error.contains("lkdtm_WARNING"), "{error}");
    Ok(())
}

fn a_killed_rig_leaves_no_guest() -> Result<()> {
    let mut rig = Command::new(std::env::current_exe()?)
        .args(["boot", "--cpus", "1", "--kernel", "stock"])
        .arg("echo it runs; sleep 100000")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = rig.stdout.take().context("its output is a pipe")?;
    let spoke =
        BufReader::new(output).lines().map_while(Result::ok).any(|line| line.contains("it runs"));
    let guests = children_of(rig.id())?;
    rig.kill()?;
    rig.wait()?;
    ensure!(spoke, "the guest did not come up");
    ensure!(!guests.is_empty(), "the rig has no emulator");
    let patience = Instant::now() + Duration::from_secs(10);
    while guests.iter().any(|pid| is_alive(*pid)) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left: Vec<&u32> = guests.iter().filter(|pid| is_alive(**pid)).collect();
    for pid in &left {
        Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
    }
    ensure!(left.is_empty(), "{left:?} outlived the rig");
    Ok(())
}

fn children_of(pid: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let list = std::fs::read_to_string(task?.path().join("children"))?;
        children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(children)
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn kvm_is_used_only_where_it_works() -> Result<()> {
    let works = qemu::kvm_works();
    if !Path::new("/dev/kvm").exists() {
        ensure!(!works, "KVM cannot work without /dev/kvm");
    }
    let outcome = Guest::new(Qemu::cpus(2).into(), Flavour::Stock)
        .command("grep -c ' avx512f ' /proc/cpuinfo")
        .boot()?;
    let with_avx512 = outcome.commands[0].stdout.trim() == "2";
    ensure_eq!(with_avx512, works && qemu::host_has_avx512());
    println!("kvm works here: {works}");
    Ok(())
}
