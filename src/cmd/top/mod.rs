// SPDX-License-Identifier: GPL-2.0-only
//! `top`: what the scheduler that runs is doing, on one screen, as it does it.

mod map;
mod state;
mod view;

#[cfg(test)]
mod view_test;

use std::env;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use crossbeam::channel::{Receiver, Sender, bounded};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::KeyModifiers;
use ratatui::crossterm::event::{self, Event as Input, KeyCode};
use ratatui::widgets::Paragraph;

use self::state::{Page, State};
use super::status;
use crate::agent::control::stream::Followed;
use crate::agent::control::{self, Request};
use crate::agent::events::{Event, Kind, Wanted};
use crate::agent::policy::history::{Change, What};
use crate::agent::policy::named::NAMED;
use crate::agent::status::Status;

/// How soon a signal is noticed, and a key that asks for another interval.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// How long nobody asks again after the scheduler went.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// How often it is looked whether the terminal is gone.
const TERMINAL_EVERY_MS: u8 = 250;

/// News that may wait. Who brings more waits for the screen.
const NEWS: usize = 1000;

enum News {
    Status(Result<Box<Status>, String>),
    Event(Event),
    Input(io::Result<Input>),
    /// What became of a wish.
    Said(String),
}

/// What a key asks for that is more than another look of the screen.
#[derive(Debug, PartialEq)]
enum Wish {
    Nothing,
    Quit,
    Change(What),
}

pub fn run(interval: Duration) -> Result<()> {
    ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "this is no terminal: scx_avxspec status prints the same once"
    );
    let shutdown = super::shutdown_flag()?;
    let state = State::new(interval);
    let every_ms = Arc::new(AtomicU64::new(millis(state.interval)));
    let (bring, news) = bounded(NEWS);
    let (asker, every, reader, wisher) =
        (bring.clone(), every_ms.clone(), bring.clone(), bring.clone());
    start("terminal", || exit_with(io::stdin()))?;
    start("status", move || ask_for_ever(&asker, &every))?;
    start("events", move || follow_for_ever(&bring))?;

    // Whatever ends this, a panic as well, gives the terminal back as it was.
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let result = start("keys", move || read_for_ever(&reader))
        .and_then(|()| show(&mut terminal, state, (&news, &wisher), &every_ms, &shutdown));
    ratatui::restore();
    result
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .with_context(|| format!("cannot start the thread for {name}"))?;
    Ok(())
}

fn millis(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)
}

/// Who waits for keys of a terminal that is gone looks for them without end, and sees no signal.
fn exit_with(terminal: impl AsFd) {
    loop {
        // Nothing is asked for but what is always told. Not each way to go wakes up who waits.
        let mut fd = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
        match poll(&mut fd, TERMINAL_EVERY_MS) {
            Ok(0) | Err(Errno::EINTR) => {}
            _ => exit(0),
        }
    }
}

/// Who has read the first half of a key waits for the other, whatever else there is to do.
fn read_for_ever(bring: &Sender<News>) {
    loop {
        let input = event::read();
        let is_last = input.is_err();
        if bring.send(News::Input(input)).is_err() || is_last {
            return;
        }
    }
}

/// Until nobody wants to know.
fn ask_for_ever(bring: &Sender<News>, every_ms: &AtomicU64) {
    loop {
        let asked = Instant::now();
        let answer = status::ask().map_err(|error| format!("{error:#}"));
        if bring.send(News::Status(answer)).is_err() {
            return;
        }
        let every = || Duration::from_millis(every_ms.load(Ordering::Relaxed));
        while let Some(left) = every().checked_sub(asked.elapsed()) {
            thread::sleep(left.min(LOOK_AROUND));
        }
    }
}

/// Phases are too many for eyes; what is left is what is decided.
const KINDS: [Kind; 4] = [Kind::Role, Kind::Policy, Kind::Loaded, Kind::Lost];

fn follow_for_ever(bring: &Sender<News>) {
    loop {
        // That the scheduler is gone is said where it is asked for its status.
        let _ = follow(bring);
        thread::sleep(BETWEEN_TRIES);
    }
}

fn follow(bring: &Sender<News>) -> Result<()> {
    let mut followed = Followed::begin(Wanted { pid: None, kinds: KINDS.to_vec() })?;
    loop {
        if let Some(event) = followed.next(None)? {
            bring.send(News::Event(event))?;
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    mut state: State,
    (news, wisher): (&Receiver<News>, &Sender<News>),
    every_ms: &AtomicU64,
    shutdown: &AtomicBool,
) -> Result<()> {
    let colours = has_colours();
    let mut is_stale = true;
    while !shutdown.load(Ordering::Relaxed) {
        if is_stale {
            draw(terminal, &state, colours)?;
        }
        let first = news.recv_timeout(LOOK_AROUND).ok();
        is_stale = first.is_some();
        for it in first.into_iter().chain(news.try_iter()) {
            match it {
                News::Status(answer) => state.hear(answer.map(|status| *status)),
                News::Event(event) => state.note(&event),
                News::Said(line) => state.say(line),
                News::Input(input) => {
                    match wish_of(&mut state, &input.context("cannot read the keyboard")?)? {
                        Wish::Nothing => {}
                        Wish::Quit => return Ok(()),
                        Wish::Change(what) => change(what, wisher.clone())?,
                    }
                }
            }
        }
        every_ms.store(millis(state.interval), Ordering::Relaxed);
    }
    Ok(())
}

/// What a key does. A policy takes two of them, so that none is changed by mistake.
fn wish_of(state: &mut State, input: &Input) -> Result<Wish> {
    let Some(key) = input.as_key_press_event() else { return Ok(Wish::Nothing) };
    match key.code {
        KeyCode::Char('q') => return Ok(Wish::Quit),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            return Ok(Wish::Quit);
        }
        KeyCode::Char('h' | '?') => state.turn_to(Page::Help),
        KeyCode::Char('p') => state.turn_to(Page::Policies),
        KeyCode::Char('+') => state.faster(),
        KeyCode::Char('-') => state.slower(),
        KeyCode::Char(key) if state.page == Page::Policies => {
            if let Some(what) = chosen(key)? {
                state.page = Page::All;
                return Ok(Wish::Change(what));
            }
        }
        _ => {}
    }
    Ok(Wish::Nothing)
}

/// By a key of the page of policies.
fn chosen(key: char) -> Result<Option<What>> {
    if key == 'u' {
        return Ok(Some(What::Undo));
    }
    let nth = key.to_digit(10).and_then(|digit| digit.checked_sub(1));
    let named = nth.and_then(|nth| NAMED.get(nth as usize));
    named.map(|it| Ok(What::to(&it.policy()?))).transpose()
}

/// The screen does not wait for the answer. That a policy is in force is told as an event.
fn change(what: What, bring: Sender<News>) -> Result<()> {
    start("another policy", move || {
        let change = Change { what, dry_run: false, revert_after: None };
        if let Err(error) = control::ask(&Request::Change(change)) {
            // Nobody listens any more if the screen is gone.
            let _ = bring.send(News::Said(format!("nothing has changed: {error:#}")));
        }
    })
}

fn draw(terminal: &mut DefaultTerminal, state: &State, colours: bool) -> Result<()> {
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        let lines = view::screen(state, area.width, area.height, colours);
        frame.render_widget(Paragraph::new(lines), area);
    });
    drawn.map(|_| ()).context("cannot draw")
}

/// As https://no-color.org has it.
fn has_colours() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}
