// SPDX-License-Identifier: GPL-2.0-only
//! What the start depends on: whether a scheduler can be loaded here, and how it finds out about
//! AVX work.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::Finding;
use super::cpu::licence_drop;
use crate::bpf::intf::{
    avx_tier, avx_tier_AVX_TIER_HINTS, avx_tier_AVX_TIER_OBSERVE, avx_tier_AVX_TIER_TRAP,
    avx_tier_AVX_TIER_XSTATE,
};

/// As the CPU calls its vendor.
pub const INTEL: &str = "GenuineIntel";

const TYPES: &str = "sys/kernel/btf/vmlinux";

/// What the kernel patch brings.
const TELLS_OF_FIRST_USE: &str = "bpf_hidden_xfeature_used";

/// How AVX work is found out about here, and why so.
#[derive(Clone, Copy)]
pub struct Tier {
    pub kind: avx_tier,
    pub why: &'static str,
}

impl Tier {
    pub fn name(self) -> &'static str {
        [
            (avx_tier_AVX_TIER_TRAP, "trap"),
            (avx_tier_AVX_TIER_XSTATE, "xstate"),
            (avx_tier_AVX_TIER_HINTS, "hints"),
        ]
        .into_iter()
        .find_map(|(kind, name)| (kind == self.kind).then_some(name))
        .unwrap_or("observe")
    }

    /// What would make it a better one, if anything does.
    pub fn raised_by(self) -> Option<&'static str> {
        (self.kind == avx_tier_AVX_TIER_XSTATE).then_some(
            "a kernel with the series of kernel-patch, and CONFIG_X86_XFEATURE_HIDING=y, makes it \
             the tier trap",
        )
    }
}

/// What a scheduler needs from the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    is_root: bool,
    has_sched_ext: bool,
    has_btf: bool,
    is_intel: bool,
    /// What the CPU has, by the names of `/proc/cpuinfo`.
    cpu_flags: BTreeSet<String>,
    /// How much of its clock the CPU loses to wide vectors (1/1024).
    licence_drop: u64,
    /// The scheduler that is loaded already.
    loaded: Option<String>,
    /// Whether the kernel has the patch.
    tells_of_first_use: bool,
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
            is_intel: first_cpu_says(&cpuinfo, "vendor_id") == INTEL,
            cpu_flags: words(first_cpu_says(&cpuinfo, "flags")),
            licence_drop: licence_drop(&cpuinfo),
            loaded: loaded_scheduler(&sched_ext),
            tells_of_first_use: knows(&root.join(TYPES), TELLS_OF_FIRST_USE),
        }
    }

    /// With a CPU that has this in /proc/cpuinfo, and whatever else a scheduler needs.
    pub fn with_cpu(cpuinfo: &str) -> Self {
        Self {
            is_root: true,
            has_sched_ext: true,
            has_btf: true,
            is_intel: first_cpu_says(cpuinfo, "vendor_id") == "GenuineIntel",
            cpu_flags: words(first_cpu_says(cpuinfo, "flags")),
            licence_drop: licence_drop(cpuinfo),
            loaded: None,
            tells_of_first_use: true,
        }
    }

    /// One sentence about the first thing that is wrong, and what to do about it.
    pub fn check(&self) -> Result<()> {
        if !self.is_root {
            bail!("loading a scheduler needs root: run it again with sudo");
        }
        match self.obstacles().first() {
            Some(obstacle) => bail!("{}", obstacle.sentence()),
            None => Ok(()),
        }
    }

    /// What else is wrong, the first thing first.
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

    /// How AVX work is found out about, and why so. Where AVX work harms nobody it is left alone,
    /// unless forced.
    pub fn tier(&self, forced: bool) -> Tier {
        let has = |flag| self.has(flag);
        let (kind, why) = if !has("avx512f") && !forced {
            (
                avx_tier_AVX_TIER_OBSERVE,
                "the CPU has no AVX-512; with --force what threads say of their work counts",
            )
        } else if !has("avx512f") {
            (
                avx_tier_AVX_TIER_HINTS,
                "the CPU has no AVX-512, so what threads say of their work counts",
            )
        } else if !self.has_licences() && !forced {
            (
                avx_tier_AVX_TIER_OBSERVE,
                "AVX-512 hardly lowers the clock of this CPU; --force schedules all the same",
            )
        } else if !self.tells_what_is_in_use() {
            (
                avx_tier_AVX_TIER_HINTS,
                "the CPU does not tell what is in use, so what threads say of their work counts",
            )
        } else if !self.tells_of_first_use {
            (
                avx_tier_AVX_TIER_XSTATE,
                "wide vectors are seen when a task is switched out; the kernel does not hide \
                 AVX-512, which would show more: see kernel-patch/README.md",
            )
        } else {
            (avx_tier_AVX_TIER_TRAP, "the kernel tells of each first wide instruction")
        };
        Tier { kind, why }
    }

    pub fn has(&self, flag: &str) -> bool {
        self.cpu_flags.contains(flag)
    }

    /// Of the CPU's registers, which is what samples are made of.
    pub fn tells_what_is_in_use(&self) -> bool {
        self.has("xsavec") && self.has("xgetbv1")
    }

    /// The scheduler that is loaded already.
    pub fn loaded(&self) -> Option<&str> {
        self.loaded.as_deref()
    }

    pub fn licence_drop(&self) -> u64 {
        self.licence_drop
    }

    pub fn tells_of_first_use(&self) -> bool {
        self.tells_of_first_use
    }

    /// Whether wide vectors lower the clock so much that it matters: with Intel's CPUs up to
    /// those that have AVX-VNNI. The C library avoids wide vectors by the same test.
    pub fn has_licences(&self) -> bool {
        self.is_intel && !self.has("avx_vnni")
    }
}

