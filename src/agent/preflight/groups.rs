// SPDX-License-Identifier: GPL-2.0-only
//! Tells what control groups are promised of the CPUs' time and do not get while BPF schedules,
//! because the kernel leaves weights and limits to its default scheduler.

use std::path::Path;

use super::Finding;
use super::files::text_at;
use crate::agent::cgroups;
use crate::bpf::names::printable;

const TOPIC: &str = "groups";

/// The names of files, in the second version of control groups and in the first, and what they say
/// of groups that are promised nothing.
const WEIGHTS: [(&str, &str); 3] =
    [("cpu.weight", "100"), ("cpu.idle", "0"), ("cpu.shares", "1024")];
const LIMITS: [(&str, &str); 2] = [("cpu.max", "max"), ("cpu.cfs_quota_us", "-1")];

/// The groups that are promised something, each with the file that says so and its path from the
/// root on.
#[derive(Debug, Default)]
pub struct Groups {
    weighted: Vec<(&'static str, String)>,
    limited: Vec<(&'static str, String)>,
}

impl Groups {
    pub fn look(root: &Path) -> Self {
        let mut groups = Self::default();
        groups.look_below(&cgroups::hierarchy_in(root));
        for controllers in ["cpu", "cpu,cpuacct"] {
            // One of the two is a link to the other.
            let hierarchy = root.join("sys/fs/cgroup").join(controllers);
            if !hierarchy.is_symlink() {
                groups.look_below(&hierarchy);
            }
        }
        groups
    }

    fn look_below(&mut self, hierarchy: &Path) {
        let mut paths: Vec<String> = cgroups::paths_in(hierarchy).into_values().collect();
        paths.sort();
        for path in paths {
            let says_otherwise = |(file, usual): &&(&str, &str)| {
                let says = text_at(hierarchy, &format!(".{path}/{file}"));
                says.is_some_and(|says| says.split(' ').next() != Some(usual))
            };
            if let Some((file, _)) = WEIGHTS.iter().find(says_otherwise) {
                self.weighted.push((file, path.clone()));
            }
            if let Some((file, _)) = LIMITS.iter().find(says_otherwise) {
                self.limited.push((file, path));
            }
        }
    }

    pub fn finding(&self) -> Finding {
        match self.in_vain() {
            Some(says) => Finding::note(
                TOPIC,
                says,
                "confine with cpuset.cpus what must not take more, and let it give way with nice",
            ),
            None => Finding::ok(TOPIC, "no control group has a weight or a limit of CPU time"),
        }
    }

    /// Returns what groups are promised in vain, if they are promised anything.
    pub fn in_vain(&self) -> Option<String> {
        let (weights, limits) = (told(&self.weighted), told(&self.limited));
        let all: Vec<String> = weights.into_iter().chain(limits).collect();
        let all = (!all.is_empty()).then(|| all.join(", nor "))?;
        Some(format!("this scheduler does not regard {all}"))
    }
}

fn told(groups: &[(&str, String)]) -> Option<String> {
    let ((file, first), others) = groups.split_first()?;
    let first = printable(first);
    Some(match others.len() {
        0 => format!("{file} of {first}"),
        more => format!("{file} of {first} and {more} more"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::agent::preflight::Mark;

    fn look(files: &[(&str, &str)]) -> Finding {
        let root = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let file = root.path().join("sys/fs/cgroup").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{content}\n")).unwrap();
        }
        Groups::look(root.path()).finding()
    }

    #[test]
    fn what_is_as_it_comes_is_no_promise() {
        let usual = [("a/cpu.weight", "100"), ("a/cpu.idle", "0"), ("a/b/cpu.max", "max 100000")];
        assert_eq!(look(&usual).mark, Mark::Ok);
        assert_eq!(look(&[]).mark, Mark::Ok);
    }

    #[test]
    fn what_is_promised_is_told_with_the_first_who_was() {
        let pods = [
            ("kubepods/cpu.max", "max 100000"),
            ("kubepods/web/cpu.max", "150000 100000"),
            ("kubepods/batch/cpu.max", "50000 100000"),
            ("kubepods/batch/cpu.weight", "4"),
        ];
        let finding = look(&pods);
        assert_eq!(finding.mark, Mark::Note);
        assert_eq!(
            finding.says,
            "this scheduler does not regard cpu.weight of /kubepods/batch, nor cpu.max of \
             /kubepods/batch and 1 more"
        );
        let idle = look(&[("\x1bnight/cpu.weight", "100"), ("\x1bnight/cpu.idle", "1")]);
        assert_eq!(idle.says, "this scheduler does not regard cpu.idle of /?night");
    }

    /// A controller that has a hierarchy of its own is of the first version.
    #[test]
    fn older_systems_promise_by_other_files() {
        let usual = [
            ("unified/cgroup.procs", ""),
            ("cpu,cpuacct/web/cpu.shares", "1024"),
            ("cpu,cpuacct/web/cpu.cfs_quota_us", "-1"),
        ];
        assert_eq!(look(&usual).mark, Mark::Ok);
        let pods = [
            ("unified/cgroup.procs", ""),
            ("cpu/web/cpu.shares", "10240"),
            ("cpu/web/cpu.cfs_quota_us", "50000"),
        ];
        assert_eq!(
            look(&pods).says,
            "this scheduler does not regard cpu.shares of /web, nor cpu.cfs_quota_us of /web"
        );
    }
}
