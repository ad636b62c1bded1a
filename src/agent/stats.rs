// SPDX-License-Identifier: GPL-2.0-only
//! The statistics: their meaning, their socket, and a line for people.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use scx_stats::prelude::*;
use scx_stats_derive::Stats;
use scx_stats_derive::stat_doc;
use serde::{Deserialize, Serialize};

use crate::NAME;
use crate::bpf::intf::avx_cpu_stats;

/// What happened since the previous answer on the same connection.
#[stat_doc]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
#[stat(top)]
pub struct Metrics {
    #[stat(desc = "length of the interval in nanoseconds")]
    pub interval_ns: u64,
    #[stat(desc = "online CPUs")]
    pub nr_cpus: u64,
    #[stat(desc = "time that tasks ran, in nanoseconds, over all CPUs")]
    pub run_ns: u64,
    #[stat(desc = "wakeups that went straight to an idle CPU")]
    pub direct: u64,
    #[stat(desc = "tasks queued where any allowed CPU takes them")]
    pub queued_shared: u64,
    #[stat(desc = "tasks queued for the only CPU they may use")]
    pub queued_private: u64,
    #[stat(desc = "tasks taken from the shared queue")]
    pub taken_shared: u64,
    #[stat(desc = "tasks taken from the queue of one CPU")]
    pub taken_private: u64,
    #[stat(desc = "slices given again to the task that was running")]
    pub kept: u64,
    #[stat(desc = "tasks queued at the longest wait instead of their weight's")]
    pub overdue: u64,
    #[stat(desc = "idle CPUs woken for a task that was just queued")]
    pub kicks: u64,
    #[stat(desc = "idle CPUs woken by the tick for a task that waited")]
    pub rescues: u64,
    #[stat(desc = "CPUs that are AVX cores now")]
    pub nr_avx_cpus: u64,
    #[stat(desc = "time that AVX tasks ran, in nanoseconds, over all CPUs")]
    pub avx_ns: u64,
    #[stat(desc = "AVX tasks that began to run")]
    pub avx_waits: u64,
    #[stat(desc = "time that these had waited, in nanoseconds")]
    pub avx_wait_ns: u64,
    #[stat(desc = "tasks queued for AVX cores")]
    pub queued_avx: u64,
    #[stat(desc = "tasks taken from the queue of AVX cores")]
    pub taken_avx: u64,
    #[stat(desc = "512-bit instructions that were noticed before they were executed")]
    pub wide_faults: u64,
    #[stat(desc = "shorter instructions with the encoding of AVX-512 that were")]
    pub light_faults: u64,
    #[stat(desc = "everything else that needs AVX-512 to be visible")]
    pub other_faults: u64,
    #[stat(desc = "times that wide vectors were seen in use")]
    pub samples: u64,
    #[stat(desc = "times that an AVX task became a scalar one")]
    pub phases: u64,
    #[stat(desc = "AVX tasks that stayed where they were, since they may use no AVX core")]
    pub in_place: u64,
    #[stat(desc = "AVX cores that were taken from other work")]
    pub preempted: u64,
    #[stat(desc = "CPUs that became AVX cores, or were none any more")]
    pub role_changes: u64,
    #[stat(desc = "times that a policy was looked up, with --check-policies")]
    pub policies_read: u64,
    #[stat(desc = "... and was not what the agent had written")]
    pub policies_torn: u64,
}

