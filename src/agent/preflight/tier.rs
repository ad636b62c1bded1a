// SPDX-License-Identifier: GPL-2.0-only
//! How the scheduler finds out about AVX work.

use anyhow::{Result, bail};
use clap::ValueEnum;
use tracing::info;

use super::machine::Machine;
use crate::bpf::intf::{
    AVX_TIER_COUNTERS, AVX_TIER_HINTS, AVX_TIER_OBSERVE, AVX_TIER_TRAP, AVX_TIER_XSTATE, avx_tier,
};

/// The ways there are, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// The kernel hides AVX-512 and tells of its first use.
    Trap,
    /// Registers are seen in use when a task is switched out.
    Xstate,
    /// Counters tell of clocks that are low.
    Counters,
    /// Threads say so themselves.
    Hints,
    /// It does not: nothing is done.
    Observe,
}

/// A tier, and the reason for it.
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    name: Name,
    pub why: &'static str,
}

impl Tier {
    pub fn name(self) -> &'static str {
        match self.name {
            Name::Trap => "trap",
            Name::Xstate => "xstate",
            Name::Counters => "counters",
            Name::Hints => "hints",
            Name::Observe => "observe",
        }
    }

    /// Returns the tier as the BPF programs know it.
    pub fn kind(self) -> avx_tier {
        match self.name {
            Name::Trap => AVX_TIER_TRAP,
            Name::Xstate => AVX_TIER_XSTATE,
            Name::Counters => AVX_TIER_COUNTERS,
            Name::Hints => AVX_TIER_HINTS,
            Name::Observe => AVX_TIER_OBSERVE,
        }
    }

    /// Returns true if something is hidden from tasks.
    pub fn hides(self) -> bool {
        self.name == Name::Trap
    }

    pub fn tell(&self) {
        info!("tier {}: {}", self.name(), self.why);
    }

    /// Returns what would make it a better tier, if anything does.
    pub fn raised_by(self, machine: &Machine) -> Option<&'static str> {
        let lacks_the_patch = !machine.tells_of_first_use() && !machine.is_virtual();
        (self.name == Name::Xstate && lacks_the_patch).then_some(
            "a kernel with the series of kernel-patch, installed below share/doc, and \
             CONFIG_X86_XFEATURE_HIDING=y, makes it the tier trap",
        )
    }

    /// Returns the tier that is asked for, or the best on this machine. `counts_licences` tells
    /// whether cycles are counted by licence there.
    pub fn choose(
        wanted: Option<Name>,
        forced: bool,
        machine: &Machine,
        counts_licences: bool,
    ) -> Result<Self> {
        match wanted {
            Some(name) => Self::named(name, machine, counts_licences),
            None => Ok(Self::best(forced, machine, counts_licences)),
        }
    }

    fn named(name: Name, machine: &Machine, counts_licences: bool) -> Result<Self> {
        let sees_registers = machine.has("avx512f") && machine.tells_what_is_in_use();
        match name {
            Name::Trap | Name::Xstate if !sees_registers => bail!(
                "the tiers trap and xstate take a CPU that has AVX-512 and tells what is in use"
            ),
            Name::Trap if !machine.tells_of_first_use() => {
                bail!(
                    "the tier trap takes a kernel that hides AVX-512: see kernel-patch/README.md, \
                     installed below share/doc"
                )
            }
            Name::Trap if machine.refuses_to_hide() => bail!(
                "the kernel found at boot that AVX-512 cannot be hidden on this CPU: leave out \
                 --tier, or name another one"
            ),
            Name::Trap if machine.has_openzfs() => bail!(
                "OpenZFS uses AVX-512 in the kernel also where that is hidden, and would crash: \
                 unload the module zfs, or leave out --tier"
            ),
            Name::Counters if !counts_licences => bail!(
                "the tier counters takes a CPU that counts cycles at each licence, or three such \
                 events for --clock-counters"
            ),
            _ => Ok(Self { name, why: "that is what --tier asks for" }),
        }
    }

    /// Returns the best tier on this machine. Unless forced, that is `Observe` where there is no
    /// AVX-512, and where AVX-512 hardly lowers the clock.
    pub fn best(forced: bool, machine: &Machine, counts_licences: bool) -> Self {
        let (name, why) = if !machine.has("avx512f") && !forced {
            (
                Name::Observe,
                "the CPU has no AVX-512; with --force what threads say of their work counts",
            )
        } else if !machine.has("avx512f") {
            (Name::Hints, "the CPU has no AVX-512, so what threads say of their work counts")
        } else if !machine.has_licences() && !forced {
            (
                Name::Observe,
                "AVX-512 hardly lowers the clock of this CPU; --force schedules all the same",
            )
        } else if !machine.tells_what_is_in_use() && counts_licences {
            (
                Name::Counters,
                "the CPU does not tell what is in use, but how low its clock is for that",
            )
        } else if !machine.tells_what_is_in_use() {
            (
                Name::Hints,
                "the CPU does not tell what is in use, so what threads say of their work counts",
            )
        } else if !machine.tells_of_first_use() {
            (
                Name::Xstate,
                "wide vectors are seen when a task is switched out; the kernel does not hide \
                 AVX-512, which would show more: see kernel-patch/README.md, installed below share/doc",
            )
        } else if machine.refuses_to_hide() {
            (
                Name::Xstate,
                "wide vectors are seen when a task is switched out; the kernel found at boot that \
                 AVX-512 cannot be hidden on this CPU",
            )
        } else if machine.has_openzfs() {
            (
                Name::Xstate,
                "wide vectors are seen when a task is switched out; AVX-512 is not hidden, for \
                 OpenZFS (the module zfs) uses it in the kernel all the same, and would crash",
            )
        } else if machine.is_virtual() {
            (
                Name::Xstate,
                "wide vectors are seen when a task is switched out; hiding AVX-512 would show \
                 more, and leaves the virtual machine twice at a switch of tasks: --tier trap \
                 does so all the same",
            )
        } else {
            (Name::Trap, "the kernel tells of each first wide instruction")
        };
        Self { name, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKYLAKE: &str = "avx512f xsavec xgetbv1";

    fn machine(flags: &str) -> Machine {
        Machine::with_cpu(&format!("vendor_id: GenuineIntel\nflags: {flags}\n"))
    }

    fn best(machine: &Machine) -> &'static str {
        Tier::best(false, machine, false).name()
    }

    #[test]
    fn the_best_is_chosen_with_a_reason() {
        let skylake = machine(SKYLAKE);
        assert_eq!(best(&skylake), "trap");
        let unpatched = skylake.without_the_patch();
        assert_eq!(best(&unpatched), "xstate");
        assert!(Tier::best(false, &unpatched, true).why.contains("kernel-patch"));
        for flags in ["avx512f xsavec", "avx512f xgetbv1"] {
            assert_eq!(best(&machine(flags)), "hints");
            assert_eq!(Tier::best(false, &machine(flags), true).name(), "counters");
        }
        let haswell = machine("avx2 xsavec xgetbv1");
        assert_eq!(best(&haswell), "observe");
        assert_eq!(Tier::best(true, &haswell, false).name(), "hints");
    }

    #[test]
    fn nothing_is_hidden_where_that_is_refused_or_dear() {
        let skylake = machine(SKYLAKE);
        let refusing = skylake.that_refuses_to_hide();
        let guest = machine(&format!("{SKYLAKE} hypervisor"));
        let beside_openzfs = skylake.with_openzfs();
        for (machine, reason) in [
            (&refusing, "cannot be hidden"),
            (&beside_openzfs, "would crash"),
            (&guest, "virtual machine"),
        ] {
            let tier = Tier::best(false, machine, true);
            assert!(tier.name() == "xstate" && tier.why.contains(reason), "{}", tier.why);
            assert!(tier.raised_by(machine).is_none(), "another kernel would not help");
        }
        let insist = |machine| Tier::choose(Some(Name::Trap), false, machine, false);
        assert_eq!(insist(&guest).unwrap().name(), "trap");
        for machine in [&refusing, &beside_openzfs] {
            assert!(insist(machine).unwrap_err().to_string().contains("leave out --tier"));
        }
        let unpatched = skylake.without_the_patch();
        assert!(Tier::best(false, &unpatched, true).raised_by(&unpatched).is_some());
    }

    #[test]
    fn where_licences_do_not_matter_it_has_to_be_forced() {
        let amd = Machine::with_cpu(&format!("vendor_id: AuthenticAMD\nflags: {SKYLAKE}\n"));
        let sapphire_rapids = machine(&format!("{SKYLAKE} avx_vnni"));
        for machine in [amd, sapphire_rapids] {
            let tier = Tier::best(false, &machine, false);
            assert!(tier.name() == "observe" && tier.why.contains("--force"), "{}", tier.why);
            assert_eq!(Tier::best(true, &machine, false).name(), "trap");
        }
    }

    #[test]
    fn who_asks_for_one_gets_it_or_hears_what_it_takes() {
        let ask = |name, machine: &Machine, counts| {
            Tier::choose(Some(name), false, machine, counts).map(Tier::name)
        };
        let skylake = machine(SKYLAKE);
        let unpatched = skylake.without_the_patch();
        for name in Name::value_variants() {
            let tier = ask(*name, &skylake, true).unwrap();
            assert_eq!(tier, name.to_possible_value().unwrap().get_name());
        }
        let complaint =
            |name, machine: &Machine| ask(name, machine, false).unwrap_err().to_string();
        assert!(complaint(Name::Trap, &unpatched).contains("kernel-patch"));
        assert_eq!(ask(Name::Xstate, &unpatched, false).unwrap(), "xstate");
        assert!(complaint(Name::Xstate, &machine("avx2")).contains("tells what is in use"));
        assert!(complaint(Name::Counters, &skylake).contains("--clock-counters"));
        assert_eq!(ask(Name::Hints, &machine("sse2"), false).unwrap(), "hints");
    }
}
