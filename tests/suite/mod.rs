// SPDX-License-Identifier: GPL-2.0-only
//! The integration tests, each with a budget of time.
//!
//! A budget is what the test is expected to take on two cores with a warm
//! cache. It is shown, and overstepping it is said loudly, but it fails
//! nothing: these machines are shared. What must not take for ever has a limit
//! of its own.

pub mod agent;
pub mod avx;
mod bad_input;
mod calls;
pub mod counts;
pub mod crowd;
mod emulator;
mod events;
mod figures;
pub mod hiding;
mod host;
pub mod hotplug;
mod install;
mod machines;
mod metrics;
pub mod oracle;
mod policy;
mod readme;
mod recovery;
mod scheduler;
mod service;
mod simulator;
pub mod stress;
mod top;
mod trials;
pub mod wakeups;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use libtest_mimic::{Conclusion, Failed, Trial};

use crate::rig::kernel::Variant;
use crate::rig::machine::Machine;
use crate::rig::results::{Figure, Results};
use crate::rig::{Flavour, Guest, Kernel, in_repository, process, slots, standing};

/// One test: what it shows is in its name.
pub struct Test {
    pub name: &'static str,
    pub budget_s: u64,
    pub body: fn() -> Result<()>,
}

/// The `TESTS` of a file: functions, each with its budget, named after their area.
#[macro_export]
macro_rules! tests {
    ($area:ident: $($test:ident($budget_s:literal)),* $(,)?) => {
        pub const TESTS: &[$crate::suite::Test] = &[$($crate::suite::Test {
            name: concat!(stringify!($area), "::", stringify!($test)),
            budget_s: $budget_s,
            body: $test,
        }),*];
    };
}

/// Guests wait for free CPUs on their own, so more tests may be under way than
/// there are CPUs: those that only look at files need not wait for a guest.
const THREADS: usize = 6;

const GROUPS: &[&[Test]] = &[
    calls::TESTS,
    stress::TESTS,
    crowd::TESTS,
    hiding::registers::TESTS,
    hiding::lifetime::TESTS,
    hiding::selftests::TESTS,
    hiding::kernel_users::TESTS,
    hiding::series::TESTS,
    recovery::TESTS,
    hotplug::TESTS,
    oracle::TESTS,
    emulator::TESTS,
    scheduler::TESTS,
    wakeups::TESTS,
    avx::TESTS,
    avx::books::TESTS,
    avx::fairness::TESTS,
    avx::tiers::TESTS,
    avx::counters::TESTS,
    avx::prospect::TESTS,
    machines::TESTS,
    metrics::TESTS,
    agent::TESTS,
    policy::TESTS,
    trials::TESTS,
    events::TESTS,
    top::TESTS,
    bad_input::TESTS,
    host::TESTS,
    simulator::TESTS,
    readme::TESTS,
    figures::TESTS,
    install::TESTS,
    service::TESTS,
];

/// What a test took: of the clock, without what it waited for others, and of the host's CPUs for
/// its machines.
struct Taken {
    test: &'static Test,
    busy: Duration,
    machines: Duration,
}

static TIMES: Mutex<Vec<Taken>> = Mutex::new(Vec::new());

/// Why tests failed, to be said once more at the end of a log: often that is all
/// that is kept of it.
static FAILURES: Mutex<Vec<(&str, String)>> = Mutex::new(Vec::new());
const LINES_OF_A_FAILURE: usize = 20;

