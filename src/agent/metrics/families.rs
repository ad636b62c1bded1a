// SPDX-License-Identifier: GPL-2.0-only
//! Every metric: its name, its unit, what it means, and where its numbers come from.

use std::sync::{Arc, LazyLock};

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::process::Usage;
use super::shown::Row;
use super::source::View;
use crate::about::version;
use crate::agent::counters::Counted;
use crate::agent::prospect::Prospect;
use crate::agent::stats::{COUNTERS, Counter, Metrics};
use crate::agent::status::Waits;
use crate::agent::trial::standing::Known;

/// All that is known when text is made of the metrics.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub view: Arc<View>,
    pub usage: Usage,
    pub scrapes: u64,
    pub refused: u64,
}

pub type Labels = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub enum Value {
    Count(u64),
    /// Nanoseconds, which are told in seconds.
    Ns(u64),
    Waits(Waits),
    /// A percentage, which is told as a part of the whole.
    Percent(f64),
    /// There is no value, and only labels.
    Info,
}

pub type Sample = (Labels, Value);

/// A function that finds the samples of a family.
type Finder = Box<dyn Fn(&Facts) -> Vec<Sample> + Send + Sync>;

pub struct Family {
    /// The name with the unit, and without the suffix that a type adds.
    pub name: String,
    pub help: String,
    pub unit: Option<Unit>,
    pub kind: MetricType,
    pub labels: &'static [&'static str],
    pub samples: Finder,
}

impl Family {
    fn new(
        kind: MetricType,
        name: &str,
        help: &str,
        labels: &'static [&'static str],
        samples: impl Fn(&Facts) -> Vec<Sample> + Send + Sync + 'static,
    ) -> Self {
        let unit = match name.rsplit('_').next() {
            Some("seconds") => Some(Unit::Seconds),
            Some("bytes") => Some(Unit::Bytes),
            _ => None,
        };
        let (name, help) = (name.to_owned(), format!("{help}."));
        Self { name, help, unit, kind, labels, samples: Box::new(samples) }
    }

    fn one(
        kind: MetricType,
        name: &str,
        help: &str,
        of: impl Fn(&Facts) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::new(kind, name, help, &[], move |facts| vec![(Labels::new(), of(facts))])
    }

    fn counter(
        name: &str,
        help: &str,
        of: impl Fn(&Facts) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::one(MetricType::Counter, name, help, of)
    }

    fn gauge(name: &str, help: &str, of: impl Fn(&Facts) -> u64 + Send + Sync + 'static) -> Self {
        Self::one(MetricType::Gauge, name, help, move |facts| Value::Count(of(facts)))
    }

    /// Returns the names under which its samples are found.
    pub fn sample_names(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.kind {
            MetricType::Counter => &["_total"],
            MetricType::Histogram => &["_bucket", "_count", "_sum"],
            MetricType::Info => &["_info"],
            MetricType::Gauge | MetricType::Unknown => &[""],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", self.name)).collect()
    }
}

/// Returns what was counted. It makes no copy, because each counter is read by a closure of its
/// own.
fn counters(facts: &Facts) -> &Metrics {
    &facts.view.snapshot.sums.counters
}

/// All families, in the order in which they are told.
static ALL: LazyLock<Vec<Family>> = LazyLock::new(|| {
    let parts = [
        about_the_scheduler(),
        counted(),
        about_prospects(),
        about_trials(),
        about_cpus(),
        about_what_cpus_count(),
        about_cgroups(),
        own(),
    ];
    parts.into_iter().flatten().collect()
});

pub fn all() -> &'static [Family] {
    &ALL
}

