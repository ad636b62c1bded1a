// SPDX-License-Identifier: GPL-2.0-only
//! Many runs at a time: each is a process of this program, for there is one kernel in each.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use super::progress::Progress;
use crate::sim::comparison::Comparison;

/// `sim run` with these arguments, and what came of it.
pub fn run(arguments: &[String]) -> Result<Comparison> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new(program)
        .args(["sim", "run", "--json"])
        .args(arguments)
        .output()
        .context("cannot start this program once more")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("sim run {}: {}", arguments.join(" "), said.trim());
    }
    serde_json::from_slice(&output.stdout).context("a run said something that is no JSON")
}

/// Each of the jobs, as many at a time as there are CPUs; in their order.
pub fn all<T: Send>(
    jobs: &[Vec<String>],
    run: impl Fn(&[String]) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let progress = Progress::new(jobs.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::new());
    let work = || {
        while let Some((n, job)) = take(&next, jobs) {
            let result = run(job);
            let failed = result.is_err();
            if let Ok(mut results) = results.lock() {
                results.push((n, result));
            }
            progress.step();
            if failed {
                // Nobody begins another one.
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
    };
    let at_a_time = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..at_a_time.min(jobs.len()) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

fn take<'a>(next: &AtomicUsize, jobs: &'a [Vec<String>]) -> Option<(usize, &'a [String])> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(n).map(|job| (n, job.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(nr: usize) -> Vec<Vec<String>> {
        (0..nr).map(|n| vec![n.to_string()]).collect()
    }

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let results = all(&jobs(100), |job| Ok(job.to_vec())).unwrap();
        assert_eq!(results, jobs(100));
    }

    #[test]
    fn one_that_fails_is_the_end_of_all() {
        let error = all(&jobs(100), |job| if job == ["7"] { bail!("bad luck") } else { Ok(()) });
        assert_eq!(error.unwrap_err().to_string(), "bad luck");
    }
}
