// SPDX-License-Identifier: GPL-2.0-only
//! QEMU: machines of any size and shape.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::Result;

use super::cache::{Cache, hex};
use super::guest::Guest;
use super::kernel::{Flavour, Kernel};
use super::machine::{JOB_DISK, OUTPUT_DISK, Parts};
use super::slots;
use super::userland::Userland;

const PROGRAM: &str = "qemu-system-x86_64";
const MEMORY_MIB: usize = 1024;

/// CPUs are numbered threads first, then cores, then sockets; a socket is one
/// last-level cache, and NUMA nodes share the sockets evenly.
#[derive(Clone, Debug)]
pub struct Qemu {
    sockets: usize,
    cores: usize,
    threads: usize,
    nodes: usize,
    pace: Pace,
    has_xsave: bool,
}

/// Who executes the guest, and by which clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// KVM where it works, else the emulator.
    Best,
    Kvm,
    /// The emulator, with time counted in instructions: two to the power of
    /// this many nanoseconds each.
    Counted {
        shift: u32,
    },
}

impl Qemu {
    pub fn cpus(count: usize) -> Self {
        Self { sockets: 1, cores: count, threads: 1, nodes: 1, pace: Pace::Best, has_xsave: true }
    }

    pub fn topology(sockets: usize, cores: usize, threads: usize) -> Self {
        Self { sockets, cores, threads, ..Self::cpus(1) }
    }

    pub fn numa_nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Guest time is the number of instructions executed, so many nanoseconds
    /// each (a power of two), and nothing that happens on the host changes it.
    /// All CPUs take turns on one of the host's, and share the instructions of
    /// a second.
    pub fn counted_time(mut self, nanoseconds: u32) -> Self {
        self.pace = Pace::Counted { shift: nanoseconds.ilog2() };
        self
    }

    /// CPUs that have no XSAVE, and so no XCR0 to touch.
    pub fn without_xsave(mut self) -> Self {
        self.has_xsave = false;
        self
    }

    fn count(&self) -> usize {
        self.sockets * self.cores * self.threads
    }

    /// One CPU of the host is left to others: a guest that has to share runs
    /// slower, but a guest that waits for all of them may wait for long.
    pub fn host_cpus(&self) -> usize {
        match self.pace {
            Pace::Counted { .. } => 1,
            Pace::Best | Pace::Kvm => self.count().min(slots::total() / 2).max(1),
        }
    }

    /// Finds out what the host can do, before the guest waits for its CPUs.
    pub fn prepare(&self) {
        if self.pace == Pace::Best {
            kvm_works();
        }
    }

    pub fn command(&self, parts: &Parts) -> Result<Command> {
        let mut qemu = Command::new(PROGRAM);
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-machine", "pc", "-display", "none"])
            .args(["-m", &MEMORY_MIB.to_string()])
            .arg("-smp")
            .arg(format!(
                "{},sockets={},cores={},threads={}",
                self.count(),
                self.sockets,
                self.cores,
                self.threads
            ));
        self.accelerate(&mut qemu);
        self.add_nodes(&mut qemu);
        for (index, image, snapshot) in [
            (0, parts.root, "on"),
            (1, &parts.dir.join(JOB_DISK), "on"),
            (2, &parts.dir.join(OUTPUT_DISK), "off"),
        ] {
            qemu.arg("-drive").arg(format!(
                "if=ide,index={index},format=raw,snapshot={snapshot},file={}",
                image.display()
            ));
        }
        qemu.arg("-serial")
            .arg(format!("file:{}", parts.console().display()))
            .arg("-kernel")
            .arg(parts.kernel)
            .args(["-append", &parts.command_line])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(parts.dir.join("emulator.log"))?);
        Ok(qemu)
    }

    fn accelerate(&self, qemu: &mut Command) {
        let lacks = if self.has_xsave { "" } else { ",-xsave" };
        let emulated = ["-accel", "tcg,thread=single", "-cpu", &format!("max{lacks}")];
        match self.pace {
            Pace::Counted { shift } => {
                qemu.args(emulated).arg("-icount").arg(format!("shift={shift},sleep=off"))
            }
            // One thread for all CPUs: with one for each, a CPU may execute a
            // breakpoint that Linux has already taken out of its code, where it
            // switches a jump label, and Linux dies of that.
            Pace::Best if !kvm_works() => qemu.args(emulated),
            Pace::Best | Pace::Kvm => qemu.args(["-accel", "kvm", "-cpu", &format!("host{lacks}")]),
        };
    }

    fn add_nodes(&self, qemu: &mut Command) {
        if self.nodes < 2 {
            return;
        }
        let memory = MEMORY_MIB / self.nodes;
        for node in 0..self.nodes {
            qemu.arg("-object")
                .arg(format!("memory-backend-ram,id=memory{node},size={memory}M"))
                .arg("-numa")
                .arg(format!("node,nodeid={node},memdev=memory{node}"));
            for socket in
                (0..self.sockets).filter(|socket| socket * self.nodes / self.sockets == node)
            {
                qemu.arg("-numa").arg(format!("cpu,node-id={node},socket-id={socket}"));
            }
        }
    }
}

/// Seconds in which a machine under KVM has to be up. An emulated one is.
const KVM_TRIAL_LIMIT: u64 = 45;

/// Whether KVM runs a kernel with AVX-512 here. The device file tells nothing:
/// behind it may be a KVM that starts machines and takes minutes to get one
/// through its boot, or never does. So a machine is booted, once for each boot
/// of the host, and the answer is kept.
pub fn kvm_works() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let answer = find_out_about_kvm();
        answer.unwrap_or_else(|error| {
            eprintln!("rig: KVM is not used: {error:#}");
            false
        })
    })
}

fn find_out_about_kvm() -> Result<bool> {
    if fs::File::options().read(true).write(true).open("/dev/kvm").is_err() || !host_has_avx512() {
        return Ok(false);
    }
    let cache = Cache::open()?;
    let _lock = cache.lock("kvm")?;
    let host = fs::read("/proc/sys/kernel/random/boot_id")?;
    let kept = cache.dir("kvm")?.join(&hex(&host)[..16]);
    if let Ok(answer) = fs::read_to_string(&kept) {
        return Ok(answer == "works");
    }
    // What cannot be built says nothing about KVM.
    let kernel = Kernel::get(Flavour::Stock)?;
    Userland::with(None, &[])?;
    let machine = Qemu { pace: Pace::Kvm, ..Qemu::cpus(2) };
    eprintln!("rig: trying KVM, for up to {KVM_TRIAL_LIMIT} s");
    let trial = Guest::with_kernel(machine.into(), kernel)
        .command("grep -q ' avx512f ' /proc/cpuinfo")
        .limit(KVM_TRIAL_LIMIT)
        .boot();
    let works = trial.is_ok_and(|outcome| outcome.all_succeeded().is_ok());
    let answer = if works { "works" } else { "does not work" };
    eprintln!("rig: KVM {answer} here");
    fs::write(kept, answer)?;
    Ok(works)
}

pub fn host_has_avx512() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|info| info.contains(" avx512f "))
}
