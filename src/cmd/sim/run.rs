// SPDX-License-Identifier: GPL-2.0-only
//! `sim run`: one workload under several policies.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::choice::Choice;
use super::machine::{ScaledMachine, headline, outcome_of, warm_up_ns};
use super::progress::Progress;
use crate::about::version;
use crate::agent::policy::{self, named};
use crate::cmd::{parse_time, print, print_json};
use crate::sim::Latency;
use crate::sim::Workload;
use crate::sim::comparison::{Comparison, measure_by_first};
use crate::sim::outcome::Outcome;
use crate::sim::parameters;
use crate::sim::report;
use crate::sim::score::ratio;
use crate::sim::variant::Variant;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    pub(super) scaled: ScaledMachine,

    /// How long, in seconds of the machine's time; the workload knows how long is worth it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,

    /// Measure nothing before so long has passed: by default 500ms, or 4s if a policy has trials,
    /// most of which have decided by then.
    #[arg(long, value_name = "TIME", value_parser = warm_up)]
    warm_up: Option<Duration>,

    /// Under this policy: one that "sim list" shows, or a policy file as for the scheduler; may be
    /// given several times. "set" is the one that --set makes.
    #[arg(long = "policy", value_name = "NAME|FILE")]
    policies: Vec<String>,

    /// Under the default policy with this knob turned; may be given several times, for one policy
    /// with all of them turned.
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    settings: Vec<String>,

    /// As JSON.
    #[arg(long)]
    json: bool,

    /// And as a page of HTML, which is written into this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let comparison = compare(options, options.choice.workload()?)?;
    write_report(options.report.as_deref(), || report::html(&comparison))?;
    let is_asked_for = options.scaled.machine.tier.is_some();
    if options.json { print_json(&comparison) } else { print(&table(&comparison, is_asked_for)?) }
}

pub fn warm_up(text: &str) -> Result<Duration, String> {
    parse_time(text, &(Duration::ZERO..=Duration::from_secs(3600)))
}

/// If it is wanted.
pub fn write_report(file: Option<&Path>, page: impl FnOnce() -> String) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    fs::write(file, page()).with_context(|| cannot_write(file))
}

/// Whether it could be written, before a run that would be lost otherwise. What is in the file
/// stays there until then, and where there is none there is none again, for the run may fail.
pub fn check_report(file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    check_writable(file).with_context(|| cannot_write(file))
}

pub fn check_writable(file: &Path) -> io::Result<()> {
    let is_new = fs::symlink_metadata(file).is_err();
    // Who reads from a pipe would take this for the end.
    if !(is_new || file.is_file() || file.is_dir()) {
        return Ok(());
    }
    let mut opened = File::options().append(true).create(true).open(file).map(drop);
    if is_new {
        opened = opened.and_then(|()| fs::remove_file(file));
    }
    opened
}

fn cannot_write(file: &Path) -> String {
    format!("cannot write the report to {}", file.display())
}

fn compare(options: &Options, workload: Workload) -> Result<Comparison> {
    let variants = variants(&options.policies, &options.settings)?;
    let seconds = options.seconds.unwrap_or(workload.seconds);
    let mut setup = options.scaled.setup(workload, seconds)?;
    let given = options.warm_up.map(|it| Ok(it.as_nanos() as u64));
    setup.warm_up_ns = given.unwrap_or_else(|| warm_up_ns(&variants))?;
    check_report(options.report.as_deref())?;
    let progress = Progress::new(variants.len());
    let mut outcomes = Vec::new();
    for variant in &variants {
        outcomes.push(outcome_of(&setup, variant)?);
        progress.step();
    }
    measure_by_first(&mut outcomes);
    let machine = &options.scaled.machine;
    Ok(Comparison {
        kind: "modelled".to_owned(),
        command: command_line(),
        version: version(),
        parameters: parameters::all(&setup),
        workload: setup.workload.name,
        about: setup.workload.about,
        tier: machine.tier(&setup.model)?.name().to_owned(),
        model: setup.model.name.to_owned(),
        shape: machine.shape(),
        seconds,
        seed: machine.seed,
        outcomes,
    })
}

