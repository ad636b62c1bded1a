// SPDX-License-Identifier: GPL-2.0-only
//! Who pays for low clocks. All figures are modelled.

use anyhow::Result;

use super::experiment::{WARM_UP_NS, begun, run};
use super::outcome::Outcome;
use super::setup::Setup;
use super::unfairness::{Sharing, measure};
use super::variant::Variant;
use crate::agent::policy;
use crate::bpf::intf::{APERF_AND_MPERF, AVX_TIER_TRAP, CYCLES_BY_LICENCE, NO_CLOCK_COUNTERS};
use crate::sim::kernel::engine::COSTS;
use crate::sim::machine::Topology;
use crate::sim::machine::model::Model;
use crate::sim::workload::Workload;
use crate::sim::workload::file;

const FAIR: [&str; 4] = ["trials=off", "fairness=compensate", "sizing=static", "avx-cpus=0"];

/// Four cores with two threads each, at the clocks of a full processor.
fn setup(workload: Workload, seconds: u64) -> Setup {
    let mut model = Model::named("gold-6130").unwrap();
    model.steps.drain(..model.steps.len() - 1);
    let topology = Topology::regular(1, 1, 4, 2);
    Setup {
        workload,
        model,
        topology,
        costs: COSTS,
        tier: AVX_TIER_TRAP,
        counters: NO_CLOCK_COUNTERS,
        warm_up_ns: WARM_UP_NS,
        seconds,
        seed: 1,
    }
}

fn outcome(setup: &Setup, has_avx512: bool, settings: &[&str]) -> Outcome {
    let settings: Vec<String> = settings.iter().map(|set| (*set).to_owned()).collect();
    run_variant(setup, &Variant { has_avx512, ..Variant::with(&settings) }).unwrap()
}

pub fn run_variant(setup: &Setup, variant: &Variant) -> Result<Outcome> {
    let standard = policy::on_cpu(&policy::standard(), 256);
    run(setup, variant, &policy::turned(standard, &variant.settings)?)
}

fn shared(workload: &str, has_avx512: bool, settings: &[&str]) -> Vec<Sharing> {
    let settings: Vec<String> = settings.iter().map(|set| (*set).to_owned()).collect();
    let setup = setup(Workload::named(workload).unwrap(), 1);
    measure(&setup, has_avx512, &settings, run_variant).unwrap()
}

fn unfairness(sharing: &Sharing) -> f64 {
    sharing.victims.iter().map(|victim| victim.unfairness.abs()).fold(0.0, f64::max)
}

#[test]
fn who_runs_beside_an_encoder_gets_what_it_lost() {
    for workload in ["fair-compute", "fair-build", "fair-server", "fair-pipeline"] {
        let found = shared(workload, true, &[]);
        assert!(unfairness(&found[0]) > 0.12, "{workload}: {found:?}");
        assert!(unfairness(&found[1]) < 0.03, "{workload}: {found:?}");
        assert!(found[1].estimate_error.unwrap() < 0.05, "{workload}: {found:?}");
    }
}

/// A server and an encoder with a thread for each CPU: this arrives for the server.
fn beside_an_encoder(arrivals: &str, server: &str, encoder: &str) -> Setup {
    let text = format!(
        "about = \"a server beside an encoder\"\n\
         [[group]]\nname = \"server\"\nper = \"cpu\"\n{arrivals}\n\
         steps = [\"wait\", {{ work = \"scalar\", us = 300 }}, {server}]\n\
         [[group]]\nname = \"encoder\"\nper = \"cpu\"\n\
         steps = [{{ work = \"heavy512\", us = 300 }}, {encoder}, \"done\", \"syscall\"]\n"
    );
    setup(file::read("a test", &text).unwrap(), 1)
}

/// All of them are done in the end, but not as soon as by itself.
#[test]
fn what_comes_from_outside_counts_by_how_soon_it_is_done() {
    let setup = beside_an_encoder("arrivals = { of_capacity = 0.2 }", "\"done\"", "\"syscall\"");
    for sharing in measure(&setup, true, &[], run_variant).unwrap() {
        let [server] = &sharing.victims[..] else { panic!("{sharing:?}") };
        assert!(server.relative < 0.9, "{sharing:?}");
    }
}

