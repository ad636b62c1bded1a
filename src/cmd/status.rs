// SPDX-License-Identifier: GPL-2.0-only
//! `status`: what the scheduler that runs is doing.

use anyhow::{Result, bail};

use super::{print, print_json};
use crate::agent::control::{self, Answer, Request};

pub fn run(as_json: bool) -> Result<()> {
    match control::ask(&Request::Status)? {
        Answer::Status(status) if as_json => print_json(&status),
        Answer::Status(status) => print(&status.to_string()),
        other => bail!("this is no status: {other:?}"),
    }
}
