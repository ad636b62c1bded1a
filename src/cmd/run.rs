// SPDX-License-Identifier: GPL-2.0-only
//! No option: schedule until told to stop.

use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tracing::{info, warn};

use crate::agent::control;
use crate::agent::counters::Source;
use crate::agent::events::hub::Hub;
use crate::agent::metrics::{self, Listen};
use crate::agent::policy::history::History;
use crate::agent::preflight::{Groups, Machine, Tier};
use crate::agent::scheduler::{Ended, Scheduler};
use crate::agent::setup::{LoadOpts, Means, raise_open_files};
use crate::agent::{service, stats, topology};

pub fn run(
    stats_interval: Option<Duration>,
    listen: Listen,
    control_group: Option<&str>,
    opts: &LoadOpts,
    mut history: History,
) -> Result<()> {
    raise_open_files();
    let mut machine = Machine::look(Path::new("/"));
    machine.check()?;
    let clocks = machine.clocks();
    let cpu = topology::first_cpu()?;
    let source = Source::find(&opts.clock_counters, machine.countable(), cpu)?;
    let choose = |wanted, machine: &Machine| {
        let tier = Tier::choose(wanted, opts.forced, machine, source.counts_licences())?;
        info!("tier {}: {}", tier.name(), tier.why);
        anyhow::Ok(tier)
    };
    let mut tier = choose(opts.tier, &machine)?;
    if let Some(says) = Groups::look(Path::new("/")).in_vain() {
        warn!("{says}");
    }

    let shutdown = super::shutdown_flag()?;
    let hub = Hub::new();
    // It is refused where another agent runs, before anything is taken from that one.
    let requests = control::serve(control_group, &hub)?;
    let server = stats::serve()?;
    let mut exporter = metrics::serve(listen);
    if let Some(interval) = stats_interval {
        print_stats(interval, shutdown.clone())?;
    }

    // Why the last scheduler ended that was in force. What the kernel refuses to start in between
    // is no news to anybody.
    let mut untold = None;
    loop {
        let mut open_object = MaybeUninit::uninit();
        let hides_cpuid = machine.is_intel();
        let means = Means { tier, clocks, source: source.clone(), hides_cpuid };
        let scheduler = Scheduler::start(opts, means, history.in_force(), &hub, &mut open_object)?;
        if scheduler.is_in_force() {
            service::attached(tier);
            if let Some(why) = untold.take() {
                hub.publish_loaded(why);
            }
        }
        let ended =
            scheduler.run_until_end(&server, &requests, &mut exporter, &mut history, &shutdown)?;
        let Some(why) = ended.why_again().filter(|_| !shutdown.load(Ordering::Relaxed)) else {
            break;
        };
        service::restarts(why);
        let changed = match ended {
            Ended::CannotHide => Some((opts.tier, machine.that_refuses_to_hide())),
            // It had what was asked for until now, and somebody else took that away.
            Ended::MustNotHide => Some((None, machine.with_openzfs())),
            Ended::Stopped | Ended::Restart => None,
        };
        if let Some((wanted, changed)) = changed {
            warn!("{why}, starting again in another tier");
            machine = changed;
            tier = choose(wanted, &machine)?;
        } else {
            info!("{why}, starting again");
        }
        exporter.restarted();
        untold.get_or_insert(why);
    }

    info!("stopped, the kernel's default scheduler is back");
    Ok(())
}

/// The statistics come over the same socket as for `--monitor`, so they survive a restart.
fn print_stats(interval: Duration, shutdown: Arc<AtomicBool>) -> Result<()> {
    let printer = move || {
        if let Err(error) = stats::monitor(interval, &shutdown) {
            warn!("no more statistics: {error:#}");
        }
    };
    thread::Builder::new()
        .name("stats".to_string())
        .spawn(printer)
        .context("cannot start the thread that prints statistics")?;
    Ok(())
}
