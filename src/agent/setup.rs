// SPDX-License-Identifier: GPL-2.0-only
//! What the BPF programs are told before they run, and what holds for as long as they do.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use scx_utils::{NR_CPU_IDS, compat};
use tracing::{debug, warn};

use super::clocks::Clocks;
use super::counters::{Choice, Source};
use super::hints;
use super::preflight::{Tier, tier};
use super::symbols::kernel_has;
use super::trial::outside::Outside;
use crate::bpf::intf;
use crate::bpf::places::cpus_per_core;
use crate::bpf::skel::{BpfSkel, OpenBpfSkel};
use crate::files;

/// A kernel's configuration has some hundred KiB.
const LARGEST_KCONFIG_KIB: u64 = 16 << 10;

/// A function that is there where programs may wait for memory while they watch exec.
const MAY_WAIT_IN_EXEC: &str = "within_error_injection_list";

/// How to load the scheduler.
pub struct LoadOpts {
    pub verbose: bool,
    pub forced: bool,
    pub check_policies: bool,
    pub clock_counters: Choice,
    /// Where to find out what programs get done that do not say so themselves.
    pub outside: Outside,
    /// The tier that is asked for instead of the best one.
    pub tier: Option<tier::Name>,
    pub exit_dump_len: u32,
    pub libbpf: LibbpfOpts,
}

impl LoadOpts {
    /// Checks the options for libbpf. If one of them could not be passed on, libbpf would be told
    /// of no option at all.
    pub fn check(&self) -> Result<()> {
        if let Some(file) = &self.libbpf.kconfig {
            let cannot = || format!("--kconfig takes a file of text, and {file} cannot be read");
            files::read_text(Path::new(file), LARGEST_KCONFIG_KIB).with_context(cannot)?;
        }
        Ok(())
    }
}

/// What the scheduler uses to find out about AVX work, and about clocks.
pub struct Means {
    pub tier: Tier,
    pub clocks: Clocks,
    pub source: Source,
    pub hides_cpuid: bool,
    pub keeps_image_size: bool,
}

/// Lets this process open as many files as the administrator allows. Each event that is counted on
/// each CPU takes one, and so does each client that asks.
pub fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(error) = raised {
        warn!("cannot raise the number of files that may be open: {error}");
    }
}

/// Keeps group and others from writing to new files. The sockets are root's, whatever the umask is
/// that this process was started with.
pub fn keep_others_from_writing() {
    let others = Mode::S_IWGRP | Mode::S_IWOTH;
    umask(umask(others) | others);
}

