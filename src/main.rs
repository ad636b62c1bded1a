// SPDX-License-Identifier: GPL-2.0-only
//! scx_avxspec: the command line.

mod about;
mod agent;
mod bpf;
mod cmd;
#[cfg(test)]
mod documents_test;
mod files;
#[cfg(test)]
mod layers_test;
mod processors;
mod sim;
mod trials;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand, value_parser};
use scx_utils::libbpf_clap_opts::LibbpfOpts;

use crate::about::{NAME, version};
use crate::agent::counters::Choice;
use crate::agent::metrics::Listen;
use crate::agent::policy::{self, history::History};
use crate::agent::preflight::tier;
use crate::agent::setup::LoadOpts;
use crate::agent::trial::outside::{Outside, Place};
use crate::cmd::later::Later;
use crate::cmd::log::Log;

/// The options that mean something only where a scheduler is started.
const OF_A_START: [&str; 12] = [
    "stats",
    "policy",
    "settings",
    "metrics",
    "control_group",
    "exit_dump_len",
    "force",
    "clock_counters",
    "progress",
    "tier",
    "check_policies",
    "LibbpfOpts",
];

/// Replaces the scheduler of the running kernel, through sched_ext, until it is told to stop.
///
/// Without a command it loads the scheduler and runs in the foreground. SIGINT, SIGTERM or SIGHUP
/// gives the machine back to the kernel's default scheduler, and so does anything that ends this
/// process.
#[derive(Debug, Parser)]
#[command(name = NAME, disable_version_flag = true, args_conflicts_with_subcommands = true)]
struct Opts {
    /// Run the scheduler and print its statistics every that many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    stats: Option<Duration>,

    /// Print the statistics of a scheduler that already runs every that many seconds; without one
    /// it waits for one.
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    #[arg(conflicts_with_all = OF_A_START)]
    monitor: Option<Duration>,

    /// Describe the statistics and exit.
    #[arg(long)]
    help_stats: bool,

    /// Start with this policy, by its name or from a file; see "policy list".
    #[arg(long, value_name = "NAME|FILE", default_value = policy::named::DEFAULT)]
    policy: String,

    /// Turn a knob of that policy; may be given several times.
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    settings: Vec<String>,

    /// Describe the knobs of a policy, and how they are by default, and exit.
    #[arg(long)]
    help_policy: bool,

    /// Where Prometheus finds metrics, over HTTP; "off" for nowhere.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = Listen::default())]
    metrics: Listen,

    /// Let this group ask the scheduler and change its policy as well, and not root alone.
    #[arg(long, value_name = "NAME")]
    control_group: Option<String>,

    /// Describe the metrics, as Markdown, and exit.
    #[arg(long)]
    help_metrics: bool,

    /// Log details, including those of libbpf.
    #[arg(short, long)]
    verbose: bool,

    /// Print the version and exit.
    #[arg(short = 'V', long)]
    version: bool,

    /// Length of the debug dump that the kernel writes when it ejects the scheduler; 0 means the
    /// kernel's default, and 16 MiB are the most.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    #[arg(value_parser = value_parser!(u32).range(..=16 << 20))]
    exit_dump_len: u32,

    /// Schedule AVX work also where it hardly lowers the clock.
    #[arg(long)]
    force: bool,

    /// What counts how low clocks are, for policies with fairness=compensate and for the metrics:
    /// the best that there is, none, or events by the name of who counts and their number in
    /// hexadecimal, those of APERF and MPERF, or the cycles at each of three licences and, as a
    /// fourth event, the operations of 512 bits.
    #[arg(long, value_name = "best|none|PMU:EVENT,...", default_value_t = Choice::Best)]
    clock_counters: Choice,

    /// How much a program has done, if it does not say so itself: a number that only grows, in a
    /// file or behind a URL, where with a # it is a series of Prometheus's. Trials measure it by
    /// that as well; may be given several times.
    #[arg(long, value_name = "PROGRAM=FILE|URL[#SERIES]")]
    progress: Vec<Place>,

    /// Find out about AVX work in this way, and not in the best that there is.
    #[arg(long, value_name = "NAME", value_enum)]
    tier: Option<tier::Name>,