fn about_the_scheduler() -> Vec<Family> {
    let info = |facts: &Facts| {
        let tier = facts.view.snapshot.now.tier.to_owned();
        let clocks = facts.view.snapshot.now.clocks.clone();
        vec![(vec![("version", version()), ("tier", tier), ("clocks", clocks)], Value::Info)]
    };
    let switches = |facts: &Facts| facts.view.snapshot.now.generation.saturating_sub(1);
    let help = "what runs, by what it finds out about AVX work, and what it knows of clocks";
    vec![
        Family::new(MetricType::Info, "avxspec", help, &["version", "tier", "clocks"], info),
        Family::gauge("avxspec_cpus", "online CPUs", |facts| {
            facts.view.snapshot.now.cpus.len() as u64
        }),
        Family::gauge("avxspec_avx_cores", "CPUs that are AVX cores now", |facts| {
            facts.view.snapshot.now.avx_cores
        }),
        Family::gauge("avxspec_policy_generation", "number of the policy in force", |facts| {
            facts.view.snapshot.now.generation
        }),
        Family::new(
            MetricType::Info,
            "avxspec_policy",
            "the policy in force, by its name or as \"custom\", and for whom there are AVX cores",
            &["policy", "avx_cores_for"],
            |facts| {
                let now = &facts.view.snapshot.now;
                let served = now.avx_cores_for.clone();
                vec![(
                    vec![("policy", now.policy.to_owned()), ("avx_cores_for", served)],
                    Value::Info,
                )]
            },
        ),
        Family::one(
            MetricType::Gauge,
            "avxspec_policy_trial_left_seconds",
            "time until the policy before comes back, unless the one in force is confirmed; 0 where \
             none is on trial",
            |facts| Value::Ns(facts.view.snapshot.now.trial_left.as_nanos() as u64),
        ),
        Family::counter(
            "avxspec_policy_switches",
            "times that the policy was changed while the scheduler ran",
            move |facts| Value::Count(switches(facts)),
        ),
        Family::counter(
            "avxspec_policy_refusals",
            "changes of the policy that the scheduler was asked for and refused",
            |facts| Value::Count(facts.view.snapshot.now.policy_refusals),
        ),
        Family::counter(
            "avxspec_policy_reverts",
            "times that the policy before came back, since nobody confirmed the new one in time",
            |facts| Value::Count(facts.view.snapshot.now.policy_reverts),
        ),
        Family::counter(
            "avxspec_restarts",
            "times that the scheduler was loaded anew, since a CPU came or went, the kernel hides \
             nothing, or OpenZFS was loaded",
            |facts| Value::Count(facts.view.snapshot.restarts),
        ),
        Family::counter("avxspec_attached_seconds", "time that it scheduled", |facts| {
            Value::Ns(counters(facts).interval_ns)
        }),
        Family::counter(
            "avxspec_busy_seconds",
            "time that the CPUs were busy meanwhile, as the kernel accounts for it",
            |facts| Value::Ns(counters(facts).run_ns),
        ),
    ]
}

/// Returns the families of what each CPU counts, as the statistics list it.
fn counted() -> Vec<Family> {
    let family = |counter: &'static Counter| {
        let of = counter.of;
        match counter.name.strip_suffix("_ns") {
            Some(name) => Family::counter(
                &format!("avxspec_{name}_seconds"),
                &counter.meaning.replace(", in nanoseconds", ""),
                move |facts| Value::Ns(of(counters(facts))),
            ),
            None => {
                Family::counter(&format!("avxspec_{}", counter.name), counter.meaning, move |f| {
                    Value::Count(of(counters(f)))
                })
            }
        }
    };
    let waits = |facts: &Facts| {
        let waits = facts.view.snapshot.sums.waits.iter();
        waits
            .map(|(class, it)| (vec![("class", class.clone())], Value::Waits(it.clone())))
            .collect()
    };
    let of_waits = Family::new(
        MetricType::Histogram,
        "avxspec_wait_seconds",
        "how long tasks waited in queues before they ran; one in 64 is measured of those that are \
         no AVX tasks, and counts as 64; the sum is estimated from the buckets",
        &["class"],
        waits,
    );
    COUNTERS.iter().map(family).chain([of_waits]).collect()
}

fn bound(name: &str) -> Labels {
    vec![("bound", name.to_owned())]
}

