// SPDX-License-Identifier: GPL-2.0-only
//! One workload on one modelled machine under one policy.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::outcome::Outcome;
use super::setup::Setup;
use super::tried::Tried;
use super::variant::Variant;
use super::watch::Watch;
use crate::bpf::intf::{
    AVX_TIER_OBSERVE, FAIRNESS_OFF, avx_clocks, avx_policy, avx_policy_in_force,
};
use crate::processors::known_clocks;
use crate::sim::kernel::channels::Channel;
use crate::sim::kernel::engine::Engine;
use crate::sim::kernel::program::Home;
use crate::sim::kernel::{BEGIN_NS, Kernel};
use crate::sim::machine::Topology;
use crate::sim::machine::caches::Footprint;
use crate::sim::machine::hardware::{Modelled, places};
use crate::sim::workload::record::{Histogram, Record, SharedRecord};
use crate::sim::workload::unfinished::Unfinished;
use crate::sim::workload::worker::{Clients, Phases, Poisson, Script, Worker};
use crate::sim::workload::{ARRIVALS_MAX, Arrivals, Group, Process, Queue, What};

const SECOND: u64 = 1_000_000_000;

/// The time until caches, averages and licences are in their steady state. Trials take longer.
pub const WARM_UP_NS: u64 = SECOND / 2;

/// The most threads of a workload. More would show nothing more.
const THREADS_MAX: usize = 100_000;

/// Checks what was asked for. An error in this is reported before anything runs, and is not a
/// mistake that the model found.
pub fn check(setup: &Setup) -> Result<()> {
    let Setup { workload, topology, .. } = setup;
    let nr_threads = workload.nr_threads(topology);
    ensure!(
        nr_threads <= THREADS_MAX,
        "{nr_threads} threads are too many: choose fewer for each group, or a smaller machine, so \
         that there are at most {THREADS_MAX}"
    );
    for group in &workload.groups {
        let most = per_second(group, setup).unwrap_or_default().into_iter().fold(0.0, f64::max);
        ensure!(
            most <= ARRIVALS_MAX,
            "{most:.0} requests a second for group {:?} are too many: choose a lower of_capacity, \
             or more work, so that at most {ARRIVALS_MAX} arrive",
            group.name
        );
    }
    Ok(())
}

pub fn run(setup: &Setup, variant: &Variant, policy: &avx_policy) -> Result<Outcome> {
    let (mut engine, records) = begun(setup, variant, policy)?;
    let mut tried = variant.is_tried(policy).then(|| Tried::new(policy, setup.seed, engine.now()));
    run_for(&mut engine, &mut tried, setup.warm_up_ns)
        .context("warming up")
        .with_context(|| mistake(variant))?;
    for record in &records {
        record.borrow_mut().latency = Histogram::default();
    }
    let mut watch = Watch::new(&mut engine, &setup.topology, setup.seconds * SECOND, &records);
    while let Some(ns) = watch.next_slice() {
        run_for(&mut engine, &mut tried, ns).with_context(|| mistake(variant))?;
        watch.look(&mut engine, &records);
    }
    if policy.fairness == u64::from(FAIRNESS_OFF) {
        watch.estimate_error = None;
    }
    let mut outcome = Outcome::new(setup, variant, watch, &records);
    outcome.tried = tried.and_then(|it| it.found());
    Ok(outcome)
}

fn run_for(engine: &mut Engine<Modelled>, tried: &mut Option<Tried>, ns: u64) -> Result<()> {
    match tried {
        Some(tried) => tried.run_for(engine, ns),
        None => engine.run_for(ns),
    }
}

/// Returns the message for a mistake of the scheduler, or of the model itself.
fn mistake(variant: &Variant) -> String {
    format!("{}: the model found a mistake", variant.about)
}

