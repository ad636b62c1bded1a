// SPDX-License-Identifier: GPL-2.0-only
//! One boot of one machine, from the order to what came of it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::kernel::{Flavour, Kernel, Variant};
use super::machine::{JOB_DISK, Machine, OUTPUT_DISK, Parts};
use super::process::{Tied, output_of, tail, text_of};
use super::run::Run;
use super::slots;
use super::standing::{Stand, guest_dir};
use super::userland::Userland;

const CONSOLE_LINES_SHOWN: usize = 40;
/// As large in each guest, since a machine may be booted before it is known for whom.
const JOB_DISK_BYTES: u64 = 512 << 20;
/// The first of its blocks tells how many follow.
const JOB_DISK_BLOCK: u64 = 64 << 10;
const OUTPUT_DISK_BYTES: u64 = 256 << 20;
/// By which the guest's init knows the disk, before it overwrites it.
const OUTPUT_DISK_LABEL: &[u8] = b"the output of a guest\n";
const DEFAULT_LIMIT: Duration = Duration::from_secs(400);

/// What Linux 6.12 itself gets wrong while any sched_ext scheduler comes, goes or dispatches, and
/// warns of once. Nothing follows from it here, and no scheduler in BPF can touch it.
const KERNEL_FAULTS: [&str; 3] = [
    // All tasks change from the fair class and back around a CPU's own going and coming: the
    // bandwidth of its fair server sinks below zero, or the server is in an impossible state.
    "at kernel/sched/deadline.c:265 ",
    "at kernel/sched/deadline.c:428 ",
    // ops.dispatch() unlocks the run queue while it has a balance callback queued, and another
    // CPU locks it. Linux 6.18 queues that after ops.dispatch().
    "at kernel/sched/sched.h:1776 ",
];

/// The order: boot this machine with that kernel, run these commands as root.
pub struct Guest {
    machine: Machine,
    kernel: KernelChoice,
    release: Option<&'static str>,
    packages: Vec<&'static str>,
    programs: Vec<(String, PathBuf)>,
    files: Vec<(String, PathBuf)>,
    commands: Vec<String>,
    collect: Vec<String>,
    tolerated: Vec<&'static str>,
    limit: Duration,
    streams: bool,
    boots_by_itself: bool,
}

enum KernelChoice {
    Flavour(Flavour),
    Built(Kernel),
}

impl Guest {
    pub fn new(machine: Machine, flavour: Flavour) -> Self {
        Self::of(machine, KernelChoice::Flavour(flavour))
    }

    pub fn with_kernel(machine: Machine, kernel: Kernel) -> Self {
        Self::of(machine, KernelChoice::Built(kernel))
    }

    fn of(machine: Machine, kernel: KernelChoice) -> Self {
        Self {
            machine,
            kernel,
            release: None,
            packages: Vec::new(),
            programs: Vec::new(),
            files: Vec::new(),
            commands: Vec::new(),
            collect: Vec::new(),
            tolerated: KERNEL_FAULTS.to_vec(),
            limit: DEFAULT_LIMIT,
            streams: false,
            boots_by_itself: false,
        }
    }

    /// A shell script to run, after those ordered before it.
    pub fn command(mut self, script: &str) -> Self {
        self.commands.push(script.to_owned());
        self
    }

    /// The Debian release to take packages from, instead of the host's. It must
    /// not be older than that.
    pub fn release(mut self, name: &'static str) -> Self {
        self.release = Some(name);
        self
    }

    /// A Debian package to have in the guest, with all that it depends on.
    pub fn package(mut self, name: &'static str) -> Self {
        self.packages.push(name);
        self
    }

    /// A program of the host's, put into /usr/bin with the libraries it needs.
    pub fn program(self, path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.program_as(&name, path)
    }

    /// The same, under another name.
    pub fn program_as(mut self, name: &str, path: &Path) -> Self {
        self.programs.push((name.to_owned(), path.to_owned()));
        self
    }

    /// A file of the host's, put at `path`.
    pub fn file(mut self, path: &str, source: &Path) -> Self {
        self.files.push((path.to_owned(), source.to_owned()));
        self
    }

    /// A file of the guest's to bring back.
    pub fn collect(mut self, path: &str) -> Self {
        self.collect.push(path.to_owned());
        self
    }

