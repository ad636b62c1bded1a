// SPDX-License-Identifier: GPL-2.0-only
//! How far the model of Linux's own scheduler is from the real one: scenes that the program serve
//! plays on an emulated machine, where each instruction takes the same time, and the simulator on a
//! modelled one.

use anyhow::{Context, Result};
use serde_json::Value;

use super::modelled::sim;
use crate::rig::{Bochs, Flavour, Guest, in_repository, program};
use crate::suite::counts::{Counts, counts_of};

const CPUS: u64 = 4;

/// Threads that serve, each with arrivals of its own, and processes that compute all the time.
struct Scene {
    servers: u64,
    /// Between requests of a thread, in microseconds.
    gap: u64,
    work: u64,
    jobs: u64,
    nice: i32,
    ms: u64,
}

/// What a request takes beside its work is that of a thread that has hardly any. Jobs keep all CPUs
/// busy here and elsewhere: the emulator's clock goes otherwise while some idle.
const NEARLY_NOTHING: Scene = Scene { servers: 1, gap: 500, work: 1, jobs: 4, nice: 10, ms: 300 };

const SCENES: [Scene; 8] = [
    Scene { servers: 4, gap: 500, work: 100, jobs: 4, nice: 10, ms: 600 },
    Scene { servers: 8, gap: 800, work: 200, jobs: 4, nice: 10, ms: 1000 },
    Scene { servers: 4, gap: 266, work: 25, jobs: 4, nice: 10, ms: 500 },
    Scene { servers: 4, gap: 1000, work: 300, jobs: 4, nice: 0, ms: 1000 },
    Scene { servers: 4, gap: 1000, work: 100, jobs: 8, nice: 0, ms: 1000 },
    Scene { servers: 8, gap: 2000, work: 300, jobs: 4, nice: 5, ms: 1000 },
    Scene { servers: 4, gap: 6000, work: 2500, jobs: 4, nice: 0, ms: 2000 },
    // More than there is time for: what counts is who gets how much.
    Scene { servers: 2, gap: 100, work: 1000, jobs: 6, nice: 5, ms: 1000 },
];

impl Scene {
    fn command(&self) -> String {
        let Self { servers, gap, work, jobs, nice, ms } = self;
        format!("serve -s {servers} -t {ms} -g {gap} -w {work} -j {jobs} -n {nice}")
    }

    fn keeps_up(&self) -> bool {
        self.work < self.gap
    }
}

/// What came of a scene.
#[derive(Debug)]
struct Played {
    p50_us: f64,
    p99_us: f64,
    /// In CPUs.
    servers: f64,
    jobs: f64,
}

fn on_the_real_kernel(counts: &Counts, n: usize) -> Played {
    let count = |name: &str| counts[format!("{n}_{name}").as_str()] as f64;
    let cpus = |name: &str| count(name) / count("took_ns");
    Played {
        p50_us: count("p50_ns") / 1000.0,
        p99_us: count("p99_ns") / 1000.0,
        servers: cpus("servers_ns"),
        jobs: cpus("jobs_ns"),
    }
}

fn play() -> Result<Counts> {
    let scenes = [NEARLY_NOTHING].into_iter().chain(SCENES);
    let commands =
        scenes.enumerate().map(|(n, it)| format!("{} | sed 's/^/{n}_/'\n", it.command()));
    let commands: String = commands.collect();
    let machine = Bochs::cpus(CPUS as usize).at_a_servers_pace();
    let outcome = Guest::new(machine.into(), Flavour::Stock)
        .program(&program::compile(&in_repository("tests/guest/serve.c"))?)
        .command(&commands)
        .limit(1800)
        .boot()?;
    counts_of(&outcome, 0)
}

/// What the kernel does for a request beyond what the model has, in which a switch is far cheaper
/// than the scheduler's here: before its work, and after it.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    before_us: f64,
    after_us: f64,
}