/// Returns the machine before anything has happened, with the record of each group.
pub fn begun(
    setup: &Setup,
    variant: &Variant,
    policy: &avx_policy,
) -> Result<(Engine<Modelled>, Vec<SharedRecord>)> {
    check(setup)?;
    let Setup { workload, model, topology, .. } = setup;
    let tier = if variant.mitigates { setup.tier } else { AVX_TIER_OBSERVE };
    let in_force = avx_policy_in_force { generation: 1, checksum: 0, policy: *policy };
    let clocks = avx_clocks { counters: setup.counters.into(), ..known_clocks(&model.steps) };
    let kernel = Kernel::boot(&places(topology), &clocks, tier, &in_force, variant.class)
        .with_context(|| mistake(variant))?;
    let hardware = Modelled::new(model, topology, setup.counters);
    let mut engine = Engine::new(kernel, hardware, setup.costs);

    let phases = Phases::new(workload, BEGIN_NS + setup.warm_up_ns);
    let channels: Vec<Vec<Channel>> =
        workload.groups.iter().map(|group| open_channels(&mut engine, group, topology)).collect();
    let records: Vec<SharedRecord> = (workload.groups.iter().zip(workload.open_groups()))
        .map(|(group, is_open)| empty(is_open, group.nr_threads(topology)))
        .collect();
    let mut nr_begun = 0;
    let groups = workload.groups.iter().zip(&channels).zip(&records);
    for (program, ((group, inboxes), record)) in (0..).zip(groups) {
        let script = Rc::new(Script {
            name: group.name.clone(),
            steps: group.steps.clone(),
            begin: group.begin,
            phases: phases.clone(),
            rounds: group.rounds,
            has_avx512: variant.has_avx512,
            channels: channels.clone(),
            think: group.think().cloned(),
            worth: (0..workload.phases.len()).map(|phase| group.work_of_request(phase)).collect(),
            record: record.clone(),
            records: records.clone(),
        });
        // Each thread draws its own numbers, and each request has what it had under another policy.
        let (first, seed) = (nr_begun, seed_of(setup.seed, nr_begun));
        nr_begun += group.nr_threads(topology) as u64;
        if group.takes_part {
            let footprint = Footprint { program, ..group.footprint };
            spawn(&mut engine, group, &script, setup, first, inboxes, footprint);
            add_arrivals(&mut engine, group, &script, setup, !seed, inboxes);
        }
    }
    Ok((engine, records))
}

/// Returns the record of a group before anything is done.
fn empty(is_open: bool, nr_threads: usize) -> SharedRecord {
    let unfinished = is_open.then(Unfinished::default);
    let luck = if is_open { Vec::new() } else { vec![0.0; nr_threads] };
    Rc::new(RefCell::new(Record { unfinished, luck, ..Record::default() }))
}

fn open_channels(
    engine: &mut Engine<Modelled>,
    group: &Group,
    topology: &Topology,
) -> Vec<Channel> {
    let nr = match (group.has(&What::Wait), group.queue) {
        (false, _) => 0,
        (true, Queue::Shared) => 1,
        (true, Queue::Each) => group.nr_threads(topology),
    };
    (0..nr).map(|_| engine.open_channel()).collect()
}

/// Returns the seed of the thread that is begun after `nth` others. There is room for a thousand
/// threads before the first one of the next seed. Later threads go on in ranges that no seed that
/// people choose comes to.
fn seed_of(seed: u64, nth: u64) -> u64 {
    seed.wrapping_mul(1000).wrapping_add(nth % 1000).wrapping_add((nth / 1000) << 40)
}

fn spawn(
    engine: &mut Engine<Modelled>,
    group: &Group,
    script: &Rc<Script>,
    setup: &Setup,
    first: u64,
    inboxes: &[Channel],
    footprint: Footprint,
) {
    let (weight, cgroup) = (group.weight, group.cgroup);
    let mut process = None;
    for (nth, n) in (first..).zip(0..group.nr_threads(&setup.topology)) {
        let inbox = inboxes.get(n % inboxes.len().max(1)).copied();
        let worker = Worker::new(script.clone(), n, seed_of(setup.seed, nth), inbox);
        let home = Home { process, weight, cgroup, footprint };
        let task = engine.spawn_in(Box::new(worker), home);
        if group.process == Process::One {
            process.get_or_insert(task);
        }
    }
}

fn add_arrivals(
    engine: &mut Engine<Modelled>,
    group: &Group,
    script: &Script,
    setup: &Setup,
    seed: u64,
    inboxes: &[Channel],
) {
    if let Some(Arrivals::Clients(clients, _)) = &group.arrivals {
        engine.add_source(Box::new(Clients::new(*clients, inboxes.to_vec(), BEGIN_NS)));
    }
    let Some(per_second) = per_second(group, setup) else { return };
    engine.add_source(Box::new(Poisson::new(
        script.phases.clone(),
        per_second,
        inboxes.to_vec(),
        seed,
        BEGIN_NS,
        script.record.clone(),
    )));
}

/// Returns how many requests arrive per second in each phase, if they arrive however many wait.
fn per_second(group: &Group, setup: &Setup) -> Option<Vec<f64>> {
    let capacity = |phase| group.capacity(phase, &setup.model, &setup.topology);
    match group.arrivals.as_ref()? {
        Arrivals::Clients(..) => None,
        Arrivals::PerSecond(rates) => Some(rates.clone()),
        Arrivals::OfCapacity(shares) => {
            Some(shares.iter().enumerate().map(|(phase, share)| share * capacity(phase)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_threads_draw_the_same() {
        let threads = || (0..THREADS_MAX as u64).step_by(100);
        let seeds = [0, 1, 2, 999, 1000, 1_000_000];
        let all = seeds.into_iter().flat_map(|seed| threads().map(move |nth| seed_of(seed, nth)));
        assert_eq!(all.collect::<BTreeSet<_>>().len(), seeds.len() * threads().count());
    }
}
