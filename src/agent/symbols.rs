// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel that runs offers, by the names of its functions.

use anyhow::{Context, Result};
use scx_utils::compat;

pub fn kernel_has(symbol: &str) -> Result<bool> {
    compat::ksym_exists(symbol).context("cannot read what the kernel offers")
}
