// SPDX-License-Identifier: GPL-2.0-only
//! Reads workloads. An error in one is reported as a sentence, with the line.

use std::fmt;
use std::ops::Range;

use anyhow::{Result, anyhow, ensure};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{
    ARRIVALS_MAX, Arrivals, Begin, Form, Group, Length, Per, Process, Queue, Step, What, Workload,
};
use crate::sim::machine::caches::{Footprint, LINE_BYTES};
use crate::sim::machine::model::Kind;

const US: f64 = 1000.0;
const SECOND: f64 = 1e9;

/// The longest time that anything in a workload may take.
const LONGEST_US: f64 = 1e9;
const THREADS_MAX: u32 = 10_000;

/// Assumption: about as much code, and as much data, as the server of nginx.toml has of code.
const FOOTPRINT_KIB: f64 = 64.0;
/// What a second-level cache holds. A larger footprint misses in it on every core alike.
const FOOTPRINT_KIB_MAX: f64 = 1024.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    seconds: Option<Spanned<u64>>,
    phases_s: Option<Spanned<Vec<f64>>>,
    group: Vec<Spanned<FileGroup>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGroup {
    name: Spanned<String>,
    threads: Option<u32>,
    #[serde(default)]
    per: Per,
    #[serde(default)]
    process: Process,
    weight: Option<u32>,
    cgroup: Option<u32>,
    rounds: Option<u64>,
    code_kib: Option<f64>,
    data_kib: Option<f64>,
    #[serde(default)]
    queue: Queue,
    arrivals: Option<Spanned<FileArrivals>>,
    #[serde(default)]
    begin: Begin,
    steps: Vec<Spanned<FileStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileArrivals {
    of_capacity: Option<PerPhase>,
    per_second: Option<PerPhase>,
    clients: Option<u32>,
    think_us: Option<PerPhase>,
    distribution: Option<Form>,
    spread: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number is expected here, or a list of one for each phase")]
enum PerPhase {
    Always(f64),
    Each(Vec<f64>),
}

/// A step that is given as a single word.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Syscall,
    Yield,
    Wait,
    Done,
}

/// A step as a table. A word alone stands for a table with nothing but `do`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepTable {
    #[serde(rename = "do")]
    word: Option<Word>,
    work: Option<Kind>,
    without: Option<Kind>,
    us: Option<PerPhase>,
    speed_up: Option<f64>,
    sleep_us: Option<PerPhase>,
    send: Option<String>,
    distribution: Option<Form>,
    spread: Option<f64>,
    every: Option<u64>,
    uses: Option<f64>,
}

struct FileStep(StepTable);

