// SPDX-License-Identifier: GPL-2.0-only
//! The life of the BPF scheduler: load, attach, run until it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, select};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapType, OpenObject, libbpf_sys};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use scx_utils::{
    NR_CPU_IDS, ScxExitKind, UserExitInfo, compat, scx_ops_attach, scx_ops_load, scx_ops_open,
    try_set_rlimit_infinity, uei_exited, uei_report,
};
use tracing::{debug, info, warn};

use super::clocks::Clocks;
use super::control::{Answer, Peer, Pending, Request};
use super::events::Reader;
use super::events::hub::Hub;
use super::explain::Explanation;
use super::metrics::snapshot::{Now, Snapshot, Sums, Work};
use super::metrics::source::Exporter;
use super::policy::history::{Change, History};
use super::policy::{self, InForce};
use super::preflight::Tier;
use super::stats::{self, Metrics, Server};
use super::status::{self, Status, seconds};
use super::{books, hints, service, topology};
use crate::bpf::intf::{self, avx_cpu_role};
use crate::bpf::skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel, types};
use crate::{NAME, version};

/// How long a raised shutdown flag may go unnoticed.
const LOOK_AROUND: Duration = Duration::from_millis(250);

/// A function that is there where programs may wait for memory while they watch exec.
const MAY_WAIT_IN_EXEC: &str = "within_error_injection_list";

/// How to load.
pub struct LoadOpts {
    pub verbose: bool,
    pub forced: bool,
    pub check_policies: bool,
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

const COMPENSATE: u64 = intf::avx_fairness_FAIRNESS_COMPENSATE as u64;

pub struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    /// As long as this lives, the kernel schedules with us.
    link: Option<Link>,
    started: Instant,
    /// What the CPUs had done before.
    busy_before_ns: u64,
    tier: Tier,
    clocks: Clocks,
    places: BTreeMap<u32, intf::avx_topology>,
    hub: Arc<Hub>,
    /// While somebody follows.
    reader: Option<Reader>,
}

impl<'a> Scheduler<'a> {
    pub fn start(
        opts: &LoadOpts,
        tier: Tier,
        in_force: &InForce,
        hub: &Arc<Hub>,
        object: &'a mut MaybeUninit<OpenObject>,
    ) -> Result<Self> {
        try_set_rlimit_infinity();

        let mut builder = BpfSkelBuilder::default();
        builder.obj_builder.debug(opts.verbose);
        let libbpf = opts.libbpf.clone().into_bpf_open_opts();
        let mut skel = scx_ops_open!(builder, object, avxspec, libbpf)
            .context("cannot open the BPF programs")?;

        let places = topology::places()?;
        let clocks = Clocks::of_this_cpu();
        configure(&mut skel, &places, &clocks, tier.kind, opts)?;

        let mut skel = scx_ops_load!(skel, avxspec, uei).context("cannot load the BPF programs")?;
        tell_places(&skel, &places)?;
        tell_policy(&skel, in_force)?;
        let started = Instant::now();
        let busy_before_ns = stats::busy_ns()?;
        let link = scx_ops_attach!(skel, avxspec).context("cannot attach the scheduler")?;

        info!(
            "{NAME} {} running on {} CPUs (slice {} to {} ms, weights delay by at most {} s)",
            version(),
            places.len(),
            intf::avx_limits_AVX_SLICE_MIN_NS / 1_000_000,
            intf::avx_limits_AVX_SLICE_MAX_NS / 1_000_000,
            intf::AVX_WAIT_MAX_S,
        );
        let (link, hub) = (Some(link), hub.clone());
        let reader = None;
        let mut it =
            Self { skel, link, started, busy_before_ns, tier, clocks, places, hub, reader };
        it.tell_followers()?;
        Ok(it)
    }

