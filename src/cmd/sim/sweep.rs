// SPDX-License-Identifier: GPL-2.0-only
//! `sim sweep`: many runs, to see what a result is worth.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};

use super::choice::from_file;
use super::jobs;
use super::machine::{Machine, headline, word_of};
use super::run::{check_report, command_line, variants, write_report};
use crate::about::version;
use crate::cmd::{print, print_json};
use crate::sim::Workload;
use crate::sim::outcome::Outcome;
use crate::sim::report::{self, Made};
use crate::sim::score::{self, Score, ratio};
use crate::sim::sweep::{self, Best, Drawn, Spread};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Vary what nobody knows well: the hold of licences, the request for them, what moves cost in
    /// the kernel, and in cold caches, each from half to one and a half of what it is thought to be.
    ///
    /// Beside the work it tells what 95 of 100 draws are below: how far the work deviates from seed
    /// to seed, by its mean, if each draw is run with several (where requests arrive from outside it
    /// is how soon they are done that deviates), and how often CPUs change their roles
    /// in 10 s after the first 30 s, in which policies learn, if a run is longer.
    Draws {
        #[command(flatten)]
        common: Common,

        /// How many times.
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10000))]
        draws: u16,

        /// How many seeds each draw is run with, to see how far they are apart. All else is told of
        /// the first one.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
        seeds: u16,

        /// Under this policy, as for "sim run"; may be given several times.
        #[arg(long = "policy", value_name = "NAME|FILE")]
        policies: Vec<String>,

        /// Under the default policy with this knob turned; may be given several times, for one
        /// policy with all of them turned.
        #[arg(long = "set", value_name = "KNOB=VALUE")]
        settings: Vec<String>,
    },
    /// Look for the best static partition, and measure the default policy by it.
    ///
    /// Groups of threads count by the work that they get done. Those for which requests arrive from
    /// outside, however many wait, count by how soon these are done: by the mean time that they
    /// take, with those in it that never are. All is by what is without AVX-512. Beside others such
    /// groups weigh as much as the work that they have, and among themselves by their requests.
    Static {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
pub struct Common {
    /// What the machine is to do: some of those that "sim list" shows.
    #[arg(required_unless_present = "files")]
    workloads: Vec<String>,

    /// And workloads of your own; may be given several times.
    #[arg(long = "workload", id = "files", value_name = "FILE")]
    files: Vec<String>,

    #[command(flatten)]
    machine: Machine,

    /// How long each run is, in seconds of the machine's time; by default 1, or for as long as the
    /// workload says if it has several phases.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,

    /// As JSON.
    #[arg(long)]
    json: bool,

    /// And as a page of HTML, which is written into this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// A workload, how a run is told of it, and how long that is.
struct Chosen {
    name: String,
    argument: String,
    seconds: u64,
}

impl Common {
    fn made(&self) -> Made {
        Made {
            model: self.machine.model.clone(),
            shape: self.machine.shape(),
            seconds: None,
            seed: self.machine.seed,
            command: command_line(),
            version: version(),
        }
    }

    /// What is wrong is said before anything takes long.
    fn checked(&self) -> Result<Vec<Chosen>> {
        let chosen = self.chosen()?;
        check_report(self.report.as_deref())?;
        Ok(chosen)
    }

    /// Those that have names, and then those in files.
    fn chosen(&self) -> Result<Vec<Chosen>> {
        let named = |name: &String| self.choice(Workload::named(name)?, name.clone());
        let in_file =
            |file: &String| self.choice(from_file(Path::new(file))?, format!("--workload={file}"));
        self.workloads.iter().map(named).chain(self.files.iter().map(in_file)).collect()
    }

    fn choice(&self, workload: Workload, argument: String) -> Result<Chosen> {
        let (name, seconds) = (workload.name.clone(), self.seconds_of(&workload));
        self.machine.setup(workload, seconds)?;
        Ok(Chosen { name, argument, seconds })
    }

    /// A second tells little of a workload whose later phases it does not see.
    fn seconds_of(&self, workload: &Workload) -> u64 {
        let by_default = if workload.phases.len() > 1 { workload.seconds } else { 1 };
        self.seconds.unwrap_or(by_default)
    }

    /// What a run needs to be told.
    fn arguments(&self, workload: &Chosen, seed: u64) -> Vec<String> {
        let Machine { model, cores, threads, sockets, nodes, llcs, force, counters, tier, seed: _ } =
            &self.machine;
        let numbers = [
            ("cores", u64::from(*cores)),
            ("threads", u64::from(*threads)),
            ("sockets", u64::from(*sockets)),
            ("nodes", u64::from(*nodes)),
            ("llcs", u64::from(*llcs)),
            ("seconds", workload.seconds),
            ("seed", seed),
        ];
        let mut arguments = vec![workload.argument.clone(), format!("--model={model}")];
        arguments.push(format!("--counters={}", word_of(counters)));
        arguments.extend(tier.map(|tier| format!("--tier={}", word_of(&tier))));
        arguments.extend(numbers.map(|(name, number)| format!("--{name}={number}")));
        arguments.extend(force.then(|| "--force".to_owned()));
        arguments
    }
}

pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Draws { common, draws, seeds, policies, settings } => {
            variants(policies, settings)?;
            let named = policies.iter().map(|name| format!("--policy={name}"));
            let set = settings.iter().map(|setting| format!("--set={setting}"));
            draw(common, *draws, *seeds, &named.chain(set).collect::<Vec<_>>())
        }
        Command::Static { common } => partition(common),
    }
}