impl<'de> Deserialize<'de> for FileStep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = FileStep;
            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a step: a word, or a table")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<FileStep, E> {
                let word = Word::deserialize(serde::de::value::StrDeserializer::<E>::new(text))?;
                Ok(FileStep(StepTable { word: Some(word), ..StepTable::default() }))
            }
            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<FileStep, M::Error> {
                StepTable::deserialize(MapAccessDeserializer::new(map)).map(FileStep)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

const ONE_NUMBER: &str = "one number is expected here: only us, sleep_us, of_capacity, per_second and \
                          think_us may be lists of one for each phase";

fn is_list_for_number(message: &str) -> bool {
    let expected = message.strip_prefix("invalid type: sequence, expected ");
    matches!(expected, Some("f64" | "u32" | "u64"))
}

/// Reads a workload. `name` is that of the workload, or of its file.
pub fn read(name: &str, text: &str) -> Result<Workload> {
    let reader = Reader { name, text };
    let file: File = toml::from_str(text).map_err(|error| {
        // The first line of the message tells what is wrong.
        let message = error.message().lines().next().unwrap_or("cannot be read");
        let message = if is_list_for_number(message) { ONE_NUMBER } else { message };
        reader.wrong(error.span().unwrap_or(0..0), message)
    })?;
    reader.workload(file)
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, span: Range<usize>, message: impl fmt::Display) -> anyhow::Error {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        anyhow!("{}, line {}: {message}", self.name, before.matches('\n').count() + 1)
    }

    /// Adds the line of the span to an error that is somewhere within it.
    fn placed<T>(&self, span: Range<usize>, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.wrong(span, error))
    }

    fn workload(&self, file: File) -> Result<Workload> {
        let phases = match &file.phases_s {
            Some(phases) => self.placed(phases.span(), starts(phases.get_ref()))?,
            None => vec![0],
        };
        let seconds = match &file.seconds {
            Some(seconds) => self.placed(seconds.span(), duration(*seconds.get_ref()))?,
            None => 5,
        };
        ensure!(!file.group.is_empty(), self.wrong(0..0, "there is no [[group]] of threads"));
        let names: Vec<String> =
            file.group.iter().map(|group| group.get_ref().name.get_ref().clone()).collect();
        let mut groups = Vec::new();
        for group in file.group {
            let name = &group.get_ref().name;
            let namesakes = names.iter().filter(|other| *other == name.get_ref()).count();
            let once = ensured(namesakes == 1, "another group has that name");
            self.placed(name.span(), once)?;
            groups.push(self.group(group, phases.len(), &names)?);
        }
        for number in 0..groups.len() {
            self.placed(0..0, reached(number, &groups))?;
        }
        let is_counted = groups.iter().any(|group| group.has(&What::Done));
        let counted = ensured(
            is_counted,
            "no group has a step \"done\": add one where a request is done, for these are counted",
        );
        self.placed(0..0, counted)?;
        Ok(Workload { name: self.name.to_owned(), about: file.about, seconds, phases, groups })
    }

    fn group(&self, group: Spanned<FileGroup>, phases: usize, names: &[String]) -> Result<Group> {
        let span = group.span();
        let file = group.into_inner();
        let mut steps = Vec::new();
        for step in file.steps {
            let span = step.span();
            let read = read_step(step.into_inner().0, phases, names);
            steps.extend(self.placed(span, read)?);
        }
        let arrivals = match file.arrivals {
            Some(arrivals) => {
                let span = arrivals.span();
                Some(self.placed(span, read_arrivals(arrivals.into_inner(), phases))?)
            }
            None => None,
        };
        let group = Group {
            name: file.name.into_inner(),
            threads: file.threads.unwrap_or(1),
            per: file.per,
            process: file.process,
            weight: file.weight.unwrap_or(100),
            cgroup: u64::from(file.cgroup.unwrap_or(1)),
            rounds: file.rounds,
            footprint: self.placed(span.clone(), footprint(file.code_kib, file.data_kib))?,
            queue: file.queue,
            arrivals,
            begin: file.begin,
            steps,
            takes_part: true,
        };
        self.placed(span, sensible(&group))?;
        Ok(group)
    }
}

fn ensured(condition: bool, message: &str) -> Result<()> {
    ensure!(condition, "{message}");
    Ok(())
}

fn starts(phases_s: &[f64]) -> Result<Vec<u64>> {
    ensured(phases_s.first() == Some(&0.0), "the first phase begins at 0")?;
    let is_sorted = phases_s.is_sorted_by(|a, b| a < b) && phases_s.iter().all(|at| *at <= 3600.0);
    ensured(is_sorted, "phases begin one after the other, within an hour")?;
    Ok(phases_s.iter().map(|at| (at * SECOND) as u64).collect())
}

fn duration(seconds: u64) -> Result<u64> {
    ensured((1..=3600).contains(&seconds), "seconds are 1 to 3600")?;
    Ok(seconds)
}

fn footprint(code_kib: Option<f64>, data_kib: Option<f64>) -> Result<Footprint> {
    let lines = |kib: Option<f64>| kib.unwrap_or(FOOTPRINT_KIB) * 1024.0 / LINE_BYTES;
    let footprint = Footprint { program: 0, code: lines(code_kib), data: lines(data_kib) };
    let most = FOOTPRINT_KIB_MAX * 1024.0 / LINE_BYTES;
    let are_right = [footprint.code, footprint.data].iter().all(|it| (0.0..=most).contains(it));
    ensure!(are_right, "code_kib and data_kib are 0 to {FOOTPRINT_KIB_MAX}");
    Ok(footprint)
}