    /// A known bug of the kernel's own, by words of its warning, or an ejection
    /// that the test is about: it does not fail the test.
    pub fn tolerates(mut self, words: &'static str) -> Self {
        self.tolerated.push(words);
        self
    }

    /// How long all of it may take by the host's clock, while that has a CPU
    /// for it.
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Shows what the commands print while they run, instead of keeping it.
    pub fn streams(mut self) -> Self {
        self.streams = true;
        self
    }

    /// Boots a machine for this guest alone.
    pub fn boots_by_itself(mut self) -> Self {
        self.boots_by_itself = true;
        self
    }

    pub fn boot(self) -> Result<Outcome> {
        let kernel = match &self.kernel {
            KernelChoice::Flavour(flavour) => Kernel::get(*flavour)?,
            KernelChoice::Built(kernel) => kernel.clone(),
        };
        let userland = Userland::with(self.release, &self.packages)?;
        self.machine.prepare()?;
        let dir = guest_dir()?;
        self.write_job(&userland, dir.path())?;
        make_output_disk(dir.path())?;
        let limit = self.limit * Variant::chosen()?.patience;
        let emulator = |dir: &Path| {
            self.machine.command(&Parts {
                dir,
                kernel: &kernel.image,
                root: &userland.image,
                command_line: self.machine.command_line(),
            })
        };
        let (machine, image, root) =
            (&self.machine, kernel.image.display(), userland.image.display());
        let stand = match self.machine.can_stand() && !self.boots_by_itself {
            true => {
                let name = format!("{machine:?} {image} {root}");
                Some(Stand::of(name, limit, |dir| {
                    make_job_disk(dir, &[])?;
                    make_output_disk(dir)?;
                    emulator(dir)
                })?)
            }
            false => None,
        };
        let _slots = slots::take(self.machine.host_cpus());
        let mut run = Run::new(dir.path(), &Parts::console_in(dir.path()))
            .streams(self.streams)
            .tolerates(&self.tolerated);
        let child = match stand {
            Some(stand) => stand.copy_to(dir.path())?,
            None => Tied::spawn(&mut emulator(dir.path())?)?,
        };
        run.watch(child, limit)?;
        Outcome::read(dir, &run, self.commands.len())
    }

    /// The job disk: a tar archive of commands, programs and files.
    fn write_job(&self, userland: &Userland, dir: &Path) -> Result<()> {
        let stage = dir.join("stage");
        let commands = stage.join("job/commands");
        fs::create_dir_all(&commands)?;
        for (number, script) in self.commands.iter().enumerate() {
            fs::write(commands.join(format!("{number:03}")), format!("#!/bin/sh\n{script}\n"))?;
        }
        fs::write(stage.join("job/collect"), lines_of(&self.collect))?;
        if self.streams {
            fs::write(stage.join("job/stream"), "")?;
        }
        for (name, program) in &self.programs {
            put_stripped(&stage, &Path::new("/usr/bin").join(name), program)?;
            for library in libraries_of(program)? {
                if !userland.tree.join(library.strip_prefix("/")?).exists() {
                    put(&stage, &library, &library)?;
                }
            }
        }
        for (path, source) in &self.files {
            put(&stage, Path::new(path), source)?;
        }
        let archive = dir.join("job.tar");
        output_of(
            Command::new("tar")
                .args(["--create", "--owner=0", "--group=0", "--file"])
                .arg(&archive)
                .arg("--directory")
                .arg(&stage)
                .arg("."),
        )?;
        fs::remove_dir_all(&stage)?;
        make_job_disk(dir, &fs::read(&archive)?)?;
        fs::remove_file(archive)?;
        Ok(())
    }
}

fn make_job_disk(dir: &Path, archive: &[u8]) -> Result<()> {
    let blocks = (archive.len() as u64).div_ceil(JOB_DISK_BLOCK);
    let room = JOB_DISK_BYTES / JOB_DISK_BLOCK;
    ensure!(blocks < room, "a guest is given {blocks} blocks of files, and {room} is too many");
    let disk = File::create(dir.join(JOB_DISK))?;
    disk.set_len(JOB_DISK_BYTES)?;
    disk.write_all_at(format!("the job of a guest: {blocks} blocks\n").as_bytes(), 0)?;
    disk.write_all_at(archive, JOB_DISK_BLOCK)?;
    Ok(())
}

