// SPDX-License-Identifier: GPL-2.0-only
//! `scx_avxspec sim`, as it is typed. It needs no guest.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use toml::Value;

use super::avx::SCALAR_LIBRARY;
use super::avx::{WIDE, phases_guest, user_rows};
use super::scheduler_program;
use crate::ensure_eq;
use crate::rig::{Bochs, Flavour, in_repository};

crate::tests! {
    simulator:
    the_same_seed_gives_the_same_bytes(3),
    a_workload_of_ones_own_runs_or_is_refused_in_a_sentence(1),
    a_sweep_tries_other_parameters_and_policies(4),
    what_a_program_did_is_read_from_its_trace(9),
    small_differences_are_no_differences(1),
    its_documentation_shows_what_it_prints(30),
}

fn sim(arguments: &[&str]) -> Result<Output> {
    Command::new(scheduler_program()?)
        .arg("sim")
        .args(arguments)
        .output()
        .context("the scheduler cannot be started")
}

fn said(arguments: &[&str]) -> Result<String> {
    let output = sim(arguments)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "sim {}: {error}", arguments.join(" "));
    // Without a terminal there is no progress to be shown.
    ensure_eq!(error, "", "sim {}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

fn the_same_seed_gives_the_same_bytes() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let page = dir.path().join("report.html");
    let page = page.to_str().context("a path that is no text")?;
    let run = |seed| -> Result<(String, String)> {
        let seed = format!("--seed={seed}");
        let arguments = ["run", "x265-parsec", "--seconds=1", "--json", "--report", page, &seed];
        Ok((said(&arguments)?, fs::read_to_string(page)?))
    };
    let first = run(1)?;
    ensure!(first == run(1)?, "two runs differ");
    let other: serde_json::Value = serde_json::from_str(&run(2)?.0)?;
    let first: serde_json::Value = serde_json::from_str(&first.0)?;
    ensure!(first["outcomes"] != other["outcomes"], "the seed makes no difference");
    ensure_eq!(first["kind"], "modelled");
    Ok(())
}

/// A file with one group, and these lines in it.
fn workload(lines: &str) -> String {
    format!("about = \"mine\"\n[[group]]\nname = \"it\"\n{lines}\n")
}

fn a_workload_of_ones_own_runs_or_is_refused_in_a_sentence() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("mine.toml");
    let page = dir.path().join("report.html");
    let (file, page) = file.to_str().zip(page.to_str()).context("a path that is no text")?;
    let arguments = ["run", "--workload", file, "--seconds=1", "--report", page];

    fs::write(file, workload("threads = 3\nsteps = [{ work = \"scalar\", us = 100 }, \"done\"]"))?;
    let text = said(&arguments)?;
    ensure!(text.contains("mine") && text.contains("modelled"), "{text}");
    ensure!(fs::read_to_string(page)?.contains("mine"));
    fs::remove_file(page)?;

    fs::write(file, workload("steps = [\n\"syscall\",\n\"slep\"]"))?;
    let unknown = ["run", "sleep"];
    let no_model = ["run", "nginx", "--model", "pentium"];
    let no_knob = ["run", "nginx", "--set", "speed=1"];
    let no_counters = ["run", "nginx", "--model=zen4", "--counters=licences"];
    let no_caches = ["run", "nginx", "--cores=10", "--llcs=3"];
    let no_factor = ["run", "nginx", "--scale", "hold=fast"];
    for (arguments, expected) in [
        (&arguments[..], "mine.toml, line 6: unknown variant `slep`"),
        (&["run", "--workload", "/nowhere/mine.toml"], "cannot read /nowhere/mine.toml"),
        (&unknown, "there is no workload \"sleep\""),
        (&no_model, "there is no model \"pentium\""),
        (&no_knob, "there is no knob \"speed\""),
        (&no_counters, "a zen4 does not count cycles at each licence: choose --counters clocks"),
        (&no_caches, "10 cores cannot be shared out evenly among 3 last-level caches"),
        (&no_factor, "\"fast\" is no number"),
    ] {
        let output = sim(arguments)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && output.stdout.is_empty(), "{expected} was accepted");
        ensure!(error.contains(expected) && error.lines().count() == 1, "{expected}: {error}");
    }
    ensure!(!fs::exists(page)?, "there is a report of what was refused");
    Ok(())
}