fn sensible(group: &Group) -> Result<()> {
    ensured((1..=THREADS_MAX).contains(&group.threads), "threads are 1 to 10000")?;
    ensured((1..=10_000).contains(&group.weight), "the weight is 1 to 10000")?;
    ensured(group.cgroup > 0, "cgroups are numbered from 1")?;
    ensured(group.rounds != Some(0), "rounds are at least 1")?;
    let may_end = group.rounds.is_none() || group.process == Process::Each;
    ensured(
        may_end,
        "threads that end after some rounds have to be processes: process = \"each\"",
    )?;
    let takes_time = |step: &Step| step.what != What::Done;
    ensured(group.steps.iter().any(takes_time), "no step takes any time")?;
    let waits = group.has(&What::Wait);
    ensured(group.arrivals.is_none() || waits, "what arrives has a step \"wait\"")?;
    ensured(
        group.begin == Begin::First || !waits,
        "a group that waits begins with its first step: nothing is there to go on with",
    )?;
    let is_answered = group.think().is_none() || !group.has(&What::Done) || answers_each(group);
    ensured(
        is_answered,
        "clients ask again after \"done\": let one follow each \"wait\", as often",
    )?;
    let Some(Arrivals::OfCapacity(shares)) = &group.arrivals else { return Ok(()) };
    ensured(group.has(&What::Done), "of_capacity needs a step \"done\"")?;
    let takes_nothing =
        |(phase, share): (usize, &f64)| *share > 0.0 && group.work_of_request(phase) <= 0.0;
    ensured(
        !shares.iter().enumerate().any(takes_nothing),
        "of_capacity needs work in each phase in which something arrives, or say per_second",
    )
}

/// Returns true if a request is done between each wait and the next one.
fn answers_each(group: &Group) -> bool {
    let steps = &group.steps;
    let mut waits = steps.iter().enumerate().filter(|(_, step)| step.what == What::Wait);
    waits.all(|(at, wait)| {
        let after = steps[at + 1..].iter().chain(&steps[..at]);
        let mut until_next = after.take_while(|step| step.what != What::Wait);
        until_next.any(|step| step.what == What::Done && wait.every.is_multiple_of(step.every))
    })
}

/// Checks that the group does not wait for what never comes, that it is not sent what it never
/// takes, and that its clients ask again.
fn reached(number: usize, all: &[Group]) -> Result<()> {
    let group = &all[number];
    let name = &group.name;
    let waits = group.has(&What::Wait);
    let is_sent = all.iter().flat_map(Group::sends_to).any(|to| to == number);
    let comes = is_sent || group.arrivals.is_some();
    ensure!(!waits || comes, "group {name:?} waits, but nothing is sent to it");
    ensure!(waits || !is_sent, "group {name:?} is sent something, but never waits");

    let begins = |group: &Group| group.arrivals.is_some() || !group.has(&What::Wait);
    let reaches = |first: usize| begins(&all[first]) && sends_on(first, all)[number];
    let is_begun = begins(group) || (0..all.len()).any(reaches);
    ensure!(is_begun, "group {name:?} waits, and so does for ever whoever sends to it");
    let is_answered =
        group.think().is_none() || group.has(&What::Done) || sends_on(number, all)[number];
    ensure!(is_answered, "clients of group {name:?} ask once: add a step \"done\" there");
    Ok(())
}

/// Returns for each group whether something comes to it from this one, directly or through others.
fn sends_on(from: usize, all: &[Group]) -> Vec<bool> {
    let mut comes = vec![false; all.len()];
    let mut senders = vec![from];
    while let Some(sender) = senders.pop() {
        senders
            .extend(all[sender].sends_to().filter(|to| !std::mem::replace(&mut comes[*to], true)));
    }
    comes
}

fn read_arrivals(file: FileArrivals, phases: usize) -> Result<Arrivals> {
    let has_think = file.think_us.is_some() || file.distribution.is_some() || file.spread.is_some();
    ensured(!has_think || file.clients.is_some(), "only clients think")?;
    match (file.of_capacity, file.per_second, file.clients) {
        (Some(share), None, None) => Ok(Arrivals::OfCapacity(per_phase(share, phases, 1e3)?)),
        (None, Some(rate), None) => Ok(Arrivals::PerSecond(per_phase(rate, phases, ARRIVALS_MAX)?)),
        (None, None, Some(clients)) => {
            ensured((1..=1_000_000).contains(&clients), "clients are 1 to 1000000")?;
            let think = file.think_us.unwrap_or(PerPhase::Always(0.0));
            let think = length(think, file.distribution, file.spread, phases)?;
            Ok(Arrivals::Clients(clients, think))
        }
        _ => Err(anyhow!("arrivals are one of of_capacity, per_second and clients")),
    }
}

