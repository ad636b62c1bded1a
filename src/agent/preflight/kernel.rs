// SPDX-License-Identifier: GPL-2.0-only
//! Tells what the kernel is, and what it offers.

use std::path::Path;

use super::files::text_at;
use super::options::{self, Options};
use super::{Finding, Machine};

/// The first version of Linux with sched_ext.
const OLDEST: (u32, u32) = (6, 12);

/// The beginning of the name of this scheduler.
const OURS: &str = "avxspec";

pub struct Kernel {
    /// Empty if it cannot be read.
    release: String,
    options: Option<Options>,
    can_keep_hints: bool,
}

impl Kernel {
    pub fn look(root: &Path) -> Self {
        let release = text_at(root, "proc/sys/kernel/osrelease").unwrap_or_default();
        let options = Options::look(root, &release);
        let mounts = text_at(root, "proc/self/mounts").unwrap_or_default();
        Self { release, options, can_keep_hints: mounts.lines().any(is_bpf_fs) }
    }

    pub fn findings(&self, machine: &Machine) -> Vec<Finding> {
        let mut findings = vec![self.version()];
        let mut obstacles = machine.obstacles();
        if machine.loaded().is_some_and(|name| name.starts_with(OURS)) {
            obstacles.retain(|obstacle| obstacle.topic != "sched_ext");
            findings.push(Finding::ok(
                "sched_ext",
                "scx_avxspec runs already: scx_avxspec status shows what it does",
            ));
        } else if !obstacles.iter().any(|obstacle| obstacle.topic == "sched_ext") {
            findings.push(Finding::ok("sched_ext", "the kernel has sched_ext, and nobody uses it"));
        }
        if !obstacles.iter().any(|obstacle| obstacle.topic == "types") {
            findings.push(Finding::ok("types", "the kernel describes its types"));
        }
        findings.extend(obstacles);
        match &self.options {
            Some(options) => findings.extend(options.findings()),
            None => findings.push(options::unknown(&self.release)),
        }
        findings.push(patch(machine));
        findings.push(self.hints());
        findings
    }

    fn version(&self) -> Finding {
        let says = format!("this is Linux {}", self.release);
        match parse(&self.release) {
            None => Finding::note(
                "kernel",
                "the kernel does not tell its version",
                "mount /proc, and see that it is Linux 6.12 or newer",
            ),
            Some(version) if version < OLDEST => Finding::problem(
                "kernel",
                format!("{says}, which is older than sched_ext"),
                "boot Linux 6.12 or newer",
            ),
            Some(_) => Finding::ok("kernel", says),
        }
    }

    fn hints(&self) -> Finding {
        match self.can_keep_hints {
            true => Finding::ok("hints", "threads can say what their work is"),
            false => Finding::note(
                "hints",
                "no file system for BPF objects is mounted, so threads cannot say what their work is",
                "mount -t bpf bpf /sys/fs/bpf",
            ),
        }
    }
}

/// Returns the finding about the patch, which is missed only where AVX work lowers the clock.
fn patch(machine: &Machine) -> Finding {
    let is_missed = machine.has("avx512f") && machine.has_licences();
    match (machine.tells_of_first_use(), is_missed) {
        (true, _) => Finding::ok(
            "patch",
            "the kernel can hide AVX-512 and tell of its first use, where the CPU is up to it",
        ),
        (false, false) => Finding::ok("patch", "the kernel cannot hide AVX-512, nor need it here"),
        (false, true) => Finding::note(
            "patch",
            "the kernel cannot hide AVX-512, so AVX work is noticed late, or when it says so",
            "see kernel-patch/README.md, installed below share/doc, for the series that brings it",
        ),
    }
}

/// Returns true if this line of `/proc/self/mounts` is of the file system for BPF objects, in its
/// place.
fn is_bpf_fs(mount: &str) -> bool {
    let mut words = mount.split(' ').skip(1);
    words.next() == Some("/sys/fs/bpf") && words.next() == Some("bpf")
}

/// Returns the first two numbers of a release.
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        assert_eq!(parse("6.12.117-scx_avxspec"), Some((6, 12)));
        assert_eq!(parse("7.3-rc1"), Some((7, 3)));
        assert_eq!(parse("6.1.0-31-amd64"), Some((6, 1)));
        assert!(parse("6.9.12") < Some(OLDEST) && parse("10.0") > Some(OLDEST));
        for bad in ["", "linux", "6", "6.x"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_a_bpf_file_system_in_its_place_counts() {
        assert!(is_bpf_fs("bpf /sys/fs/bpf bpf rw,nosuid,mode=700 0 0"));
        assert!(!is_bpf_fs("tmpfs /sys/fs/bpf tmpfs rw 0 0"));
        assert!(!is_bpf_fs("bpf /mnt bpf rw 0 0"));
        assert!(!is_bpf_fs(""));
    }
}
