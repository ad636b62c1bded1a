// SPDX-License-Identifier: GPL-2.0-only
//! What control groups are promised of the CPUs' time, and do not get while BPF schedules: the
//! kernel leaves weights and limits to its default scheduler.

use std::path::Path;

use super::{Finding, text_at};
use crate::agent::cgroups;
use crate::bpf::names::printable;

const TOPIC: &str = "groups";

/// As they are called from the root on.
#[derive(Debug, Default)]
pub struct Groups {
    weighted: Vec<String>,
    limited: Vec<String>,
}

impl Groups {
    pub fn look(root: &Path) -> Self {
        let hierarchy = cgroups::hierarchy_in(root);
        let mut groups = Self::default();
        let mut paths: Vec<String> = cgroups::paths_in(&hierarchy).into_values().collect();
        paths.sort();
        for path in paths {
            let says = |file: &str| text_at(&hierarchy, &format!(".{path}/{file}"));
            if says("cpu.weight").is_some_and(|weight| weight != "100")
                || says("cpu.idle").is_some_and(|idle| idle != "0")
            {
                groups.weighted.push(path.clone());
            }
            if says("cpu.max").is_some_and(|max| !max.starts_with("max")) {
                groups.limited.push(path);
            }
        }
        groups
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

    /// What they are promised, if they are promised anything.
    pub fn in_vain(&self) -> Option<String> {
        let weights = told("cpu.weight or cpu.idle", &self.weighted);
        let limits = told("cpu.max", &self.limited);
        let all: Vec<String> = weights.into_iter().chain(limits).collect();
        let all = (!all.is_empty()).then(|| all.join(", nor "))?;
        Some(format!("this scheduler does not regard {all}"))
    }
}

fn told(file: &str, paths: &[String]) -> Option<String> {
    let (first, others) = paths.split_first()?;
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
            "this scheduler does not regard cpu.weight or cpu.idle of /kubepods/batch, nor cpu.max \
             of /kubepods/batch and 1 more"
        );
        let idle = look(&[("\x1bnight/cpu.weight", "100"), ("\x1bnight/cpu.idle", "1")]);
        assert_eq!(idle.says, "this scheduler does not regard cpu.weight or cpu.idle of /?night");
    }
}
