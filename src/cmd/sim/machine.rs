// SPDX-License-Identifier: GPL-2.0-only
//! The modelled machine, as the command line describes it.

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::agent::policy;
use crate::agent::preflight::{self, Tier, tier};
use crate::bpf::intf::{
    APERF_AND_MPERF, CYCLES_BY_LICENCE, NO_CLOCK_COUNTERS, avx_clock_counters, avx_policy,
};
use crate::sim::COSTS;
use crate::sim::CPUS_MAX;
use crate::sim::Topology;
use crate::sim::Workload;
use crate::sim::comparison::Shape;
use crate::sim::model::{Model, guessed_clocks};
use crate::sim::outcome::Outcome;
use crate::sim::parameters;
use crate::sim::variant::Variant;
use crate::sim::{Setup, experiment};

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum Counters {
    /// Nothing: it is estimated.
    #[default]
    None,
    /// The cycles of a core at each licence.
    Licences,
    /// APERF and MPERF.
    Clocks,
}

impl Counters {
    /// On such a processor, as the agent knows it.
    fn on(self, model: &Model) -> Result<avx_clock_counters> {
        let has_licences = preflight::Machine::with_cpu(model.cpuinfo).countable().licences;
        ensure!(
            self != Self::Licences || has_licences,
            "a {} does not count cycles at each licence: choose --counters clocks or none",
            model.name
        );
        Ok(self.kind())
    }

    fn kind(self) -> avx_clock_counters {
        match self {
            Self::None => NO_CLOCK_COUNTERS,
            Self::Licences => CYCLES_BY_LICENCE,
            Self::Clocks => APERF_AND_MPERF,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Args)]
pub struct Machine {
    /// The processor.
    #[arg(long, default_value = "i9-7940x", value_name = "NAME")]
    pub model: String,

    /// Cores of each processor, all of which work.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,

    /// Threads of each core.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=2))]
    pub threads: u16,

    /// Processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=8))]
    pub sockets: u16,

    /// NUMA nodes of each processor, among which its cores are shared out evenly: more than one where
    /// it is set to sub-NUMA clusters.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub nodes: u16,

    /// Last-level caches of each processor, among which its cores are shared out evenly.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub llcs: u16,

    /// Schedule AVX work also where it hardly lowers the clock, as the scheduler's --force does.
    #[arg(long)]
    pub force: bool,

    /// What counts how low clocks are, for policies with fairness=compensate; not every processor
    /// counts licences.
    #[arg(long, value_enum, default_value_t)]
    pub counters: Counters,

    /// Find out about AVX work in this way, and not as it would on such a machine.
    #[arg(long, value_name = "NAME", value_enum)]
    pub tier: Option<tier::Name>,

    /// The same seed gives the same result, to the last digit.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Machine {
    pub fn setup(&self, workload: Workload, seconds: u64) -> Result<Setup> {
        let model = Model::named(&self.model).with_context(|| {
            format!(
                "there is no model {:?}: choose one of {}",
                self.model,
                Model::names().collect::<Vec<_>>().join(", ")
            )
        })?;
        let topology = self.topology()?;
        let counters = self.counters.on(&model)?;
        let tier = self.tier(&model)?.kind();
        let seed = self.seed;
        let setup = Setup {
            workload,
            model,
            topology,
            costs: COSTS,
            tier,
            counters,
            warm_up_ns: experiment::WARM_UP_NS,
            seconds,
            seed,
        };
        experiment::check(&setup)?;
        Ok(setup)
    }

    pub fn nr_cpus(&self) -> usize {
        self.shape().nr_cpus() as usize
    }

    fn topology(&self) -> Result<Topology> {
        let Self { nodes, llcs, cores, .. } = *self;
        let nr_cpus = self.nr_cpus();
        ensure!(
            nr_cpus <= CPUS_MAX,
            "{nr_cpus} CPUs are too many: choose --sockets, --cores and --threads so that there \
             are at most {CPUS_MAX}"
        );
        ensure!(
            cores % llcs == 0,
            "{cores} cores cannot be shared out evenly among {llcs} last-level caches: choose \
             --cores and --llcs so that each cache has as many"
        );
        let is_whole = llcs % nodes == 0 || nodes % llcs == 0;
        ensure!(
            cores % nodes == 0 && is_whole,
            "{cores} cores with {llcs} last-level caches cannot be shared out evenly among {nodes} \
             nodes: choose --cores, --llcs and --nodes so that each node has as many"
        );
        Ok(self.shape().topology())
    }

