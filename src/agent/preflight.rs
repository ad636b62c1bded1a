// SPDX-License-Identifier: GPL-2.0-only
//! Whether a scheduler can be loaded here, answered before anything is opened.
//!
//! Looking and judging are apart: [`Machine::look`] reads what matters below a
//! root directory, [`Machine::check`] turns it into a verdict.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::bpf::intf::{avx_tier, avx_tier_AVX_TIER_OBSERVE, avx_tier_AVX_TIER_TRAP};

/// What a scheduler needs from the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    is_root: bool,
    has_sched_ext: bool,
    has_btf: bool,
    /// What the CPU has, by the names of `/proc/cpuinfo`.
    cpu_flags: BTreeSet<String>,
    /// The scheduler that is loaded already.
    loaded: Option<String>,
}

impl Machine {
    pub fn look(root: &Path) -> Self {
        let sched_ext = root.join("sys/kernel/sched_ext");
        Self {
            // SAFETY: geteuid() has no preconditions and cannot fail.
            is_root: unsafe { libc::geteuid() } == 0,
            has_sched_ext: sched_ext.is_dir(),
            has_btf: root.join("sys/kernel/btf/vmlinux").exists(),
            cpu_flags: cpu_flags(&root.join("proc/cpuinfo")),
            loaded: loaded_scheduler(&sched_ext),
        }
    }

    /// One sentence about the first thing that is wrong, and what to do about it.
    pub fn check(&self) -> Result<()> {
        if !self.is_root {
            bail!("loading a scheduler needs root: run it again with sudo");
        }
        if !self.has_sched_ext {
            bail!(
                "this kernel has no sched_ext (/sys/kernel/sched_ext is missing): boot Linux 6.12 \
                 or newer, built with CONFIG_SCHED_CLASS_EXT=y"
            );
        }
        if !self.has_btf {
            bail!(
                "this kernel does not describe its types (/sys/kernel/btf/vmlinux is missing): \
                 boot one built with CONFIG_DEBUG_INFO_BTF=y"
            );
        }
        if let Some(name) = &self.loaded {
            bail!("the scheduler {name} is already loaded: stop it first, then start this one");
        }
        Ok(())
    }

    /// How AVX work is found out about on a kernel that tells, or does not, of the first use of
    /// what it hides; and why so.
    pub fn tier(&self, hides: bool) -> (avx_tier, &'static str) {
        let has = |flag| self.cpu_flags.contains(flag);
        if !has("avx512f") {
            (avx_tier_AVX_TIER_OBSERVE, "the CPU has no AVX-512")
        } else if !hides {
            (
                avx_tier_AVX_TIER_OBSERVE,
                "the kernel does not hide AVX-512: see kernel-patch/README.md",
            )
        } else if !has("xsavec") || !has("xgetbv1") {
            (avx_tier_AVX_TIER_OBSERVE, "the CPU does not tell what is in use")
        } else {
            (avx_tier_AVX_TIER_TRAP, "the kernel tells of each first wide instruction")
        }
    }
}

fn cpu_flags(cpuinfo: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(cpuinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.map_or_else(BTreeSet::new, |(_, flags)| {
        flags.split_whitespace().map(str::to_owned).collect()
    })
}

/// The name of the loaded scheduler. Its file vanishes with it, so a state
/// other than `disabled` counts even if the name cannot be read.
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
        cpu_flags: BTreeSet::new(),
        loaded: None,
    };

    /// A root directory with the given files below `sys/kernel`.
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
    fn a_tier_is_chosen_with_a_reason() {
        let machine = |flags: &[&str]| Machine {
            cpu_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            ..READY
        };
        let skylake = machine(&["avx512f", "xsavec", "xgetbv1"]);
        assert_eq!(skylake.tier(true).0, avx_tier_AVX_TIER_TRAP);
        assert_eq!(skylake.tier(false).0, avx_tier_AVX_TIER_OBSERVE);
        assert!(skylake.tier(false).1.contains("kernel-patch"));
        for flags in [&["xsavec", "xgetbv1"][..], &["avx512f", "xsavec"], &["avx512f", "xgetbv1"]] {
            assert_eq!(machine(flags).tier(true).0, avx_tier_AVX_TIER_OBSERVE);
        }
    }

    #[test]
    fn flags_are_those_of_the_first_cpu() {
        let root = TempDir::new().unwrap();
        let cpuinfo = root.path().join("cpuinfo");
        fs::write(&cpuinfo, "model name\t: x\nflags\t\t: fpu avx512f\n\nflags\t\t: fpu\n").unwrap();
        assert_eq!(cpu_flags(&cpuinfo), BTreeSet::from(["fpu".to_owned(), "avx512f".to_owned()]));
        assert_eq!(cpu_flags(&root.path().join("none")), BTreeSet::new());
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