/// Whether the kernel's types have something of that name. Each name ends with a 0 there, and
/// begins after one.
fn knows(types: &Path, name: &str) -> bool {
    let entry = [b"\0", name.as_bytes(), b"\0"].concat();
    fs::read(types).is_ok_and(|types| types.windows(entry.len()).any(|it| it == entry))
}

/// The first value with this name in the text of `/proc/cpuinfo`.
pub fn first_cpu_says<'a>(cpuinfo: &'a str, name: &str) -> &'a str {
    let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map_or("", |(_, value)| value.trim())
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
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
        is_intel: true,
        cpu_flags: BTreeSet::new(),
        licence_drop: 0,
        loaded: None,
        tells_of_first_use: true,
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
        assert_eq!(skylake.tier(false).kind, avx_tier_AVX_TIER_TRAP);
        let unpatched = Machine { tells_of_first_use: false, ..skylake };
        assert_eq!(unpatched.tier(false).kind, avx_tier_AVX_TIER_XSTATE);
        assert!(unpatched.tier(false).why.contains("kernel-patch"));
        for flags in [&["avx512f", "xsavec"], &["avx512f", "xgetbv1"]] {
            assert_eq!(machine(flags).tier(false).kind, avx_tier_AVX_TIER_HINTS);
        }
        let haswell = machine(&["avx2", "xsavec", "xgetbv1"]);
        assert_eq!(haswell.tier(false).kind, avx_tier_AVX_TIER_OBSERVE);
        assert_eq!(haswell.tier(true).kind, avx_tier_AVX_TIER_HINTS);
    }

    #[test]
    fn where_licences_do_not_matter_it_has_to_be_forced() {
        let flags = BTreeSet::from(["avx512f", "xsavec", "xgetbv1"].map(str::to_owned));
        let newer = flags.iter().cloned().chain(["avx_vnni".to_owned()]).collect();
        let amd = Machine { is_intel: false, cpu_flags: flags, ..READY };
        let sapphire_rapids = Machine { cpu_flags: newer, ..READY };
        for machine in [amd, sapphire_rapids] {
            let Tier { kind, why } = machine.tier(false);
            assert!(kind == avx_tier_AVX_TIER_OBSERVE && why.contains("--force"), "{why}");
            assert_eq!(machine.tier(true).kind, avx_tier_AVX_TIER_TRAP);
        }
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