/// Two that never meet: each thread draws the same by itself, and beside the other.
#[test]
fn nobody_is_unfair_by_luck() {
    let cause = "[[group]]\nname = \"cause\"\n\
        steps = [{ work = \"light512\", us = 5000, distribution = \"lognormal\", spread = 3 }, \"done\"]\n";
    let victim =
        "[[group]]\nname = \"victim\"\nsteps = [{ work = \"scalar\", us = 1000 }, \"done\"]\n";
    for groups in [[cause, victim], [victim, cause]] {
        let text = format!("about = \"two\"\n{}", groups.concat());
        let found =
            measure(&setup(file::read("a test", &text).unwrap(), 1), true, &[], run_variant);
        let found = found.unwrap();
        assert!(unfairness(&found[0]) < 1e-3, "{groups:?}: {found:?}");
    }
}

#[test]
fn for_who_takes_no_part_nothing_arrives() {
    let mut setup =
        beside_an_encoder("arrivals = { per_second = 1000 }", "\"done\"", "\"syscall\"");
    setup.workload.groups[0].takes_part = false;
    let policy = policy::on_cpu(&policy::standard(), 256);
    let (mut engine, records) = begun(&setup, &Variant::with(&[]), &policy).unwrap();
    engine.run_for(100_000_000).unwrap();
    assert_eq!((engine.nr_sent(), engine.nr_threads()), (0, 8));
    assert_eq!(records[0].borrow().arrived, 0);
}

#[test]
fn who_cannot_be_run_alone_is_told_what_it_takes() {
    let needs = "it takes a workload in which at least one group lowers the clocks, one does not, \
                 and neither kind sends to the other";
    let error = |setup: &Setup| measure(setup, true, &[], run_variant).unwrap_err().to_string();
    let fed = beside_an_encoder("", "\"done\"", "{ send = \"server\" }");
    let expected = "in a test groups that lower the clocks and others send to each other: ";
    assert_eq!(error(&fed), format!("{expected}{needs}"));
    let one = setup(Workload::named("nginx").unwrap(), 1);
    assert_eq!(error(&one), format!("nginx has only one of two kinds of groups: {needs}"));

    // Nothing of the server is ever done.
    let idle = beside_an_encoder("arrivals = { per_second = 0 }", "\"done\"", "\"syscall\"");
    let expected = "what does not lower the clocks gets nothing done: simulate for longer";
    assert_eq!(error(&idle), expected);
    // Programs of one kind may.
    let victims = shared("x265-parsec", true, &[]).remove(0).victims;
    let names: Vec<&str> = victims.iter().map(|it| it.group.as_str()).collect();
    assert_eq!(names, ["compute", "pipeline"]);
}

/// Neither does the encoder get less, once it is known which of its tasks stay on AVX cores.
#[test]
fn avx_cores_are_as_many_as_both_have_a_right_to() {
    let setup = Setup {
        topology: Topology::regular(1, 1, 16, 2),
        ..setup(Workload::named("fair-compute").unwrap(), 10)
    };
    let found = measure(&setup, true, &[], run_variant).unwrap();
    assert_eq!(found.len(), 3);
    assert!(unfairness(&found[2]) < 0.06, "{found:?}");
}

#[test]
fn heavy_vectors_of_256_bits_are_told_by_samples() {
    let found = shared("fair-compute", false, &[]);
    assert!(unfairness(&found[0]) > 0.06, "{found:?}");
    assert!(unfairness(&found[1]) < 0.03, "{found:?}");
    // Nobody looks for them unless that is asked for.
    let unseen = shared("fair-compute", false, &["classes=avx512"]);
    assert!(unfairness(&unseen[1]) > 0.06, "{unseen:?}");
}

/// Even if the scheduler is quite wrong about how long licences are held.
#[test]
fn counters_tell_what_an_estimate_would_miss() {
    let with = |counters| {
        let setup = Setup { counters, ..setup(Workload::named("fair-compute").unwrap(), 1) };
        let settings = ["licence-hold=10ms".to_owned()];
        let found = measure(&setup, true, &settings, run_variant).unwrap();
        (unfairness(&found[1]), found[1].estimate_error.unwrap())
    };
    let estimated = with(NO_CLOCK_COUNTERS);
    for counters in [CYCLES_BY_LICENCE, APERF_AND_MPERF] {
        let (unfairness, error) = with(counters);
        assert!(unfairness < 0.03 && error < 0.05, "{counters}: {unfairness} {error}");
        assert!(error < estimated.1 / 2.0, "{counters}: {error}, estimated: {estimated:?}");
    }
}

