// SPDX-License-Identifier: GPL-2.0-only
//! The statistics: their meaning, their socket, and a line for people.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, ensure};
use scx_stats::prelude::*;
use scx_stats_derive::Stats;
use scx_stats_derive::stat_doc;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::about::NAME;
use crate::bpf::intf::avx_cpu_stats;

/// Defines the statistics: what is so now, and what each CPU counts by itself.
macro_rules! metrics {
    ({$($now:ident: $of_now:literal,)*} {$($counter:ident: $of_counter:literal,)*}) => {
        /// What happened since the previous answer on the same connection.
        #[stat_doc]
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Stats)]
        #[stat(top)]
        pub struct Metrics {
            $(#[stat(desc = $of_now)] pub $now: u64,)*
            $(#[stat(desc = $of_counter)] pub $counter: u64,)*
        }

        impl Metrics {
            /// Adds what one CPU counted since the scheduler was loaded.
            fn add(&mut self, cpu: &avx_cpu_stats) {
                $(self.$counter += cpu.$counter;)*
            }

            /// Adds what was counted in an earlier life of the scheduler.
            pub fn go_on_from(&mut self, earlier: &Self) {
                self.interval_ns += earlier.interval_ns;
                self.run_ns += earlier.run_ns;
                $(self.$counter += earlier.$counter;)*
            }

            /// Returns what was counted since `earlier`. After a restart the counters begin at zero
            /// again, so all that is known then is what they hold.
            pub fn since(&self, earlier: &Self) -> Self {
                if self.interval_ns < earlier.interval_ns {
                    return self.clone();
                }
                Self {
                    interval_ns: self.interval_ns - earlier.interval_ns,
                    run_ns: self.run_ns.saturating_sub(earlier.run_ns),
                    $($counter: self.$counter.saturating_sub(earlier.$counter),)*
                    ..self.clone()
                }
            }
        }

        /// What each CPU counts: names, meanings, and where they are.
        pub const COUNTERS: &[Counter] = &[
            $(Counter {
                name: stringify!($counter),
                meaning: $of_counter,
                of: |metrics| metrics.$counter,
            },)*
        ];
    };
}

pub struct Counter {
    pub name: &'static str,
    pub meaning: &'static str,
    pub of: fn(&Metrics) -> u64,
}

metrics! {
    {
        interval_ns: "length of the interval in nanoseconds",
        run_ns: "time that the CPUs were busy, in nanoseconds, as the kernel accounts for it",
        nr_cpus: "online CPUs",
        nr_avx_cpus: "CPUs that are AVX cores now",
    }
    {
        direct: "wake-ups and enqueues that found an idle CPU",
        queued_shared: "tasks queued where any CPU that they may use takes them",
        queued_private: "tasks queued for the only CPU that they may use",
        kept: "slices that a running task got again, because no other task was due before",
        unshared: "tasks that moved to an idle core at the end of a slice, because they shared theirs",
        overdue: "tasks queued at the longest wait, which limits how long weights alone may keep a task waiting",
        wakeup_kicks: "times that a CPU was asked to preempt its task for one that was due before",
        rescues: "idle CPUs that a tick woke up for a task that waited",
        avx_ns: "time that AVX tasks ran, in nanoseconds, over all CPUs",
        avx_apart_ns: "time that AVX tasks ran that may use no AVX core, in nanoseconds",
        scalar_ns: "time that AVX tasks ran between phases of AVX work, in nanoseconds",
        lowered_ns: "time at a low clock of scalar CPUs, in nanoseconds, modelled",
        lowered_avx_ns: "time at a low clock of AVX cores, in nanoseconds, modelled",
        avx_waits: "AVX tasks that began to run",
        avx_wait_ns: "time that AVX tasks had waited for AVX cores when they began to run, in nanoseconds",
        queued_avx: "tasks queued for AVX cores",
        wide_faults: "512-bit instructions that were noticed before they were executed",
        light_faults: "shorter instructions with the encoding of AVX-512 that were noticed",
        other_faults: "faults at other instructions that need AVX-512 to be visible",
        samples: "times that wide vectors were seen in use",
        hints: "times that a thread said that its kind of work changes",
        phases: "times that an AVX task became a scalar one",
        looks: "ticks that looked at the task that ran",
        looks_wide: "ticks that found a task at AVX work, as far as that can be seen",
        looks_beside: "ticks that found a task at other work on a CPU that did AVX work lately",
        in_place: "times that an AVX task began or went on on a scalar CPU, because it may use no AVX core or waited too long for one",
        preempted: "times that an AVX core was asked to preempt its task, because AVX work arrived",
        role_changes: "CPUs that became AVX cores, or ceased to be",
        policies_read: "policies that were looked up, where tests check that they are whole",
        policies_torn: "policies that were looked up and differed from what the agent had written",
        quiet_starts: "programs that started with a quiet C library",
        loud_starts: "programs that started without a quiet C library, because they may need x86-64-v4",
        events_lost: "events that found no room in the buffer while they were followed",
    }
}

