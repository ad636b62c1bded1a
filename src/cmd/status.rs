// SPDX-License-Identifier: GPL-2.0-only
//! `status`: what the scheduler that runs is doing.

use anyhow::{Result, bail};

use super::print;
use crate::agent::control::{self, Answer, Request};

pub fn run(as_json: bool) -> Result<()> {
    match control::ask(&Request::Status)? {
        Answer::Status(status) if as_json => {
            print(&(serde_json::to_string_pretty(&status)? + "\n"))
        }
        Answer::Status(status) => print(&status.to_string()),
        Answer::Refused(why) => bail!("{why}"),
        other => bail!("this is no status: {other:?}"),
    }
}
