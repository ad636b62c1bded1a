// SPDX-License-Identifier: GPL-2.0-only
//! The numbers that a result depends on: what they are, where they are from, and how to try others.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::setup::Setup;
use crate::processors::Step;
use crate::sim::kernel::engine::Costs;
use crate::sim::machine::caches::{LINE_BYTES, Timing};
use crate::sim::machine::model::{IdleState, Model};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    pub name: String,
    pub value: String,
    pub source: String,
}

const DOWNS: &str = "Travis Downs, \"Gathering Intel on Intel AVX-512 Transitions\"";

/// Returns all parameters, with where they are from.
pub fn all(setup: &Setup) -> Vec<Parameter> {
    let Setup { model, costs, .. } = setup;
    let parameter = |name: &str, value: String, source: String| Parameter {
        name: name.to_owned(),
        value,
        source,
    };
    let us = |ns: f64| format!("{} us", ns / 1000.0);
    let measured = "the scheduler on emulated hardware, in instructions of a server of a few GHz";
    vec![
        parameter("clocks", clocks(model), model.source.to_owned()),
        parameter(
            "request: how long a core asks for a licence",
            us(model.request_ns as f64),
            format!("{DOWNS}: 8 to 20 us; Intel's optimization manual: up to 500 us"),
        ),
        parameter(
            "share of instructions dispatched meanwhile",
            model.throttle.to_string(),
            DOWNS.to_owned(),
        ),
        parameter(
            "halt for each change of the clock",
            us(model.halt_ns as f64),
            format!("{DOWNS}: 8 to 11 us, in both directions"),
        ),
        parameter(
            "hold: how long a licence outlives its need",
            us(model.hold_ns as f64),
            format!("{DOWNS}: 650 to 680 us; Intel's optimization manual: about 2 ms"),
        ),
        parameter(
            "release: how long before the end of the hold that is settled",
            us(model.release_ns as f64),
            format!("{DOWNS}: the clock rose some us after wide instructions began; 8 to 10 us"),
        ),
        parameter(
            "a core counts as active until it has been idle for",
            us(model.active_window_ns as f64),
            "an assumption: of the order of what Linux asks for its deepest idle state".to_owned(),
        ),
        parameter(
            "wake: until an idle core runs something",
            idle_states(model),
            "Linux, drivers/idle/intel_idle.c, for Skylake-SP; that it foresees for how long a core \
             idles is an assumption"
                .to_owned(),
        ),
        parameter(
            "what a thread does while its sibling runs too",
            model.smt_share.to_string(),
            "an assumption: two siblings together do 1.2 times the work of one, which has all of \
             its core while the other waits for its caches"
                .to_owned(),
        ),
        parameter("move: a switch, in the kernel", us(costs.switch), measured.to_owned()),
        parameter("a fault", us(costs.fault), measured.to_owned()),
        parameter("a system call", us(costs.syscall), "an assumption".to_owned()),
        parameter(
            "until another CPU hears that it is to schedule",
            us(costs.kick as f64),
            "an assumption".to_owned(),
        ),
    ]
    .into_iter()
    .chain(caches(&costs.caches))
    .collect()
}

/// Returns the parameters of caches, from which what is missing after a move or after others ran is
/// fetched.
fn caches(timing: &Timing) -> Vec<Parameter> {
    const REVIEW: &str = "AnandTech, \"The Intel Skylake-X Review\"";
    let Timing { l1_lines, l2_lines, l2_ns, llc_ns, neighbour_ns, remote_ns, .. } = *timing;
    let kib = |lines: f64| lines * LINE_BYTES / 1024.0;
    let list = [
        (
            "caches: of code, of data, and the second level of a core",
            format!("{} KiB, {0} KiB, {} KiB", kib(l1_lines), kib(l2_lines)),
            REVIEW,
        ),
        (
            "caches: a line from the second level, from the last",
            format!("{l2_ns} ns, {llc_ns} ns"),
            REVIEW,
        ),
        (
            "caches: a line from another core",
            format!("{neighbour_ns} ns"),
            "J. McCalpin in Intel's forum, \"Core-to-Core Communication Latency\": 40 to 42 ns",
        ),
        (
            "caches: a line from another last-level cache",
            format!("{remote_ns} ns"),
            "an assumption: of the order of an access to memory",
        ),
        (
            "caches: lines that are fetched at once",
            timing.overlap.to_string(),
            "Ferdman et al., \"Clearing the Clouds\": 1.4 to 2.3 in servers",
        ),
        (
            "caches: of the data that is used, how much is written",
            timing.written.to_string(),
            "an assumption: so that copies on other cores are no longer valid",
        ),
    ];
    let parameter = |(name, value, source): (&str, String, &str)| Parameter {
        name: name.to_owned(),
        value,
        source: source.to_owned(),
    };
    list.into_iter().map(parameter).collect()
}

fn idle_states(model: &Model) -> String {
    let us = |ns| ns as f64 / 1000.0;
    let state =
        |it: &IdleState| format!("{} us from {} us of idling on", us(it.wake_ns), us(it.from_ns));
    model.idle_states.iter().map(state).collect::<Vec<_>>().join(", ")
}