    /// Make sure at each decision that its policy is whole, and count it; for tests.
    #[arg(long, hide = true)]
    check_policies: bool,

    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten, next_help_heading = "Libbpf options")]
    libbpf: LibbpfOpts,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say whether it would run here and what it would find; needs no privilege.
    Check(cmd::check::Options),
    /// Write manual pages and completions, for packages.
    #[command(subcommand, hide = true)]
    Generate(cmd::generate::Command),
    /// Tell what happens in a scheduler that already runs, and why.
    Events(cmd::events::Options),
    /// Show or change the policy of a scheduler that already runs.
    #[command(subcommand)]
    Policy(cmd::policy::Command),
    /// Compare policies by simulation, on a modelled machine; needs no privilege and changes nothing.
    Sim(Later<cmd::sim::Options>),
    /// Show what a scheduler that already runs is doing.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Watch a scheduler that already runs, on one screen.
    Top {
        /// How often to look, 0.25 to 60.
        #[arg(long, value_name = "SECONDS", value_parser = parse_interval, default_value = "1")]
        interval: Duration,
    },
    /// Tell what a scheduler that already runs thinks of a thread, and why.
    Explain {
        /// The id of the thread; of a process it is that of its first one.
        #[arg(value_name = "PID")]
        thread: i32,
        /// Watch it for so long, 1ms to 24h, and tell what happened to it as well.
        #[arg(long, value_name = "TIME", value_parser = cmd::explain::parse_watch)]
        watch: Option<Duration>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    interval
        .filter(|interval| !interval.is_zero())
        .ok_or_else(|| "not a number of seconds above zero".to_string())
}

fn run(opts: Opts, log: &mut Option<Log>) -> Result<()> {
    if opts.version {
        return cmd::print(&format!("{NAME} {}\n", version()));
    }
    if opts.help_stats {
        return cmd::help_stats::run();
    }
    if opts.help_policy {
        return cmd::help_policy::run();
    }
    if opts.help_metrics {
        return cmd::help_metrics::run();
    }
    // A command that only asks has nothing to log, and has to be quick.
    if opts.command.is_none() || opts.verbose {
        *log = Some(cmd::log_to_stderr(opts.verbose)?);
    }
    match &opts.command {
        Some(Command::Check(options)) => return cmd::check::run(options),
        Some(Command::Generate(command)) => return cmd::generate::run(command, Opts::command()),
        Some(Command::Policy(command)) => return cmd::policy::run(command),
        Some(Command::Sim(options)) => return cmd::sim::run(options),
        Some(Command::Status { json }) => return cmd::status::run(*json),
        Some(Command::Explain { thread, watch, json }) => {
            return cmd::explain::run(*thread, *watch, *json);
        }
        Some(Command::Events(options)) => return cmd::events::run(options),
        Some(Command::Top { interval }) => return cmd::top::run(*interval),
        None => {}
    }
    if let Some(interval) = opts.monitor {
        return cmd::monitor::run(interval);
    }
    let load = LoadOpts {
        verbose: opts.verbose,
        forced: opts.force,
        check_policies: opts.check_policies,
        clock_counters: opts.clock_counters,
        outside: Outside::new(&opts.progress)?,
        tier: opts.tier,
        exit_dump_len: opts.exit_dump_len,
        libbpf: opts.libbpf,
    };
    let policy = policy::turned(policy::load(&opts.policy)?, &opts.settings)?;
    let group = opts.control_group.as_deref();
    cmd::run::run(opts.stats, opts.metrics, group, &load, History::new(policy))
}

fn main() -> ExitCode {
    let mut log = None;
    match run(Opts::parse(), &mut log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let why = format!("{NAME}: {error:#}\n");
            // A full disk is no reason to panic.
            let _ = match &log {
                Some(log) => log.writer().write_all(why.as_bytes()),
                None => io::stderr().write_all(why.as_bytes()),
            };
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Opts::command().debug_assert();
    }

    #[test]
    fn a_dump_has_room_in_memory() {
        let asked = |bytes: &str| Opts::try_parse_from([NAME, "--exit-dump-len", bytes]);
        assert_eq!(asked("16777216").unwrap().exit_dump_len, 16 << 20);
        assert!(asked("16777217").is_err());
    }

    /// The defaults of options do not count as given.
    #[test]
    fn who_only_monitors_is_not_given_what_starts_a_scheduler() {
        let parse = |rest: &[&str]| {
            let line = [NAME, "--monitor", "1"].iter().chain(rest);
            Opts::try_parse_from(line).map(|opts| opts.monitor)
        };
        assert_eq!(parse(&["--verbose"]).unwrap(), Some(Duration::from_secs(1)));
        for rest in [
            &["--stats", "1"][..],
            &["--policy", "fair"],
            &["--set", "avx-cpus=1"],
            &["--metrics", "off"],
            &["--control-group", "operators"],
            &["--exit-dump-len", "1"],
            &["--force"],
            &["--clock-counters", "none"],
            &["--tier", "hints"],
            &["--check-policies"],
            &["--relaxed-maps", "true"],
        ] {
            let refused = parse(rest).unwrap_err().to_string();
            assert!(refused.contains("cannot be used with"), "{rest:?}: {refused}");
        }
    }

    #[test]
    fn intervals_are_seconds_above_zero() {
        assert_eq!(parse_interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "NaN", "inf", "1e300", "", "soon"] {
            assert!(parse_interval(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
