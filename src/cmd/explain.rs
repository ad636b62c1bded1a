// SPDX-License-Identifier: GPL-2.0-only
//! `explain`: what the scheduler that runs thinks of a thread, and what happens to it.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use super::{parse_time, print, print_json};
use crate::agent::books::no_such_thread;
use crate::agent::control::stream::Followed;
use crate::agent::control::{self, Answer, Request};
use crate::agent::events::Wanted;
use crate::agent::events::summary::Summary;
use crate::agent::explain::Explanation;

/// How long there is anything to see, and anybody to see it.
const WATCH: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);

pub fn parse_watch(text: &str) -> Result<Duration, String> {
    parse_time(text, &WATCH)
}

#[derive(Serialize)]
struct Watched<'a> {
    happened: &'a Summary,
    /// Then the explanation is that of before.
    is_gone: bool,
    explanation: &'a Explanation,
}

pub fn run(thread: i32, watch: Option<Duration>, as_json: bool) -> Result<()> {
    let Some(duration) = watch else {
        let it = ask(thread)?;
        return if as_json { print_json(&it) } else { print(&it.to_string()) };
    };
    // Who is not there is not worth the wait.
    let before = ask(thread)?;
    let happened = watch_for(thread, duration)?;
    let after = unless_gone(thread, ask(thread))?;
    let is_gone = after.is_none();
    let explanation = after.unwrap_or(before);
    if as_json {
        return print_json(&Watched { happened: &happened, is_gone, explanation: &explanation });
    }
    let length = humantime::format_duration(duration);
    let then = if is_gone { "it is gone; before that time it was so:\n" } else { "" };
    print(&format!("in {length}:\n{happened}{then}{explanation}"))
}

fn ask(thread: i32) -> Result<Box<Explanation>> {
    match control::ask(&Request::Explain(thread))? {
        Answer::Explanation(it) => Ok(it),
        other => bail!("this is no explanation: {other:?}"),
    }
}

/// Nobody knows whether a thread is gone if there is no answer for another reason.
fn unless_gone<T>(thread: i32, answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.to_string() == no_such_thread(thread) => Ok(None),
        other => other.map(Some),
    }
}

fn watch_for(thread: i32, duration: Duration) -> Result<Summary> {
    let mut followed = Followed::begin(Wanted { pid: Some(thread), kinds: Vec::new() })?;
    let end = Instant::now() + duration;
    let mut happened = Summary::default();
    while Instant::now() < end {
        if let Some(event) = followed.next(Some(end))? {
            happened.add(&event);
        }
    }
    Ok(happened)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn who_cannot_be_asked_about_is_not_gone() {
        let refused = |why: &str| unless_gone(7, Err::<(), _>(anyhow!("{why}")));
        assert!(refused("there is no thread 7").is_ok_and(|it| it.is_none()));
        for why in ["no scheduler listens", "there is no thread 70"] {
            assert!(refused(why).is_err_and(|error| error.to_string() == why));
        }
        assert_eq!(unless_gone(7, Ok(1)).unwrap(), Some(1));
    }

    #[test]
    fn what_is_watched_for_ends_within_a_day() {
        assert_eq!(parse_watch("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "60", "0s", "-1s", "25h", "400000000000y", "soon"] {
            assert!(parse_watch(bad).is_err_and(|why| why == "it takes 1ms to 1day"), "{bad:?}");
        }
    }
}
