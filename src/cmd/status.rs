// SPDX-License-Identifier: GPL-2.0-only
//! `status`: what the scheduler that runs is doing.

use anyhow::{Result, bail};

use super::{print, print_json};
use crate::agent::control::{self, Answer, Request};
use crate::agent::status::Status;

pub fn run(as_json: bool) -> Result<()> {
    let status = ask()?;
    if as_json { print_json(&status) } else { print(&status.to_string()) }
}

pub fn ask() -> Result<Box<Status>> {
    match control::ask(&Request::Status)? {
        Answer::Status(status) => Ok(status),
        other => bail!("this is no status: {other:?}"),
    }
}