/// Those that are named; or all of them, or the reference and what is set.
pub fn variants(names: &[String], settings: &[String]) -> Result<Vec<Variant>> {
    let set = || (!settings.is_empty()).then(|| Variant::with(settings));
    let named = |name: &String| match name.as_str() {
        "set" => set().context("the policy \"set\" is the one that --set makes: use --set as well"),
        name => Variant::named(name).map_or_else(|| of_agent(name), Ok),
    };
    if names.is_empty() && settings.is_empty() {
        return Ok(Variant::compared());
    }
    let mut variants = names.iter().map(named).collect::<Result<Vec<_>>>()?;
    if variants.is_empty() {
        variants.extend(Variant::compared().into_iter().next());
    }
    let has_set = variants.iter().any(|variant| variant.name == "set");
    variants.extend(set().filter(|_| !has_set));
    Ok(variants)
}

/// A policy as the scheduler takes it, by its name or from a file.
fn of_agent(name: &str) -> Result<Variant> {
    let about = match (named::find(name), policy::is_file(name)) {
        (Some(_), _) => format!("the policy {name}"),
        (None, true) => format!("the policy of {name}"),
        (None, false) => {
            let own: Vec<String> = Variant::all().into_iter().map(|it| it.name).collect();
            bail!(
                "there is no policy {name:?}: choose one of the simulator's ({}), one of the \
                 scheduler's ({}), or a policy file",
                own.join(", "),
                named::names().collect::<Vec<_>>().join(", ")
            )
        }
    };
    let differences = policy::differences(&policy::standard(), &policy::load(name)?);
    let settings = differences.iter().map(|it| format!("{}={}", it.knob, it.to)).collect();
    Ok(Variant::of_policy(name, about, settings))
}

/// What was typed, so that it can be typed again.
pub fn command_line() -> String {
    typed(std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()))
}

