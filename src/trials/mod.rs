// SPDX-License-Identifier: GPL-2.0-only
//! Finds out under which of two policies programs get more done, by trying both.
//!
//! Problem: what a policy costs a program and what it earns cannot be worked out. It depends on
//! caches, on clocks, and on what others do at the same time.
//!
//! Mechanism: both are in force by turns, for windows of 80 ms and more. Each two windows form a
//! pair, whose order is random. A program is measured by the work that it gets done in the time in
//! which it is awake. A late turn, a low clock and a cold cache all make that time longer. All that
//! changes slowly is the same in both windows of a pair, and what changes quickly is told by how
//! much pairs differ.
//!
//! Limits: what a policy does to a program only after windows are over is not seen. The tail of its
//! latencies is seen only as far as it moves the mean.

mod comparison;
mod course;
mod judge;
mod windows;

#[cfg(test)]
mod trials_test;

pub use comparison::Comparison;
pub use course::{Course, SHARE_OF_THE_OTHER};
pub use judge::{Gain, Judgement, Sum, Sums};
pub use windows::{Side, Subject};