    pub fn shape(&self) -> Shape {
        let Self { sockets, nodes, llcs, cores, threads, .. } = *self;
        Shape { sockets, nodes, llcs, cores, threads }
    }

    /// What the agent would choose on a machine with such a CPU.
    pub fn tier(&self, model: &Model) -> Result<Tier> {
        let machine = preflight::Machine::with_cpu(model.cpuinfo);
        let counts_licences = self.counters == Counters::Licences;
        ensure!(
            self.tier != Some(tier::Name::Counters) || counts_licences,
            "the tier counters takes cycles counted at each licence: add --counters licences"
        );
        Tier::choose(self.tier, self.force, &machine, counts_licences)
    }
}

/// A machine about which the model may err.
#[derive(Debug, Args)]
pub struct ScaledMachine {
    #[command(flatten)]
    pub machine: Machine,

    /// With a parameter of the model other than it is thought to be; may be given several times.
    #[arg(long, value_name = "PARAMETER=FACTOR")]
    scale: Vec<String>,
}

impl ScaledMachine {
    pub fn setup(&self, workload: Workload, seconds: u64) -> Result<Setup> {
        let mut setup = self.machine.setup(workload, seconds)?;
        for scale in &self.scale {
            parameters::scale(&mut setup, scale)?;
        }
        Ok(setup)
    }
}

/// As the command line has it.
pub fn word_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
}

/// How the agent tells a policy to the scheduler there.
pub fn policy_on(model: &Model, policy: &avx_policy) -> avx_policy {
    policy::on_cpu(policy, preflight::Machine::with_cpu(model.cpuinfo).clocks().licence_drop)
}

/// The standard policy, but for what the variant sets.
pub fn policy_of(variant: &Variant) -> Result<avx_policy> {
    policy::turned(policy::standard(), &variant.settings)
}

/// In which most trials have decided.
const TRIED_NS: u64 = 4_000_000_000;

/// How long nothing is measured, unless somebody says so: with trials what they come to is compared.
pub fn warm_up_ns(variants: &[Variant]) -> Result<u64> {
    for variant in variants {
        if variant.is_tried(&policy_of(variant)?) {
            return Ok(TRIED_NS);
        }
    }
    Ok(experiment::WARM_UP_NS)
}

pub fn outcome_of(setup: &Setup, variant: &Variant) -> Result<Outcome> {
    experiment::run(setup, variant, &policy_on(&setup.model, &policy_of(variant)?))
}

