// SPDX-License-Identifier: GPL-2.0-only
//! What the start depends on: whether a scheduler can be loaded here, and what the CPU is like.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::Finding;
use super::generation::{INTEL, countable, first_cpu_says, licence_drop};
use crate::agent::clocks::Clocks;
use crate::agent::counters::Countable;

const TYPES: &str = "sys/kernel/btf/vmlinux";

/// A function that the kernel patch brings.
const TELLS_OF_FIRST_USE: &str = "bpf_hidden_xfeature_used";

/// The module of OpenZFS. The kernel's own functions for the purpose are closed to it, so it saves
/// vector registers itself. It uses AVX-512 also in system calls of tasks that AVX-512 is hidden
/// from.
const OPENZFS: &str = "sys/module/zfs";

/// What a scheduler needs from the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    is_root: bool,
    has_sched_ext: bool,
    has_btf: bool,
    is_intel: bool,
    /// The features of the CPU, by the names of `/proc/cpuinfo`.
    cpu_flags: BTreeSet<String>,
    /// The name that the CPU has for itself, and how much of its clock it loses to wide vectors
    /// (1/1024).
    cpu_name: String,
    licence_drop: u64,
    countable: Countable,
    /// The scheduler that is loaded already.
    loaded: Option<String>,
    /// Whether the kernel has the patch, and whether it found that this CPU is not up to it.
    tells_of_first_use: bool,
    refuses_to_hide: bool,
    has_openzfs: bool,
}

impl Machine {
    pub fn look(root: &Path) -> Self {
        let sched_ext = root.join("sys/kernel/sched_ext");
        let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
        Self {
            // SAFETY: geteuid() has no preconditions and cannot fail.
            is_root: unsafe { libc::geteuid() } == 0,
            has_sched_ext: sched_ext.is_dir(),
            has_btf: root.join(TYPES).exists(),
            loaded: loaded_scheduler(&sched_ext),
            tells_of_first_use: knows(&root.join(TYPES), TELLS_OF_FIRST_USE),
            has_openzfs: has_openzfs(root),
            ..Self::with_cpu(&cpuinfo)
        }
    }

    /// Returns a machine with a CPU that has this in /proc/cpuinfo, and with all else that a
    /// scheduler needs.
    pub fn with_cpu(cpuinfo: &str) -> Self {
        Self {
            is_root: true,
            has_sched_ext: true,
            has_btf: true,
            is_intel: first_cpu_says(cpuinfo, "vendor_id") == INTEL,
            cpu_flags: words(first_cpu_says(cpuinfo, "flags")),
            cpu_name: first_cpu_says(cpuinfo, "model name").to_owned(),
            licence_drop: licence_drop(cpuinfo),
            countable: countable(cpuinfo),
            loaded: None,
            tells_of_first_use: true,
            refuses_to_hide: false,
            has_openzfs: false,
        }
    }

    /// Returns this machine with a kernel that was asked to hide something and refused.
    pub fn that_refuses_to_hide(&self) -> Self {
        Self { refuses_to_hide: true, ..self.clone() }
    }

    /// Returns this machine with OpenZFS loaded.
    pub fn with_openzfs(&self) -> Self {
        Self { has_openzfs: true, ..self.clone() }
    }

    #[cfg(test)]
    pub fn without_the_patch(&self) -> Self {
        Self { tells_of_first_use: false, ..self.clone() }
    }

    /// Fails with one sentence about the first thing that is wrong, and what to do about it.
    pub fn check(&self) -> Result<()> {
        if !self.is_root {
            bail!("loading a scheduler needs root: run it again with sudo");
        }
        match self.obstacles().first() {
            Some(obstacle) => bail!("{}", obstacle.sentence()),
            None => Ok(()),
        }
    }