/// Settles what must be settled between opening and loading. It holds while the scheduler runs: a
/// restart follows when a CPU comes or goes, because the kernel compares its hotplug count with the
/// one that was read when the programs were opened.
pub fn configure(
    skel: &mut OpenBpfSkel<'_>,
    places: &BTreeMap<u32, intf::avx_topology>,
    means: &Means,
    opts: &LoadOpts,
) -> Result<()> {
    let rodata = skel.maps.rodata_data.as_mut().context("the BPF programs have no constants")?;
    rodata.nr_online_cpus = u32::try_from(places.len()).context("too many CPUs")?;
    let usable = places.values().filter(|place| place.usable != 0).count();
    rodata.nr_usable_cpus = u32::try_from(usable).context("too many CPUs")?;
    let nr_cpu_ids = u32::try_from(*NR_CPU_IDS).context("too many CPUs")?;
    rodata.nr_cpu_ids = nr_cpu_ids;
    rodata.cpus_per_core = cpus_per_core(places.values());
    let llcs: BTreeSet<u32> = places.values().map(|place| place.llc).collect();
    let nodes: BTreeSet<u32> = places.values().map(|place| place.node).collect();
    rodata.nr_nodes = u32::try_from(nodes.len()).context("too many nodes")?;
    rodata.nr_llcs = u32::try_from(llcs.len()).context("too many caches")?;
    rodata.first_llc = *llcs.first().context("there is no cache")?;
    let Means { tier, clocks, source, hides_cpuid, keeps_image_size } = means;
    rodata.tier = tier.kind();
    rodata.hides_cpuid = *hides_cpuid;
    rodata.clocks.counters = source.kind().into();
    rodata.clocks.nr_steps = clocks.known.nr_steps;
    for (to, from) in rodata.clocks.steps.iter_mut().zip(&clocks.known.steps) {
        (to.up_to_cores, to.lost) = (from.up_to_cores, from.lost);
    }
    rodata.checks_policies = opts.check_policies;

    let queues = nr_cpu_ids * intf::NR_QUEUE_KINDS;
    skel.maps.queues.set_max_entries(queues).context("cannot size the queues")?;
    skel.maps.cpus.set_max_entries(nr_cpu_ids).context("cannot size the map of CPUs")?;
    skel.maps.cpu_roles.set_max_entries(nr_cpu_ids).context("cannot size the books of CPUs")?;
    skel.maps.retry_timers.set_max_entries(nr_cpu_ids).context("cannot size the timers")?;
    skel.maps.cpu_clocks.set_max_entries(nr_cpu_ids).context("cannot size the books of clocks")?;
    let counters = nr_cpu_ids * intf::CYCLES_BY_LICENCE;
    skel.maps.cpu_counters.set_max_entries(counters).context("cannot size the counters")?;
    skel.progs.avxspec_count.set_autoload(source.counts_clocks());
    skel.maps.topology.set_max_entries(nr_cpu_ids).context("cannot size the topology")?;

    let ops = skel.struct_ops.avxspec_mut();
    ops.exit_dump_len = opts.exit_dump_len;
    ops.flags = *compat::SCX_OPS_ENQ_LAST
        | *compat::SCX_OPS_ENQ_EXITING
        | *compat::SCX_OPS_ENQ_MIGRATION_DISABLED
        | *compat::SCX_OPS_ALLOW_QUEUED_WAKEUP;
    debug!("scheduler flags {:#x}", ops.flags);

    if kernel_has("scx_bpf_reenqueue_local___v2")? {
        ops.cpu_release = std::ptr::null_mut();
        skel.progs.avxspec_sched_switch.set_autoload(true);
    }
    choose_programs(skel, tier.kind(), *keeps_image_size)
}

/// Chooses the programs that listen beside the scheduler's own callbacks.
fn choose_programs(
    skel: &mut OpenBpfSkel<'_>,
    tier: intf::avx_tier,
    keeps_image_size: bool,
) -> Result<()> {
    if tier != intf::AVX_TIER_OBSERVE {
        skel.progs.avxspec_exec.set_autoload(true);
        hints::listen(skel)?;
    }
    if tier == intf::AVX_TIER_COUNTERS {
        skel.progs.avxspec_count_switch.set_autoload(true);
    }
    if tier == intf::AVX_TIER_TRAP {
        skel.progs.avxspec_hidden_used.set_autoload(true);
        skel.progs.avxspec_syscall_done.set_autoload(true);
        let obstacle = if !keeps_image_size {
            Some("the CPU has no protection keys in use")
        } else if !kernel_has(MAY_WAIT_IN_EXEC)? {
            Some("the kernel has no CONFIG_FUNCTION_ERROR_INJECTION")
        } else {
            None
        };
        skel.progs.avxspec_execve.set_autoload(obstacle.is_none());
        skel.progs.avxspec_execveat.set_autoload(obstacle.is_none());
        if let Some(obstacle) = obstacle {
            warn!(
                "{obstacle}: quiet-library=on does nothing, and a program that calls string \
                 functions between its wide instructions stays on AVX cores"
            );
        }
    }
    Ok(())
}

pub fn tell_places(skel: &BpfSkel<'_>, places: &BTreeMap<u32, intf::avx_topology>) -> Result<()> {
    for (cpu, place) in places {
        skel.maps
            .topology
            .update(&cpu.to_ne_bytes(), as_bytes(place), MapFlags::ANY)
            .with_context(|| format!("cannot tell where CPU {cpu} is"))?;
    }
    Ok(())
}

/// Returns what C calls the representation of an object.
pub fn as_bytes<T: Copy>(object: &T) -> &[u8] {
    // SAFETY: these are the bytes of a live object. Nothing reads what lies between its members, if
    // anything does.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(object).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_may_be_open_as_the_administrator_allows() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard - 1, hard).unwrap();
        raise_open_files();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