impl Metrics {
    /// The sum over all CPUs, `age` after the scheduler was loaded.
    pub fn sum(
        per_cpu: &[avx_cpu_stats],
        nr_cpus: usize,
        nr_avx_cpus: usize,
        age: Duration,
    ) -> Self {
        let total = |field: fn(&avx_cpu_stats) -> u64| per_cpu.iter().map(field).sum();
        Self {
            interval_ns: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
            nr_cpus: nr_cpus as u64,
            run_ns: total(|cpu| cpu.run_ns),
            direct: total(|cpu| cpu.direct),
            queued_shared: total(|cpu| cpu.queued_shared),
            queued_private: total(|cpu| cpu.queued_private),
            taken_shared: total(|cpu| cpu.taken_shared),
            taken_private: total(|cpu| cpu.taken_private),
            kept: total(|cpu| cpu.kept),
            overdue: total(|cpu| cpu.overdue),
            kicks: total(|cpu| cpu.kicks),
            rescues: total(|cpu| cpu.rescues),
            nr_avx_cpus: nr_avx_cpus as u64,
            avx_ns: total(|cpu| cpu.avx_ns),
            avx_waits: total(|cpu| cpu.avx_waits),
            avx_wait_ns: total(|cpu| cpu.avx_wait_ns),
            queued_avx: total(|cpu| cpu.queued_avx),
            taken_avx: total(|cpu| cpu.taken_avx),
            wide_faults: total(|cpu| cpu.wide_faults),
            light_faults: total(|cpu| cpu.light_faults),
            other_faults: total(|cpu| cpu.other_faults),
            samples: total(|cpu| cpu.samples),
            phases: total(|cpu| cpu.phases),
            in_place: total(|cpu| cpu.in_place),
            preempted: total(|cpu| cpu.preempted),
            role_changes: total(|cpu| cpu.role_changes),
            policies_read: total(|cpu| cpu.policies_read),
            policies_torn: total(|cpu| cpu.policies_torn),
        }
    }

    /// What changed since `earlier`. After a restart the counters begin at
    /// zero again, so all that is known then is what they hold.
    fn since(&self, earlier: &Self) -> Self {
        if self.interval_ns < earlier.interval_ns {
            return self.clone();
        }
        let grown = |field: fn(&Self) -> u64| field(self).saturating_sub(field(earlier));
        Self {
            interval_ns: grown(|m| m.interval_ns),
            nr_cpus: self.nr_cpus,
            run_ns: grown(|m| m.run_ns),
            direct: grown(|m| m.direct),
            queued_shared: grown(|m| m.queued_shared),
            queued_private: grown(|m| m.queued_private),
            taken_shared: grown(|m| m.taken_shared),
            taken_private: grown(|m| m.taken_private),
            kept: grown(|m| m.kept),
            overdue: grown(|m| m.overdue),
            kicks: grown(|m| m.kicks),
            rescues: grown(|m| m.rescues),
            nr_avx_cpus: self.nr_avx_cpus,
            avx_ns: grown(|m| m.avx_ns),
            avx_waits: grown(|m| m.avx_waits),
            avx_wait_ns: grown(|m| m.avx_wait_ns),
            queued_avx: grown(|m| m.queued_avx),
            taken_avx: grown(|m| m.taken_avx),
            wide_faults: grown(|m| m.wide_faults),
            light_faults: grown(|m| m.light_faults),
            other_faults: grown(|m| m.other_faults),
            samples: grown(|m| m.samples),
            phases: grown(|m| m.phases),
            in_place: grown(|m| m.in_place),
            preempted: grown(|m| m.preempted),
            role_changes: grown(|m| m.role_changes),
            policies_read: grown(|m| m.policies_read),
            policies_torn: grown(|m| m.policies_torn),
        }
    }

    /// How much of the CPUs' time tasks used, in percent.
    /// Time is accounted for when a slice ends, and so may fall into the interval after its own.
    fn busy_percent(&self) -> f64 {
        let available = self.interval_ns as f64 * self.nr_cpus as f64;
        if available > 0.0 { (100.0 * self.run_ns as f64 / available).min(100.0) } else { 0.0 }
    }

    /// How much of the time that tasks ran AVX tasks did, in percent.
    fn avx_percent(&self) -> f64 {
        if self.run_ns > 0 { 100.0 * self.avx_ns as f64 / self.run_ns as f64 } else { 0.0 }
    }

