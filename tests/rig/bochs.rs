// SPDX-License-Identifier: GPL-2.0-only
//! Bochs: the machine with AVX-512, and the oracle that counts what it does.
//!
//! Version 3.0 is the one that does XSAVES right and boots Linux on several
//! CPUs. It is built from Debian's source package, with the patches of
//! `tests/rig/bochs` for what it lacks and the instrumentation library
//! of `tests/rig/oracle` inside. Its build directory is kept, so that a changed
//! oracle costs seconds; a changed patch, or a changed header that Bochs includes, begins another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::cache::{Cache, Key, files_below, write_if_different};
use super::kernel::in_repository;
use super::machine::{BOOT_DISC, JOB_DISK, OUTPUT_DISK, Parts};
use super::packages::Apt;
use super::process::{hold_lock, make_in, output_of, run_logged, version_of};
use super::progress::Progress;
use super::series;

const RELEASE: &str = "trixie";
const SOURCE: &str = "bochs_3.0+dfsg.orig.tar.xz";
const SOURCE_SHA256: &str = "78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b";
const PATCHES: &str = "tests/rig/bochs";
const ORACLE: &str = "tests/rig/oracle";
/// Bochs takes the first over when it is configured, and all of it includes the second, which its
/// make does not know.
const MADE_ANEW_FOR: [&str; 2] = ["tests/rig/oracle/Makefile.in", "tests/rig/oracle/instrument.h"];
const ORACLE_IN_BOCHS: &str = "instrument/oracle";
/// VMX of the second generation, with EPT, is what KVM wants; it costs a guest
/// that has no use for it nothing that could be measured.
///
/// Without `--disable-show-ips` a signal handler logs once a second, and waits
/// for ever where it interrupts somebody who logs.
const CONFIGURE: [&str; 15] = [
    "--enable-smp",
    "--enable-x86-64",
    "--enable-avx",
    "--enable-evex",
    "--enable-all-optimizations",
    "--enable-instrumentation=instrument/oracle",
    "--with-nogui",
    "--without-x",
    "--without-x11",
    "--disable-plugins",
    "--disable-debugger",
    "--disable-docbook",
    "--enable-vmx=2",
    "--enable-protection-keys",
    "--disable-show-ips",
];
const STEPS_OF_A_BUILD: u64 = 441;

/// Debian's packages bochsbios and vgabios.
const BIOS: &str = "/usr/share/bochs/BIOS-bochs-latest";
const VGA_BIOS: &str = "/usr/share/vgabios/vgabios.bin";

/// Millions of guest instructions a second. The guest's clock is the number of
/// instructions executed, so this is also the frequency of its TSC.
const MIPS: u64 = 50;
/// The same of a machine of the kind that the scheduler is for, where a tick comes
/// every million instructions and not every fifty thousand. It takes that much longer
/// to sleep for a second.
const MIPS_OF_A_SERVER: u64 = 1000;

const MEMORY_MIB: usize = 512;
/// They all share one CPU of the host.
const MAX_CPUS: usize = 4;

#[derive(Clone, Debug)]
pub struct Bochs {
    cpus: usize,
    threads_per_core: usize,
    mips: u64,
    has_protection_keys: bool,
    traces: bool,
    profiles: bool,
}

impl Bochs {
    pub fn cpus(cpus: usize) -> Self {
        Self {
            cpus,
            threads_per_core: 1,
            mips: MIPS,
            has_protection_keys: true,
            traces: false,
            profiles: false,
        }
    }

    /// Each two of them are threads of a core.
    pub fn siblings(mut self) -> Self {
        self.threads_per_core = 2;
        self
    }

    pub fn threads_per_core(&self) -> usize {
        self.threads_per_core
    }

    /// With a clock by which instructions are as short as those of a server.
    pub fn at_a_servers_pace(mut self) -> Self {
        self.mips = MIPS_OF_A_SERVER;
        self
    }

    /// As on a desktop: nothing in use lies behind AVX-512 in an image of registers.
    pub fn without_protection_keys(mut self) -> Self {
        self.has_protection_keys = false;
        self
    }

