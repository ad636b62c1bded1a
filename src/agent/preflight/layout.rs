// SPDX-License-Identifier: GPL-2.0-only
//! Tells how many CPUs there are, what they share, and which of them are set apart.

use std::collections::BTreeSet;
use std::path::Path;

use super::Finding;
use super::files::text_at;
use crate::agent::cpulist;

const CPUS: &str = "sys/devices/system/cpu";

/// No kernel is built for more.
const CPUS_MAX: u32 = 8192;

pub struct Layout {
    online: BTreeSet<u32>,
    isolated: BTreeSet<u32>,
    packages: usize,
    cores: usize,
    caches: usize,
    nodes: usize,
}

impl Layout {
    pub fn look(root: &Path) -> Self {
        let online = list_at(root, &format!("{CPUS}/online"));
        // CPUs share what they name by the same list. A CPU that names nothing has one of its own.
        let shared = |file: &str| {
            let list = |cpu: &u32| {
                let list = text_at(root, &format!("{CPUS}/cpu{cpu}/{file}"));
                list.unwrap_or_else(|| cpu.to_string())
            };
            online.iter().map(list).collect::<BTreeSet<String>>().len()
        };
        Self {
            packages: shared("topology/package_cpus_list"),
            cores: shared("topology/thread_siblings_list"),
            caches: shared("cache/index3/shared_cpu_list"),
            nodes: list_at(root, "sys/devices/system/node/has_cpu").len(),
            isolated: list_at(root, &format!("{CPUS}/isolated")),
            online,
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        vec![self.shape(), self.isolated()]
    }

    fn shape(&self) -> Finding {
        let of = |count: usize, one: &str, many: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {many}"),
        };
        let says = format!(
            "there are {} on {} in {}, with {} and {}",
            of(self.online.len(), "CPU", "CPUs"),
            of(self.cores, "core", "cores"),
            of(self.packages, "socket", "sockets"),
            of(self.caches, "last-level cache", "last-level caches"),
            of(self.nodes.max(1), "NUMA node", "NUMA nodes"),
        );
        if self.online.is_empty() {
            return Finding::note("layout", "no CPUs are to be seen", "mount /sys");
        }
        match self.cores {
            1 => Finding::note(
                "layout",
                says,
                "expect nothing here: where there is one core, all work is on it",
            ),
            cores if cores < self.online.len() => {
                Finding::ok("layout", says + "; the threads of a core share its clock")
            }
            _ => Finding::ok("layout", says),
        }
    }

    fn isolated(&self) -> Finding {
        if self.isolated.is_empty() {
            return Finding::ok("isolated", "no CPU is isolated");
        }
        Finding::note(
            "isolated",
            format!("CPUs {} are isolated", cpulist::format(self.isolated.iter().copied())),
            "know that they never become AVX cores, also if avx-cpu-list names them",
        )
    }
}

/// Returns the CPUs that a file lists, or none if it is no list.
fn list_at(root: &Path, file: &str) -> BTreeSet<u32> {
    let text = text_at(root, file).unwrap_or_default();
    cpulist::parse(&text, CPUS_MAX).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(cpus: u32, cores: usize) -> Layout {
        Layout {
            online: (0..cpus).collect(),
            isolated: BTreeSet::new(),
            packages: 1,
            cores,
            caches: 1,
            nodes: 0,
        }
    }

    #[test]
    fn counts_are_said_in_english() {
        assert_eq!(
            layout(4, 4).shape().says,
            "there are 4 CPUs on 4 cores in 1 socket, with 1 last-level cache and 1 NUMA node"
        );
    }

    #[test]
    fn a_single_core_is_no_place_for_it() {
        assert!(layout(2, 1).shape().advice.unwrap().contains("one core"));
        assert!(layout(4, 2).shape().says.contains("share its clock"));
        assert_eq!(layout(4, 4).shape().advice, None);
        assert!(layout(0, 0).shape().says.contains("no CPUs"));
    }
}