/// This program with these arguments, as a shell takes it.
pub fn typed(arguments: impl Iterator<Item = String>) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_=./+,:".contains(it);
    let word = |word: String| match word.chars().all(is_plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = arguments.map(word);
    std::iter::once(crate::about::NAME.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Whether its tier was asked for.
fn table(comparison: &Comparison, is_asked_for: bool) -> Result<String> {
    let Comparison { workload, about, model, shape, seconds, seed, .. } = comparison;
    let what = format!("{workload}: {about}. {model}, {shape}, {seconds} s, seed {seed}");
    let mut text = headline(&what, model, shape.cores);
    text.push_str(left_alone(&comparison.tier, is_asked_for));
    if let Some(why) = comparison.why_no_interval() {
        writeln!(text, "{why}")?;
    }
    writeln!(
        text,
        "{:>11} {:>8} {:>6} {:>9} {:>9} {:>9} {:>5} {:>7} {:>6} {:>7} {:>6}",
        "requests/s",
        "relative",
        "+-",
        "p50 us",
        "p99 us",
        "max us",
        "AVX",
        "changes",
        "low",
        "moves",
        "busy"
    )?;
    for outcome in &comparison.outcomes {
        write_outcome(&mut text, outcome)?;
    }
    Ok(text)
}

/// Why all that is done about AVX work is nothing, if it is.
fn left_alone(tier: &str, is_asked_for: bool) -> &'static str {
    match (tier, is_asked_for) {
        ("observe", true) => "With --tier observe the scheduler does nothing about AVX work.\n",
        ("observe", false) => {
            "The scheduler does nothing about AVX work there, but with --force.\n"
        }
        _ => "",
    }
}

/// Requests of several groups are not the same thing, so each has a line of its own.
fn write_outcome(text: &mut String, outcome: &Outcome) -> Result<()> {
    let is_alone = outcome.groups.len() == 1;
    let requests = if is_alone { format!("{:.1}", outcome.requests_per_s) } else { String::new() };
    writeln!(
        text,
        "{requests:>11} {:>8} {:>6} {} {:5} {:7} {:6.2} {:7.2} {:6.3}  {}",
        ratio(outcome.relative),
        ratio(outcome.uncertainty()),
        times(outcome.latency_us),
        outcome.avx_cores,
        outcome.role_changes,
        outcome.low_cores,
        outcome.migrations_per_request,
        outcome.busy_share,
        outcome.told()
    )?;
    if is_alone { Ok(()) } else { write_groups(text, outcome) }
}

fn write_groups(text: &mut String, outcome: &Outcome) -> Result<()> {
    for group in &outcome.groups {
        let Some(relative) = group.relative else { continue };
        let (per_s, times) = (group.requests_per_s, times(group.latency_us));
        writeln!(
            text,
            "{per_s:11.1} {relative:8.4} {:>6} {times} {:35}    {}",
            "", "", group.name
        )?;
    }
    Ok(())
}

fn times(latency: Option<Latency>) -> String {
    let time =
        |of: fn(&Latency) -> f64| latency.map_or("-".to_owned(), |it| format!("{:.0}", of(&it)));
    format!("{:>9} {:>9} {:>9}", time(|it| it.p50), time(|it| it.p99), time(|it| it.max))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Run {
        #[command(flatten)]
        options: Options,
    }

    fn names(policies: &[&str], settings: &[&str]) -> Result<Vec<String>> {
        let owned = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let found = variants(&owned(policies), &owned(settings))?;
        Ok(found.into_iter().map(|variant| variant.name).collect())
    }

    fn only(policy: &str) -> Variant {
        let [variant] = &variants(&[policy.to_owned()], &[]).unwrap()[..] else {
            panic!("{policy} is more than one");
        };
        variant.clone()
    }

    #[test]
    fn what_is_set_is_compared_with_the_first() {
        assert_eq!(
            names(&[], &[]).unwrap(),
            ["off", "alone", "two-siblings", "dynamic", "default"]
        );
        assert_eq!(names(&["default"], &[]).unwrap(), ["default"]);
        assert_eq!(names(&[], &["sizing=share"]).unwrap(), ["off", "set"]);
        assert_eq!(names(&["default"], &["sizing=share"]).unwrap(), ["default", "set"]);
        assert_eq!(names(&["set"], &["sizing=share"]).unwrap(), ["set"]);
        assert_eq!(names(&["fair", "off"], &[]).unwrap(), ["fair", "off"]);
        let error = |name| format!("{:#}", names(&[name], &[]).unwrap_err());
        assert!(error("set").contains("use --set as well"), "{}", error("set"));
        let best = error("best");
        assert!(best.contains("the simulator's (off, alone, two-siblings,"), "{best}");
        assert!(best.contains("the scheduler's (adaptive, fault-migrate, static,"), "{best}");
    }

    #[test]
    fn a_report_that_cannot_be_written_is_refused_before_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let error = |path: &Path| format!("{:#}", check_report(Some(path)).unwrap_err());
        let nowhere = at("nowhere/page.html");
        let expected = format!("cannot write the report to {}: No such file", nowhere.display());
        assert!(error(&nowhere).starts_with(&expected), "{}", error(&nowhere));
        assert!(error(dir.path()).contains("Is a directory"), "{}", error(dir.path()));

        // It leaves everything as it was.
        check_report(Some(&at("new.html"))).unwrap();
        assert!(!at("new.html").exists());
        fs::write(at("old.html"), "old").unwrap();
        check_report(Some(&at("old.html"))).unwrap();
        assert_eq!(fs::read_to_string(at("old.html")).unwrap(), "old");
        check_report(None).unwrap();

        let options =
            ["run", "nginx", "--seconds=1", "--policy=off", "--report", nowhere.to_str().unwrap()];
        let options = Run::try_parse_from(options).unwrap().options;
        let error = compare(&options, options.choice.workload().unwrap()).unwrap_err();
        assert!(format!("{error:#}").starts_with(&expected), "{error:#}");
    }

    /// Of what a machine could do, so much arrives: whether it grows is no matter of the policy.
    #[test]
    fn where_more_arrives_than_is_done_there_is_no_interval() {
        let dir = tempfile::tempdir().unwrap();
        let of_capacity = |share: f64| {
            let path = dir.path().join("it.toml");
            let text = format!(
                "about = \"it\"\n[[group]]\nname = \"it\"\nper = \"cpu\"\n\
                 arrivals = {{ of_capacity = {share} }}\n\
                 steps = [\"wait\", {{ work = \"scalar\", us = 500 }}, \"done\"]\n"
            );
            fs::write(&path, text).unwrap();
            let words = ["run", "--cores=2", "--seconds=1", "--policy=off", "--policy=default"];
            let file = ["--workload", path.to_str().unwrap()];
            let options = Run::try_parse_from(words.iter().chain(&file)).unwrap().options;
            compare(&options, options.choice.workload().unwrap()).unwrap()
        };
        let why = "More requests arrive than are done under these policies, so a ratio with one of \
                   them has no interval: without AVX-512; the default policy.";
        let all = |of: &Comparison| {
            let json = serde_json::to_value(of).unwrap()["outcomes"][1]["relative_95"].clone();
            (json, table(of, false).unwrap(), report::html(of))
        };
        let (json, text, page) = all(&of_capacity(1.2));
        assert!(json.is_null() && text.contains(why) && page.contains(why), "{json} {text}");
        let line = text.lines().find(|line| line.ends_with("  the default policy")).unwrap();
        assert_eq!(line.split_whitespace().nth(2), Some("-"), "{text}");

        let (json, text, page) = all(&of_capacity(0.7));
        assert!(json.is_array() && !text.contains("More requests"), "{json} {text}");
        assert!(!page.contains("More requests"));
        // There is no ratio to be uncertain of.
        let mut alone = of_capacity(1.2);
        alone.outcomes.truncate(1);
        assert_eq!(alone.why_no_interval(), None);
    }

    #[test]
    fn who_asks_for_nothing_to_be_done_is_not_told_to_force_it() {
        assert!(left_alone("observe", false).contains("but with --force"));
        assert!(left_alone("observe", true).starts_with("With --tier observe"));
        assert_eq!(left_alone("trap", true), "");
    }

    /// What the scheduler calls so, to the last knob.
    #[test]
    fn policies_of_the_scheduler_are_what_they_are_there() {
        for it in named::NAMED {
            let variant = only(it.name);
            assert!(variant.mitigates && variant.has_avx512, "{}", it.name);
            let policy = policy::turned(policy::standard(), &variant.settings).unwrap();
            assert_eq!(named::name_of(&policy), it.name);
        }
        assert_eq!(only("static").settings, ["sizing=static", "trials=off"]);
        assert_eq!(only("static").about, "the policy static");
        // Whatever the simulator has of its own hides none of them.
        assert!(Variant::all().iter().all(|own| named::find(&own.name).is_none()));
    }

    #[test]
    fn linux_by_itself_is_compared_where_it_is_asked_for() {
        let is_eevdf = |variant: &Variant| variant.name == "eevdf";
        assert!(!variants(&[], &[]).unwrap().iter().any(is_eevdf));
        assert!(is_eevdf(&only("eevdf")));
        assert!(Variant::all().iter().any(is_eevdf));
    }

    #[test]
    fn a_policy_may_be_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        let file = path.to_str().unwrap();
        fs::write(&path, "base = \"fair\"\navx-slice = \"3ms\"\navx-cpus = 2\n").unwrap();
        let variant = only(file);
        assert_eq!(
            (variant.name, variant.about),
            (file.to_owned(), format!("the policy of {file}"))
        );
        let loaded = policy::load(file).unwrap();
        let policy = policy::turned(policy::standard(), &variant.settings).unwrap();
        assert!(policy::differences(&loaded, &policy).is_empty(), "{:?}", variant.settings);
        fs::write(&path, "speed = 1\n").unwrap();
        for (bad, expected) in [(file, "there is no knob \"speed\""), ("/nowhere", "no such file")]
        {
            let error = format!("{:#}", names(&[bad], &[]).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
