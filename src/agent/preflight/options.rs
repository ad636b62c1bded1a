// SPDX-License-Identifier: GPL-2.0-only
//! Tells how a kernel was configured, and which options the scheduler asks for. These are those of
//! kernel-patch/config, with the reason for each.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::Finding;

const TOPIC: &str = "options";

struct Wanted {
    name: &'static str,
    why: &'static str,
    /// True if the scheduler does not run without it.
    is_needed: bool,
}

const fn needed(name: &'static str, why: &'static str) -> Wanted {
    Wanted { name, why, is_needed: true }
}

const fn useful(name: &'static str, why: &'static str) -> Wanted {
    Wanted { name, why, is_needed: false }
}

const WANTED: [Wanted; 21] = [
    needed("BPF", "the scheduler is made of BPF programs"),
    needed("BPF_SYSCALL", "the scheduler is made of BPF programs"),
    needed("BPF_JIT", "a scheduler's programs are not interpreted"),
    useful(
        "BPF_JIT_ALWAYS_ON",
        "without it an administrator can turn off what the scheduler needs",
    ),
    needed("SCHED_CLASS_EXT", "it is what lets BPF programs schedule"),
    needed("DEBUG_INFO_BTF", "programs are fitted to the kernel's own types"),
    needed("MODULES", "without it the types lack the one by which schedulers are attached"),
    needed("FTRACE", "programs are attached to functions of the kernel"),
    needed("FUNCTION_TRACER", "programs are attached to functions of the kernel"),
    needed("DYNAMIC_FTRACE", "programs are attached to functions of the kernel"),
    needed("PERF_EVENTS", "the scheduler listens to events of the kernel"),
    useful("KPROBES", "tracing programs rest on it or on UPROBES"),
    useful("UPROBES", "tracing programs rest on it or on KPROBES"),
    needed("BPF_EVENTS", "the scheduler listens to events of the kernel"),
    useful(
        "FUNCTION_ERROR_INJECTION",
        "without it quiet-library=on does nothing, and string functions are taken for AVX work",
    ),
    useful("CGROUPS", "without it work is not told apart by control group"),
    useful("CGROUP_SCHED", "without it the default scheduler knows no control groups"),
    useful("FAIR_GROUP_SCHED", "without it the default scheduler knows no control groups"),
    useful(
        "EXT_GROUP_SCHED",
        "without it the kernel does not tell who relies on weights of control groups",
    ),
    useful("CPUSETS", "without it there are no sets of CPUs by control group"),
    needed("DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT", "the kernel's types are made of it"),
];

/// The options that are switched on, without `CONFIG_`.
pub struct Options(BTreeSet<String>);

impl Options {
    /// Reads the options of the running kernel from where distributions put them.
    pub fn look(root: &Path, release: &str) -> Option<Self> {
        let running = || inflated(&root.join("proc/config.gz"));
        let installed = [
            format!("boot/config-{release}"),
            format!("lib/modules/{release}/config"),
            format!("usr/lib/modules/{release}/config"),
        ];
        let text = running()
            .or_else(|| installed.iter().find_map(|file| fs::read_to_string(root.join(file)).ok()));
        text.map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let set = text.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
            (value == "y" || value == "m").then(|| name.to_owned())
        });
        Self(set.collect())
    }

    pub fn findings(&self) -> Vec<Finding> {
        let missing = WANTED.iter().filter(|option| !self.has(option.name));
        let findings: Vec<Finding> = missing
            .map(|option| {
                let says = format!("the kernel has no CONFIG_{}: {}", option.name, option.why);
                let advice =
                    "build one with the options of kernel-patch/config, installed below share/doc";
                match option.is_needed {
                    true => Finding::problem(TOPIC, says, advice),
                    false => Finding::note(TOPIC, says, advice),
                }
            })
            .collect();
        match findings.is_empty() {
            true => vec![Finding::ok(TOPIC, "the kernel has all options that are asked for")],
            false => findings,
        }
    }

    /// Returns true if the option is on. Any version of DWARF is good, because the types of the
    /// kernel can be made of each.
    fn has(&self, name: &str) -> bool {
        let dwarf = "DEBUG_INFO_DWARF";
        self.0.contains(name)
            || name.starts_with(dwarf) && self.0.iter().any(|other| other.starts_with(dwarf))
    }
}