    /// Answer requests until the flag is raised or the kernel ends the scheduler.
    pub fn run_until_end(
        mut self,
        server: &Server,
        requests: &Receiver<Pending>,
        exporter: &mut Exporter,
        history: &mut History,
        shutdown: &AtomicBool,
    ) -> Result<Ended> {
        let (answers, questions) = server.channels();
        exporter.attached();
        while !shutdown.load(Ordering::Relaxed) && !uei_exited!(&self.skel, uei) {
            service::is_alive();
            self.tell_followers()?;
            select! {
                recv(questions) -> question => {
                    question.context("the statistics server is gone")?;
                    answers.send(self.metrics()?).context("cannot answer with statistics")?;
                }
                recv(requests) -> pending => {
                    let pending = pending.context("the control socket is gone")?;
                    let answer = self.obey(&pending, history);
                    pending.answer(answer);
                }
                recv(exporter.requests()) -> asked => {
                    let asked = asked.context("the exporter is gone")?;
                    exporter.answer(&asked, self.snapshot(history));
                }
                default(LOOK_AROUND) => {}
            }
            self.revert_what_is_due(history);
        }
        if shutdown.load(Ordering::Relaxed) {
            service::stops();
        }
        self.end(exporter)
    }

    fn obey(&mut self, pending: &Pending, history: &mut History) -> Answer {
        let answer = match &pending.request {
            Request::Show => Ok(shown(history)),
            Request::Change(change) => self.change(history, change, &pending.peer),
            Request::Confirm => history.confirm().map(|()| {
                info!("{}: policy {} stays", pending.peer, history.in_force().generation);
                shown(history)
            }),
            Request::Status => {
                self.status(history.in_force()).map(|it| Answer::Status(Box::new(it)))
            }
            Request::Follow(_) => self.begin_to_tell(history.in_force().generation),
            Request::Explain(thread) => books::task(&self.skel, *thread)
                .map(|task| Answer::Explanation(Box::new(Explanation::new(*thread, &task)))),
        };
        answer.unwrap_or_else(|error| Answer::Refused(format!("{error:#}")))
    }

    fn change(&self, history: &mut History, change: &Change, peer: &Peer) -> Result<Answer> {
        let (now, old) = (Instant::now(), *history.in_force());
        let next = history.after(change, now);
        if change.dry_run {
            return next.map(|next| changed(&old, &next));
        }
        let switched = next.and_then(|next| tell_policy(&self.skel, &next).map(|()| next));
        let next = switched.inspect_err(|error| {
            history.refused();
            info!("{peer}: refused another policy: {error:#}");
        })?;
        history.enter(next, change.revert_after, now);
        self.publish_change(&old, &next);
        let until = change.revert_after.map(|time| {
            format!(", for {} unless it is confirmed", humantime::format_duration(time))
        });
        log_change(peer, &old, &next, &until.unwrap_or_default());
        Ok(changed(&old, &next))
    }

    fn revert_what_is_due(&self, history: &mut History) {
        let now = Instant::now();
        let Some(back) = history.due(now) else { return };
        match tell_policy(&self.skel, &back) {
            Ok(()) => {
                log_change(&"nobody confirmed", history.in_force(), &back, "");
                self.publish_change(history.in_force(), &back);
                history.reverted(back, now);
            }
            Err(error) => {
                warn!("cannot bring back the policy before: {error:#}");
                history.try_again(now);
            }
        }
    }

    fn publish_change(&self, old: &InForce, new: &InForce) {
        let differences = policy::differences(&old.policy, &new.policy);
        let settings: Vec<String> =
            differences.iter().map(|it| format!("{}={}", it.knob, it.to)).collect();
        self.hub.publish_policy(new.generation, &settings);
    }

    /// Somebody new follows, and is told from this moment on.
    fn begin_to_tell(&mut self, generation: u64) -> Result<Answer> {
        self.hub.welcome(generation);
        self.tell_followers()?;
        Ok(Answer::Following)
    }

    /// The BPF programs tell what happens as long as anybody follows, and it is read.
    fn tell_followers(&mut self) -> Result<()> {
        let is_followed = self.hub.is_followed();
        if is_followed == self.reader.is_some() {
            return Ok(());
        }
        let variables = self.skel.maps.bss_data.as_deref_mut();
        variables.context("the kernel has no variables")?.events_followed = is_followed.into();
        // Who stops reading reads what is left first.
        self.reader = None;
        if is_followed {
            let events = MapHandle::try_from(&self.skel.maps.events)
                .context("the kernel has no buffer of events")?;
            self.reader = Some(Reader::start(events, &self.hub)?);
        }
        Ok(())
    }

