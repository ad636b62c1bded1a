// SPDX-License-Identifier: GPL-2.0-only
//! The life of the BPF scheduler: load, attach, run until it ends.

mod trying;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, never, select};
use libbpf_rs::{Link, MapHandle, OpenObject};
use scx_utils::{scx_ops_attach, scx_ops_load, scx_ops_open, try_set_rlimit_infinity, uei_exited};
use tracing::{info, warn};

use super::control::{Answer, Peer, Pending, Request};
use super::counters::{Counters, Source};
use super::ending::Ending;
use super::events::hub::Hub;
use super::events::{Audience, Reader};
use super::explain::Explanation;
use super::left_alone::LeftAlone;
use super::metrics::snapshot::{Now, Snapshot, Sums, Work};
use super::metrics::source::Exporter;
use super::pace::{Pace, is_so_within};
use super::policy::history::{Change, History};
use super::policy::{self, Difference, InForce};
use super::preflight::has_openzfs;
use super::prospect::{Circumstances, Prospect, prospect};
use super::setup::{LoadOpts, Means, configure, tell_places};
use super::slots::Slots;
use super::stats::{self, LastKnown, Metrics, Server};
use super::status::{self, Roles, Status, Tried, seconds};
use super::trial::Trials;
use super::trial::outside::Outside;
use super::trial::standing::Standing;
use super::{books, light, service, topology};
use crate::about::{NAME, version};
use crate::bpf::intf::{self, avx_book, avx_cpu_role, avx_owner};
use crate::bpf::places::cpus_per_core;
use crate::bpf::skel::{BpfSkel, BpfSkelBuilder, types};

/// How long a raised shutdown flag may go unnoticed, and how often work that may wait is done.
const LOOK_AROUND: Duration = Duration::from_millis(250);
/// How long after a CPU went the kernel may take to say so, where it has much else to do.
const KERNEL_TELLS_WITHIN: Duration = Duration::from_secs(10);

/// How a scheduler ended, if it was not by an error.
pub enum Ended {
    /// Someone asked for it.
    Stopped,
    /// The kernel asks to load it anew, because a CPU came or went.
    Restart,
    /// The kernel hides nothing, so the scheduler is to be loaded anew in another tier.
    CannotHide,
    /// Somebody loaded OpenZFS, which AVX-512 must not be hidden from, so the scheduler is to be
    /// loaded anew in another tier.
    MustNotHide,
}

impl Ended {
    /// Returns why the scheduler is to be loaded anew, if it is.
    pub fn why_again(&self) -> Option<&'static str> {
        match self {
            Ended::Stopped => None,
            Ended::Restart => Some("a CPU came or went"),
            Ended::CannotHide => Some("the kernel hides nothing on this CPU"),
            Ended::MustNotHide => Some("OpenZFS was loaded, which AVX-512 must not be hidden from"),
        }
    }
}

const COMPENSATE: u64 = intf::FAIRNESS_COMPENSATE as u64;

pub struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    /// The kernel schedules with this scheduler as long as the link exists.
    link: Option<Link>,
    started: Instant,
    /// The time that the CPUs had been busy before the start.
    busy_before_ns: u64,
    means: Means,
    counters: Counters,
    /// True if there are counters of clocks that could not be had.
    is_without_counters: bool,
    slots: Slots,
    left_alone: LeftAlone,
    places: BTreeMap<u32, intf::avx_topology>,
    /// What was counted when the policy came into force, or as soon afterwards as there was time.
    counted_before: Option<Metrics>,
    last_known: LastKnown,
    outside: Outside,
    trials: Trials,
    standing: Option<Standing>,
    hub: Arc<Hub>,
    audience: Audience<Reader>,
}