    /// CPUID claims another frequency than the one at which the TSC ticks;
    /// the kernel has to be told, or every sleep takes 70 times as long. And
    /// MONITOR on one CPU wakes all others from MWAIT, so they had no rest.
    pub fn command_line(&self) -> String {
        let keys = if self.has_protection_keys { "" } else { " nopku" };
        format!("tsc_early_khz={} idle=nomwait{keys}", self.mips * 1000)
    }

    /// Lets the guest record a trace, the host file `oracle.trace`, and lists
    /// what every opcode is taken for in `oracle.classes`.
    pub fn traces(mut self) -> Self {
        self.traces = true;
        self
    }

    /// Counts where in the kernel instructions are executed: the host file
    /// `oracle.profile`.
    pub fn profiles(mut self) -> Self {
        self.profiles = true;
        self
    }

    /// What is written from the beginning is written for one guest.
    pub fn can_stand(&self) -> bool {
        !self.traces && !self.profiles
    }

    pub fn prepare(&self) -> Result<()> {
        ensure!(
            (1..=MAX_CPUS).contains(&self.cpus),
            "Bochs has 1 to {MAX_CPUS} CPUs, not {}: take QEMU for more",
            self.cpus
        );
        emulator().map(|_| ())
    }

    pub fn command(&self, parts: &Parts) -> Result<Command> {
        let rc = parts.dir.join("bochsrc");
        let disc = parts.dir.join(BOOT_DISC);
        make_boot_disc(parts, &disc)?;
        fs::write(&rc, self.configuration(parts, &disc))?;
        let mut bochs = Command::new(emulator()?);
        bochs
            .args(["-q", "-f"])
            .arg(&rc)
            .current_dir(parts.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(parts.dir.join("emulator.log"))?);
        if self.traces {
            bochs
                .env("ORACLE_TRACE", parts.dir.join("oracle.trace"))
                .env("ORACLE_CLASSES", parts.dir.join("oracle.classes"));
        }
        if self.profiles {
            bochs.env("ORACLE_PROFILE", parts.dir.join("oracle.profile"));
        }
        Ok(bochs)
    }

    fn configuration(&self, parts: &Parts, disc: &Path) -> String {
        let dir = parts.dir.display();
        format!(
            "plugin_ctrl: unmapped=1, biosdev=1, speaker=0, extfpuirq=1, parallel=0, serial=1\n\
             config_interface: textconfig\n\
             display_library: nogui\n\
             cpu: model=corei7_skylake_x, count=1:{cores}:{threads}, ips={mips}000000, \
             quantum=16, reset_on_triple_fault=0\n\
             memory: guest={memory}, host={memory}\n\
             romimage: file={BIOS}\n\
             vgaromimage: file={VGA_BIOS}\n\
             ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14\n\
             ata1: enabled=1, ioaddr1=0x170, ioaddr2=0x370, irq=15\n\
             ata0-master: type=disk, mode=volatile, path={root}, journal={dir}/root.redolog\n\
             ata0-slave: type=disk, mode=flat, path={dir}/{JOB_DISK}\n\
             ata1-master: type=disk, mode=flat, path={dir}/{OUTPUT_DISK}\n\
             ata1-slave: type=cdrom, path={disc}, status=inserted\n\
             boot: cdrom\n\
             com1: enabled=1, mode=file, dev={console}\n\
             clock: sync=none, time0=utc\n\
             log: {dir}/bochs.log\n\
             panic: action=fatal\n\
             error: action=ignore\n\
             info: action=ignore\n\
             debug: action=ignore\n",
            cores = self.cpus / self.threads_per_core,
            threads = self.threads_per_core,
            mips = self.mips,
            memory = MEMORY_MIB,
            root = parts.root.display(),
            disc = disc.display(),
            console = parts.console().display(),
        )
    }
}

