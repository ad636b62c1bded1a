// SPDX-License-Identifier: GPL-2.0-only
//! Tells what there is to say of the processor: its clock, its features, its counters.

use std::path::Path;

use super::files::text_at;
use super::generation::{Generation, Loss, first_cpu_says};
use super::{Finding, Machine};

pub struct Cpu {
    name: String,
    generation: Option<&'static Generation>,
    has_counters: bool,
    /// The kernel's limit on who may use the counters. Up to 0 everybody may look at whole CPUs.
    paranoia: i64,
}

/// Above this, kernels of Debian and Ubuntu let nobody count without CAP_SYS_ADMIN, which neither
/// the unit nor the pod of contrib has. Linux itself knows no higher values.
const PARANOIA_MAX: i64 = 2;

impl Cpu {
    pub fn look(root: &Path) -> Self {
        let cpuinfo = text_at(root, "proc/cpuinfo").unwrap_or_default();
        let paranoia = text_at(root, "proc/sys/kernel/perf_event_paranoid");
        Self {
            name: first_cpu_says(&cpuinfo, "model name").to_owned(),
            generation: Generation::in_text(&cpuinfo),
            has_counters: root.join("sys/bus/event_source/devices/cpu").is_dir(),
            paranoia: paranoia.and_then(|text| text.parse().ok()).unwrap_or(2),
        }
    }

    pub fn shows_counters(&self) -> bool {
        self.has_counters
    }

    pub fn findings(&self, machine: &Machine) -> Vec<Finding> {
        vec![self.clock(machine), features(machine), self.counters()]
    }

    fn clock(&self, machine: &Machine) -> Finding {
        let name = match self.name.is_empty() {
            true => "of an unknown name",
            false => &self.name,
        };
        let kind = self.generation.map_or(String::new(), |it| format!(" ({})", it.name));
        let says = |what: &str| format!("the CPU is {name}{kind}: {what}");
        let loss = self.generation.map(|generation| generation.loss);
        match loss {
            _ if !machine.has("avx512f") => Finding::note(
                "cpu",
                says("it has no AVX-512"),
                "run it for tests only, with --force: there is no AVX-512 work to keep apart",
            ),
            _ if !machine.has_licences() => Finding::note(
                "cpu",
                says("AVX-512 hardly lowers its clock"),
                "expect nothing of AVX cores; --force sets them up all the same",
            ),
            Some(Loss::Little) => Finding::note(
                "cpu",
                says("AVX-512 lowers its clock a little"),
                "trials on this machine tell whether AVX cores pay: scx_avxspec status",
            ),
            Some(Loss::Much) => Finding::ok("cpu", says("AVX-512 lowers its clock a lot")),
            _ => Finding::ok("cpu", says("AVX-512 may lower its clock")),
        }
    }

    fn counters(&self) -> Finding {
        let events = self.generation.map_or(&[] as &[_], |it| it.counts.events());
        let perf = format!("perf stat -a -e {}", events.join(","));
        match events {
            _ if !self.has_counters => Finding::note(
                "counters",
                "the CPU's counters are not to be seen, as in most virtual machines",
                "rely on the modelled times of 'scx_avxspec status', which take no counters",
            ),
            [] => Finding::ok("counters", "the CPU counts, but nothing that tells of wide vectors"),
            _ if self.paranoia > PARANOIA_MAX => Finding::note(
                "counters",
                format!(
                    "the CPU counts wide vectors, but perf_event_paranoid is {}, where the \
                     service's powers are not enough on kernels of Debian and Ubuntu",
                    self.paranoia
                ),
                format!(
                    "set it by 'sysctl kernel.perf_event_paranoid={PARANOIA_MAX}', and in \
                     /etc/sysctl.d to keep it so, then start the service anew"
                ),
            ),
            _ if self.paranoia > 0 => Finding::note(
                "counters",
                format!(
                    "the CPU counts wide vectors, for root only (perf_event_paranoid is {})",
                    self.paranoia
                ),
                format!("look at the metrics, which tell what is counted; so does sudo {perf}"),
            ),
            _ => Finding::ok(
                "counters",
                format!("the CPU counts wide vectors, as the metrics tell, and {perf}"),
            ),
        }
    }
}

fn features(machine: &Machine) -> Finding {
    let all = ["avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd", "avx512_vnni"];
    let has: Vec<&str> = all.into_iter().filter(|flag| machine.has(flag)).collect();
    match (has.is_empty(), machine.tells_what_is_in_use()) {
        (true, _) => Finding::ok("avx512", "there is no AVX-512 to be seen"),
        (false, true) if machine.tells_of_first_use() && !machine.keeps_image_size() => {
            Finding::note(
                "avx512",
                format!(
                    "the CPU has {}, and no protection keys in use, without which quiet-library=on \
                     does nothing",
                    has.join(" ")
                ),
                "leave out nopku, if the kernel was started with it",
            )
        }
        (false, true) => Finding::ok(
            "avx512",
            format!("the CPU has {}, and tells what is in use", has.join(" ")),
        ),
        (false, false) => Finding::note(
            "avx512",
            format!("the CPU has {}, and does not tell what is in use", has.join(" ")),
            "in a virtual machine, let it see the features xsavec and xgetbv1",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::preflight::generation::INTEL;

    #[test]
    fn who_has_no_protection_keys_hears_what_that_costs() {
        let says = |flags: &str| {
            let cpuinfo = format!("flags: avx512f xsavec xgetbv1 {flags}\n");
            features(&Machine::with_cpu(&cpuinfo)).says
        };
        assert!(says("pku").contains("quiet-library=on does nothing"));
        for behind_avx512 in ["ospke", "amx_tile"] {
            assert!(!says(behind_avx512).contains("quiet-library"), "{behind_avx512}");
        }
    }

    #[test]
    fn paranoia_that_the_service_has_no_power_over_is_told() {
        let counters = |paranoia| {
            let generation = Generation::of(INTEL, 6, 85, 4);
            Cpu { name: String::new(), generation, has_counters: true, paranoia }.counters()
        };
        for paranoia in [3, 4] {
            let finding = counters(paranoia);
            assert!(finding.says.contains(&format!("perf_event_paranoid is {paranoia}, where")));
            assert!(finding.advice.unwrap().contains("sysctl kernel.perf_event_paranoid=2"));
        }
        for paranoia in [1, 2] {
            assert!(counters(paranoia).says.contains("for root only"));
        }
        assert!(counters(0).advice.is_none() && counters(-1).advice.is_none());
    }
}