fn clocks(model: &Model) -> String {
    let mut first = 1;
    let step = |step: &Step| {
        let [l0, l1, l2] = step.mhz.map(|mhz| format!("{:.1}", f64::from(mhz) / 1000.0));
        let cores = match (first, step.up_to_cores) {
            (1, u32::MAX) => String::new(),
            (from, u32::MAX) => format!(" with {from} cores active or more"),
            (from, to) => format!(" with {from} to {to} cores active"),
        };
        first = step.up_to_cores.saturating_add(1);
        format!("{l0}, {l1}, {l2} GHz{cores}")
    };
    model.steps.iter().map(step).collect::<Vec<_>>().join("; ")
}

/// What may be scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaled {
    Hold,
    Request,
    Move,
    Caches,
    Release,
    Wake,
}

const SCALED: [(&str, Scaled); 6] = [
    ("hold", Scaled::Hold),
    ("request", Scaled::Request),
    ("move", Scaled::Move),
    ("caches", Scaled::Caches),
    ("release", Scaled::Release),
    ("wake", Scaled::Wake),
];

pub fn scalable() -> impl Iterator<Item = &'static str> {
    SCALED.iter().map(|(name, _)| *name)
}

/// Returns the names of the parameters that are not known well and are varied. Hardly anything
/// depends on the release, and Linux knows how long it takes to wake up.
pub fn uncertain() -> impl Iterator<Item = &'static str> {
    let is_known = |which| matches!(which, Scaled::Release | Scaled::Wake);
    SCALED.iter().filter(move |(_, which)| !is_known(*which)).map(|(name, _)| *name)
}

/// Scales a parameter: "hold=1.5" makes the hold half as long again.
pub fn scale(setup: &mut Setup, text: &str) -> Result<()> {
    let (name, factor) = text
        .split_once('=')
        .with_context(|| format!("{text:?} scales nothing: write it as PARAMETER=FACTOR"))?;
    let Some((_, which)) = SCALED.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = scalable().collect();
        bail!("there is no parameter {name:?} to scale: choose one of {}", known.join(", "));
    };
    let factor: f64 = factor.parse().with_context(|| format!("{factor:?} is no number"))?;
    ensure!((0.0..=1000.0).contains(&factor), "a factor is 0 to 1000, not {factor}");
    let Setup { model, costs, .. } = setup;
    let scaled = |ns: u64| (ns as f64 * factor) as u64;
    match which {
        Scaled::Hold => model.hold_ns = scaled(model.hold_ns),
        Scaled::Request => model.request_ns = scaled(model.request_ns),
        Scaled::Release => model.release_ns = scaled(model.release_ns),
        Scaled::Wake => {
            for state in &mut model.idle_states {
                state.wake_ns = scaled(state.wake_ns);
            }
        }
        Scaled::Move => {
            *costs = Costs {
                switch: costs.switch * factor,
                fault: costs.fault * factor,
                kick: scaled(costs.kick),
                ..*costs
            };
        }
        Scaled::Caches => {
            let it = costs.caches;
            costs.caches = Timing {
                l2_ns: it.l2_ns * factor,
                llc_ns: it.llc_ns * factor,
                neighbour_ns: it.neighbour_ns * factor,
                remote_ns: it.remote_ns * factor,
                ..it
            };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::intf::{AVX_TIER_TRAP, NO_CLOCK_COUNTERS};
    use crate::sim::kernel::engine::COSTS;
    use crate::sim::machine::Topology;
    use crate::sim::workload::Workload;

    fn setup(model: &str) -> Setup {
        Setup {
            workload: Workload::named("nginx").unwrap(),
            model: Model::named(model).unwrap(),
            topology: Topology::regular(1, 1, 1, 1),
            costs: COSTS,
            tier: AVX_TIER_TRAP,
            counters: NO_CLOCK_COUNTERS,
            warm_up_ns: 0,
            seconds: 1,
            seed: 1,
        }
    }

    #[test]
    fn what_is_scaled_is_longer_by_the_factor() {
        let mut setup = setup("gold-5120");
        for name in scalable() {
            scale(&mut setup, &format!("{name}=1.5")).unwrap();
        }
        assert_eq!((setup.model.hold_ns, setup.model.request_ns), (1_005_000, 13_500));
        assert_eq!(setup.model.release_ns, 13_500);
        assert_eq!(setup.model.idle_states.map(|it| it.wake_ns), [3_000, 15_000, 199_500]);
        assert_eq!(setup.costs.caches.neighbour_ns, 1.5 * COSTS.caches.neighbour_ns);
        assert_eq!(setup.costs.caches.l2_lines, COSTS.caches.l2_lines);
        assert_eq!(setup.costs.switch, 1.5 * COSTS.switch);
        for bad in ["hold", "hold=", "hold=x", "hold=-1", "hold=nan", "grip=1"] {
            assert!(scale(&mut setup, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_parameter_says_where_it_is_from() {
        for model in Model::names() {
            for parameter in all(&setup(model)) {
                assert!(
                    !parameter.value.is_empty() && parameter.source.len() > 10,
                    "{parameter:?}"
                );
            }
        }
        let text = clocks(&Model::named("gold-5120").unwrap());
        assert!(text.starts_with("3.2, 3.1, 2.9 GHz with 1 to 2 cores active; 3.0,"), "{text}");
        assert!(text.ends_with("2.6, 2.2, 1.6 GHz with 13 cores active or more"), "{text}");
    }
}