const SHORTEST_ACCOUNT_NS: u64 = 50_000_000;

impl Metrics {
    /// Returns these, with what all CPUs counted added.
    pub fn with(mut self, per_cpu: &[avx_cpu_stats]) -> Self {
        per_cpu.iter().for_each(|cpu| self.add(cpu));
        self
    }

    /// Returns how much of the CPUs' time was used, in percent. Because the kernel accounts for it
    /// in ticks, nothing can be said of an interval with few of them, and 0 is returned.
    fn busy_percent(&self) -> f64 {
        let available = self.interval_ns as f64 * self.nr_cpus as f64;
        let is_known = self.interval_ns >= SHORTEST_ACCOUNT_NS;
        if is_known { (100.0 * self.run_ns as f64 / available).min(100.0) } else { 0.0 }
    }

    /// Returns how much of the time that all tasks ran was time of AVX tasks, in percent. The
    /// kernel accounts for the former in ticks, and the latter is known more exactly, so their
    /// ratio is limited.
    fn avx_percent(&self) -> f64 {
        let is_known = self.run_ns > 0;
        if is_known { (100.0 * self.avx_ns as f64 / self.run_ns as f64).min(100.0) } else { 0.0 }
    }

    fn format<W: Write>(&self, out: &mut W) -> io::Result<()> {
        write!(
            out,
            "{NAME}: {:.1}% of {} CPUs busy, {} wakeups to idle CPUs, queued {} shared + {} private \
             ({} overdue), kept running {}, {} idle CPUs woken by tick, \
             {} AVX cores for {:.1}% of the work, faults {} wide + {} light + {} other, \
             {} AVX tasks on scalar CPUs",
            self.busy_percent(),
            self.nr_cpus,
            self.direct,
            self.queued_shared,
            self.queued_private,
            self.overdue,
            self.kept,
            self.rescues,
            self.nr_avx_cpus,
            self.avx_percent(),
            self.wide_faults,
            self.light_faults,
            self.other_faults,
            self.in_place,
        )?;
        if self.policies_read > 0 {
            write!(out, ", {} policies read, {} torn", self.policies_read, self.policies_torn)?;
        }
        writeln!(out)
    }
}

/// What was found out last. It is told when resources are too short to find out more: a client that
/// asks then is told that nothing happened since.
#[derive(Default)]
pub struct LastKnown(Metrics);

impl LastKnown {
    pub fn or_new(&mut self, found: Result<Metrics>) -> Metrics {
        match found {
            Ok(metrics) => self.0 = metrics,
            Err(error) => warn!("the statistics are those from before: {error:#}"),
        }
        self.0.clone()
    }
}

/// Returns for how long all CPUs together were busy since the machine started, in nanoseconds.
pub fn busy_ns() -> Result<u64> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    busy_in(&stat, ticks_a_second())
}

/// Returns for how long each online CPU was busy since the machine started, in nanoseconds.
pub fn busy_ns_by_cpu() -> Result<BTreeMap<u32, u64>> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    busy_by_cpu_in(&stat, ticks_a_second())
}

fn ticks_a_second() -> u64 {
    // SAFETY: sysconf() has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100)
}

fn busy_in(stat: &str, ticks_a_second: u64) -> Result<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    busy_of(line.context("/proc/stat has no line of all CPUs")?, ticks_a_second)
}

fn busy_by_cpu_in(stat: &str, ticks_a_second: u64) -> Result<BTreeMap<u32, u64>> {
    let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    lines
        .filter_map(|(cpu, times)| Some((cpu.parse().ok()?, times)))
        .map(|(cpu, times)| Ok((cpu, busy_of(times, ticks_a_second)?)))
        .collect()
}

