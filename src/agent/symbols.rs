// SPDX-License-Identifier: GPL-2.0-only
//! What the running kernel offers, by the names of its functions.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use scx_utils::compat;

/// Returns true if the kernel has the function itself, not in a module: such an answer holds as
/// long as it runs. It is asked once for each function, because it has to list all functions that
/// it has.
pub fn kernel_has(symbol: &'static str) -> Result<bool> {
    static KNOWN: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());

    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(has_it) = known.get(symbol) {
        return Ok(*has_it);
    }
    let has_it = compat::ksym_exists(symbol).context("cannot read what the kernel offers")?;
    known.insert(symbol, has_it);
    Ok(has_it)
}
