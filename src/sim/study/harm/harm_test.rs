// SPDX-License-Identifier: GPL-2.0-only
//! Draws, and a policy that harms for all to see.

use std::collections::BTreeSet;

use super::draw::{Draw, draw};
use super::judge::{Judged, Measure, Runs, Verdict, members};
use super::text::weight;
use crate::bpf::intf::{AVX_TIER_TRAP, NO_CLOCK_COUNTERS};
use crate::sim::kernel::engine::COSTS;
use crate::sim::machine::Topology;
use crate::sim::machine::model::{Kind, Model};
use crate::sim::study::experiment::WARM_UP_NS;
use crate::sim::study::outcome::Outcome;
use crate::sim::study::setup::Setup;
use crate::sim::study::unfairness_test::run_variant;
use crate::sim::study::variant::Variant;
use crate::sim::workload::{Arrivals, Group, Per, What, Workload, file};

fn draws() -> Vec<(Draw, Workload)> {
    let read = |n| {
        let it = draw(1, n);
        let workload = file::read(&it.name, &it.text).unwrap();
        (it, workload)
    };
    (1..=600).map(read).collect()
}

#[test]
fn the_same_seed_draws_the_same() {
    assert_eq!(draw(3, 17), draw(3, 17));
    let texts: BTreeSet<String> =
        [(3, 17), (3, 18), (4, 17), (17, 3)].map(|(seed, n)| draw(seed, n).text).into();
    assert_eq!(texts.len(), 4);
}

/// And more of them begin with the same ones.
#[test]
fn each_draw_is_a_file_that_says_what_was_drawn() {
    for (draw, workload) in draws() {
        assert_eq!((&workload.name, workload.seconds), (&draw.name, draw.seconds));
        assert!((1..=8).contains(&draw.seconds) && draw.shape.nr_cpus() <= 256, "{draw:?}");
        assert!((1..=6).contains(&workload.groups.len()), "{}", draw.text);
        let model = Model::named(draw.model).unwrap();
        assert!(model.known_for_less_than(draw.shape.cores.into()).is_none(), "{draw:?}");
        assert_eq!(draw.shape.cores % draw.shape.llcs, 0);
        for group in &workload.groups {
            assert!((1..=1000).contains(&group.weight), "{}", draw.text);
            for phase in 0..workload.phases.len() {
                let us = group.work_of_request(phase) / 1000.0;
                assert!((0.9..=210_000.0).contains(&us), "{us} us: {}", draw.text);
            }
        }
    }
}

/// What is in each of them by which the table of docs/simulator.md tells draws apart.
fn traits_of(draw: &Draw, workload: &Workload) -> Vec<String> {
    let shape = draw.shape;
    let habits = workload.groups.iter().map(|it| it.name.trim_end_matches("-behind"));
    let habits = habits.map(|it| it.trim_end_matches(|it: char| it.is_ascii_digit()).to_owned());
    let mut found: Vec<String> = habits.collect();
    found.push(draw.model.to_owned());
    found.push(format!("{} sockets", shape.sockets));
    found.push(format!("{} threads", shape.threads));
    found.push(format!("{} phases", workload.phases.len()));
    found.push(format!("{} programs", nr_programs(workload)));
    found.extend((shape.cores == 1).then(|| "one core".to_owned()));
    found.extend((shape.llcs > 1).then(|| "caches".to_owned()));
    found.extend((shape.nr_cpus() >= 64).then(|| "a large machine".to_owned()));
    found.extend(workload.groups.iter().flat_map(traits_of_group));
    found
}

fn nr_programs(workload: &Workload) -> usize {
    workload.groups.iter().map(|it| it.cgroup).collect::<BTreeSet<_>>().len()
}

fn traits_of_group(group: &Group) -> Vec<String> {
    let mut found = vec![
        format!("{:?}", group.per),
        format!("{:?}", group.process),
        format!("{:?}", group.queue),
        weight_of(group.weight).to_owned(),
        format!("{} digits of us", (group.work_of_request(0) / 1000.0).log10().floor()),
    ];
    found.push(format!("AVX {}", share_of_wide(group)));
    found.extend(kinds(group).map(|it| format!("{it:?}")));
    match &group.arrivals {
        Some(Arrivals::OfCapacity(loads)) if loads[0] > 0.8 => found.push("high load".to_owned()),
        Some(Arrivals::OfCapacity(loads)) if loads[0] < 0.2 => found.push("low load".to_owned()),
        _ => {}
    }
    found
}

fn weight_of(weight: u32) -> &'static str {
    match weight {
        0..10 => "hardly any weight",
        10..100 => "low weight",
        100 => "normal weight",
        _ => "high weight",
    }
}

fn kinds(group: &Group) -> impl Iterator<Item = Kind> {
    group.steps.iter().filter_map(|step| match step.what {
        What::Work(kind, ..) => Some(kind),
        _ => None,
    })
}

