// SPDX-License-Identifier: GPL-2.0-only
//! `policy`: what is in force, and something else instead, while the scheduler runs. Files are
//! read here, so that the scheduler gets nothing but settings, which it looks at once more.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::{parse_time, print, trial};
use crate::agent;
use crate::agent::control::{self, Answer, Request};
use crate::agent::policy::history::{Change, TRIAL, What};
use crate::agent::policy::named::{self, NAMED};
use crate::agent::policy::{self, Difference, InForce, Setting};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the policies that have a name, and tell which one is in force.
    List,
    /// Print a policy as a file: the one in force, or one that has a name.
    Show {
        /// Of a policy that has one; without it, the one in force.
        #[arg(value_name = "NAME", conflicts_with = "default")]
        name: Option<String>,
        /// Print the default one, with what each knob is and how far it turns.
        #[arg(long)]
        default: bool,
    },
    /// Change to a policy as a whole, by its name or from a file.
    Use {
        /// Its name, as in "policy list", or a file as "policy show" prints it.
        #[arg(value_name = "NAME|FILE")]
        policy: String,
        #[command(flatten)]
        how: How,
    },
    /// Turn knobs of the policy in force, all at once.
    Set {
        /// Those that are turned; --help-policy lists them all.
        #[arg(value_name = "KNOB=VALUE", required = true)]
        settings: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Tell how the policy in force differs from the default or another, a line for each knob.
    Diff {
        /// The other one, by its name or from a file.
        #[arg(value_name = "NAME|FILE", default_value = named::DEFAULT)]
        policy: String,
    },
    /// Change to the policy that was in force before, and end a trial at once.
    Undo {
        #[command(flatten)]
        how: How,
    },
    /// Keep the policy that is on trial.
    Confirm,
    /// Tell which is better for whom: another policy, or the one in force.
    ///
    /// Both are in force by turns, in pairs of windows whose order is chance, and what each program
    /// gets done in the time in which it is awake is compared. Then the policy that was in force
    /// is so again. ^C ends it before.
    Trial {
        /// The other one, by its name or from a file.
        #[arg(value_name = "NAME|FILE")]
        policy: String,
        /// How long it may take, 2s to 24h. The longer, the smaller what can be told from chance.
        #[arg(long = "for", value_name = "TIME", default_value = "1min", value_parser = parse_time_of_trial)]
        time: Duration,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct How {
    /// Only tell what would change.
    #[arg(long)]
    dry_run: bool,
    /// Bring the policy before back after this time, 1s to 24h, unless it is confirmed.
    #[arg(long, value_name = "TIME", value_parser = parse_trial)]
    revert_after: Option<Duration>,
}

fn parse_time_of_trial(text: &str) -> Result<Duration, String> {
    parse_time(text, &agent::trial::TIME)
}

fn parse_trial(text: &str) -> Result<Duration, String> {
    parse_time(text, &TRIAL)
}

pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::List => list(),
        Command::Show { default: true, .. } => print(&policy::document()),
        Command::Show { name: Some(name), .. } => {
            print(&policy::file_of(&named::named(name)?.policy()?))
        }
        Command::Show { name: None, .. } => show(),
        Command::Use { policy, how } => change(What::to(&policy::load(policy)?), how),
        Command::Set { settings, how } => change(What::Set(settings.clone()), how),
        Command::Diff { policy } => {
            let other = policy::load(policy)?;
            print(&lines_of(&policy::differences(&other, &ask_in_force(&Request::Show)?.0.policy)))
        }
        Command::Undo { how } => change(What::Undo, how),
        Command::Trial { policy, time, json } => trial::run(policy, *time, *json),
        Command::Confirm => {
            let (in_force, _) = ask_in_force(&Request::Confirm)?;
            print(&format!("policy {} stays in force\n", in_force.generation))
        }
    }
}

/// What is in force, and how many more seconds, if it is on trial.
fn ask_in_force(request: &Request) -> Result<(InForce, Option<u64>)> {
    match control::ask(request)? {
        Answer::InForce { generation, settings, trial_left_s } => {
            let settings: Vec<String> = settings.iter().map(Setting::text).collect();
            let policy = policy::turned(policy::standard(), &settings)?;
            Ok((InForce::new(generation, policy), trial_left_s))
        }
        other => bail!("this is no policy: {other:?}"),
    }
}

/// It is as long without a scheduler that runs.
fn list() -> Result<()> {
    for it in NAMED {
        print(&format!("{:14} {}\n", it.name, it.purpose))?;
    }
    print(&match ask_in_force(&Request::Show) {
        Ok((in_force, _)) => {
            format!("policy {} is in force: {}\n", in_force.generation, in_force.name)
        }
        Err(error) => format!("none is known to be in force: {error:#}\n"),
    })
}

fn show() -> Result<()> {
    let (in_force, trial_left_s) = ask_in_force(&Request::Show)?;
    let trial = trial_left_s.map_or_else(String::new, |left| {
        format!("# on trial: the one before comes back in {left} s\n")
    });
    print(&format!(
        "# policy {}\n# {}\n{trial}{}",
        in_force.generation,
        in_force.name,
        policy::file_of(&in_force.policy)
    ))
}

fn change(what: What, how: &How) -> Result<()> {
    let &How { dry_run, revert_after } = how;
    match control::ask(&Request::Change(Change { what, dry_run, revert_after }))? {
        Answer::Changed { differences, .. } if dry_run => print(&lines_of(&differences)),
        Answer::Changed { generation, differences } => {
            let until = revert_after.map_or_else(String::new, |time| {
                format!(
                    ", and the one before again in {} unless 'policy confirm' is given",
                    humantime::format_duration(time)
                )
            });
            print(&format!("policy {generation} is in force{until}\n{}", lines_of(&differences)))
        }
        other => bail!("this is no change: {other:?}"),
    }
}

fn lines_of(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "no knob differs\n".to_owned();
    }
    differences.iter().map(|difference| format!("{difference}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_have_a_unit_and_a_bound() {
        assert_eq!(parse_trial("90s"), Ok(Duration::from_secs(90)));
        for bad in ["", "60", "0s", "999ms", "25h", "-1s", "soon"] {
            assert!(parse_trial(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
