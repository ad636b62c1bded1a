// SPDX-License-Identifier: GPL-2.0-only
//! `sim harm`: whom a policy harms, in workloads that nobody chose.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::harm_run::{Plan, play};
use super::machine::policy_of;
use super::run::{check_report, check_writable, command_line, variants, warm_up, write_report};
use crate::about::version;
use crate::agent::preflight::tier;
use crate::cmd::{print, print_json};
use crate::sim::harm::draw::{Draw, draw};
use crate::sim::harm::judge::{Judged, SEEDS_MAX, baseline};
use crate::sim::harm::tally::{Case, Replay, Search, Tally, gain, worst};
use crate::sim::report;

#[derive(Debug, Args)]
pub struct Options {
    /// How many workloads are drawn.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10000))]
    number: u64,

    /// What they are drawn by: the same seed draws the same workloads and gives the same result, to
    /// the last digit, and a larger number of them begins with the same ones.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Judge this policy, as for "sim run", instead of the default one; may be given several times.
    #[arg(long = "policy", value_name = "NAME|FILE")]
    policies: Vec<String>,

    /// Judge the default policy with this knob turned; may be given several times, for one policy
    /// with all of them turned.
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    settings: Vec<String>,

    /// Find out about AVX work in this way, where the scheduler would do something about it at all.
    #[arg(long, value_name = "NAME", value_enum)]
    tier: Option<tier::Name>,

    /// Measure nothing before so long has passed, in which trials decide.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = warm_up)]
    warm_up: Duration,

    /// With how many other seeds a workload is run again in which a group seems to be harmed.
    #[arg(
        long,
        default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(2..=i64::from(SEEDS_MAX))
    )]
    seeds: u16,

    /// How many of those who are harmed the most are told of.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=1000))]
    worst: u16,

    /// Write the workloads of these into files in this directory, which is made if it is not there;
    /// the command lines that are shown play them again.
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,

    /// As JSON, with all workloads.
    #[arg(long)]
    json: bool,

    /// And as a page of HTML, which is written into this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let plan = options.plan()?;
    check_report(options.report.as_deref())?;
    if let Some(directory) = &options.write {
        check_directory(directory)?;
    }
    let search = search(options, &plan)?;
    let nr_worst = options.worst.into();
    if let Some(directory) = &options.write {
        write_workloads(directory, &search, nr_worst)?;
    }
    write_report(options.report.as_deref(), || report::harm::search(&search, nr_worst))?;
    if options.json {
        print_json(&search)?
    } else {
        print(&table(&search, nr_worst)?)?
    }
    match &search.failures[..] {
        [] => Ok(()),
        [first, others @ ..] => bail!(
            "{} of {} workloads could not be run: please report {}: {}",
            others.len() + 1,
            search.workloads,
            first.replay.workload,
            first.error
        ),
    }
}

impl Options {
    /// What is wrong with policies is said before anything takes long.
    fn plan(&self) -> Result<Plan> {
        let mut names = self.policies.clone();
        if !self.settings.is_empty() && !names.iter().any(|name| name == "set") {
            names.push("set".to_owned());
        }
        if names.is_empty() {
            names.push("default".to_owned());
        }
        let judged = variants(&names, &self.settings)?;
        for variant in &judged {
            policy_of(variant)?;
        }
        let baseline = baseline();
        let others = names.iter().filter(|name| !baseline.contains(&name.as_str()));
        let all = baseline.iter().copied().chain(others.map(String::as_str));
        let policies = all.map(|name| format!("--policy={name}"));
        let warm_up = [format!("--warm-up={}", humantime::format_duration(self.warm_up))];
        let settings = self.settings.iter().map(|it| format!("--set={it}"));
        let directory = self.write.as_ref().map(|it| format!("{}/", it.display()));
        Ok(Plan {
            policies: judged.into_iter().map(|it| it.name).collect(),
            arguments: warm_up.into_iter().chain(policies).chain(settings).collect(),
            tier: self.tier,
            baseline,
            seed: self.seed,
            seeds: self.seeds,
            directory: directory.unwrap_or_default(),
        })
    }
}