/// Sums up the times in user mode, nice or not, and in the kernel, which are the first three of a
/// line.
fn busy_of(line: &str, ticks_a_second: u64) -> Result<u64> {
    let times: Vec<u64> = line
        .split_whitespace()
        .take(3)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("/proc/stat has no numbers")?;
    ensure!(times.len() == 3, "/proc/stat has too few numbers");
    Ok(times.iter().sum::<u64>() * (1_000_000_000 / ticks_a_second))
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

/// Where the scx_stats socket is.
const SOCKET: &str = "/run/scx/root/stats";

pub type Server = StatsServer<(), Metrics>;

/// Opens the socket, which outlives the restarts of the scheduler.
pub fn serve() -> Result<Server> {
    StatsServer::new(server_data()).launch().context("cannot serve statistics")
}

/// Prints a line per interval until the flag is raised.
pub fn monitor(interval: Duration, shutdown: &AtomicBool) -> Result<()> {
    let monitored = scx_utils::monitor_stats::<Metrics>(
        &[],
        interval,
        || shutdown.load(Ordering::Relaxed),
        |metrics| metrics.format(&mut io::stdout()).context("cannot print the statistics"),
    );
    monitored.map_err(with_advice)
}

/// Adds to an error where the socket is, and what to do. The library that connects says neither.
fn with_advice(error: Error) -> Error {
    let kind = error.downcast_ref().map(io::Error::kind);
    if kind == Some(io::ErrorKind::PermissionDenied) {
        anyhow!("only root may read the statistics at {SOCKET}: run it again with sudo")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(direct: u64, avx_ns: u64) -> avx_cpu_stats {
        let zero = avx_cpu_stats::default();
        avx_cpu_stats { direct, avx_ns, ..zero }
    }

    fn after(seconds: u64, run_ns: u64) -> Metrics {
        Metrics { interval_ns: seconds * 1_000_000_000, run_ns, nr_cpus: 2, ..Metrics::default() }
    }

    #[test]
    fn what_cannot_be_found_out_is_as_it_was() {
        let mut last = LastKnown::default();
        let before = last.or_new(Ok(after(3, 45)));
        let now = last.or_new(Err(anyhow::anyhow!("too many open files")));
        assert_eq!((&before, &now), (&after(3, 45), &after(3, 45)));
        assert_eq!(now.since(&before).interval_ns, 0);
    }

    #[test]
    fn sums_over_all_cpus() {
        let total = after(1, 50).with(&[cpu(1, 10), cpu(2, 20)]);
        assert_eq!((total.direct, total.avx_ns, total.run_ns, total.nr_cpus), (3, 30, 50, 2));
    }

    #[test]
    fn counts_from_the_previous_answer() {
        let earlier = after(1, 10).with(&[cpu(5, 10)]);
        let later = after(3, 45).with(&[cpu(7, 40)]);
        let change = later.since(&earlier);
        assert_eq!((change.direct, change.avx_ns, change.run_ns), (2, 30, 35));
        assert_eq!((change.interval_ns, change.nr_cpus), (2_000_000_000, 2));
    }

    #[test]
    fn counts_from_zero_after_a_restart() {
        let earlier = after(60, 70).with(&[cpu(500, 10)]);
        let later = after(1, 2).with(&[cpu(7, 40)]);
        assert_eq!(later.since(&earlier), later);
    }

    #[test]
    fn prints_one_line_with_the_busy_share_first() {
        let metrics = after(1, 500_000_000).with(&[cpu(3, 0)]);
        let mut line = Vec::new();
        metrics.format(&mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(line.starts_with("scx_avxspec: 25.0% of 2 CPUs busy, 3 wakeups"), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn the_kernels_account_is_read() {
        let stat = "cpu  100 20 3 9000 50 6 7 8 0 0\ncpu0 50 10 1 4500 25 3 3 4 0 0\n";
        assert_eq!(busy_in(stat, 100).unwrap(), 1_230_000_000);
        let each = busy_by_cpu_in(stat, 100).unwrap();
        assert_eq!(each, BTreeMap::from([(0, 610_000_000)]));
        assert!(busy_in("cpu0 1 2 3\n", 100).is_err());
        assert!(busy_in("cpu  1 2\n", 100).is_err());
    }

    #[test]
    fn who_may_not_monitor_is_told_what_to_do() {
        let told = |number| with_advice(io::Error::from_raw_os_error(number).into()).to_string();
        assert_eq!(
            told(libc::EACCES),
            "only root may read the statistics at /run/scx/root/stats: run it again with sudo"
        );
        assert!(told(libc::EMFILE).starts_with("Too many open files"));
    }

    #[test]
    fn nothing_that_a_cpu_counts_is_left_out() {
        let zero = cpu(0, 0);
        let waits: usize = zero.waits.iter().map(|buckets| buckets.len()).sum();
        let words = size_of::<avx_cpu_stats>() / size_of::<u64>();
        assert_eq!(COUNTERS.len() + waits, words);
    }

    #[test]
    fn an_empty_interval_is_not_busy() {
        assert_eq!(Metrics::default().busy_percent(), 0.0);
        let tick = Metrics { interval_ns: 1_000_000, run_ns: 10_000_000, ..after(0, 0) };
        assert_eq!(tick.busy_percent(), 0.0);
    }

    #[test]
    fn avx_work_is_not_more_than_all_of_it() {
        let of = |run_ns, avx_ns| Metrics { run_ns, avx_ns, ..after(1, 0) }.avx_percent();
        assert_eq!((of(90, 45), of(90, 100), of(0, 10)), (50.0, 100.0, 0.0));
    }
}