fn a_sweep_tries_other_parameters_and_policies() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let page = dir.path().join("sweep.html");
    let page = page.to_str().context("a path that is no text")?;
    let draws = || -> Result<(String, String)> {
        let arguments =
            ["sweep", "draws", "nginx", "--draws=4", "--cores=2", "--json", "--report", page];
        Ok((said(&arguments)?, fs::read_to_string(page)?))
    };
    let first = draws()?;
    ensure!(first == draws()?, "two sweeps differ");
    ensure!(first.1.contains("Useful work in 4 draws"), "{}", first.1);
    let first: serde_json::Value = serde_json::from_str(&first.0)?;
    let alone = &first[0]["policies"][1];
    ensure_eq!(alone["policy"], "alone");
    let relative = alone["relative"].as_array().context("draws have results")?;
    let number = |it: &serde_json::Value| it.as_f64().context("a number");
    let numbers = relative.iter().map(number).collect::<Result<Vec<_>>>()?;
    ensure_eq!(numbers.len(), 4);
    let plain = said(&["run", "nginx", "--cores=2", "--seconds=1", "--json"])?;
    let plain: serde_json::Value = serde_json::from_str(&plain)?;
    let [off, unvaried] = [0, 1].map(|n| plain["outcomes"][n]["work"].as_f64().unwrap_or(0.0));
    let difference = numbers[0] - unvaried / off;
    ensure!(difference.abs() > 1e-6, "nothing was varied: {numbers:?}");
    ensure!(number(&alone["p5"])? <= number(&alone["median"])?);
    let several = ["sweep", "draws", "nginx", "--draws=3", "--cores=2", "--seeds=2", "--json"];
    let several: serde_json::Value = serde_json::from_str(&said(&several)?)?;
    let sigma = several[0]["policies"][0]["sigma"].as_array().context("seeds are not apart")?;
    let sigma = sigma.iter().map(number).collect::<Result<Vec<_>>>()?;
    ensure!(sigma.len() == 3 && sigma.iter().all(|it| *it > 0.0), "{sigma:?}");

    let arguments =
        ["sweep", "static", "nginx", "--cores=2", "--threads=1", "--json", "--report", page];
    let best: serde_json::Value = serde_json::from_str(&said(&arguments)?)?;
    // With one or two AVX CPUs, two placements, four ways back and three lengths of turns.
    ensure_eq!(best[0]["tried"].as_array().map(Vec::len), Some(48));
    ensure!(fs::read_to_string(page)?.contains("48 partitions (dots)"));
    let [default, best, ratio] = ["/default/work", "/best/work", "/default_by_best"]
        .map(|name| best[0].pointer(name).and_then(serde_json::Value::as_f64).unwrap_or(0.0));
    ensure!(best > 0.0 && (default / best - ratio).abs() < 1e-9, "{default} {best} {ratio}");
    sweeps_take_files(dir.path())
}

fn sweeps_take_files(dir: &Path) -> Result<()> {
    let file = dir.join("mine.toml");
    let file = file.to_str().context("a path that is no text")?;
    for sweep in [&["draws", "--draws=1"][..], &["static", "--threads=1"]] {
        let more = ["nginx", "--cores=2", "--json", "--workload", file];
        let arguments = [&["sweep"], sweep, &more].concat();
        fs::write(file, workload("steps = [\"slep\"]"))?;
        let refused = sim(&arguments)?;
        let error = String::from_utf8_lossy(&refused.stderr);
        ensure!(!refused.status.success() && refused.stdout.is_empty(), "it was swept");
        ensure!(error.contains("mine.toml, line 4: unknown variant `slep`"), "{error}");
        ensure_eq!(error.lines().count(), 1, "{error}");

        fs::write(file, workload("steps = [{ work = \"scalar\", us = 100 }, \"done\"]"))?;
        let all: serde_json::Value = serde_json::from_str(&said(&arguments)?)?;
        ensure_eq!((&all[0]["workload"], &all[1]["workload"]), (&"nginx".into(), &file.into()));
    }
    Ok(())
}

/// As tests/guest/avx/phases.c has it, with these rounds of so many iterations of a hundred instructions.
const ROUNDS: usize = 30;
const SCALAR_ITERATIONS: u64 = 500;
const WIDE_ITERATIONS: u64 = 100;

