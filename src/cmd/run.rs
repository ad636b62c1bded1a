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
use crate::agent::preflight::{Groups, Machine, Tier, has_openzfs};
use crate::agent::scheduler::{Ended, Scheduler};
use crate::agent::setup::{LoadOpts, Means, keep_others_from_writing, raise_open_files};
use crate::agent::{service, stats, topology};

pub fn run(
    stats_interval: Option<Duration>,
    listen: Listen,
    control_group: Option<&str>,
    opts: &LoadOpts,
    mut history: History,
) -> Result<()> {
    opts.check()?;
    raise_open_files();
    keep_others_from_writing();
    let mut machine = Machine::look(Path::new("/"));
    machine.check()?;
    let clocks = machine.clocks();
    let cpu = topology::first_cpu()?;
    let source = Source::find(&opts.clock_counters, machine.countable(), cpu)?;
    let counts_licences = source.counts_licences();
    let choose = |machine: &Machine| {
        Tier::choose(opts.tier, opts.forced, machine, counts_licences).inspect(Tier::tell)
    };
    let mut tier = choose(&machine)?;
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
        // It may have come since anybody looked, and would crash as soon as something is hidden.
        if tier.hides() && has_openzfs(Path::new("/")) {
            machine = machine.with_openzfs();
            // It had what was asked for until now, and somebody else took that away.
            tier = Tier::best(opts.forced || opts.tier.is_some(), &machine, counts_licences);
            tier.tell();
        }
        let mut open_object = MaybeUninit::uninit();
        let means = Means {
            tier,
            clocks,
            source: source.clone(),
            hides_cpuid: machine.is_intel(),
            keeps_image_size: machine.keeps_image_size(),
        };
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
        match ended {
            Ended::CannotHide | Ended::MustNotHide => {
                warn!("{why}, starting again in another tier");
            }
            Ended::Stopped | Ended::Restart => info!("{why}, starting again"),
        }
        if let Ended::CannotHide = ended {
            machine = machine.that_refuses_to_hide();
            tier = choose(&machine)?;
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
