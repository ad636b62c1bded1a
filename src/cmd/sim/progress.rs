// SPDX-License-Identifier: GPL-2.0-only
//! How far it is, for whoever sits at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Nothing is shown, ever, where standard error is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    pub fn new(steps: usize) -> Self {
        let bar = ProgressBar::new(steps as u64);
        let template = "{pos}/{len} {wide_bar} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