    /// Returns what is wrong besides a lack of privilege, in the order in which `check` tells it.
    pub fn obstacles(&self) -> Vec<Finding> {
        let lacks_sched_ext = Finding::problem(
            "sched_ext",
            "this kernel has no sched_ext (/sys/kernel/sched_ext is missing)",
            "boot Linux 6.12 or newer, built with CONFIG_SCHED_CLASS_EXT=y",
        );
        let lacks_types = Finding::problem(
            "types",
            "this kernel does not describe its types (/sys/kernel/btf/vmlinux is missing)",
            "boot one built with CONFIG_DEBUG_INFO_BTF=y",
        );
        let is_taken = self.loaded.as_ref().map(|name| {
            Finding::problem(
                "sched_ext",
                format!("the scheduler {name} is already loaded"),
                "stop it first, then start this one",
            )
        });
        let lacks_sched_ext = (!self.has_sched_ext).then_some(lacks_sched_ext);
        let lacks_types = (!self.has_btf).then_some(lacks_types);
        [lacks_sched_ext, lacks_types, is_taken].into_iter().flatten().collect()
    }

    pub fn has(&self, flag: &str) -> bool {
        self.cpu_flags.contains(flag)
    }

    /// Returns true if the CPU tells which of its registers are in use, which is what samples are
    /// made of.
    pub fn tells_what_is_in_use(&self) -> bool {
        self.has("xsavec") && self.has("xgetbv1")
    }

    /// Returns the name of the scheduler that is loaded already, if there is one.
    pub fn loaded(&self) -> Option<&str> {
        self.loaded.as_deref()
    }

    /// Returns what is known of how low the clock gets.
    pub fn clocks(&self) -> Clocks {
        Clocks::of(&self.cpu_name, self.licence_drop)
    }

    /// Returns what there may be counters of.
    pub fn countable(&self) -> Countable {
        self.countable
    }

    pub fn tells_of_first_use(&self) -> bool {
        self.tells_of_first_use
    }

    pub fn refuses_to_hide(&self) -> bool {
        self.refuses_to_hide
    }

    pub fn has_openzfs(&self) -> bool {
        self.has_openzfs
    }

    /// Returns true if CPUID(0xD, 0) tells the same size of an image whether AVX-512 is hidden or
    /// not, because something in use lies behind AVX-512. Otherwise a program that asks while
    /// AVX-512 is hidden has too little room for what XSAVE writes later. The C library asks while
    /// it is kept quiet.
    pub fn keeps_image_size(&self) -> bool {
        self.has("ospke") || self.has("amx_tile")
    }

    pub fn is_intel(&self) -> bool {
        self.is_intel
    }

    pub fn is_virtual(&self) -> bool {
        self.has("hypervisor")
    }

    /// Returns true if wide vectors lower the clock so much that it matters. They do on Intel's
    /// CPUs that have no AVX-VNNI. The C library avoids wide vectors by the same test.
    pub fn has_licences(&self) -> bool {
        self.is_intel && !self.has("avx_vnni")
    }
}

/// Returns true if there is a module that would crash where AVX-512 is hidden.
pub fn has_openzfs(root: &Path) -> bool {
    root.join(OPENZFS).exists()
}