/// `chosen` is what a run is to be told of policies.
fn draw(common: &Common, nr: u16, nr_seeds: u16, chosen: &[String]) -> Result<()> {
    let workloads = common.checked()?;
    let seed = common.machine.seed;
    let factors = sweep::draws(nr.into(), seed);
    let mut all = Vec::new();
    for workload in &workloads {
        let job = |factors: &Vec<String>, nth: u64| {
            let mut arguments = common.arguments(workload, seed.wrapping_add(nth));
            arguments.extend(factors.iter().map(|factor| format!("--scale={factor}")));
            arguments.extend_from_slice(chosen);
            arguments
        };
        // No two of all runs have the same one.
        let of_draw = |n| (0..u64::from(nr_seeds)).map(move |seed| seed * u64::from(nr) + n);
        let jobs: Vec<Vec<String>> = (0..)
            .zip(&factors)
            .flat_map(|(n, factors)| of_draw(n).map(move |nth| job(factors, nth)))
            .collect();
        let comparisons = jobs::all(&jobs, jobs::run)?;
        let of_draws: Vec<_> = comparisons.chunks(nr_seeds.into()).map(<[_]>::to_vec).collect();
        let policies = sweep::spreads(&of_draws);
        if !common.json {
            print(&draws_table(&workload.name, nr, &policies, &common.machine)?)?;
        }
        all.push(Drawn {
            kind: "modelled",
            workload: workload.name.clone(),
            draws: nr,
            seconds: workload.seconds,
            seed,
            factors: factors.clone(),
            policies,
        });
    }
    write_report(common.report.as_deref(), || report::sweep::draws(&all, &common.made()))?;
    if common.json { print_json(&all) } else { Ok(()) }
}

fn draws_table(workload: &str, nr: u16, policies: &[Spread], machine: &Machine) -> Result<String> {
    let what = format!("{workload}: {nr} draws");
    let mut text = headline(&what, &machine.model, machine.cores);
    let high = |of: &[f64]| sweep::percentile(of, 0.95);
    writeln!(text, "{:>9} {:>9} {:>7} {:>7}", "median", "5 % below", "sigma", "changes")?;
    for it in policies {
        let [median, p5, sigma] = [it.median, it.p5, high(&it.sigma)].map(ratio);
        let changes = high(&it.role_changes_10s).map_or("-".to_owned(), |nr| format!("{nr:.1}"));
        writeln!(text, "{median:>9} {p5:>9} {sigma:>7} {changes:>7}  {}", it.variant)?;
    }
    Ok(text)
}