fn search(options: &Options, plan: &Plan) -> Result<Search> {
    let draws: Vec<Draw> = (1..=options.number).map(|n| draw(options.seed, n)).collect();
    let (mut cases, mut failures) = (Vec::new(), Vec::new());
    for played in play(plan, &draws)? {
        match played {
            Ok(case) => cases.push(case),
            Err(failure) => failures.push(failure),
        }
    }
    Ok(Search {
        kind: "modelled",
        command: command_line(),
        version: version(),
        seed: options.seed,
        workloads: options.number,
        seeds: options.seeds,
        baseline: plan.baseline.clone(),
        policies: plan.policies.iter().map(|policy| Tally::of(policy, &cases)).collect(),
        cases,
        failures,
    })
}

fn check_directory(directory: &Path) -> Result<()> {
    let probe = directory.join("harm.toml");
    fs::create_dir_all(directory)
        .and_then(|()| check_writable(&probe))
        .with_context(|| format!("cannot write workloads to {}", directory.display()))
}

/// Each with the command line that plays it.
fn write_workloads(directory: &Path, search: &Search, nr_worst: usize) -> Result<()> {
    let worst = worst(&search.cases, nr_worst).into_iter().map(|(case, _)| &case.replay);
    let failed = search.failures.iter().map(|it| &it.replay);
    for Replay { workload, command, text } in worst.chain(failed) {
        let file = directory.join(format!("{workload}.toml"));
        fs::write(&file, format!("# {command}\n\n{text}"))
            .with_context(|| format!("cannot write the workload to {}", file.display()))?;
    }
    Ok(())
}

fn table(search: &Search, nr_worst: usize) -> Result<String> {
    let mut text = format!(
        "{} workloads with seed {}. All figures are modelled.\n",
        search.workloads, search.seed
    );
    writeln!(
        text,
        "{:>7} {:>7} {:>7} {:>7} {:>7} {:>9} {:>8}",
        "groups", "harmed", "< 0.9", "< 0.5", "> 1.1", "had more", "pile up"
    )?;
    for it in &search.policies {
        let harmed = [it.groups, it.harmed, it.harmed_below_0_9, it.harmed_below_0_5];
        let harmed: String = harmed.iter().map(|nr| format!("{nr:7} ")).collect();
        let (more, had_more, pile_up) = (it.gain_above_1_1, it.had_more, it.pile_up);
        writeln!(text, "{harmed}{more:7} {had_more:9} {pile_up:8}  {}", it.policy)?;
    }
    let baseline = search.baseline.join(" or ");
    writeln!(
        text,
        "Of ten groups so many get less than this share of what they get under {baseline}:"
    )?;
    let head: String = (1..10).map(|n| format!("{n:7} ")).collect();
    writeln!(text, "{}", head.trim_end())?;
    for it in &search.policies {
        let deciles: String = it.deciles.iter().map(|it| format!("{it:7.4} ")).collect();
        writeln!(text, "{deciles} {}", it.policy)?;
    }
    for (case, judged) in worst(&search.cases, nr_worst) {
        write_case(&mut text, case, judged)?;
    }
    Ok(text)
}