    fn end(&mut self, exporter: &mut Exporter) -> Result<Ended> {
        drop(self.link.take());
        self.reader = None;
        exporter.detached();
        match self.roles().and_then(|roles| self.sums(&roles)) {
            Ok(sums) => exporter.keep(sums),
            Err(error) => warn!("metrics begin at zero again: {error:#}"),
        }
        let by_administrator = self.exit_kind()? == ScxExitKind::SysRq as i32;
        let report: Result<UserExitInfo> = uei_report!(&self.skel, uei);
        match report.context("the kernel ejected the scheduler") {
            Ok(exit) if exit.should_restart() => Ok(Ended::Restart),
            Ok(_) => Ok(Ended::Stopped),
            // An order, not a failure: nobody is to start it again.
            Err(why) if by_administrator => {
                info!("{why:#}");
                Ok(Ended::Stopped)
            }
            Err(why) => Err(why),
        }
    }

    fn exit_kind(&self) -> Result<i32> {
        let data = self.skel.maps.data_data.as_deref().context("the kernel has no data")?;
        Ok(data.uei.kind)
    }

    fn metrics(&self) -> Result<Metrics> {
        Ok(self.now()?.with(&books::cpu_stats(&self.skel)?))
    }

    /// What is so now, without what is counted.
    fn now(&self) -> Result<Metrics> {
        Ok(Metrics {
            interval_ns: u64::try_from(self.started.elapsed().as_nanos())?,
            run_ns: stats::busy_ns()?.saturating_sub(self.busy_before_ns),
            nr_cpus: self.places.len() as u64,
            nr_avx_cpus: self.variables()?.nr_avx_cpus.into(),
            ..Metrics::default()
        })
    }

    fn status(&self, in_force: &InForce) -> Result<Status> {
        let per_cpu = books::cpu_stats(&self.skel)?;
        let metrics = self.now()?.with(&per_cpu);
        // Times of roles are those of the scheduler's clock, which it last read then.
        let now_ns = self.variables()?.looked_at;
        let busy_ns = stats::busy_ns_by_cpu()?;
        let cpu = |(cpu, it): &(u32, avx_cpu_role)| {
            let busy_ns = busy_ns.get(cpu).copied().unwrap_or_default();
            Some(status::Cpu::new(*cpu, self.places.get(cpu)?, it, now_ns, busy_ns))
        };
        Ok(Status {
            version: version(),
            tier: self.tier.name().to_owned(),
            why: self.tier.why.to_owned(),
            generation: in_force.generation,
            compensates: in_force.policy.fairness == COMPENSATE,
            clocks: self.clocks.to_string(),
            runs_for_s: seconds(metrics.interval_ns),
            busy_s: seconds(metrics.run_ns),
            avx_s: seconds(metrics.avx_ns),
            scalar_s: seconds(metrics.scalar_ns),
            low_clock_on_scalar_cpus_s: seconds(metrics.lowered_ns),
            low_clock_on_avx_cores_s: seconds(metrics.lowered_avx_ns),
            cpus: self.roles()?.iter().filter_map(cpu).collect(),
            offline: topology::offline(),
            queued: self.queued()?,
            waits: status::waits_of(&per_cpu),
            cgroups: status::cgroups_of(books::cgroups(&self.skel)),
        })
    }

    fn snapshot(&self, history: &History) -> Result<Snapshot> {
        let roles = self.roles()?;
        Ok(Snapshot {
            sums: self.sums(&roles)?,
            now: Now {
                tier: self.tier.name(),
                clocks: self.clocks.to_string(),
                generation: history.in_force().generation,
                policy_refusals: history.refusals(),
                policy_reverts: history.reverts(),
                cpus: roles.iter().map(|(cpu, it)| (*cpu, status::is_avx_core(it))).collect(),
                avx_cores: self.variables()?.nr_avx_cpus.into(),
            },
            restarts: 0,
        })
    }