/// One program among others, whose instructions the emulator has counted as well.
fn what_a_program_did_is_read_from_its_trace() -> Result<()> {
    let outcome = phases_guest(Bochs::cpus(1).traces(), Flavour::Stock)?
        .command(&format!(
            "{SCALAR_LIBRARY}
             oraclectl reset; oraclectl trace start
             phases 1 {ROUNDS} {SCALAR_ITERATIONS} {WIDE_ITERATIONS} >/dev/null
             oraclectl trace stop; oraclectl report"
        ))
        .boot()?;
    let wide: u64 = user_rows(outcome.stdout(0)?)?.iter().map(|row| row.sum(&WIDE)).sum();
    let dir = tempfile::tempdir()?;
    let trace = dir.path().join("trace");
    fs::write(&trace, outcome.host_file("oracle.trace")?)?;
    let trace = trace.to_str().context("a path that is no text")?;
    let workload: toml::Table = said(&["import", trace, "--mips=1"])?.parse()?;
    let [group] = &workload["group"].as_array().context("no groups")?[..] else {
        bail!("not one thread has used wide vectors: {workload}");
    };
    let steps = group["steps"].as_array().context("no steps")?;
    let us_of = |kind: &str| -> Vec<f64> {
        let is_it = |step: &&Value| step.get("work").and_then(Value::as_str) == Some(kind);
        steps.iter().filter(is_it).filter_map(|step| step["us"].as_float()).collect()
    };

    // One in two of its wide instructions multiplies, which is heavy. Two of each iteration are
    // those of the loop, and ticks come between some.
    let bursts = us_of("heavy512");
    ensure!((ROUNDS..ROUNDS + 20).contains(&bursts.len()), "{bursts:?}");
    let loops = ROUNDS as u64 * 2 * WIDE_ITERATIONS;
    let expected = (wide + loops) as f64;
    ensure!((bursts.iter().sum::<f64>() / expected - 1.0).abs() < 0.01, "{bursts:?}, {wide}");
    // A round is what is between two bursts, with a system call, and ticks now and then.
    let long = us_of("scalar").into_iter().filter(|us| *us >= 100.0 * SCALAR_ITERATIONS as f64);
    ensure!((ROUNDS..ROUNDS + 5).contains(&long.count()), "{:?}", us_of("scalar"));
    let calls = steps.iter().filter(|step| step.as_str() == Some("syscall")).count();
    ensure!((ROUNDS..ROUNDS + 20).contains(&calls), "{calls} system calls");
    Ok(())
}

/// Figures may be a little others with another C library; with another policy they are others.
fn its_documentation_shows_what_it_prints() -> Result<()> {
    let text = fs::read_to_string(in_repository("docs/simulator.md"))?;
    let mut examples = 0;
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let Some((command, shown)) = block.split_once('\n') else { continue };
        let Some(arguments) = command.strip_prefix("$ scx_avxspec sim") else { continue };
        if shown.is_empty() {
            continue;
        }
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        if let Some(difference) = difference(shown, &said(&arguments)?) {
            bail!("docs/simulator.md: {command}: print it anew: {difference}");
        }
        examples += 1;
    }
    ensure!(examples >= 2, "docs/simulator.md has no examples");
    Ok(())
}

fn small_differences_are_no_differences() -> Result<()> {
    for (shown, printed) in [
        ("1.0000   2  it, as\nis", "0.9950 2 it, as\n  is"),
        ("7060.6", "7400.0"),
        ("1.68 6", "1.70 6"),
        ("-0.0020 seed 1.", "0.0005 seed 1."),
    ] {
        ensure_eq!(difference(shown, printed), None, "{shown}");
    }
    for (shown, printed, expected) in [
        ("a\nchanges 694", "a\nchanges 2", "line 2 shows \"694\", not \"2\""),
        ("0.8983", "0.8900", "line 1 shows \"0.8983\", not \"0.8900\""),
        ("1.0010", "0.9950", "line 1 shows \"1.0010\", not \"0.9950\""),
        ("0.08", "0.10", "line 1 shows \"0.08\", not \"0.10\""),
        ("7060.6", "6600.0", "line 1 shows \"7060.6\", not \"6600.0\""),
        ("694", "none", "line 1 shows \"694\", not \"none\""),
        ("a b", "a", "line 1 shows \"b\", not \"\""),
        ("a", "a\nb", "line 2 shows \"\", not \"b\""),
    ] {
        ensure_eq!(difference(shown, printed), Some(expected.to_owned()));
    }
    Ok(())
}

/// The first word that is another one, or a number that is far from what is shown.
fn difference(shown: &str, printed: &str) -> Option<String> {
    for (nr, (shown, printed)) in side_by_side(shown.lines(), printed.lines()).enumerate() {
        let mut words = side_by_side(shown.split_whitespace(), printed.split_whitespace());
        if let Some((shown, printed)) = words.find(|(shown, printed)| !is_alike(shown, printed)) {
            return Some(format!("line {} shows {shown:?}, not {printed:?}", nr + 1));
        }
    }
    None
}

/// Until both have ended; of who ends first nothing is left.
fn side_by_side<'a>(
    mut one: impl Iterator<Item = &'a str>,
    mut other: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    std::iter::from_fn(move || {
        let (one, other) = (one.next(), other.next());
        (one.is_some() || other.is_some())
            .then(|| (one.unwrap_or_default(), other.unwrap_or_default()))
    })
}

/// Ratios, which have four decimals, and whatever is below 1 within 0.005, for that is what policies
/// differ by; rates, times and counts within 5 %.
fn is_alike(shown: &str, printed: &str) -> bool {
    let is_ratio = shown.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 4);
    match (shown.parse::<f64>(), printed.parse::<f64>()) {
        (Ok(shown), Ok(printed)) => {
            let most = if is_ratio || shown.abs() < 1.0 { 0.005 } else { 0.05 * shown.abs() };
            // They are decimals, so that what is as far as that may seem to be farther.
            (printed - shown).abs() <= most + 1e-9
        }
        _ => shown == printed,
    }
}
