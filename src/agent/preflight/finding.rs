// SPDX-License-Identifier: GPL-2.0-only
//! A finding tells what was found, in one sentence, and what to do about it.

use std::fmt;

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Ok,
    /// The scheduler runs all the same.
    Note,
    /// The scheduler does not run.
    Problem,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub topic: &'static str,
    pub mark: Mark,
    pub says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(topic: &'static str, says: impl Into<String>) -> Self {
        Self { topic, mark: Mark::Ok, says: says.into(), advice: None }
    }

    pub fn note(topic: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { topic, mark: Mark::Note, says: says.into(), advice: Some(advice.into()) }
    }

    pub fn problem(
        topic: &'static str,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { topic, mark: Mark::Problem, says: says.into(), advice: Some(advice.into()) }
    }

    /// Returns what is wrong and what to do about it, in one sentence.
    pub fn sentence(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}: {advice}", self.says),
            None => self.says.clone(),
        }
    }
}

/// Writes the finding for people. What to do is on a line of its own.
impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:8} {:9} {}", self.mark.name(), self.topic, self.says)?;
        match &self.advice {
            Some(advice) => writeln!(out, "{:18} -> {advice}", ""),
            None => Ok(()),
        }
    }
}