fn write_case(text: &mut String, case: &Case, judged: &Judged) -> Result<()> {
    let measure = judged.measure.map_or("-", |it| it.name());
    let by = judged.baseline.unwrap_or("-");
    writeln!(
        text,
        "{} of the {measure} that {} of {} gets under {by}, under {}:",
        gain(judged),
        judged.group,
        case.replay.workload,
        judged.policy
    )?;
    if let Some(it) = judged.cpus {
        let (had, has, share) = (it.had, it.has, it.share);
        writeln!(text, "  It has {has:.2} CPUs instead of {had:.2}, and its share is {share:.2}.")?;
    }
    Ok(writeln!(text, "  {}", case.replay.command)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::sim::harm::judge::{Cpus, Measure, Verdict};
    use crate::sim::harm::tally::{made_up, made_up_search};

    #[derive(Parser)]
    struct Harm {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        Harm::try_parse_from(words.split(' ')).unwrap().options
    }

    fn search() -> Search {
        let judged = |group: &str, verdict, gain| Judged {
            group: group.to_owned(),
            policy: "default".to_owned(),
            verdict,
            measure: Some(Measure::P99),
            gain: Some(gain),
            gain_95: Some([gain - 0.02, gain + 0.02]),
            baseline: Some("alone"),
            cpus: Some(Cpus { had: 2.0, has: 1.5, share: 1.75 }),
        };
        let judged = vec![judged("a", Verdict::Harmed, 0.75), judged("b", Verdict::Fine, 1.25)];
        let cases = vec![Case { judged, ..made_up("harm-1-2", &[]) }];
        Search { seed: 1, workloads: 2, ..made_up_search(cases, Vec::new()) }
    }

    #[test]
    fn the_baseline_is_run_beside_those_that_are_judged() {
        let plan = |words| options(words).plan().unwrap();
        let mut first = vec!["--warm-up=2s".to_owned()];
        first.extend(baseline().iter().map(|it| format!("--policy={it}")));
        let with = |words, judged: &[&str], more: &[&str]| {
            let plan = plan(words);
            assert_eq!(plan.policies, judged, "{words}");
            let more = more.iter().map(|it| (*it).to_owned());
            let expected: Vec<String> = first.iter().cloned().chain(more).collect();
            assert_eq!(plan.arguments, expected, "{words}");
        };
        with("harm", &["default"], &["--policy=default"]);
        with("harm --policy=alone --policy=fair", &["alone", "fair"], &["--policy=fair"]);
        with("harm --set=steal=0ms", &["set"], &["--policy=set", "--set=steal=0ms"]);
        assert_eq!(plan("harm --write=there").directory, "there/");
    }

    #[test]
    fn what_is_wrong_is_said_before_the_search() {
        for (words, expected) in [
            ("harm --policy=nope", "there is no policy \"nope\": choose one of"),
            ("harm --policy=set", "the policy \"set\" is the one that --set makes"),
            ("harm --set=speed=1", "there is no knob \"speed\""),
        ] {
            let error = format!("{:#}", run(&options(words)).unwrap_err());
            assert!(error.contains(expected), "{words}: {error}");
        }
        for words in ["harm --number=0", "harm --seeds=1", "harm --seeds=11", "harm nginx"] {
            assert!(Harm::try_parse_from(words.split(' ')).is_err(), "{words}");
        }
        let error = format!("{:#}", check_directory(Path::new("/dev/null/it")).unwrap_err());
        assert!(error.starts_with("cannot write workloads to /dev/null/it: "), "{error}");
    }

    #[test]
    fn the_worst_are_told_with_what_plays_them_again() {
        let text = table(&search(), 1).unwrap();
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0].join(" "), "2 workloads with seed 1. All figures are modelled.");
        assert_eq!(rows[2], ["2", "1", "1", "0", "1", "0", "0", "default"]);
        assert_eq!(rows[5].last(), Some(&"default"));
        let worst = "0.7500 +- 0.0200 of the p99 that a of harm-1-2 gets under alone, under default:\n\
                     \x20 It has 1.50 CPUs instead of 2.00, and its share is 1.75.\n\
                     \x20 \
                     scx_avxspec sim run --workload=harm-1-2.toml\n";
        assert!(text.ends_with(worst), "{text}");
        assert_eq!(table(&search(), 0).unwrap().lines().count(), 6);
    }

    #[test]
    fn files_say_how_they_are_played() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("new");
        check_directory(&there).unwrap();
        assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
        write_workloads(&there, &search(), 3).unwrap();
        let text = fs::read_to_string(there.join("harm-1-2.toml")).unwrap();
        let expected = "# scx_avxspec sim run --workload=harm-1-2.toml\n\nabout = \"it\"\n";
        assert_eq!(text, expected);
    }
}