impl<'a> Scheduler<'a> {
    pub fn start(
        opts: &LoadOpts,
        means: Means,
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
        configure(&mut skel, &places, &means, opts)?;

        let mut skel = scx_ops_load!(skel, avxspec, uei).context("cannot load the BPF programs")?;
        tell_places(&skel, &places)?;
        let mut slots = Slots::new()?;
        slots.put(&mut skel, in_force, means.clocks.licence_drop)?;
        let started = Instant::now();
        let busy_before_ns = stats::busy_ns()?;
        let link = scx_ops_attach!(skel, avxspec).context("cannot attach the scheduler")?;

        let threads = threads_of_cores(&places);
        let counters = Counters::new(&means.source, &skel.maps.cpu_counters, threads)?;
        let (link, hub) = (Some(link), hub.clone());
        let mut it = Self {
            skel,
            link,
            started,
            busy_before_ns,
            means,
            counters,
            is_without_counters: false,
            slots,
            left_alone: LeftAlone::default(),
            places,
            counted_before: Some(Metrics::default()),
            last_known: LastKnown::default(),
            outside: opts.outside.clone(),
            trials: Trials::default(),
            standing: None,
            hub,
            audience: Audience::default(),
        };
        if !it.is_in_force() {
            return Ok(it);
        }
        info!(
            "{NAME} {} running on {} CPUs (turns of at most {} ms, weights delay by at most {} s)",
            version(),
            it.places.len(),
            intf::AVX_SLICE_MAX_NS / 1_000_000,
            intf::AVX_WAIT_MAX_S,
        );
        it.warn_of_no_avx_cores(in_force);
        if let Err(error) = it.count_clocks(in_force) {
            // A CPU that has just gone has no counters. The kernel is about to say that it went.
            if !it.ends_within(KERNEL_TELLS_WITHIN) {
                return Err(error);
            }
        }
        it.go_on_telling();
        Ok(it)
    }

    /// Returns true if the kernel has not ended the scheduler. A scheduler that the kernel refuses
    /// at its start has ended as well, by the time that it is attached.
    pub fn is_in_force(&self) -> bool {
        !uei_exited!(&self.skel, uei)
    }

    fn ends_within(&self, limit: Duration) -> bool {
        is_so_within(limit, || !self.is_in_force(), service::is_alive)
    }

