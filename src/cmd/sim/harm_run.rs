// SPDX-License-Identifier: GPL-2.0-only
//! Runs drawn workloads under all policies, and has what comes of it judged.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};

use super::jobs;
use super::machine::word_of;
use super::run::typed;
use crate::about::NAME;
use crate::agent::preflight::{Machine, Tier, tier};
use crate::bpf::intf::AVX_TIER_OBSERVE;
use crate::sim::comparison::Comparison;
use crate::sim::harm::draw::Draw;
use crate::sim::harm::judge::{Judged, Runs, members};
use crate::sim::harm::tally::{Case, Failure, Replay};
use crate::sim::harm::whole::Whole;
use crate::sim::model::Model;
use crate::sim::outcome::Outcome;
use crate::sim::workload_file;

/// What is compared, and how.
pub struct Plan {
    /// How to find out about AVX work, where something is done about it.
    pub tier: Option<tier::Name>,
    pub baseline: Vec<&'static str>,
    /// Those that are judged.
    pub policies: Vec<String>,
    /// What a run is told of all of them.
    pub arguments: Vec<String>,
    pub seed: u64,
    /// With which a workload is run again.
    pub seeds: u16,
    /// Where workloads are to be found afterwards.
    pub directory: String,
}

/// What came of a workload.
type Played = Result<Case, Failure>;

/// A draw, with the file that it is in meanwhile.
struct Filed<'a> {
    draw: &'a Draw,
    path: String,
}

pub fn play(plan: &Plan, draws: &[Draw]) -> Result<Vec<Played>> {
    let is_own = fs::Permissions::from_mode(0o700);
    let scratch = tempfile::Builder::new().prefix(NAME).permissions(is_own).tempdir();
    let scratch = scratch.context("there is no place for files: name another one in TMPDIR")?;
    let file = |draw| -> Result<Filed<'_>> {
        let draw: &Draw = draw;
        let path = scratch.path().join(format!("{}.toml", draw.name));
        fs::write(&path, &draw.text).with_context(|| format!("cannot write {}", path.display()))?;
        let path =
            path.to_str().context("the directory for temporary files has no name in UTF-8")?;
        Ok(Filed { draw, path: path.to_owned() })
    };
    let filed = draws.iter().map(file).collect::<Result<Vec<_>>>()?;
    let all: Vec<&Filed<'_>> = filed.iter().collect();
    let first = runs(plan, &all, &[plan.seed])?;
    let judged = filed.iter().zip(&first).map(|(it, runs)| judge(plan, it, runs));
    let mut played = judged.collect::<Result<Vec<_>>>()?;

    let seems_harmed = |played: &Played| {
        played.as_ref().is_ok_and(|case| case.judged.iter().any(Judged::seems_harmed))
    };
    let again: Vec<usize> = (0..filed.len()).filter(|n| seems_harmed(&played[*n])).collect();
    let seeds: Vec<u64> = (1..=u64::from(plan.seeds)).map(|n| plan.seed.wrapping_add(n)).collect();
    let chosen: Vec<&Filed<'_>> = again.iter().map(|n| &filed[*n]).collect();
    for (n, runs) in again.iter().zip(runs(plan, &chosen, &seeds)?) {
        played[*n] = judge(plan, &filed[*n], &runs)?;
    }
    Ok(played)
}

/// With each of the seeds, or what went wrong first.
type Seeds = Result<Vec<Comparison>, String>;

fn runs(plan: &Plan, all: &[&Filed<'_>], seeds: &[u64]) -> Result<Vec<Seeds>> {
    let job = |it: &Filed<'_>, seed: u64| {
        let file = [format!("--workload={}", it.path)].into_iter();
        file.chain(arguments(plan, it.draw, seed)).collect::<Vec<String>>()
    };
    let jobs: Vec<Vec<String>> =
        all.iter().flat_map(|it| seeds.iter().map(move |seed| job(it, *seed))).collect();
    // A mistake that the model finds is found, and no end of the search.
    let run = |job: &[String]| Ok(jobs::run(job).map_err(|error| format!("{error:#}")));
    let ran: Vec<Result<Comparison, String>> = jobs::all(&jobs, run)?;
    let mut ran = ran.into_iter();
    Ok(all
        .iter()
        .map(|_| ran.by_ref().take(seeds.len()).collect::<Vec<_>>())
        .map(|of_one| of_one.into_iter().collect())
        .collect())
}

/// What "sim run" is to be told beside the file.
fn arguments(plan: &Plan, draw: &Draw, seed: u64) -> impl Iterator<Item = String> + use<> {
    let shape = draw.shape;
    let numbers = [
        ("sockets", shape.sockets.into()),
        ("cores", shape.cores.into()),
        ("threads", shape.threads.into()),
        ("seconds", draw.seconds),
        ("seed", seed),
    ];
    let numbers = numbers.map(|(name, number): (&str, u64)| format!("--{name}={number}"));
    let model = [format!("--model={}", draw.model)].into_iter();
    let llcs = (shape.llcs > 1).then(|| format!("--llcs={}", shape.llcs));
    let tier = tier_on(plan, draw.model);
    model.chain(llcs).chain(tier).chain(numbers).chain(plan.arguments.clone())
}

