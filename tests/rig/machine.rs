// SPDX-License-Identifier: GPL-2.0-only
//! The machines a guest can run on, and what each is good for.
//!
//! QEMU has any number of CPUs in any topology, but no AVX-512 when it
//! emulates; Bochs has AVX-512 and the oracle, and up to four CPUs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::bochs::Bochs;
use super::qemu::Qemu;
use super::userland::root_argument;

#[derive(Clone, Debug)]
pub enum Machine {
    Qemu(Qemu),
    Bochs(Bochs),
}

/// What a machine is put together from.
pub struct Parts<'a> {
    /// A directory of this guest's own, with `job.img` and `output.img`.
    pub dir: &'a Path,
    pub kernel: &'a Path,
    pub root: &'a Path,
    pub command_line: String,
}

impl Parts<'_> {
    pub fn console(&self) -> PathBuf {
        Self::console_in(self.dir)
    }

    pub fn console_in(dir: &Path) -> PathBuf {
        dir.join("console.log")
    }
}

/// The files of a machine: what Bochs boots from, what a guest is to do, and what it did.
pub const BOOT_DISC: &str = "boot.iso";
pub const JOB_DISK: &str = "job.img";
pub const OUTPUT_DISK: &str = "output.img";

/// Warnings are shown, the boot's chatter is not: an emulated serial line is
/// slow. A panic waits to be read instead of rebooting. What the guest's init
/// says goes through the kernel's log, whose lines are not torn.
const COMMAND_LINE: &str = "console=ttyS0 ro init=/init panic=0 loglevel=5 \
     printk.devkmsg=on tsc=reliable";

impl Machine {
    pub fn prepare(&self) -> Result<()> {
        match self {
            Self::Qemu(qemu) => {
                qemu.prepare();
                Ok(())
            }
            Self::Bochs(bochs) => bochs.prepare(),
        }
    }

    pub fn command_line(&self) -> String {
        let own = match self {
            Self::Qemu(_) => "no_timer_check".to_owned(),
            Self::Bochs(bochs) => bochs.command_line(),
        };
        format!("{} {COMMAND_LINE} {own}", root_argument())
    }

    /// Whether it can be copied once it is booted.
    pub fn can_stand(&self) -> bool {
        match self {
            Self::Qemu(_) => false,
            Self::Bochs(bochs) => bochs.can_stand(),
        }
    }

    /// How many of the host's CPUs it keeps busy.
    pub fn host_cpus(&self) -> usize {
        match self {
            Self::Qemu(qemu) => qemu.host_cpus(),
            Self::Bochs(_) => 1,
        }
    }

    pub fn command(&self, parts: &Parts) -> Result<Command> {
        match self {
            Self::Qemu(qemu) => qemu.command(parts),
            Self::Bochs(bochs) => bochs.command(parts),
        }
    }
}

impl From<Qemu> for Machine {
    fn from(qemu: Qemu) -> Self {
        Self::Qemu(qemu)
    }
}

impl From<Bochs> for Machine {
    fn from(bochs: Bochs) -> Self {
        Self::Bochs(bochs)
    }
}