/// A machine like the emulated one: no clock changes, and no cache is cold.
const MODELLED: [&str; 8] = [
    "run",
    "--policy=eevdf",
    "--model=ice-lake",
    "--threads=1",
    "--seconds=10",
    "--scale=move=0.2",
    "--scale=caches=0",
    "--scale=wake=0",
];

fn modelled(scene: &Scene, beside: Beside) -> Result<Played> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("scene.toml");
    std::fs::write(&file, workload(scene, beside))?;
    let (file, cores) = (format!("--workload={}", file.display()), format!("--cores={CPUS}"));
    let run = [&MODELLED[..], &[file.as_str(), cores.as_str()]].concat();
    let all = sim(&run)?;
    let [servers, jobs] = [0, 1].map(|group| &all["outcomes"][0]["groups"][group]);
    let number = |at: &Value| at.as_f64().with_context(|| format!("{at} is no number"));
    Ok(Played {
        p50_us: number(&servers["latency_us"]["p50"])?,
        p99_us: number(&servers["latency_us"]["p99"])?,
        servers: number(&servers["cpus"])?,
        jobs: number(&jobs["cpus"])?,
    })
}

fn workload(scene: &Scene, beside: Beside) -> String {
    let &Scene { servers, gap, work, jobs, nice, .. } = scene;
    let Beside { before_us, after_us } = beside;
    let per_second = 1e6 * servers as f64 / gap as f64;
    // As Linux has it, and sched_ext.
    let weight = (100.0 * 1.25_f64.powi(-nice)).round();
    format!(
        "about = \"a scene\"\n[[group]]\nname = \"servers\"\nthreads = {servers}\n\
         process = \"one\"\nqueue = \"each\"\narrivals = {{ per_second = {per_second:.3} }}\n\
         steps = [\"wait\", {{ work = \"scalar\", us = {before_us:.3} }}, \
         {{ work = \"scalar\", us = {work}, distribution = \"exponential\" }}, \"done\", \
         {{ work = \"scalar\", us = {after_us:.3} }}]\n\
         [[group]]\nname = \"jobs\"\nthreads = {jobs}\nweight = {weight}\n\
         steps = [{{ work = \"scalar\", us = 1000 }}, \"done\"]\n"
    )
}

/// By a thread that has nearly nothing to do.
fn beside(real: &Played, counts: &Counts) -> Result<Beside> {
    let nothing = modelled(&NEARLY_NOTHING, Beside::default())?;
    let before_us = (real.p50_us - nothing.p50_us).max(0.0);
    let each_us = counts["0_servers_ns"] as f64 / 1000.0 / counts["0_done"] as f64;
    let known = modelled(&NEARLY_NOTHING, Beside { before_us, after_us: 0.0 })?;
    let known_us = known.servers * NEARLY_NOTHING.gap as f64;
    Ok(Beside { before_us, after_us: (each_us - known_us).max(0.0) })
}

/// Of whatever the model has too much or too little of.
fn errors(scene: &Scene, model: &Played, real: &Played) -> Vec<f64> {
    let pairs = [(model.p50_us, real.p50_us), (model.p99_us, real.p99_us)];
    let latencies = pairs.into_iter().filter(|_| scene.keeps_up());
    let shares = [(model.servers, real.servers), (model.jobs, real.jobs)];
    latencies.chain(shares).map(|(model, real)| model / real - 1.0).collect()
}

pub fn worst() -> Result<f64> {
    let counts = play()?;
    let beside = beside(&on_the_real_kernel(&counts, 0), &counts)?;
    let mut worst: f64 = 0.0;
    for (n, scene) in SCENES.iter().enumerate() {
        let real = on_the_real_kernel(&counts, n + 1);
        let model = modelled(scene, beside)?;
        let errors = errors(scene, &model, &real);
        eprintln!("rig: {}: {real:.1?}, modelled {model:.1?}", scene.command());
        worst = errors.into_iter().map(f64::abs).fold(worst, f64::max);
    }
    Ok(worst)
}