/// Returns true if the kernel's types have something of that name. Each name ends with a 0 there,
/// and begins after one.
fn knows(types: &Path, name: &str) -> bool {
    let entry = [b"\0", name.as_bytes(), b"\0"].concat();
    fs::read(types).is_ok_and(|types| types.windows(entry.len()).any(|it| it == entry))
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the name of the loaded scheduler. Its file vanishes with it, so a state other than
/// `disabled` counts even if the name cannot be read.
fn loaded_scheduler(sched_ext: &Path) -> Option<String> {
    let read = |file: &str| fs::read_to_string(sched_ext.join(file)).ok();

    let state = read("state")?;
    if state.trim() == "disabled" {
        return None;
    }
    let name = read("root/ops").map(|ops| ops.trim().to_string());
    Some(name.filter(|name| !name.is_empty()).unwrap_or_else(|| "of another program".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const READY: Machine = Machine {
        is_root: true,
        has_sched_ext: true,
        has_btf: true,
        is_intel: true,
        cpu_flags: BTreeSet::new(),
        cpu_name: String::new(),
        licence_drop: 0,
        countable: Countable { licences: false, wide_operations: None },
        loaded: None,
        tells_of_first_use: true,
        refuses_to_hide: false,
        has_openzfs: false,
    };

    /// Makes a root directory with the given files below `sys/kernel`.
    fn root_with(files: &[(&str, &str)]) -> TempDir {
        let root = TempDir::new().unwrap();
        for (name, content) in files {
            let path = root.path().join("sys/kernel").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn complaint(machine: &Machine) -> String {
        format!("{:#}", machine.check().unwrap_err())
    }

    #[test]
    fn a_ready_machine_passes() {
        assert!(READY.check().is_ok());
    }

    #[test]
    fn root_is_asked_for_before_anything_else() {
        let machine =
            Machine { is_root: false, has_sched_ext: false, has_btf: false, ..READY.clone() };
        assert!(complaint(&machine).contains("sudo"));
    }

    #[test]
    fn each_complaint_says_what_to_do() {
        assert!(
            complaint(&Machine { has_sched_ext: false, ..READY })
                .contains("CONFIG_SCHED_CLASS_EXT")
        );
        assert!(complaint(&Machine { has_btf: false, ..READY }).contains("CONFIG_DEBUG_INFO_BTF"));
        let loaded = Machine { loaded: Some("simple_1.0".into()), ..READY };
        assert!(complaint(&loaded).contains("simple_1.0 is already loaded: stop it"));
    }

    #[test]
    fn the_first_cpu_speaks_for_all() {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        fs::write(
            root.path().join("proc/cpuinfo"),
            "vendor_id\t: GenuineIntel\nmodel name\t: x\nflags\t\t: fpu avx512f\nvmx flags\t: vnmi\n\n\
             vendor_id\t: Other\nflags\t\t: fpu\n",
        )
        .unwrap();
        let machine = Machine::look(root.path());
        assert!(machine.is_intel);
        assert_eq!(machine.cpu_flags, BTreeSet::from(["fpu", "avx512f"].map(str::to_owned)));
    }

    #[test]
    fn complaints_are_one_line() {
        for machine in [
            Machine { is_root: false, ..READY },
            Machine { has_sched_ext: false, ..READY },
            Machine { has_btf: false, ..READY },
            Machine { loaded: Some("simple".into()), ..READY },
        ] {
            let text = complaint(&machine);
            assert!(!text.contains('\n') && !text.contains("  "), "{text:?}");
        }
    }

    #[test]
    fn an_empty_machine_has_nothing() {
        let machine = Machine::look(root_with(&[]).path());
        assert!(!machine.has_sched_ext && !machine.has_btf);
        assert_eq!(machine.loaded, None);
    }

    #[test]
    fn a_disabled_state_means_that_nothing_is_loaded() {
        let root = root_with(&[("sched_ext/state", "disabled\n"), ("btf/vmlinux", "")]);
        let machine = Machine::look(root.path());
        assert!(machine.has_sched_ext && machine.has_btf);
        assert_eq!(machine.loaded, None);
    }

    #[test]
    fn the_patch_is_known_by_its_whole_name() {
        for (types, has_it) in [
            ("\0bpf_hidden_xfeature_used\0", true),
            ("\0int\0bpf_hidden_xfeature_used\0long\0", true),
            ("\0bpf_hidden_xfeature_used_by\0", false),
            ("\0not_bpf_hidden_xfeature_used\0", false),
            ("", false),
        ] {
            let machine = Machine::look(root_with(&[("btf/vmlinux", types)]).path());
            assert_eq!(machine.tells_of_first_use, has_it, "{types:?}");
        }
    }

    #[test]
    fn openzfs_is_a_module() {
        let root = root_with(&[]);
        assert!(!Machine::look(root.path()).has_openzfs);
        fs::create_dir_all(root.path().join("sys/module/zfs")).unwrap();
        assert!(Machine::look(root.path()).has_openzfs);
    }

    #[test]
    fn a_loaded_scheduler_is_named() {
        let root =
            root_with(&[("sched_ext/state", "enabled\n"), ("sched_ext/root/ops", "simple_1.0\n")]);
        assert_eq!(Machine::look(root.path()).loaded.as_deref(), Some("simple_1.0"));
    }

    #[test]
    fn a_scheduler_that_is_on_its_way_counts_without_a_name() {
        let root = root_with(&[("sched_ext/state", "enabling\n")]);
        assert!(Machine::look(root.path()).loaded.is_some());
    }
}
