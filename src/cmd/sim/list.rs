// SPDX-License-Identifier: GPL-2.0-only
//! `sim list`: what there is to choose from.

use std::fmt::Write;

use anyhow::Result;

use crate::agent::policy::named::NAMED;
use crate::cmd::print;
use crate::sim::Workload;
use crate::sim::model::Model;
use crate::sim::parameters;
use crate::sim::variant::Variant;

pub fn run() -> Result<()> {
    let mut text = "Workloads:\n".to_owned();
    for name in Workload::names() {
        writeln!(text, "  {name:16} {}", Workload::named(name)?.about)?;
    }
    text.push_str("\nPolicies, of which the first is what the others are measured by:\n");
    for variant in Variant::all() {
        let settings: Vec<String> =
            variant.settings.iter().map(|set| format!(" --set {set}")).collect();
        writeln!(text, "  {:16} {}{}", variant.name, variant.about, settings.concat())?;
    }
    text.push_str("\nPolicies that the scheduler has by name, beside those in files:\n");
    for it in NAMED {
        writeln!(text, "  {:16} {}", it.name, it.purpose)?;
    }
    text.push_str("\nModels, with the MHz of each licence while all of so many cores work:\n");
    writeln!(text, "  {:16} {:>5} {:>5} {:>5} {:>5}", "", "cores", "L0", "L1", "L2")?;
    for model in Model::names().filter_map(Model::named) {
        writeln!(text, "  {}", line_of(&model))?;
    }
    let scalable: Vec<&str> = parameters::scalable().collect();
    writeln!(text, "\nParameters that --scale knows: {}", scalable.join(", "))?;
    print(&text)
}

fn line_of(model: &Model) -> String {
    let cores = model.cores.map_or("any".to_owned(), |cores| cores.to_string());
    let [l0, l1, l2] = model.mhz_of_all();
    let sentence = model.source.split_inclusive(". ").next().unwrap_or_default().trim_end();
    format!("{:16} {cores:>5} {l0:5} {l1:5} {l2:5}  {sentence}", model.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_by_their_clocks() {
        let line = |name| line_of(&Model::named(name).unwrap());
        let gold = line("gold-5120");
        assert!(gold.starts_with("gold-5120           14  2600  2200  1600  Published"), "{gold}");
        let zen4 = line("zen4");
        assert!(zen4.starts_with("zen4               any  3000  3000  3000  A null"), "{zen4}");
    }
}