    /// Answers requests until the flag is raised, the kernel ends the scheduler, or nothing can be
    /// hidden any more.
    pub fn run_until_end(
        mut self,
        server: &Server,
        requests: &Receiver<Pending>,
        exporter: &mut Exporter,
        history: &mut History,
        shutdown: &AtomicBool,
    ) -> Result<Ended> {
        let (answers, mut questions) = server.channels();
        let mut pace = Pace::new(LOOK_AROUND, Instant::now());
        exporter.attached();
        let mut hides_no_more = None;
        while !shutdown.load(Ordering::Relaxed) && self.is_in_force() && hides_no_more.is_none() {
            service::is_alive();
            self.go_on_telling();
            select! {
                recv(questions) -> question => {
                    let answer = self.last_known.or_new(self.metrics());
                    if question.is_err() || answers.send(answer).is_err() {
                        // This happens when the server cannot have another thread. Tasks are
                        // scheduled all the same.
                        warn!("the statistics server has ended: --stats and --monitor show no more");
                        questions = never();
                    }
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
                default(self.idle_time()) => {}
            }
            if pace.is_due(Instant::now()) {
                self.catch_up();
            }
            self.counters.look_around(Instant::now());
            self.revert_what_is_due(history);
            self.go_on_trying(history)?;
            hides_no_more = self.why_nothing_can_be_hidden()?;
        }
        let is_to_stop = shutdown.load(Ordering::Relaxed);
        if is_to_stop {
            service::stops();
        }
        Ok(match (self.end(exporter)?, hides_no_more) {
            (Ended::Stopped, Some(why)) if !is_to_stop => why,
            (ended, _) => ended,
        })
    }

    fn why_nothing_can_be_hidden(&self) -> Result<Option<Ended>> {
        Ok(if self.variables()?.hiding == intf::HIDING_REFUSED {
            Some(Ended::CannotHide)
        } else if self.means.tier.hides() && has_openzfs(Path::new("/")) {
            Some(Ended::MustNotHide)
        } else {
            None
        })
    }

    fn obey(&mut self, pending: &Pending, history: &mut History) -> Answer {
        let answer = match &pending.request {
            Request::Show => Ok(shown(history)),
            Request::Change(change) => self.change(history, change, &pending.peer),
            Request::Confirm => history.confirm().map(|()| {
                info!("{}: policy {} stays", pending.peer, history.in_force().generation);
                shown(history)
            }),
            Request::Try { settings, time } => self.begin_trial(history, settings, *time, pending),
            Request::Tried => self.tell_of_trial(),
            Request::Status => self.status(history).map(|it| Answer::Status(Box::new(it))),
            Request::Follow(_) => self.begin_to_tell(history.in_force().generation),
            Request::Explain(thread) => self.explain(*thread),
        };
        answer.unwrap_or_else(|error| Answer::Refused(format!("{error:#}")))
    }

    fn explain(&self, thread: i32) -> Result<Answer> {
        let (task, process) = books::task(&self.skel, thread)?;
        let explanation = Explanation {
            trials: self.known_by_trials(),
            ..Explanation::new(thread, &task, process.as_ref())
        };
        Ok(Answer::Explanation(Box::new(explanation)))
    }

    fn change(&mut self, history: &mut History, change: &Change, peer: &Peer) -> Result<Answer> {
        let (now, old) = (Instant::now(), *history.in_force());
        let next = history.after(change, now);
        if change.dry_run {
            return next.map(|next| Answer::Changed {
                generation: next.generation,
                differences: policy::differences(&old.policy, &next.policy),
            });
        }
        let switched = next.and_then(|next| self.put_into_force(&next).map(|()| next));
        let next = switched.inspect_err(|error| {
            history.refused();
            info!("{peer}: refused another policy: {error:#}");
        })?;
        history.enter(next, change.revert_after, now);
        let differences = self.announce(peer, &old, &next, change.revert_after);
        Ok(Answer::Changed { generation: next.generation, differences })
    }

    fn put_into_force(&mut self, next: &InForce) -> Result<()> {
        self.slots.put(&mut self.skel, next, self.means.clocks.licence_drop)?;
        self.count_clocks(next)
    }

    /// Hands the counters to the BPF programs if they need them. Otherwise others may have them.
    fn count_clocks(&mut self, in_force: &InForce) -> Result<()> {
        let finds_work = self.means.tier.kind() == intf::AVX_TIER_COUNTERS;
        if in_force.policy.fairness != COMPENSATE && !finds_work {
            self.counters.take_back(Instant::now());
            return Ok(());
        }
        let handed_over = self.counters.hand_over(Instant::now());
        self.is_without_counters = handed_over.is_err();
        if finds_work {
            return handed_over;
        }
        if let Err(error) = handed_over {
            warn!("how low clocks are is estimated: {error:#}");
        }
        Ok(())
    }

    /// Returns what tells how low clocks are while tasks are compensated.
    fn told_by(&self) -> String {
        if self.is_without_counters {
            Source::estimate(&self.means.clocks)
        } else {
            self.means.source.with(&self.means.clocks)
        }
    }

    fn revert_what_is_due(&mut self, history: &mut History) {
        let now = Instant::now();
        let Some(back) = history.due(now) else { return };
        match self.put_into_force(&back) {
            Ok(()) => {
                self.announce(&"nobody confirmed", history.in_force(), &back, None);
                history.reverted(back, now);
            }
            Err(error) => {
                warn!("cannot bring back the policy before: {error:#}");
                history.try_again(now);
            }
        }
    }

    /// Tells the log and all followers that another policy is in force. Returns the differences.
    fn announce(
        &mut self,
        who: &impl Display,
        old: &InForce,
        new: &InForce,
        trial: Option<Duration>,
    ) -> Vec<Difference> {
        self.trials.overtaken_by(new.generation, Instant::now());
        let differences = policy::differences(&old.policy, &new.policy);
        let turned: Vec<String> = differences.iter().map(ToString::to_string).collect();
        let turned = if turned.is_empty() { "nothing is turned".into() } else { turned.join(", ") };
        let until = trial.map_or_else(String::new, |time| {
            format!(", for {} unless it is confirmed", humantime::format_duration(time))
        });
        info!("{who}: policy {} in place of {}{until}: {turned}", new.generation, old.generation);
        let settings: Vec<String> =
            differences.iter().map(|it| format!("{}={}", it.knob, it.to)).collect();
        self.hub.publish_policy(new.generation, &settings);
        self.counted_before = None;
        self.warn_of_no_avx_cores(new);
        differences
    }

    fn warn_of_no_avx_cores(&self, in_force: &InForce) {
        if let Some(why) = policy::lists_in_vain(&in_force.policy, &self.usable()) {
            warn!("{why}");
        }
    }

    /// Returns the CPUs that can be AVX cores.
    fn usable(&self) -> BTreeSet<u32> {
        let usable = self.places.iter().filter(|(_, place)| place.usable != 0);
        usable.map(|(cpu, _)| *cpu).collect()
    }

    /// Does the work that a client that changes the policy need not wait for.
    fn catch_up(&mut self) {
        if self.counted_before.is_none() {
            self.counted_before = self.metrics().ok();
        }
        self.slots.wait_for_late_readers();
    }

    /// Begins to tell a new follower what happens from this moment on.
    fn begin_to_tell(&mut self, generation: u64) -> Result<Answer> {
        self.hub.welcome(generation);
        self.tell_followers()?;
        Ok(Answer::Following)
    }

    /// Has the BPF programs tell what happens as long as anybody follows, and has it read.
    fn tell_followers(&mut self) -> Result<()> {
        let Self { skel, hub, audience, .. } = self;
        let maps = &mut skel.maps;
        let (events, variables) = (&maps.events, &mut maps.bss_data);
        let tell = |is_followed: bool| {
            let variables = variables.as_deref_mut().context("the kernel has no variables")?;
            variables.events_followed = is_followed.into();
            Ok(())
        };
        let start = || {
            let events =
                MapHandle::try_from(events).context("the kernel has no buffer of events")?;
            Reader::start(events, hub)
        };
        audience.look_after(hub.newest(), tell, start)
    }

    /// Goes on telling followers. A follower that cannot be told is no reason to stop scheduling.
    fn go_on_telling(&mut self) {
        // The log has the error already, and a follower that has just come is refused.
        if self.tell_followers().is_err() {
            self.hub.dismiss();
        }
    }

    fn end(&mut self, exporter: &mut Exporter) -> Result<Ended> {
        drop(self.link.take());
        self.audience.end();
        exporter.detached();
        match self.roles().and_then(|roles| self.sums(&roles)) {
            Ok(sums) => exporter.keep(sums),
            Err(error) => warn!("metrics begin at zero again: {error:#}"),
        }
        let ending = Ending::of(&mut self.skel)?;
        let (by_administrator, should_restart) =
            (ending.by_administrator(), ending.should_restart());
        match ending.report() {
            Ok(()) if should_restart => Ok(Ended::Restart),
            Ok(()) => Ok(Ended::Stopped),
            // This is an order and not a failure, so nobody is to start it again.
            Err(why) if by_administrator => {
                info!("{why:#}");
                Ok(Ended::Stopped)
            }
            Err(why) => Err(why),
        }
    }

    fn metrics(&self) -> Result<Metrics> {
        Ok(self.now()?.with(&books::cpu_stats(&self.skel)?))
    }

    /// Returns what is so now, without what is counted.
    fn now(&self) -> Result<Metrics> {
        Ok(Metrics {
            interval_ns: u64::try_from(self.started.elapsed().as_nanos())?,
            run_ns: stats::busy_ns()?.saturating_sub(self.busy_before_ns),
            nr_cpus: self.places.len() as u64,
            nr_avx_cpus: self.variables()?.nr_avx_cpus.into(),
            ..Metrics::default()
        })
    }

    fn status(&mut self, history: &History) -> Result<Status> {
        let in_force = history.in_force();
        self.counters.read(Instant::now());
        let ledgers = books::ledgers(&self.skel);
        let per_cpu = books::cpu_stats(&self.skel)?;
        let metrics = self.now()?.with(&per_cpu);
        let roles = self.roles()?;
        let busy_ns = stats::busy_ns_by_cpu()?;
        let cpu = |(cpu, it): &(u32, avx_cpu_role)| {
            let stats = per_cpu.get(*cpu as usize);
            Some(status::Cpu {
                busy_s: seconds(busy_ns.get(cpu).copied().unwrap_or_default()),
                low_clock_s: stats.map_or(0.0, |it| seconds(it.lowered_ns + it.lowered_avx_ns)),
                counted: self.counters.counted().get(cpu).copied(),
                ..status::Cpu::new(*cpu, self.places.get(cpu)?, it, roles.looked_at)
            })
        };
        Ok(Status {
            version: version(),
            tier: self.means.tier.name().to_owned(),
            why: self.means.tier.why.to_owned(),
            generation: in_force.generation,
            policy: in_force.name.to_owned(),
            trial_left_s: trial_left_s(history),
            tried: self.trials.current().map(|it| Tried::of(it, Instant::now())),
            trials: self.known_by_trials(),
            compensates: in_force.policy.fairness == COMPENSATE,
            clocks: self.told_by(),
            runs_for_s: seconds(metrics.interval_ns),
            busy_s: seconds(metrics.run_ns),
            avx_s: seconds(metrics.avx_ns),
            scalar_s: seconds(metrics.scalar_ns),
            low_clock_on_scalar_cpus_s: seconds(metrics.lowered_ns),
            low_clock_on_avx_cores_s: seconds(metrics.lowered_avx_ns),
            prospect: self.prospect(in_force, &metrics),
            cpus: roles.each.iter().filter_map(cpu).collect(),
            offline: topology::offline(),
            queued: self.queued()?,
            waits: status::waits_of(&per_cpu),
            cgroups: status::cgroups_of(&ledgers),
            programs: self.programs(&ledgers),
        })
    }

    /// Returns the programs. For those that mix, it tells the file that has their light
    /// instructions.
    fn programs(&self, ledgers: &[(avx_owner, avx_book)]) -> Vec<status::Program> {
        let mut programs = status::programs_of(ledgers);
        let mut mixing = programs.iter_mut().filter(|it| it.book.mixes()).peekable();
        if mixing.peek().is_some() {
            let faults = books::light_faults(&self.skel);
            mixing.for_each(|it| it.light_in = light::file_of(&it.name, &faults));
        }
        programs
    }

    /// Returns the prospect of AVX cores while these are for nobody.
    fn prospect(&self, in_force: &InForce, counted: &Metrics) -> Option<Prospect> {
        let is_only_observed = in_force.policy.avx_cores_for == u64::from(intf::SERVED_NOBODY);
        let granule = cpus_per_core(self.places.values());
        let on_this_cpu = policy::on_cpu(&in_force.policy, self.means.clocks.licence_drop);
        let at = Circumstances::new(self.means.tier.kind(), &on_this_cpu, granule.into());
        let before = self.counted_before.as_ref().unwrap_or(counted);
        is_only_observed.then(|| prospect(&counted.since(before), &at))
    }

    fn snapshot(&mut self, history: &History) -> Result<Snapshot> {
        self.counters.read(Instant::now());
        let roles = self.roles()?;
        let sums = self.sums(&roles)?;
        Ok(Snapshot {
            now: Now {
                tier: self.means.tier.name(),
                clocks: self.told_by(),
                generation: history.in_force().generation,
                policy: history.in_force().name,
                avx_cores_for: policy::avx_cores_for(&history.in_force().policy, &self.usable())?,
                trial_left: history.trial_left(Instant::now()).unwrap_or_default(),
                policy_refusals: history.refusals(),
                policy_reverts: history.reverts(),
                cpus: roles.each.iter().map(|(cpu, it)| (*cpu, status::is_avx_core(it))).collect(),
                avx_cores: self.variables()?.nr_avx_cpus.into(),
                prospect: self.prospect(history.in_force(), &sums.counters),
                trials: self.known_by_trials(),
            },
            sums,
            restarts: 0,
        })
    }

    /// Returns what was counted since the scheduler was loaded.
    fn sums(&self, roles: &Roles) -> Result<Sums> {
        let per_cpu = books::cpu_stats(&self.skel)?;
        let by_cgroup = books::summed(&books::ledgers(&self.skel), |owner| owner.cgroup);
        Ok(Sums {
            counters: self.now()?.with(&per_cpu),
            waits: status::waits_of(&per_cpu),
            as_avx_core_ns: roles.as_avx_core_ns(),
            counted: self.counters.counted().clone(),
            cgroups: by_cgroup.into_iter().map(|(id, book)| (id, Work::of(&book))).collect(),
        })
    }

    fn roles(&self) -> Result<Roles> {
        let each = || {
            let roles = books::roles(&self.skel)?;
            let role = |cpu: &u32| {
                let role = roles.get(*cpu as usize);
                Ok((*cpu, *role.with_context(|| format!("the kernel knows no CPU {cpu}"))?))
            };
            self.places.keys().map(role).collect()
        };
        Roles::read(|| Ok(self.variables()?.looked_at), each)
    }

    /// Returns how many tasks wait, by the kind of queue. A cache has its queues at its first CPU.
    fn queued(&self) -> Result<BTreeMap<String, u64>> {
        let caches: BTreeSet<u32> = self.places.values().map(|place| place.llc).collect();
        let cpus: BTreeSet<u32> = self.places.keys().copied().collect();
        let kinds = [
            ("avx", intf::QUEUE_AVX, &caches),
            ("shared", intf::QUEUE_SHARED, &caches),
            ("private", intf::QUEUE_PRIVATE, &cpus),
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

/// Returns, by CPU, how many CPUs its core has.
fn threads_of_cores(places: &BTreeMap<u32, intf::avx_topology>) -> BTreeMap<u32, u32> {
    let threads = |core| places.values().filter(|place| place.core == core).count();
    places.iter().map(|(cpu, place)| (*cpu, threads(place.core) as u32)).collect()
}

fn shown(history: &History) -> Answer {
    Answer::InForce {
        generation: history.in_force().generation,
        settings: policy::settings(&history.in_force().policy),
        trial_left_s: trial_left_s(history),
    }
}

fn trial_left_s(history: &History) -> Option<u64> {
    history.trial_left(Instant::now()).map(|left| left.as_secs())
}