    /// What was counted since the scheduler was loaded.
    fn sums(&self, roles: &[(u32, avx_cpu_role)]) -> Result<Sums> {
        let per_cpu = books::cpu_stats(&self.skel)?;
        // As in the status.
        let now_ns = self.variables()?.looked_at;
        let as_avx_core =
            |(cpu, it): &(u32, avx_cpu_role)| (*cpu, status::as_avx_core_ns(it, now_ns));
        Ok(Sums {
            counters: self.now()?.with(&per_cpu),
            waits: status::waits_of(&per_cpu),
            as_avx_core_ns: roles.iter().map(as_avx_core).collect(),
            cgroups: books::cgroups(&self.skel).map(|(id, book)| (id, Work::of(&book))).collect(),
        })
    }

    fn roles(&self) -> Result<Vec<(u32, avx_cpu_role)>> {
        let role = |cpu: &u32| Ok((*cpu, books::role(&self.skel, *cpu)?));
        self.places.keys().map(role).collect()
    }

    /// How many tasks wait, by the kind of queue. A cache has its queues at its first CPU.
    fn queued(&self) -> Result<BTreeMap<String, u64>> {
        let caches: BTreeSet<u32> = self.places.values().map(|place| place.llc).collect();
        let cpus: BTreeSet<u32> = self.places.keys().copied().collect();
        let kinds = [
            ("avx", intf::avx_queue_kind_QUEUE_AVX, &caches),
            ("shared", intf::avx_queue_kind_QUEUE_SHARED, &caches),
            ("private", intf::avx_queue_kind_QUEUE_PRIVATE, &cpus),
        ];
        let sum = |(name, kind, owners): (&str, _, &BTreeSet<u32>)| {
            let each = owners.iter().map(|cpu| books::waiting(&self.skel, *cpu, kind));
            Ok((name.to_owned(), each.sum::<Result<u64>>()?))
        };
        kinds.into_iter().map(sum).collect()
    }

    fn variables(&self) -> Result<&types::bss> {
        self.skel.maps.bss_data.as_deref().context("the kernel has no variables")
    }
}

fn shown(history: &History) -> Answer {
    Answer::InForce {
        generation: history.in_force().generation,
        settings: policy::settings(&history.in_force().policy),
        trial_left_s: history.trial_left(Instant::now()).map(|left| left.as_secs()),
    }
}

fn changed(old: &InForce, next: &InForce) -> Answer {
    Answer::Changed {
        generation: next.generation,
        differences: policy::differences(&old.policy, &next.policy),
    }
}

fn log_change(who: &impl Display, old: &InForce, new: &InForce, until: &str) {
    let differences = policy::differences(&old.policy, &new.policy);
    let turned: Vec<String> = differences.iter().map(ToString::to_string).collect();
    let turned = if turned.is_empty() { "nothing is turned".to_owned() } else { turned.join(", ") };
    info!("{who}: policy {} in place of {}{until}: {turned}", new.generation, old.generation);
}

/// What must be settled between opening and loading. It holds while the scheduler runs: a restart
/// follows when a CPU comes or goes, since the kernel compares its hotplug count with the one that
/// was read when the programs were opened.
fn configure(
    skel: &mut OpenBpfSkel<'_>,
    places: &BTreeMap<u32, intf::avx_topology>,
    clocks: &Clocks,
    tier: intf::avx_tier,
    opts: &LoadOpts,
) -> Result<()> {
    let rodata = skel.maps.rodata_data.as_mut().context("the BPF programs have no constants")?;
    rodata.nr_online_cpus = u32::try_from(places.len()).context("too many CPUs")?;
    let nr_cpu_ids = u32::try_from(*NR_CPU_IDS).context("too many CPUs")?;
    rodata.nr_cpu_ids = nr_cpu_ids;
    rodata.cpus_per_core = places.values().map(|place| place.core_cpus).max().unwrap_or(1);
    let llcs: BTreeSet<u32> = places.values().map(|place| place.llc).collect();
    let nodes: BTreeSet<u32> = places.values().map(|place| place.node).collect();
    rodata.nr_nodes = u32::try_from(nodes.len()).context("too many nodes")?;
    rodata.nr_llcs = u32::try_from(llcs.len()).context("too many caches")?;
    rodata.tier = tier;
    rodata.clocks.nr_steps = clocks.known.nr_steps;
    for (to, from) in rodata.clocks.steps.iter_mut().zip(&clocks.known.steps) {
        (to.up_to_cores, to.lost) = (from.up_to_cores, from.lost);
    }
    rodata.checks_policies = opts.check_policies;

    let queues = nr_cpu_ids * intf::avx_queue_kind_NR_QUEUE_KINDS;
    skel.maps.queues.set_max_entries(queues).context("cannot size the queues")?;
    skel.maps.cpus.set_max_entries(nr_cpu_ids).context("cannot size the map of CPUs")?;
    skel.maps.cpu_roles.set_max_entries(nr_cpu_ids).context("cannot size the books of CPUs")?;
    skel.maps.cpu_clocks.set_max_entries(nr_cpu_ids).context("cannot size the books of clocks")?;
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
    choose_programs(skel, tier)
}