fn share_of_wide(group: &Group) -> &'static str {
    let is_wide = |it: &Kind| matches!(it, Kind::Light512 | Kind::Heavy512);
    match (kinds(group).any(|it| is_wide(&it)), kinds(group).all(|it| is_wide(&it))) {
        (false, _) => "none",
        (true, false) => "some",
        (true, true) => "all",
    }
}

/// Beside those that have numbers.
const TRAITS: [&str; 24] = [
    "server-",
    "clients-",
    "batch-",
    "vector-",
    "bursts-",
    "pipeline-",
    "fan-out-",
    "one core",
    "caches",
    "a large machine",
    "One",
    "Each",
    "Shared",
    "hardly any weight",
    "low weight",
    "normal weight",
    "high weight",
    "AVX none",
    "AVX some",
    "AVX all",
    "Light512",
    "Heavy512",
    "high load",
    "low load",
];

#[test]
fn everything_that_may_be_drawn_is_drawn() {
    let found: BTreeSet<String> =
        draws().iter().flat_map(|(draw, workload)| traits_of(draw, workload)).collect();
    let per = [Per::Machine, Per::Core, Per::Cpu].map(|it| format!("{it:?}"));
    let numbers = |of: &str, range: std::ops::RangeInclusive<u32>| -> Vec<String> {
        range.map(|n| format!("{n} {of}")).collect()
    };
    let expected = TRAITS.map(str::to_owned).into_iter().chain(per);
    let expected = expected.chain(Model::names().map(str::to_owned));
    let expected = expected.chain(numbers("sockets", 1..=4)).chain(numbers("threads", 1..=2));
    let expected = expected.chain(numbers("phases", 1..=2)).chain(numbers("programs", 1..=3));
    let missing: Vec<String> =
        expected.chain(numbers("digits of us", 1..=4)).filter(|it| !found.contains(it)).collect();
    assert!(missing.is_empty(), "{missing:?} of {found:?}");
}

#[test]
fn weights_are_those_of_linux() {
    assert_eq!([-10, -5, 0, 5, 10, 19].map(weight), [931, 305, 100, 33, 11, 1]);
}

/// Three of four threads use heavy vectors nearly all the time, and have one CPU of eight for it.
const CROWD: &str = "about = \"a crowd\"\n[[group]]\nname = \"wide\"\nthreads = 6\nsteps = [\n\
    { work = \"heavy512\", us = 900, distribution = \"exponential\", speed_up = 2 },\n\
    { work = \"scalar\", us = 100 },\n\"done\",\n]\n\
    [[group]]\nname = \"scalar\"\nthreads = 2\nsteps = [{ work = \"scalar\", us = 1000 }, \"done\"]\n";

fn outcomes(seed: u64) -> Vec<Outcome> {
    let setup = Setup {
        workload: file::read("crowd", CROWD).unwrap(),
        model: Model::named("gold-6130").unwrap(),
        topology: topology(),
        costs: COSTS,
        tier: AVX_TIER_TRAP,
        counters: NO_CLOCK_COUNTERS,
        warm_up_ns: WARM_UP_NS,
        seconds: 1,
        seed,
    };
    let one_core = ["trials=off", "sizing=static", "avx-cpus=1", "return=timeout"];
    let one_core = Variant::with(&one_core.map(str::to_owned));
    let of = |variant: &Variant| run_variant(&setup, variant).unwrap();
    vec![of(&Variant::named("alone").unwrap()), of(&one_core)]
}

fn topology() -> Topology {
    Topology::regular(1, 1, 4, 2)
}

#[test]
fn a_policy_that_has_all_wide_work_on_one_core_harms() {
    let seeds = [1, 2].map(outcomes);
    let members = members(&file::read("crowd", CROWD).unwrap(), &topology());
    let runs = |nr: usize| Runs {
        members: &members,
        cpus: 8.0,
        of_seeds: seeds[..nr].iter().map(|it| &it[..]).collect(),
    };
    assert!(runs(1).judge(&["alone"], "set")[0].seems_harmed());
    let judged: Vec<Judged> = runs(2).judge(&["alone"], "set");
    assert_eq!(judged[0].verdict, Verdict::Harmed, "{judged:?}");
    assert_eq!((judged[0].measure, judged[0].baseline), (Some(Measure::Work), Some("alone")));
    assert!(judged[0].gain.unwrap() < 0.5, "{judged:?}");
    assert_eq!(judged[1].verdict, Verdict::Fine, "{judged:?}");
    // Its threads ran on as many CPUs as it says.
    let cpus = |of: usize, group: usize| seeds[0][of].groups[group].cpus;
    assert!((cpus(0, 0) - 6.0).abs() < 0.1 && (cpus(0, 1) - 2.0).abs() < 0.1, "{}", cpus(0, 0));
    let unlike = runs(2).judge(&["alone"], "alone");
    assert!(unlike.iter().all(|it| it.verdict == Verdict::Fine && it.gain == Some(1.0)));
}