fn tier_on(plan: &Plan, model: &str) -> Vec<String> {
    let Some((tier, model)) = plan.tier.zip(Model::named(model)) else { return Vec::new() };
    let best = Tier::best(false, &Machine::with_cpu(model.cpuinfo), false);
    if best.kind() == AVX_TIER_OBSERVE {
        return Vec::new();
    }
    let counters = (tier == tier::Name::Counters).then(|| "--counters=licences".to_owned());
    [format!("--tier={}", word_of(&tier))].into_iter().chain(counters).collect()
}

fn judge(plan: &Plan, it: &Filed<'_>, seeds: &Seeds) -> Result<Played> {
    let Draw { name, text, shape, .. } = it.draw;
    let file = format!("--workload={}{name}.toml", plan.directory);
    let told = ["sim".to_owned(), "run".to_owned(), file];
    let command = typed(told.into_iter().chain(arguments(plan, it.draw, plan.seed)));
    let replay = Replay { workload: name.clone(), command, text: text.clone() };
    let comparisons = match seeds {
        Ok(comparisons) => comparisons,
        Err(error) => {
            let error = error.replace(&it.path, &format!("{name}.toml"));
            return Ok(Err(Failure { replay, error }));
        }
    };
    let members = members(&workload_file::read(name, text)?, &shape.topology());
    let of_seeds: Vec<&[Outcome]> = comparisons.iter().map(|it| &it.outcomes[..]).collect();
    let runs = Runs { members: &members, cpus: shape.nr_cpus().into(), of_seeds };
    let judged = plan.policies.iter().flat_map(|policy| runs.judge(&plan.baseline, policy));
    let wholes = plan.policies.iter().map(|policy| Whole::of(&runs, policy));
    Ok(Ok(Case { replay, judged: judged.collect(), wholes: wholes.collect() }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cmd::sim::run;
    use crate::sim::harm::draw::draw;

    #[derive(Parser)]
    struct Run {
        #[command(flatten)]
        options: run::Options,
    }

    fn plan() -> Plan {
        Plan {
            tier: None,
            baseline: vec!["alone"],
            policies: vec!["default".to_owned()],
            arguments: ["--policy=alone", "--policy=default"].map(str::to_owned).into(),
            seed: 7,
            seeds: 2,
            directory: "my dir/".to_owned(),
        }
    }

    /// As "sim run" takes it.
    #[test]
    fn each_draw_runs_on_the_machine_that_was_drawn() {
        for n in 1..100 {
            let draw = draw(1, n);
            let words = arguments(&plan(), &draw, 9);
            let words =
                ["run".to_owned(), "--workload=it.toml".to_owned()].into_iter().chain(words);
            let machine = Run::try_parse_from(words).unwrap().options.scaled.machine;
            assert_eq!((machine.shape(), machine.model.as_str()), (draw.shape, draw.model));
            assert_eq!((machine.seed, machine.nr_cpus()), (9, draw.shape.nr_cpus() as usize));
            let workload = workload_file::read(&draw.name, &draw.text).unwrap();
            machine.setup(workload, draw.seconds).unwrap();
        }
    }

    #[test]
    fn a_tier_is_for_processors_where_something_is_done() {
        let on = |tier, model| tier_on(&Plan { tier: Some(tier), ..plan() }, model);
        assert_eq!(on(tier::Name::Hints, "gold-6130"), ["--tier=hints"]);
        let counters = on(tier::Name::Counters, "gold-6130");
        assert_eq!(counters, ["--tier=counters", "--counters=licences"]);
        assert!(on(tier::Name::Counters, "zen4").is_empty());
        assert!(tier_on(&plan(), "gold-6130").is_empty());
    }

    #[test]
    fn what_goes_wrong_is_told_with_what_shows_it() {
        let draw = draw(1, 2);
        let it = Filed { draw: &draw, path: "/tmp/scratch/harm-1-2.toml".to_owned() };
        let error = "sim run --workload=/tmp/scratch/harm-1-2.toml: a stall".to_owned();
        let failure = judge(&plan(), &it, &Err(error)).unwrap().unwrap_err();
        assert_eq!(failure.error, "sim run --workload=harm-1-2.toml: a stall");
        let begin = "scx_avxspec sim run '--workload=my dir/harm-1-2.toml' --model=";
        assert!(failure.replay.command.starts_with(begin), "{}", failure.replay.command);
        assert!(failure.replay.command.ends_with(" --seed=7 --policy=alone --policy=default"));
        assert_eq!(failure.replay.text, draw.text);
    }
}
