// SPDX-License-Identifier: GPL-2.0-only
//! `explain`: what the scheduler that runs thinks of a thread.

use anyhow::{Result, bail};

use super::{print, print_json};
use crate::agent::control::{self, Answer, Request};

pub fn run(thread: i32, as_json: bool) -> Result<()> {
    match control::ask(&Request::Explain(thread))? {
        Answer::Explanation(it) if as_json => print_json(&it),
        Answer::Explanation(it) => print(&it.to_string()),
        other => bail!("this is no explanation: {other:?}"),
    }
}