/// What listens beside the scheduler's own callbacks.
fn choose_programs(skel: &mut OpenBpfSkel<'_>, tier: intf::avx_tier) -> Result<()> {
    if tier != intf::avx_tier_AVX_TIER_OBSERVE {
        skel.progs.avxspec_exec.set_autoload(true);
        hints::listen(skel)?;
    }
    if tier == intf::avx_tier_AVX_TIER_TRAP {
        skel.progs.avxspec_hidden_used.set_autoload(true);
        skel.progs.avxspec_syscall_done.set_autoload(true);
        let may_wait = kernel_has(MAY_WAIT_IN_EXEC)?;
        skel.progs.avxspec_execve.set_autoload(may_wait);
        skel.progs.avxspec_execveat.set_autoload(may_wait);
        if !may_wait {
            warn!(
                "the kernel has no CONFIG_FUNCTION_ERROR_INJECTION: quiet-library=on does nothing, \
                 and who calls string functions between its wide instructions stays on AVX cores"
            );
        }
    }
    Ok(())
}

pub fn kernel_has(symbol: &str) -> Result<bool> {
    compat::ksym_exists(symbol).context("cannot read what the kernel offers")
}

fn tell_places(skel: &BpfSkel<'_>, places: &BTreeMap<u32, intf::avx_topology>) -> Result<()> {
    for (cpu, place) in places {
        skel.maps
            .topology
            .update(&cpu.to_ne_bytes(), as_bytes(place), MapFlags::ANY)
            .with_context(|| format!("cannot tell where CPU {cpu} is"))?;
    }
    Ok(())
}

/// Puts a policy into force, for each decision that begins after this. What is in force is
/// never written to: what changes is the map that the BPF programs look it up in.
fn tell_policy(skel: &BpfSkel<'_>, new: &InForce) -> Result<()> {
    let zero = 0u32.to_ne_bytes();
    let map = MapHandle::create(
        MapType::Array,
        Some("policy"),
        size_of::<u32>() as u32,
        size_of::<intf::avx_policy_in_force>() as u32,
        1,
        &libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        },
    )
    .context("cannot create a map for the policy")?;
    let in_force = intf::avx_policy_in_force {
        generation: new.generation,
        checksum: checksum_of(new),
        policy: new.policy,
    };
    map.update(&zero, as_bytes(&in_force), MapFlags::ANY).context("cannot write the policy")?;
    map.freeze().context("cannot seal the policy")?;
    skel.maps
        .policies
        .update(&zero, &map.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)
        .context("cannot put the policy into force")
}

/// As the BPF programs compute it.
fn checksum_of(new: &InForce) -> u64 {
    let words = as_bytes(&new.policy).chunks_exact(size_of::<u64>());
    words
        .filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes))
        .fold(new.generation, |sum, word| {
            sum.wrapping_mul(intf::AVX_CHECKSUM_FACTOR).wrapping_add(word)
        })
}

/// What C calls the representation of an object.
fn as_bytes<T: Copy>(object: &T) -> &[u8] {
    // SAFETY: these are the bytes of a live object. What lies between its members, if anything
    // does, is read by nobody.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(object).cast(), size_of::<T>()) }
}
