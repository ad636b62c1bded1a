// SPDX-License-Identifier: GPL-2.0-only
//! Tells whether a scheduler can be loaded here and what it would find, before anything is opened.
//!
//! Looking and judging are apart: whatever is read is read below a root directory, and what it
//! means is said by functions that read nothing. [`Machine`] has what the start depends on, and
//! [`Report`] has all that an operator may want to know before the start.

mod cpu;
mod files;
mod finding;
mod generation;
mod groups;
mod kernel;
mod layout;
mod machine;
mod options;
mod surroundings;
pub mod tier;

use std::fmt;
use std::path::Path;

use serde::Serialize;

use cpu::Cpu;
use finding::{Finding, Mark};
pub use groups::Groups;
use kernel::Kernel;
use layout::Layout;
pub use machine::{Machine, has_openzfs};
#[cfg(test)]
pub use surroundings::NEEDED;
use surroundings::Surroundings;
pub use tier::Tier;

/// All that there is to say of a machine.
#[derive(Debug, Serialize)]
pub struct Report {
    pub would_run: bool,
    pub tier: &'static str,
    pub findings: Vec<Finding>,
}

impl Report {
    /// Looks at the machine. This changes nothing and needs no privilege.
    pub fn of(root: &Path) -> Self {
        let machine = Machine::look(root);
        let cpu = Cpu::look(root);
        let mut findings = Kernel::look(root).findings(&machine);
        findings.extend(cpu.findings(&machine));
        findings.extend(Layout::look(root).findings());
        findings.extend(Surroundings::look(root).findings());
        findings.push(Groups::look(root).finding());
        let counts_licences = machine.countable().licences && cpu.shows_counters();
        let tier = Tier::best(false, &machine, counts_licences);
        findings.push(tier_of(tier, &machine));
        Self {
            would_run: findings.iter().all(|finding| finding.mark != Mark::Problem),
            tier: tier.name(),
            findings,
        }
    }
}

/// Returns the finding about the tier. It is a note where a better tier is within reach.
fn tier_of(tier: Tier, machine: &Machine) -> Finding {
    let says = format!("the tier is {}: {}", tier.name(), tier.why);
    match tier.raised_by(machine) {
        Some(advice) => Finding::note("tier", says, advice),
        None => Finding::ok("tier", says),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|finding| finding.fmt(out))
    }
}

#[cfg(test)]
mod report_test;
#[cfg(test)]
mod tree_test;
