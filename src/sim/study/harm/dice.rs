// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers, from the few distributions that draws are made of.

use rand_distr::{Distribution, StandardUniform};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

pub struct Dice(Pcg64);

impl Dice {
    /// Returns the dice of one draw. What is drawn does not depend on how many other draws there
    /// are.
    pub fn of(seed: u64, number: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed.rotate_left(32) ^ number))
    }

    fn share(&mut self) -> f64 {
        StandardUniform.sample(&mut self.0)
    }

    /// Draws a number that is evenly distributed.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    /// Draws a number whose logarithm is evenly distributed.
    pub fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.share())
    }

    /// Draws a whole number whose logarithm is about evenly distributed, up to and including
    /// `high`.
    pub fn whole_log_between(&mut self, low: u16, high: u16) -> u16 {
        let drawn = self.log_between(f64::from(low), f64::from(high) + 1.0) as u16;
        drawn.clamp(low, high)
    }

    pub fn is(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// Draws one element. Its probability depends on how many times it is there.
    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[((self.share() * from.len() as f64) as usize).min(from.len() - 1)]
    }
}