fn make_output_disk(dir: &Path) -> Result<()> {
    let disk = File::create(dir.join(OUTPUT_DISK))?;
    disk.set_len(OUTPUT_DISK_BYTES)?;
    disk.write_all_at(OUTPUT_DISK_LABEL, 0)?;
    Ok(())
}

fn put(stage: &Path, path: &Path, source: &Path) -> Result<()> {
    let target = stage.join(path.strip_prefix("/").unwrap_or(path));
    fs::create_dir_all(target.parent().context("a file has a directory")?)?;
    fs::copy(source, &target)
        .with_context(|| format!("cannot put {} into a guest", source.display()))?;
    Ok(())
}

/// Debug information is of no use in a guest, and slow to carry there.
fn put_stripped(stage: &Path, path: &Path, program: &Path) -> Result<()> {
    put(stage, path, program)?;
    let target = stage.join(path.strip_prefix("/")?);
    output_of(Command::new("strip").arg("--strip-debug").arg(target))?;
    Ok(())
}

fn lines_of(paths: &[String]) -> String {
    paths.iter().map(|path| format!("{path}\n")).collect()
}

fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    // ldd fails for a static program, which needs nothing.
    let Ok(list) = text_of(Command::new("ldd").arg(program)) else {
        return Ok(Vec::new());
    };
    Ok(list
        .lines()
        .filter_map(|line| line.split_once(" => "))
        .filter_map(|(_, target)| target.split(' ').next())
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

/// What came of one command. What it printed is empty where it was streamed.
pub struct CommandResult {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    /// By the guest's clock.
    pub seconds: f64,
}

/// What came of a guest.
#[must_use = "its commands may have failed"]
pub struct Outcome {
    pub commands: Vec<CommandResult>,
    /// From power-on to the first command, by the host's clock.
    pub boot: Duration,
    /// From power-on to the end, by the host's clock.
    pub elapsed: Duration,
    dir: TempDir,
}

impl Outcome {
    fn read(dir: TempDir, run: &Run, count: usize) -> Result<Self> {
        let out = dir.path().join("out");
        fs::create_dir_all(&out)?;
        output_of(
            Command::new("tar")
                .args(["--extract", "--no-same-owner", "--file"])
                .arg(dir.path().join(OUTPUT_DISK))
                .arg("--directory")
                .arg(&out),
        )
        .with_context(|| run.report("the guest left no output"))?;
        let commands =
            (0..count).map(|number| read_command(&out, number)).collect::<Result<_>>()?;
        Ok(Self {
            commands,
            boot: run.ready.context("a guest that finished was ready")?,
            elapsed: run.begun.elapsed(),
            dir,
        })
    }

    /// The output of command `number`, which must have succeeded.
    pub fn stdout(&self, number: usize) -> Result<&str> {
        let command = &self.commands[number];
        ensure!(
            command.status == 0,
            "command {number} ended with status {}\n--- stdout ---\n{}\n--- stderr ---\n{}\n---",
            command.status,
            tail(&command.stdout, CONSOLE_LINES_SHOWN),
            tail(&command.stderr, CONSOLE_LINES_SHOWN)
        );
        Ok(&command.stdout)
    }

    /// Fails unless every command succeeded.
    pub fn all_succeeded(&self) -> Result<()> {
        for number in 0..self.commands.len() {
            self.stdout(number)?;
        }
        Ok(())
    }

    /// The content of a collected file.
    pub fn file(&self, path: &str) -> Result<Vec<u8>> {
        let file = self.dir.path().join("out/files").join(path.trim_start_matches('/'));
        fs::read(file).with_context(|| format!("the guest left no {path}"))
    }

    /// A file that the emulator wrote on the host.
    pub fn host_file(&self, name: &str) -> Result<Vec<u8>> {
        fs::read(self.dir.path().join(name)).with_context(|| format!("the emulator left no {name}"))
    }
}

fn read_command(out: &Path, number: usize) -> Result<CommandResult> {
    let read = |end: &str| -> Result<String> {
        let path = out.join(format!("{number:03}.{end}"));
        let bytes = fs::read(&path).with_context(|| format!("no {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let printed = |end: &str| read(end).unwrap_or_default();
    let times = read("times")?;
    let (begun, ended) = times.trim().split_once(' ').context("two times")?;
    Ok(CommandResult {
        status: read("status")?.trim().parse()?,
        stdout: printed("stdout"),
        stderr: printed("stderr"),
        seconds: ended.parse::<f64>()? - begun.parse::<f64>()?,
    })
}
