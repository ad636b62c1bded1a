// SPDX-License-Identifier: GPL-2.0-only
//! `sim list`: what there is to choose from.

use std::fmt::Write;

use anyhow::Result;

use crate::agent::policy::named::NAMED;
use crate::cmd::print;
use crate::sim::model::Model;
use crate::sim::parameters;
use crate::sim::variant::Variant;
use crate::sim::workload::Workload;

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
    text.push_str("\nModels:\n");
    for model in Model::names().filter_map(Model::named) {
        let sentence = model.source.split_inclusive(". ").next().unwrap_or_default();
        writeln!(text, "  {:16} {}", model.name, sentence.trim_end())?;
    }
    let uncertain: Vec<&str> = parameters::uncertain().collect();
    writeln!(text, "\nParameters that --scale knows: {}", uncertain.join(", "))?;
    print(&text)
}