/// Returns the families of trials. They have samples once a trial was over.
fn about_trials() -> Vec<Family> {
    let found = |facts: &Facts| match &facts.view.snapshot.now.trials {
        Some(Known::Found(found)) => Some(found.clone()),
        _ => None,
    };
    let pays = move |facts: &Facts| {
        let pays = found(facts).map(|it| Value::Count(it.pays.into()));
        pays.map(|it| (Labels::new(), it)).into_iter().collect()
    };
    let gain = move |facts: &Facts| {
        let more = found(facts).and_then(|it| it.more);
        let bounds = more.map(|it| [("least", it.from), ("mean", it.percent), ("most", it.to)]);
        let bounds = bounds.into_iter().flatten();
        bounds.map(|(name, it)| (bound(name), Value::Percent(it))).collect()
    };
    vec![
        Family::new(
            MetricType::Gauge,
            "avxspec_trial_avx_cores_pay",
            "whether AVX cores pay, as the last trial found: 1 or 0; only if the policy leaves it to \
             trials, and once one is over",
            &[],
            pays,
        ),
        Family::new(
            MetricType::Gauge,
            "avxspec_trial_gain_ratio",
            "how much more programs got done with AVX cores in that trial, by their geometric mean, \
             and the limits of 95 %; where anything was known of them",
            &["bound"],
            gain,
        ),
    ]
}

/// Returns the families of prospects. They have samples only while AVX cores are for nobody, and
/// where anything is known.
fn about_prospects() -> Vec<Family> {
    let worth = |facts: &Facts| {
        let prospect = facts.view.snapshot.now.prospect.as_ref();
        prospect.and_then(Prospect::worth).cloned()
    };
    let cores = move |facts: &Facts| {
        worth(facts).map(|it| (Labels::new(), Value::Count(it.avx_cores))).into_iter().collect()
    };
    let gain = move |facts: &Facts| {
        let bounds = worth(facts)
            .map(|it| [("least", it.least_gain_percent), ("most", it.most_gain_percent)]);
        let bounds = bounds.into_iter().flatten();
        bounds.map(|(name, it)| (bound(name), Value::Percent(it as f64))).collect()
    };
    vec![
        Family::new(
            MetricType::Gauge,
            "avxspec_prospect_avx_cores_modelled",
            "CPUs that the default policy would make AVX cores, modelled; only while these are \
             for nobody, and where AVX work is seen",
            &[],
            cores,
        ),
        Family::new(
            MetricType::Gauge,
            "avxspec_prospect_gain_modelled_ratio",
            "how much of the CPUs' work it would gain, modelled: at least and at most; under the \
             same conditions",
            &["bound"],
            gain,
        ),
    ]
}

fn about_cpus() -> Vec<Family> {
    let label = |cpu: &u32| vec![("cpu", cpu.to_string())];
    let is_avx_core = move |facts: &Facts| {
        let cpus = facts.view.snapshot.now.cpus.iter();
        cpus.map(|(cpu, is)| (label(cpu), Value::Count(u64::from(*is)))).collect()
    };
    let as_avx_core = move |facts: &Facts| {
        let cpus = facts.view.snapshot.sums.as_avx_core_ns.iter();
        cpus.map(|(cpu, ns)| (label(cpu), Value::Ns(*ns))).collect()
    };
    vec![
        Family::new(
            MetricType::Gauge,
            "avxspec_cpu_is_avx_core",
            "1 where an online CPU is an AVX core, 0 where it is not",
            &["cpu"],
            is_avx_core,
        ),
        Family::new(
            MetricType::Counter,
            "avxspec_cpu_avx_core_seconds",
            "time that a CPU was an AVX core, online now or not",
            &["cpu"],
            as_avx_core,
        ),
    ]
}