#[test]
fn where_nobody_lowers_clocks_nothing_is_another() {
    // Its string functions have vectors of 256 bits.
    let setup = setup(Workload::named("nginx").unwrap(), 1);
    let [off, on] =
        [&[][..], &["fairness=compensate"]].map(|settings| outcome(&setup, false, settings));
    assert!(off.requests_per_s > 0.0 && off.events > 10_000);
    assert_eq!(on.estimate_error, Some(0.0));
    let estimate_error = on.estimate_error;
    let (variant, settings) = (on.variant.clone(), on.settings.clone());
    assert_eq!(on, Outcome { variant, settings, estimate_error, ..off });
}

#[test]
fn a_cpu_that_idles_costs_its_sibling_nothing() {
    let text = "about = \"one that sleeps\"\n\
        [[group]]\nname = \"sleeps\"\nthreads = 1\n\
        steps = [{ work = \"heavy512\", us = 200 }, { sleep_us = 20000 }, \"done\"]\n\
        [[group]]\nname = \"computes\"\nthreads = 1\n\
        steps = [{ work = \"scalar\", us = 500 }, \"done\"]\n";
    let workload = file::read("a test", text).unwrap();
    let setup = Setup { topology: Topology::regular(1, 1, 1, 2), ..setup(workload, 2) };
    let error = outcome(&setup, true, &FAIR).estimate_error.unwrap();
    assert!(error < 0.01, "the sibling of one that sleeps is wrong by {error}");
}

/// It goes on for all of its life, without ever being switched, and the sibling is paid for what it
/// suffers from that.
#[test]
fn who_uses_heavy_vectors_of_256_bits_no_more_pays_no_more() {
    let text = "about = \"a change\"\nphases_s = [0, 1]\n\
        [[group]]\nname = \"changes\"\nthreads = 1\n\
        steps = [{ work = \"heavy256\", us = [1000, 0] }, { work = \"scalar\", us = [0, 1000] }, \
        \"done\"]\n\
        [[group]]\nname = \"computes\"\nthreads = 1\n\
        steps = [{ work = \"scalar\", us = 500 }, \"done\"]\n";
    let workload = file::read("a test", text).unwrap();
    let setup = Setup { topology: Topology::regular(1, 1, 1, 2), ..setup(workload, 4) };
    let settings = ["fairness=compensate", "classes=avx512+avx2-heavy"];
    let error = outcome(&setup, false, &settings).estimate_error.unwrap();
    assert!(error < 0.01, "the sibling of one that changed is wrong by {error}");
}

/// Each beside as many programs that compute, all of which want all CPUs.
fn beside_scalar_programs(steps: &str) -> Setup {
    let text = format!(
        "about = \"one that cheats\"\n\
         [[group]]\nname = \"cheats\"\nthreads = 2\nper = \"cpu\"\nsteps = [{steps}]\n\
         [[group]]\nname = \"computes\"\nthreads = 2\nper = \"cpu\"\n\
         steps = [{{ work = \"scalar\", us = 500 }}, \"done\", {{ do = \"syscall\", every = 20 }}]\n"
    );
    setup(file::read("a test", &text).unwrap(), 6)
}

#[test]
fn nobody_gains_by_lowering_the_clock_now_and_then() {
    for steps in [
        // One wide instruction for each time that a licence is held.
        r#"{ work = "heavy512", us = 1 }, { work = "scalar", us = 650 }, "done", "syscall""#,
        // The same without a system call, so that only samples tell of its end.
        r#"{ work = "heavy512", us = 1 }, { work = "scalar", us = 650 }, "done""#,
        // Less than is seen by samples.
        r#"{ work = "heavy256", us = 1 }, { work = "scalar", us = 650 }, "done", "syscall""#,
    ] {
        let setup = beside_scalar_programs(steps);
        let avx2 = "classes=avx512+avx2-heavy";
        let done = |settings: &[&str]| {
            outcome(&setup, true, settings).groups.iter().map(|it| it.requests_per_s).collect()
        };
        let off: Vec<f64> = done(&[avx2, FAIR[1], FAIR[2], FAIR[3]]);
        let on: Vec<f64> = done(&[avx2, FAIR[0], FAIR[1], FAIR[2], FAIR[3]]);
        assert!(on[0] <= 1.02 * off[0], "{steps}: {off:?} {on:?}");
    }
}