fn partition(common: &Common) -> Result<()> {
    let workloads = common.checked()?;
    let mut all = Vec::new();
    for workload in &workloads {
        let best = best(common, workload)?;
        if !common.json {
            print(&static_table(&best, &common.machine)?)?;
        }
        all.push(best);
    }
    write_report(common.report.as_deref(), || report::sweep::partitions(&all, &common.made()))?;
    if common.json { print_json(&all) } else { Ok(()) }
}

fn best(common: &Common, workload: &Chosen) -> Result<Best> {
    let Machine { sockets, nodes, seed, .. } = common.machine;
    let nr_nodes = usize::from(sockets) * usize::from(nodes);
    let partitions = sweep::partitions(common.machine.nr_cpus(), nr_nodes);
    let given = |more: &[String]| {
        let mut arguments = common.arguments(workload, seed);
        arguments.extend_from_slice(more);
        arguments
    };
    let policies = ["--policy=off", "--policy=untried"].map(str::to_owned);
    let mut jobs = vec![given(&policies)];
    jobs.extend(partitions.iter().map(|settings| {
        let set = settings.iter().map(|setting| format!("--set={setting}"));
        given(&["--policy=set".to_owned()].into_iter().chain(set).collect::<Vec<_>>())
    }));
    let comparisons = jobs::all(&jobs, jobs::run)?;
    let (first, others) = comparisons.split_first().context("there was no run")?;
    let (Some(off), Some(default)) = (first.named("off"), first.named("untried")) else {
        bail!("a policy is missing");
    };
    ensure!(off.work > 0.0, "{}: nothing was done: simulate for longer", workload.name);
    let outcomes: Vec<&Outcome> = others.iter().filter_map(|other| other.named("set")).collect();
    let scores = outcomes.iter().map(|outcome| Score::of(outcome, off));
    let tried: Vec<(Vec<String>, Score)> = partitions.into_iter().zip(scores).collect();
    let gains = outcomes.iter().map(|it| score::gain_of_all(&it.groups, &default.groups));
    let best_for_all = gains.max_by(f64::total_cmp).context("no partition fits the machine")?;
    let open = off.groups.iter().filter(|group| score::is_open(group));
    let open_groups = open.map(|group| group.name.clone()).collect();
    let default = Score::of(default, off);
    let Chosen { name, seconds, .. } = workload;
    Ok(sweep::best(name, *seconds, open_groups, default, &tried, best_for_all))
}

fn static_table(best: &Best, machine: &Machine) -> Result<String> {
    let what = format!("{}: {} static partitions", best.workload, best.tried.len());
    let mut text = headline(&what, &machine.model, machine.cores);
    if !best.open_groups.is_empty() {
        let names = best.open_groups.join(", ");
        writeln!(text, "Counted by how soon requests from outside are done: {names}.")?;
    }
    writeln!(text, "{:>9} {:>9}", best.unit(), "balance")?;
    for it in best.tried.iter().take(3) {
        write_score(&mut text, it.score, &it.settings.join(" "))?;
    }
    let mut others = best.tried.iter().skip(3);
    if let Some(it) = others.find(|it| it.settings == best.balanced_settings) {
        write_score(&mut text, it.score, &it.settings.join(" "))?;
    }
    let (work, balance) = (best.default_by_best, best.default_by_best_balance);
    let says = format!("the default policy without trials, {work:.4} and {balance:.4} of the best");
    write_score(&mut text, best.default, &says)?;
    let for_all = best.best_for_all;
    writeln!(text, "For every group of threads the best does {for_all:.4} of what that does.")?;
    Ok(text)
}