/// Returns the families of the CPUs' own counters. They have samples only where the CPUs have such
/// counters, and once somebody asked.
fn about_what_cpus_count() -> Vec<Family> {
    let family = |name: &str, help: &str, labels, of: fn(&Counted) -> Vec<(Labels, Value)>| {
        let samples = move |facts: &Facts| {
            let cpus = facts.view.snapshot.sums.counted.iter();
            let of_cpu = |(cpu, counted): (&u32, &Counted)| -> Vec<Sample> {
                let label = ("cpu", cpu.to_string());
                let with_cpu = |(mut labels, value): Sample| {
                    labels.insert(0, label.clone());
                    (labels, value)
                };
                of(counted).into_iter().map(with_cpu).collect()
            };
            cpus.flat_map(of_cpu).collect()
        };
        Family::new(MetricType::Counter, name, help, labels, samples)
    };
    vec![
        family(
            "avxspec_cpu_licence_cycles",
            "cycles of the core at each frequency licence as its counters have it, of which a \
             thread of two is told half; while others need the counters nothing is counted",
            &["cpu", "licence"],
            |counted| {
                let cycles = counted.known_cycles().into_iter().flatten().enumerate();
                let sample = |(licence, cycles): (usize, u64)| {
                    (vec![("licence", licence.to_string())], Value::Count(cycles))
                };
                cycles.map(sample).collect()
            },
        ),
        family(
            "avxspec_cpu_wide_operations",
            "floating-point operations of 512 bits as the CPU counts them, which does not tell of \
             integers; under the same conditions",
            &["cpu"],
            |counted| {
                let count = counted.known_wide_operations();
                count.map(|count| (Labels::new(), Value::Count(count))).into_iter().collect()
            },
        ),
        family(
            "avxspec_cpu_counted_seconds",
            "time for which a CPU counted these, each as \"licences\" or \"operations\"",
            &["cpu", "counters"],
            |counted| {
                let times =
                    [("licences", counted.cycles_ns), ("operations", counted.wide_operations_ns)];
                let known = times.into_iter().filter(|(_, ns)| *ns > 0);
                known
                    .map(|(name, ns)| (vec![("counters", name.to_owned())], Value::Ns(ns)))
                    .collect()
            },
        ),
    ]
}

fn about_cgroups() -> Vec<Family> {
    let family = |name: &str, help: &str, of: fn(&Row) -> u64| {
        let samples = move |facts: &Facts| {
            let rows = facts.view.cgroups.iter();
            rows.map(|row| (vec![("cgroup", row.name.clone())], Value::Ns(of(row)))).collect()
        };
        Family::new(MetricType::Counter, name, help, &["cgroup"], samples)
    };
    vec![
        family(
            "avxspec_cgroup_avx_seconds",
            "time that AVX tasks of a cgroup ran, of the 20 with the most of that and of what they \
             lost, since they are among these, and of all others as \"other\"",
            |row| row.work.avx_ns,
        ),
        family(
            "avxspec_cgroup_scalar_seconds",
            "time that they ran between such phases, of the same cgroups",
            |row| row.work.scalar_ns,
        ),
        family(
            "avxspec_cgroup_compensated_seconds",
            "time that tasks of a cgroup lost to clocks that others had made low, and need not pay \
             for, of the same cgroups; as the label clocks of avxspec_info has it",
            |row| row.work.lost_ns,
        ),
        family(
            "avxspec_cgroup_watched_seconds",
            "time that they ran with fairness=compensate, of which that is a part",
            |row| row.work.watched_ns,
        ),
    ]
}

/// Returns the families of the agent itself.
fn own() -> Vec<Family> {
    vec![
        Family::counter("avxspec_scrapes", "times that metrics were asked for", |facts| {
            Value::Count(facts.scrapes)
        }),
        Family::counter(
            "avxspec_refused_connections",
            "connections that were refused since too many were open",
            |facts| Value::Count(facts.refused),
        ),
        Family::gauge("process_resident_memory_bytes", "resident memory of the agent", |facts| {
            facts.usage.resident_bytes
        }),
        Family::counter("process_cpu_seconds", "CPU time that the agent used", |facts| {
            Value::Ns(facts.usage.cpu_ns)
        }),
    ]
}
