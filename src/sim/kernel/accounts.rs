// SPDX-License-Identifier: GPL-2.0-only
//! What tasks have had so far, including those that are gone.

use super::engine::Engine;
use crate::sim::machine::hardware::Hardware;
use crate::trials::Sums;

impl<H: Hardware> Engine<H> {
    /// Returns how often any task has moved to another CPU.
    pub fn moves(&self) -> u64 {
        self.past_moves + self.threads.keys().map(|task| self.kernel.moves(*task)).sum::<u64>()
    }

    /// Returns how often wide work began where it was hidden.
    pub fn wide_faults(&self) -> u64 {
        self.wide_faults
    }

    /// Returns for each program what those of its tasks have done that are still there.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::new();
        for (task, thread) in &self.threads {
            let sum = sums.entry(thread.home.footprint.program).or_default();
            sum.work += thread.done.iter().sum::<f64>();
            sum.awake_ns += (self.kernel.ran(*task) + self.kernel.waited(*task)) as f64;
            sum.weight = thread.home.weight.into();
        }
        sums
    }

    /// Returns for how long all tasks together have run.
    pub fn ran(&self) -> u64 {
        let past: u64 = self.past_ran.values().sum();
        past + self.threads.keys().map(|task| self.kernel.ran(*task)).sum::<u64>()
    }

    /// Returns for how long all tasks of one program have run. Their footprints say which program
    /// they are of.
    pub fn ran_of(&self, program: u64) -> u64 {
        let past = self.past_ran.get(&program).copied().unwrap_or(0);
        let threads = self.threads.iter().filter(|(_, it)| it.home.footprint.program == program);
        past + threads.map(|(task, _)| self.kernel.ran(*task)).sum::<u64>()
    }
}