/// Whose figures come below it, and how much is known of the clocks.
pub fn headline(what: &str, model: &str, cores: u16) -> String {
    format!("{what}{}. All figures are modelled.\n", guessed_clocks(model, cores))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::policy::standard;

    fn machine(name: &str) -> Machine {
        Machine {
            model: name.to_owned(),
            cores: 2,
            threads: 1,
            sockets: 1,
            nodes: 1,
            llcs: 1,
            force: false,
            counters: Counters::None,
            tier: None,
            seed: 1,
        }
    }

    fn on(name: &str, force: bool) -> (&'static str, u64) {
        let machine = Machine { force, ..machine(name) };
        let model = Model::named(name).unwrap();
        (machine.tier(&model).unwrap().name(), policy_on(&model, &standard()).licence_drop)
    }

    #[test]
    fn the_scheduler_does_there_what_it_would_do_on_such_a_machine() {
        for name in ["i9-7940x", "xeon-w-2104", "gold-5120", "gold-6130"] {
            assert_eq!(on(name, false), ("trap", 256), "{name}");
        }
        assert_eq!(on("ice-lake", false), ("trap", 28));
        for name in ["sapphire-rapids", "zen4"] {
            assert_eq!((on(name, false), on(name, true)), (("observe", 0), ("trap", 0)), "{name}");
        }
    }

    #[test]
    fn a_processor_has_the_counters_that_the_agent_would_find_there() {
        let with = |model, counters| {
            let machine = Machine { counters, ..machine(model) };
            machine.setup(Workload::named("nginx").unwrap(), 1).map(|setup| setup.counters)
        };
        for model in Model::names() {
            for counters in [Counters::None, Counters::Clocks] {
                assert_eq!(with(model, counters).unwrap(), counters.kind(), "{model}");
            }
        }
        for model in ["i9-7940x", "xeon-w-2104", "gold-5120", "gold-6130"] {
            assert_eq!(with(model, Counters::Licences).unwrap(), CYCLES_BY_LICENCE, "{model}");
        }
        for model in ["ice-lake", "sapphire-rapids", "zen4"] {
            let error = with(model, Counters::Licences).unwrap_err().to_string();
            let expected = format!("a {model} does not count cycles at each licence");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    /// The option of the scheduler is another one.
    #[test]
    fn the_tier_counters_takes_an_option_of_the_simulator() {
        let tier = Some(tier::Name::Counters);
        let with = |counters| {
            let machine = Machine { counters, tier, ..machine("i9-7940x") };
            machine.tier(&Model::named("i9-7940x").unwrap()).map(Tier::name)
        };
        assert_eq!(with(Counters::Licences).unwrap(), "counters");
        for counters in [Counters::None, Counters::Clocks] {
            let error = with(counters).unwrap_err().to_string();
            assert!(error.ends_with(": add --counters licences"), "{error}");
        }
    }

    #[test]
    fn no_machine_has_more_cpus_than_a_mask() {
        let with = |cores| Machine { sockets: 2, threads: 2, cores, ..machine("zen4") }.topology();
        assert_eq!(with(256).unwrap().cpus.len(), 1024);
        assert_eq!(
            with(257).unwrap_err().to_string(),
            "1028 CPUs are too many: choose --sockets, --cores and --threads so that there are at \
             most 1024"
        );
    }

    #[test]
    fn each_cache_has_as_many_cores() {
        let with = |cores, llcs| Machine { sockets: 2, threads: 2, cores, llcs, ..machine("zen4") };
        let topology = with(16, 2).topology().unwrap();
        let of = |llc| topology.cpus.iter().filter(|it| it.llc == llc).collect::<Vec<_>>();
        for llc in 0..4 {
            let cpus = of(llc);
            assert_eq!(cpus.len(), 16, "{llc}");
            assert!(cpus.iter().all(|it| it.socket == llc / 2), "{cpus:?}");
        }
        assert!(of(4).is_empty());
        assert_eq!(with(16, 1).topology().unwrap(), Topology::regular(2, 1, 16, 2));
        for (cores, llcs) in [(10, 4), (2, 4)] {
            let error = with(cores, llcs).topology().unwrap_err().to_string();
            let expected =
                format!("{cores} cores cannot be shared out evenly among {llcs} last-level caches");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn each_node_has_as_many_cores() {
        let with = |nodes, llcs| {
            let machine =
                Machine { sockets: 2, threads: 2, cores: 16, nodes, llcs, ..machine("zen4") };
            machine.topology()
        };
        // With a cache each, with two, and half of one.
        for llcs in [2, 4, 1] {
            let topology = with(2, llcs).unwrap();
            for node in 0..4 {
                let cpus: Vec<_> = topology.cpus.iter().filter(|it| it.node == node).collect();
                assert_eq!(cpus.len(), 16, "{node}");
                let is_there = |core| core / 8 == node && core / 16 == node / 2;
                assert!(
                    cpus.iter().all(|it| is_there(it.core) && it.socket == node / 2),
                    "{cpus:?}"
                );
            }
        }
        for (nodes, llcs) in [(3, 1), (4, 8), (8, 2)] {
            assert_eq!(with(nodes, llcs).is_ok(), nodes != 3, "{nodes} {llcs}");
        }
        let error = Machine { cores: 12, nodes: 2, llcs: 3, ..machine("zen4") }.topology();
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("12 cores with 3 last-level caches cannot be shared"), "{error}");
    }

    #[test]
    fn what_the_operator_says_of_the_clock_counts() {
        let policy = policy::turned(standard(), &["licence-drop=0.1".to_owned()]).unwrap();
        assert_eq!(policy_on(&Model::named("zen4").unwrap(), &policy).licence_drop, 102);
        assert!(policy::turned(standard(), &["licence-drop=1.1".to_owned()]).is_err());
    }
}