fn read_step(table: StepTable, phases: usize, names: &[String]) -> Result<Vec<Step>> {
    let every = table.every.unwrap_or(1);
    ensured(every > 0, "every is at least 1")?;
    let is_work = table.work.is_some();
    let of_work = [table.without.is_some(), table.us.is_some(), table.speed_up.is_some()];
    ensured(is_work || !of_work.contains(&true), "without, us and speed_up are for work")?;
    let has_length = is_work || table.sleep_us.is_some();
    ensured(
        has_length || (table.distribution.is_none() && table.spread.is_none()),
        "distribution and spread are for work and sleep_us",
    )?;
    ensured(is_work || table.uses.is_none(), "uses is for work")?;
    let uses = table.uses.unwrap_or(1.0);
    ensured((0.0..=1.0).contains(&uses), "uses is 0 to 1")?;
    let whats = match (table.word, table.work, table.sleep_us, table.send) {
        (Some(word), None, None, None) => of_word(word),
        (None, Some(kind), None, None) => {
            let us = table.us.ok_or_else(|| anyhow!("work says how much it is in us"))?;
            let length = length(us, table.distribution, table.spread, phases)?;
            let speed_up = table.speed_up.unwrap_or(1.0);
            ensured((0.01..=100.0).contains(&speed_up), "speed_up is 0.01 to 100")?;
            vec![What::Work(kind, table.without.unwrap_or(narrow(kind)), length, speed_up)]
        }
        (None, None, Some(us), None) => {
            let length = length(us, table.distribution, table.spread, phases)?;
            vec![What::Sleep(length), What::Syscall]
        }
        (None, None, None, Some(to)) => {
            let index = names.iter().position(|name| *name == to);
            let to = index.ok_or_else(|| anyhow!("there is no group {to:?}"))?;
            vec![What::Send(to), What::Syscall]
        }
        _ => return Err(anyhow!("a step is one of do, work, sleep_us and send")),
    };
    Ok(whats.into_iter().map(|what| Step { what, every, uses }).collect())
}

/// Returns the steps of a word. A yield or a wait is over once others have run.
fn of_word(word: Word) -> Vec<What> {
    match word {
        Word::Syscall => vec![What::Syscall],
        Word::Yield => vec![What::Yield, What::Syscall],
        Word::Wait => vec![What::Wait, What::Syscall],
        Word::Done => vec![What::Done],
    }
}

/// Returns the kind of work that does the same on a machine without AVX-512, unless the file gives
/// one.
fn narrow(kind: Kind) -> Kind {
    match kind {
        Kind::Light512 | Kind::Heavy512 => Kind::Scalar,
        other => other,
    }
}

fn length(us: PerPhase, form: Option<Form>, spread: Option<f64>, phases: usize) -> Result<Length> {
    let ns = per_phase(us, phases, LONGEST_US)?.into_iter().map(|us| us * US).collect();
    let form = form.unwrap_or_default();
    let takes_spread = matches!(form, Form::Gamma | Form::Lognormal);
    ensured(takes_spread == spread.is_some(), "gamma and lognormal have a spread, others none")?;
    let spread = spread.unwrap_or(1.0);
    ensured((0.0..=10.0).contains(&spread), "the spread is 0 to 10")?;
    Length::new(ns, form, spread)
}

fn per_phase(numbers: PerPhase, phases: usize, most: f64) -> Result<Vec<f64>> {
    let all = match numbers {
        PerPhase::Always(number) => vec![number; phases],
        PerPhase::Each(all) => all,
    };
    ensure!(all.len() == phases, "there are {phases} phases, but {} numbers", all.len());
    let are_right = all.iter().all(|number| (0.0..=most).contains(number));
    ensure!(are_right, "numbers here are 0 to {most}");
    Ok(all)
}
