// SPDX-License-Identifier: GPL-2.0-only
//! `--help-policy`: what each knob is, and how far it turns.

use anyhow::Result;

use super::print;
use crate::agent::policy;

pub fn run() -> Result<()> {
    print(&policy::describe())
}