/// Returns a note that the options cannot be read. It is no problem, because they are not known to
/// be wrong.
pub fn unknown(release: &str) -> Finding {
    Finding::note(
        TOPIC,
        format!(
            "the kernel's options are neither in /proc/config.gz nor in /boot/config-{release}"
        ),
        "compare them with kernel-patch/config, installed below share/doc, or try whether it runs",
    )
}

fn inflated(path: &Path) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(path).ok()?).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::agent::preflight::Mark;

    const ASKED_FOR: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernel-patch/config"));

    fn marks(options: &str) -> Vec<Mark> {
        Options::parse(options).findings().iter().map(|finding| finding.mark).collect()
    }

    #[test]
    fn the_list_is_that_of_the_kernel_patch() {
        let listed: BTreeSet<String> = WANTED.iter().map(|option| option.name.to_owned()).collect();
        // A kernel tells its options by these. Once the options are known, these are of no more
        // use.
        let mut asked_for = Options::parse(ASKED_FOR).0;
        asked_for.retain(|name| !name.starts_with("IKCONFIG"));
        assert_eq!(listed, asked_for);
        assert_eq!(listed.len(), WANTED.len(), "an option is there twice");
        assert_eq!(marks(ASKED_FOR), [Mark::Ok]);
    }

    #[test]
    fn each_missing_option_is_named_with_its_reason() {
        for option in &WANTED {
            let without = ASKED_FOR.replace(&format!("CONFIG_{}=y\n", option.name), "");
            let findings = Options::parse(&without).findings();
            assert_eq!(findings.len(), 1, "{}", option.name);
            assert_eq!(findings[0].mark == Mark::Problem, option.is_needed);
            let says = &findings[0].says;
            assert!(says.contains(&format!("CONFIG_{}:", option.name)), "{says}");
            assert!(says.contains(option.why), "{says}");
        }
    }

    #[test]
    fn what_is_not_set_is_missing() {
        let off = "# CONFIG_SCHED_CLASS_EXT is not set";
        assert_eq!(marks(&ASKED_FOR.replace("CONFIG_SCHED_CLASS_EXT=y", off)), [Mark::Problem]);
        assert_eq!(marks(&ASKED_FOR.replace("CONFIG_KPROBES=y", "CONFIG_KPROBES=n")).len(), 1);
        assert_eq!(marks(&ASKED_FOR.replace("CONFIG_CPUSETS=y", "CONFIG_CPUSETS=m")), [Mark::Ok]);
        let by_version = ASKED_FOR.replace("DWARF_TOOLCHAIN_DEFAULT", "DWARF5");
        assert_eq!(marks(&by_version), [Mark::Ok]);
    }

    #[test]
    fn the_running_kernel_speaks_before_the_installed_one() {
        let root = tempfile::tempdir().unwrap();
        assert!(Options::look(root.path(), "6.12").is_none());
        fs::create_dir_all(root.path().join("boot")).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("boot/config-6.12"), "CONFIG_BOOT=y\n").unwrap();
        assert!(Options::look(root.path(), "6.13").is_none());
        assert!(Options::look(root.path(), "6.12").unwrap().has("BOOT"));
        let file = File::create(root.path().join("proc/config.gz")).unwrap();
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(b"CONFIG_RUNNING=y\n").unwrap();
        packed.finish().unwrap();
        let options = Options::look(root.path(), "6.12").unwrap();
        assert!(options.has("RUNNING") && !options.has("BOOT"));
    }
}