pub fn run() -> ExitCode {
    let mut arguments = libtest_mimic::Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let trials = all_tests().map(trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    show_times();
    show_failures();
    if let Err(error) = record(&conclusion) {
        eprintln!("rig: {error:#}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// Where the kernel is another than the usual one, and all tests of the patch passed
/// on it, that is a figure.
fn record(conclusion: &Conclusion) -> Result<()> {
    let kernel = Variant::chosen()?;
    let of_the_patch = all_tests().filter(|test| test.name.starts_with("hiding::"));
    let ran = conclusion.num_passed + conclusion.num_ignored;
    if kernel.is_usual() || conclusion.has_failed() || ran != of_the_patch.count() as u64 {
        return Ok(());
    }
    let figure = Figure::measured(
        &format!("patch.tests_on_{}", kernel.name),
        "tests",
        "all, and the kernel silent".to_owned(),
        format!("make test-kernels KERNELS={}", kernel.name),
        Ok(conclusion.num_passed as f64),
        |_| "ok",
    );
    Results::record("kernels", figure)
}

pub fn all_tests() -> impl Iterator<Item = &'static Test> {
    GROUPS.iter().flat_map(|group| group.iter())
}

fn trial(test: &'static Test) -> Trial {
    let ignored = hiding::selftests::are_not_of_this_kernel(test);
    if ignored {
        eprintln!("rig: {} is ignored: the kernel is of another source", test.name);
    }
    Trial::test(test.name, move || timed(test)).with_ignored_flag(ignored)
}

fn timed(test: &'static Test) -> Result<(), Failed> {
    let begun = Instant::now();
    let (waited, used) = (slots::waited(), process::cpu_time());
    let result = (test.body)();
    let busy = begun.elapsed() - (slots::waited() - waited);
    let mut times = TIMES.lock().map_err(|error| error.to_string())?;
    times.push(Taken { test, busy, machines: process::cpu_time() - used });
    result.map_err(|error| {
        let message = format!("{error:#}");
        // A run that is cut off has no end to say it at.
        eprintln!("rig: {} failed: {message}", test.name);
        if let Ok(mut failures) = FAILURES.lock() {
            failures.push((test.name, message.clone()));
        }
        Failed::from(message)
    })
}

fn show_times() {
    let Ok(mut times) = TIMES.lock() else { return };
    if times.is_empty() {
        return;
    }
    println!("time of each test against its budget, and of the host's CPUs for its machines:");
    times.sort_by_key(|taken| taken.busy);
    for taken in times.iter() {
        println!("{}", line_of(taken.test.name, taken.test.budget_s, taken.busy, taken.machines));
    }
    println!("by area:");
    let area = |taken: &Taken| taken.test.name.split("::").next().unwrap_or_default();
    let areas: BTreeSet<&str> = times.iter().map(area).collect();
    for name in areas {
        let of_it = || times.iter().filter(|taken| area(taken) == name);
        let budget = of_it().map(|taken| taken.test.budget_s).sum();
        let (busy, machines) = sums(of_it());
        println!("{}", line_of(name, budget, busy, machines));
    }
    let (busy, machines) = sums(times.iter());
    let budget = times.iter().map(|taken| taken.test.budget_s).sum();
    println!("{}", line_of("all", budget, busy, machines));
    for (name, used) in standing::boots() {
        println!("{:33.1} s  to boot {name}", used.as_secs_f64());
    }
}

fn sums<'a>(times: impl Iterator<Item = &'a Taken>) -> (Duration, Duration) {
    times.fold((Duration::ZERO, Duration::ZERO), |(busy, machines), taken| {
        (busy + taken.busy, machines + taken.machines)
    })
}

fn line_of(name: &str, budget: u64, busy: Duration, machines: Duration) -> String {
    format!(
        "{:8.1} s of {budget:4} s, {:8.1} s  {name}{}",
        busy.as_secs_f64(),
        machines.as_secs_f64(),
        if busy.as_secs() > budget { "  OVER BUDGET" } else { "" }
    )
}

fn show_failures() {
    let Ok(failures) = FAILURES.lock() else { return };
    for (name, message) in failures.iter() {
        println!("{name} failed:");
        message.lines().take(LINES_OF_A_FAILURE).for_each(|line| println!("    {line}"));
    }
}

/// The scheduler under test.
pub fn scheduler_program() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_scx_avxspec"));
    ensure!(path.exists(), "{} is not built", path.display());
    Ok(path.to_owned())
}

/// A guest with the scheduler in it, and `lib.sh` for its scripts.
pub fn scheduler_guest(machine: impl Into<Machine>, flavour: Flavour) -> Result<Guest> {
    let library = in_repository("tests/guest/lib.sh");
    Ok(Guest::new(machine.into(), flavour).program(&scheduler_program()?).file("/lib.sh", &library))
}

/// With a module that makes the kernel refuse what it would grant.
pub fn with_refusals(guest: Guest, flavour: Flavour) -> Result<Guest> {
    let sources = in_repository("tests/guest");
    let module = Kernel::get(flavour)?.module(&sources, "argument_module", "second_argument")?;
    Ok(guest.file("/second_argument.ko", &module))
}

/// A script that begins with the library.
pub fn script(body: &str) -> String {
    format!(". /lib.sh\n{body}")
}

/// Fails with both sides shown.
#[macro_export]
macro_rules! ensure_eq {
    ($left:expr, $right:expr $(, $($why:tt)+)?) => {{
        let (left, right) = (&$left, &$right);
        anyhow::ensure!(
            left == right,
            "{}: {:?} is not {:?}",
            [$(format!($($why)+),)? stringify!($left).to_owned()][0],
            left,
            right
        );
    }};
}
