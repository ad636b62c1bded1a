// SPDX-License-Identifier: GPL-2.0-only
//! The life of the BPF scheduler: load, attach, run until it ends.

use std::fs;
use std::mem::{MaybeUninit, size_of};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use crossbeam::channel::RecvTimeoutError;
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use scx_utils::{
    NR_CPU_IDS, UserExitInfo, compat, read_cpulist, scx_ops_attach, scx_ops_load, scx_ops_open,
    try_set_rlimit_infinity, uei_exited, uei_report,
};
use tracing::{debug, info};

use super::stats::{Metrics, Server};
use crate::bpf::intf;
use crate::bpf::skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel};
use crate::{NAME, version};

const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";

/// How long a raised shutdown flag may go unnoticed.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// How to load.
pub struct LoadOpts {
    pub verbose: bool,
    pub exit_dump_len: u32,
    pub libbpf: LibbpfOpts,
}

/// How a scheduler ended, if it was not by an error.
pub enum Ended {
    /// Someone asked for it.
    Stopped,
    /// The kernel asks to load it anew, because a CPU came or went.
    Restart,
}

pub struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    /// As long as this lives, the kernel schedules with us.
    link: Option<Link>,
    started: Instant,
    nr_cpus: usize,
}

impl<'a> Scheduler<'a> {
    pub fn start(opts: &LoadOpts, object: &'a mut MaybeUninit<OpenObject>) -> Result<Self> {
        try_set_rlimit_infinity();

        let mut builder = BpfSkelBuilder::default();
        builder.obj_builder.debug(opts.verbose);
        let libbpf = opts.libbpf.clone().into_bpf_open_opts();
        let mut skel = scx_ops_open!(builder, object, avxspec, libbpf)
            .context("cannot open the BPF programs")?;

        let nr_cpus = online_cpus()?;
        configure(&mut skel, nr_cpus, opts.exit_dump_len)?;

        let mut skel = scx_ops_load!(skel, avxspec, uei).context("cannot load the BPF programs")?;
        let started = Instant::now();
        let link = scx_ops_attach!(skel, avxspec).context("cannot attach the scheduler")?;

        info!(
            "{NAME} {} running on {nr_cpus} CPUs (slice {} to {} ms, weights delay by at most {} s)",
            version(),
            intf::avx_limits_AVX_SLICE_MIN_NS / 1_000_000,
            intf::avx_limits_AVX_SLICE_MAX_NS / 1_000_000,
            intf::AVX_WAIT_MAX_S,
        );
        Ok(Self { skel, link: Some(link), started, nr_cpus })
    }

    /// Answer requests for statistics until the flag is raised or the kernel ends the scheduler.
    pub fn run_until_end(mut self, stats: &Server, shutdown: &AtomicBool) -> Result<Ended> {
        let (answers, requests) = stats.channels();
        while !shutdown.load(Ordering::Relaxed) && !uei_exited!(&self.skel, uei) {
            match requests.recv_timeout(LOOK_AROUND) {
                Ok(()) => answers.send(self.metrics()?).context("cannot answer with statistics")?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(error) => Err(error).context("the statistics server is gone")?,
            }
        }
        self.end()
    }

    fn end(&mut self) -> Result<Ended> {
        drop(self.link.take());
        let report: Result<UserExitInfo> = uei_report!(&self.skel, uei);
        let exit = report.context("the kernel ejected the scheduler")?;
        Ok(if exit.should_restart() { Ended::Restart } else { Ended::Stopped })
    }

    fn metrics(&self) -> Result<Metrics> {
        let zero = 0u32.to_ne_bytes();
        let per_cpu = self
            .skel
            .maps
            .cpu_stats
            .lookup_percpu(&zero, MapFlags::ANY)
            .context("cannot read the statistics")?
            .context("the kernel holds no statistics")?;
        let per_cpu = per_cpu.iter().map(|bytes| parse_stats(bytes)).collect::<Result<Vec<_>>>()?;
        Ok(Metrics::sum(&per_cpu, self.nr_cpus, self.started.elapsed()))
    }
}

/// What must be settled between opening and loading.
fn configure(skel: &mut OpenBpfSkel<'_>, nr_cpus: usize, exit_dump_len: u32) -> Result<()> {
    let rodata = skel.maps.rodata_data.as_mut().context("the BPF programs have no constants")?;
    rodata.nr_online_cpus = u32::try_from(nr_cpus).context("too many CPUs")?;

    let queues = u32::try_from(*NR_CPU_IDS + 1).context("too many CPUs")?;
    skel.maps.queues.set_max_entries(queues).context("cannot size the queues")?;

    let ops = skel.struct_ops.avxspec_mut();
    ops.exit_dump_len = exit_dump_len;
    ops.flags = *compat::SCX_OPS_ENQ_EXITING
        | *compat::SCX_OPS_ENQ_MIGRATION_DISABLED
        | *compat::SCX_OPS_ALLOW_QUEUED_WAKEUP;
    debug!("scheduler flags {:#x}", ops.flags);

    if compat::ksym_exists("scx_bpf_reenqueue_local___v2").context("cannot read kernel symbols")? {
        ops.cpu_release = std::ptr::null_mut();
        skel.progs.avxspec_sched_switch.set_autoload(true);
    }
    Ok(())
}

/// A restart follows when this changes, since the kernel compares its hotplug count with the one
/// that was read when the programs were opened.
fn online_cpus() -> Result<usize> {
    let list =
        fs::read_to_string(ONLINE_CPUS).with_context(|| format!("cannot read {ONLINE_CPUS}"))?;
    let cpus = read_cpulist(list.trim()).with_context(|| format!("cannot parse {ONLINE_CPUS}"))?;
    Ok(cpus.len())
}

fn parse_stats(bytes: &[u8]) -> Result<intf::avx_cpu_stats> {
    ensure!(
        bytes.len() >= size_of::<intf::avx_cpu_stats>(),
        "the kernel's statistics are shorter than they should be"
    );
    // SAFETY: the length was checked, every bit pattern is a valid value, and
    // the read does not ask for alignment.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