    fn format<W: Write>(&self, out: &mut W) -> io::Result<()> {
        write!(
            out,
            "{NAME}: {:.1}% of {} CPUs busy, {} wakeups to idle CPUs, queued {} shared + {} private \
             ({} overdue), taken {} + {}, kept running {}, idle CPUs woken {} + {} by tick, \
             {} AVX cores for {:.1}% of the work, faults {} wide + {} light + {} other",
            self.busy_percent(),
            self.nr_cpus,
            self.direct,
            self.queued_shared,
            self.queued_private,
            self.overdue,
            self.taken_shared,
            self.taken_private,
            self.kept,
            self.kicks,
            self.rescues,
            self.nr_avx_cpus,
            self.avx_percent(),
            self.wide_faults,
            self.light_faults,
            self.other_faults,
        )?;
        if self.policies_read > 0 {
            write!(out, ", {} policies read, {} torn", self.policies_read, self.policies_torn)?;
        }
        writeln!(out)
    }
}

/// The statistics as the scx_stats socket serves them: each connection gets
/// what happened between its own requests.
pub fn server_data() -> StatsServerData<(), Metrics> {
    let open: Box<dyn StatsOpener<(), Metrics>> = Box::new(|(request, response)| {
        request.send(())?;
        let mut previous = response.recv()?;

        let read: Box<dyn StatsReader<(), Metrics>> =
            Box::new(move |_args, (request, response)| {
                request.send(())?;
                let current = response.recv()?;
                let change = current.since(&previous);
                previous = current;
                change.to_json()
            });
        Ok(read)
    });

    StatsServerData::new().add_meta(Metrics::meta()).add_ops("top", StatsOps { open, close: None })
}

pub type Server = StatsServer<(), Metrics>;

/// Open the socket. It outlives the restarts of the scheduler.
pub fn serve() -> Result<Server> {
    StatsServer::new(server_data()).launch().context("cannot serve statistics")
}

/// Print a line per interval until the flag is raised.
pub fn monitor(interval: Duration, shutdown: &AtomicBool) -> Result<()> {
    scx_utils::monitor_stats::<Metrics>(
        &[],
        interval,
        || shutdown.load(Ordering::Relaxed),
        |metrics| metrics.format(&mut io::stdout()).context("cannot print the statistics"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(direct: u64, run_ns: u64) -> avx_cpu_stats {
        // SAFETY: the type consists of integers, for which all zeroes is valid.
        let zero: avx_cpu_stats = unsafe { std::mem::zeroed() };
        avx_cpu_stats { direct, run_ns, ..zero }
    }

    #[test]
    fn sums_over_all_cpus() {
        let total = Metrics::sum(&[cpu(1, 10), cpu(2, 20)], 2, 0, Duration::from_secs(1));
        assert_eq!((total.direct, total.run_ns, total.nr_cpus), (3, 30, 2));
    }

    #[test]
    fn counts_from_the_previous_answer() {
        let earlier = Metrics::sum(&[cpu(5, 10)], 1, 0, Duration::from_secs(1));
        let later = Metrics::sum(&[cpu(7, 40)], 1, 0, Duration::from_secs(3));
        let change = later.since(&earlier);
        assert_eq!((change.direct, change.run_ns, change.interval_ns), (2, 30, 2_000_000_000));
    }

    #[test]
    fn counts_from_zero_after_a_restart() {
        let earlier = Metrics::sum(&[cpu(500, 10)], 1, 0, Duration::from_secs(60));
        let later = Metrics::sum(&[cpu(7, 40)], 1, 0, Duration::from_secs(1));
        assert_eq!(later.since(&earlier), later);
    }

    #[test]
    fn prints_one_line_with_the_busy_share_first() {
        let metrics = Metrics::sum(&[cpu(3, 500_000_000)], 2, 0, Duration::from_secs(1));
        let mut line = Vec::new();
        metrics.format(&mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(line.starts_with("scx_avxspec: 25.0% of 2 CPUs busy, 3 wakeups"), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn an_empty_interval_is_not_busy() {
        assert_eq!(Metrics::default().busy_percent(), 0.0);
    }
}