fn write_score(text: &mut String, score: Score, what: &str) -> Result<()> {
    Ok(writeln!(text, "{:9.4} {:9.4}  {what}", score.work, score.balance)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cmd::sim::run::Options;

    #[derive(Parser)]
    struct Sweep {
        #[command(flatten)]
        common: Common,
    }

    #[derive(Parser)]
    struct Run {
        #[command(flatten)]
        options: Options,
    }

    fn common(words: &str) -> Common {
        Sweep::try_parse_from(words.split(' ')).unwrap().common
    }

    fn own_file(name: &str) -> String {
        format!("{}/src/sim/workload/shipped/{name}.toml", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn each_run_is_on_the_machine_that_was_asked_for() {
        let words = "sweep nginx --model=gold-6130 --cores=4 --threads=1 --sockets=2 --nodes=2 --llcs=2 \
                     --force --counters=licences --tier=counters --seed=7 --seconds=2";
        for words in [words, "sweep nginx"] {
            let common = common(words);
            let [workload] = &common.chosen().unwrap()[..] else { panic!("{words}") };
            let arguments = common.arguments(workload, common.machine.seed);
            let run = ["run".to_owned()].into_iter().chain(arguments);
            let options = Run::try_parse_from(run).unwrap().options;
            assert_eq!(options.scaled.machine, common.machine);
        }
    }

    #[test]
    fn workloads_have_names_or_are_in_files() {
        let [mine, yours] = ["steps", "tenants"].map(own_file);
        let words = format!("sweep nginx --workload={mine} x264 --workload {yours}");
        let chosen = common(&words).chosen().unwrap();
        let names: Vec<&str> = chosen.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["nginx", "x264", &mine, &yours]);
        for it in chosen {
            let run = ["run".to_owned(), it.argument];
            assert!(Run::try_parse_from(run).is_ok(), "{}", it.name);
        }
        assert!(Sweep::try_parse_from(["sweep", "--workload=mine.toml"]).is_ok());
        assert!(Sweep::try_parse_from(["sweep"]).is_err());
    }

    #[test]
    fn nothing_is_shown_of_draws_in_which_nothing_was_done() {
        let spread = |relative: Vec<f64>| Spread {
            policy: "p".to_owned(),
            variant: "it".to_owned(),
            median: sweep::percentile(&relative, 0.5),
            p5: sweep::percentile(&relative, 0.05),
            relative: relative.into_iter().map(Some).collect(),
            latency: Vec::new(),
            settle_ms: Vec::new(),
            sigma: Vec::new(),
            role_changes_10s: Vec::new(),
        };
        let policies = [spread(vec![0.75, 0.5]), spread(Vec::new())];
        let table = draws_table("w", 2, &policies, &common("sweep nginx").machine).unwrap();
        let rows: Vec<String> = table
            .lines()
            .skip(2)
            .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(rows, ["0.6250 0.5125 - - it", "- - - - it"]);
    }

    #[test]
    fn tables_say_which_clocks_nobody_knows() {
        let machine = common("sweep nginx --model=xeon-w-2104").machine;
        let score = Score { work: 1.0, balance: 1.0 };
        let best = sweep::best("w", 1, Vec::new(), score, &[(Vec::new(), score)], 1.0);
        let clocks = "clocks beyond 4 cores are those of 4. All figures are modelled.";
        for (table, what) in [
            (draws_table("w", 2, &[], &machine), "w: 2 draws"),
            (static_table(&best, &machine), "w: 1 static partitions"),
        ] {
            assert_eq!(table.unwrap().lines().next(), Some(&*format!("{what}, {clocks}")));
        }
    }

    #[test]
    fn a_report_that_cannot_be_written_is_refused_before_the_sweep() {
        let error = common("sweep nginx --report=/nowhere/page.html").checked().err().unwrap();
        assert!(
            format!("{error:#}").starts_with("cannot write the report to /nowhere/page.html: ")
        );
    }

    /// However long `nginx` says that it is worth to be looked at.
    #[test]
    fn a_load_that_changes_is_run_until_it_has_changed() {
        let seconds = |words: &str| -> Vec<u64> {
            common(words).chosen().unwrap().iter().map(|it| it.seconds).collect()
        };
        let words = format!("sweep nginx steps --workload={}", own_file("steps"));
        assert_eq!(seconds(&words), [1, 6, 6]);
        assert_eq!(seconds(&format!("{words} --seconds=3")), [3; 3]);
    }
}
