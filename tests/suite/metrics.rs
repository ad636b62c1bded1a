// SPDX-License-Identifier: GPL-2.0-only
//! What is told to Prometheus, by Prometheus.

use anyhow::{Result, ensure};

use super::counts::counts_of;
use super::{scheduler_guest, script};
use crate::ensure_eq;
use crate::rig::{Flavour, Qemu, in_repository};

crate::tests! {
    metrics:
    prometheus_scrapes_the_agent_and_finds_nothing_wrong(30),
}

/// A CPU goes meanwhile, so that the scheduler is loaded anew: what is counted goes on.
fn prometheus_scrapes_the_agent_and_finds_nothing_wrong() -> Result<()> {
    let contrib = |name: &str| in_repository("contrib/prometheus").join(name);
    let outcome = scheduler_guest(Qemu::cpus(4), Flavour::Stock)?
        .package("prometheus")
        .package("curl")
        .file("/rules.yml", &contrib("rules.yml"))
        .file("/rules_test.yml", &contrib("rules_test.yml"))
        .file("/prometheus.yml", &in_repository("tests/guest/prometheus.yml"))
        .command(&script(
            "agent=http://127.0.0.1:9829
             get() { curl --silent --fail \"$@\"; }
             ask() { get --get http://127.0.0.1:9090/api/v1/query --data-urlencode \"query=$1\"; }
             has() { ask \"$1\" | grep -q '\"value\":\\[[0-9.]*,\"'$2'\"'; }
             one() { get $agent/metrics | sed -n \"s/^$1 //p\"; }
             is_reloaded() { [ \"$(one avxspec_restarts_total)\" = 1 ]; }

             promtool check rules /rules.yml >&2 || fail check rules
             promtool test rules /rules_test.yml >&2 || fail test rules
             start_scheduler
             get $agent/readyz >&2 || fail not ready
             get $agent/metrics | promtool check metrics >&2 || fail check metrics

             prometheus --config.file=/prometheus.yml --storage.tsdb.path=/tmp/tsdb \\
                 >/tmp/prometheus.log 2>&1 & prometheus=$!
             wait_until 60 has 'up{job=\"avxspec\"}' 1 || fail $(tail -n 3 /tmp/prometheus.log)
             wait_until 30 has avxspec_cpus 4 || fail no CPUs

             echo before=$(one avxspec_direct_total)
             set_cpu 3 0
             wait_until 60 is_reloaded || fail not loaded anew
             echo after=$(one avxspec_direct_total)
             wait_until 30 has avxspec_cpus 3 || fail Prometheus does not see that a CPU went
             fallen=$(ask 'sum(resets(avxspec_direct_total[5m]))')
             echo resets=$(echo $fallen | sed -n 's/.*,\"\\([0-9]*\\)\"\\].*/\\1/p')
             kill $prometheus
             stop_scheduler
             get $agent/healthz && fail somebody listens yet
             echo status=$status",
        ))
        .boot()?;
    let counts = counts_of(&outcome, 0)?;
    ensure!(counts["before"] > 0 && counts["after"] >= counts["before"], "{counts:?}");
    ensure_eq!((counts["resets"], counts["status"]), (0, 0));
    Ok(())
}
