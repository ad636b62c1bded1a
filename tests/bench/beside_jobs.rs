// SPDX-License-Identifier: GPL-2.0-only
//! How late servers are beside jobs that compute all the time: of each kind, beside few jobs and
//! many, of each weight, under the kernel's own scheduler and ours in one guest.

use std::sync::Mutex;

use anyhow::{Context, Result};

use crate::rig::{Flavour, Qemu};
use crate::suite::wakeups::served;

/// Each uses a tenth of a CPU for each of the machine's, or less where a request goes from CPU to
/// CPU: an emulator that counts time runs these by turns, and requests would pile up.
const KINDS: [&str; 3] = ["-g 250 -w 25", "-g 10000 -w 200 -f 8", "-g 250 -w 25 -l 4"];
const JOBS_PER_CPU: [usize; 3] = [1, 2, 8];
const JOBS: [&str; 4] = ["-n 0", "-n 10", "-n 19", "-i"];

const PERCENTILES: [&str; 2] = ["p50", "p99"];

fn loads(cpus: usize) -> Vec<String> {
    let mut loads = Vec::new();
    for kind in KINDS {
        for per_cpu in JOBS_PER_CPU {
            for jobs in JOBS {
                loads.push(format!("serve -s {cpus} -t 200 {kind} -j {} {jobs}", cpus * per_cpu));
            }
        }
    }
    loads
}

/// Ours by the kernel's own, of each load and percentile.
fn measure(cpus: usize) -> Result<Vec<f64>> {
    let loads = loads(cpus);
    let commands: Vec<&str> = loads.iter().map(String::as_str).collect();
    let machine = Qemu::cpus(cpus).counted_time(1).into();
    let counts = served(machine, Flavour::Stock, "--force --policy observe", &commands)?;
    let mut ratios = Vec::new();
    for (n, load) in loads.iter().enumerate() {
        for percentile in PERCENTILES {
            let ratio = counts.ours_by_kernels(&format!("{n}_{percentile}"));
            eprintln!("rig: {ratio:.3} {percentile} of {load}");
            ratios.push(ratio);
        }
    }
    Ok(ratios)
}

/// All figures of a machine are of one run.
fn ratios(cpus: usize) -> Result<Vec<f64>> {
    static MEASURED: Mutex<Vec<(usize, Vec<f64>)>> = Mutex::new(Vec::new());
    let mut measured = MEASURED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, ratios)) = measured.iter().find(|(of, _)| *of == cpus) {
        return Ok(ratios.clone());
    }
    let ratios = measure(cpus)?;
    measured.push((cpus, ratios.clone()));
    Ok(ratios)
}

pub fn worst(cpus: usize) -> Result<f64> {
    ratios(cpus)?.into_iter().max_by(f64::total_cmp).context("there are loads")
}

/// Geometric.
pub fn mean(cpus: usize) -> Result<f64> {
    let ratios = ratios(cpus)?;
    Ok((ratios.iter().map(|it| it.ln()).sum::<f64>() / ratios.len() as f64).exp())
}
