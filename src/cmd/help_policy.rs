// SPDX-License-Identifier: GPL-2.0-only
//! `--help-policy`: what each knob is, and how far it turns.

use std::io::Write;

use anyhow::{Context, Result};

use crate::agent::policy;

pub fn run() -> Result<()> {
    let text = policy::describe();
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the knobs")
}