fn make_boot_disc(parts: &Parts, disc: &Path) -> Result<()> {
    let stage = parts.dir.join("disc");
    let grub = stage.join("boot/grub");
    fs::create_dir_all(&grub)?;
    fs::copy(parts.kernel, stage.join("boot/kernel"))?;
    fs::write(
        grub.join("grub.cfg"),
        format!(
            "set timeout=0\nmenuentry guest {{\n\tlinux /boot/kernel {}\n}}\n",
            parts.command_line
        ),
    )?;
    output_of(
        Command::new("grub-mkrescue")
            .args(["--directory=/usr/lib/grub/i386-pc", "--fonts=", "--locales="])
            .args(["--themes=", "--install-modules=normal linux iso9660 biosdisk"])
            .arg("--output")
            .arg(disc)
            .arg(&stage),
    )
    .context("cannot make a boot disc")?;
    fs::remove_dir_all(&stage)?;
    Ok(())
}

/// The emulator with the oracle, built if need be.
pub fn emulator() -> Result<PathBuf> {
    emulator_with(&in_repository(ORACLE))
}

/// The same with any oracle.
pub fn emulator_with(oracle: &Path) -> Result<PathBuf> {
    let cache = Cache::open()?;
    let key = ground()?.dir_part(oracle)?;
    let dir = cache.artefact("emulators", &key, |dir| {
        let build = build(&cache, oracle)?;
        fs::copy(build.join("bochs"), dir.join("bochs"))?;
        Ok(())
    })?;
    Ok(dir.join("bochs"))
}

/// All that a build depends on, the oracle apart.
fn ground() -> Result<Key> {
    let key = Key::new()
        .text_part(SOURCE, SOURCE_SHA256)
        .text_part("configure", &CONFIGURE.join(" "))
        .text_part("compiler", &version_of("g++")?);
    let files = MADE_ANEW_FOR.iter().map(|path| in_repository(path)).chain(patches()?);
    files.into_iter().try_fold(key, |key, file| key.file_part(&file))
}

fn patches() -> Result<Vec<PathBuf>> {
    series::patches_in(&in_repository(PATCHES))
}

/// Brings the build directory up to date and returns it.
fn build(cache: &Cache, oracle: &Path) -> Result<PathBuf> {
    let lock = cache.lock("bochs")?;
    let dir = cache.dir("bochs")?.join(ground()?.hex());
    let building = dir.with_extension("building");
    if building.exists() && dir.exists() {
        // Cut off: what is there may be half an object file.
        fs::remove_dir_all(&dir)?;
    }
    fs::write(&building, "")?;
    let log = dir.with_extension("log");
    let _ = fs::remove_file(&log);
    let configured = dir.join("Makefile").exists();
    if !configured {
        unpack(cache, &dir)?;
    }
    install_oracle(oracle, &dir.join(ORACLE_IN_BOCHS))?;
    if !configured {
        let mut configure = Command::new("./configure");
        configure.args(CONFIGURE).current_dir(&dir).env("CFLAGS", "-O2").env("CXXFLAGS", "-O2");
        hold_lock(&mut configure, &lock);
        run_logged(&mut configure, &log, |_| ())?;
    }
    let mut progress = Progress::new("emulator Bochs 3.0 with the oracle", STEPS_OF_A_BUILD);
    let mut make = make_in(&dir, &lock)?;
    make.arg("bochs");
    run_logged(&mut make, &log, |line| {
        if line.starts_with("g++ ") || line.starts_with("gcc ") {
            progress.step();
        }
    })?;
    progress.finish();
    fs::remove_file(&building)?;
    Ok(dir)
}

fn unpack(cache: &Cache, dir: &Path) -> Result<()> {
    let tarball = Apt::release(cache, RELEASE)?.source_file("bochs", SOURCE, SOURCE_SHA256)?;
    let partial = dir.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    output_of(
        Command::new("tar")
            .args(["--extract", "--strip-components=1", "--file"])
            .arg(&tarball)
            .arg("--directory")
            .arg(&partial),
    )?;
    series::apply(&patches()?, &partial)?;
    fs::rename(&partial, dir)?;
    Ok(())
}

/// Puts the oracle's sources among Bochs's; make sees only what changed.
fn install_oracle(oracle: &Path, target: &Path) -> Result<()> {
    ensure!(oracle.is_dir(), "there is no oracle in {}", oracle.display());
    for source in files_below(oracle)? {
        let path = target.join(source.strip_prefix(oracle)?);
        write_if_different(&path, &fs::read(&source)?)?;
    }
    Ok(())
}
