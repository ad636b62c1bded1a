// SPDX-License-Identifier: GPL-2.0-only
//! The screen, as a function of what is known and of how much room there is.

use std::iter;
use std::time::Duration;

use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::map;
use super::state::{Page, State};
use crate::agent::policy::named::NAMED;
use crate::agent::status::{Length, Status, Waits};

const KEYS: &str = "q quit  h help  p policy";

const HELP: [&str; 11] = [
    "A a  an AVX core, busy or idle",
    "S s  a scalar CPU, busy or idle",
    "x    a CPU that is offline",
    "In red or magenta its clock is low.",
    "+ -  look more often, or less often",
    "p    choose another policy",
    "h ?  this help, and back",
    "q    quit, as ^C does",
    "Waits are those of the last interval.",
    "Low clocks are modelled, unless counted.",
    "Figures of AVX work are in CPUs.",
];

/// A part of the screen, from top to bottom, and how many lines of it are never left out
/// while there is room for any.
struct Section {
    lines: Vec<Line<'static>>,
    least: usize,
    more: More,
}

/// What becomes of lines that are not among these.
enum More {
    /// They are shown as far as there is room,
    First,
    /// ... as far as there is room for twice as many,
    Half,
    /// ... or the last ones are.
    Last,
}

/// As many lines as there are, at most.
pub fn screen(state: &State, width: u16, height: u16, colours: bool) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(width), usize::from(height));
    let footer = footer(state, width);
    let room = height.saturating_sub(1);
    let mut lines = match state.page {
        Page::Help => HELP.iter().map(|line| Line::raw(*line)).collect(),
        Page::Policies => policies(state),
        Page::All => body(state, width, room, colours),
    };
    lines.truncate(room);
    lines.resize(room, Line::default());
    lines.push(footer);
    lines.truncate(height);
    lines
}

/// What the keys of this page stand for.
fn policies(state: &State) -> Vec<Line<'static>> {
    let in_force = state
        .status
        .as_ref()
        .map_or_else(String::new, |status| format!("{} is in force; ", status.policy()));
    let head = format!("{in_force}another one:");
    let rows = (1..).zip(NAMED).map(|(key, it)| format!("{key}  {:14} {}", it.name, it.purpose));
    let rest = ["u  undo the last change", "p  back, and nothing changes"].map(str::to_owned);
    iter::once(head).chain(rows).chain(rest).map(Line::raw).collect()
}

fn footer(state: &State, width: usize) -> Line<'static> {
    let interval = format!("  every {:.2?}", state.interval);
    let has_room = KEYS.len() + interval.len() <= width;
    Line::raw(if has_room { format!("{KEYS}{interval}") } else { KEYS.to_owned() })
}

fn body(state: &State, width: usize, room: usize, colours: bool) -> Vec<Line<'static>> {
    let trouble = state.trouble.iter().map(|why| Line::raw(format!("trying again: {why}")));
    let mut lines: Vec<Line<'static>> = trouble.collect();
    let Some(status) = &state.status else {
        if lines.is_empty() {
            lines.push(Line::raw("asking the scheduler"));
        }
        return lines;
    };
    // More of a map than this leaves no room for anything else.
    let map_rows = (room / 3).max(1);
    let (map, each) = map::lines(&state.places, width, map_rows, colours);
    let (header, figures) = (header(status, width), figures(state, status));
    let sections = vec![
        Section { least: lines.len(), lines, more: More::First },
        Section { least: header.len(), lines: header, more: More::First },
        Section { least: map.len(), lines: map, more: More::First },
        Section { least: usize::from(each > 1), lines: legend(each), more: More::First },
        Section { least: 1, lines: figures, more: More::First },
        Section { least: 2, lines: waits(state), more: More::First },
        Section { least: 0, lines: table("cgroup", &state.rates.cgroups), more: More::Half },
        Section { least: 0, lines: table("program", &state.rates.programs), more: More::Half },
        Section { least: 1, lines: events(state), more: More::Last },
    ];
    fit(sections, room)
}

/// Each section gets its least in turn, and then of what is left.
fn fit(sections: Vec<Section>, room: usize) -> Vec<Line<'static>> {
    let mut left = room;
    let mut heights: Vec<usize> = Vec::new();
    for section in &sections {
        let height = section.least.min(section.lines.len()).min(left);
        left -= height;
        heights.push(height);
    }
    for (height, section) in heights.iter_mut().zip(&sections) {
        let free = if matches!(section.more, More::Half) { left / 2 } else { left };
        let more = (section.lines.len() - *height).min(free);
        *height += more;
        left -= more;
    }
    let shown = sections.into_iter().zip(heights).flat_map(|(section, height)| {
        let hidden = section.lines.len() - height;
        let skipped = if matches!(section.more, More::Last) { hidden } else { 0 };
        section.lines.into_iter().skip(skipped).take(height)
    });
    shown.collect()
}

fn header(status: &Status, width: usize) -> Vec<Line<'static>> {
    let avx_cores = status.cpus.iter().filter(|cpu| cpu.is_avx_core).count();
    let uptime = humantime::format_duration(Duration::from_secs(status.runs_for_s as u64));
    let first = format!("scx_avxspec  tier {}: {}", status.tier, status.why);
    let cores = format!("AVX cores: {avx_cores} of {}", status.cpus.len());
    let mut second = format!("{cores}  {}", status.policy());
    let uptime = format!("  up {uptime}");
    if second.len() + uptime.len() <= width {
        second.push_str(&uptime);
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let short: String = first.chars().take(width).collect();
    let trial = status.trial().map(Line::raw);
    let prospect = status.prospect.as_ref().map(|it| Line::raw(it.to_string()));
    let tried = status.trials.as_ref().map(|it| Line::raw(it.to_string()));
    [Line::styled(short, bold), Line::raw(second)]
        .into_iter()
        .chain(trial)
        .chain(prospect)
        .chain(tried)
        .collect()
}

fn legend(each: usize) -> Vec<Line<'static>> {
    let legend = "A AVX core  S scalar  a s idle  x offline";
    vec![Line::raw(if each > 1 {
        format!("each letter: {each} CPUs; {legend}")
    } else {
        legend.to_owned()
    })]
}

fn figures(state: &State, status: &Status) -> Vec<Line<'static>> {
    let rates = &state.rates;
    let queued: Vec<String> = status.queued.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    vec![
        Line::raw(format!("AVX work {:.2} CPUs  moves {:.0}/s", rates.avx_cpus, rates.moves_per_s)),
        Line::raw(format!(
            "low clock on scalar CPUs (modelled): {:.3} s/s, {:.1} s in all",
            rates.low_clock_per_s, status.low_clock_on_scalar_cpus_s
        )),
        Line::raw(format!("waiting: {}", queued.join(", "))),
    ]
}

/// Those of AVX tasks first: most of this is about them.
fn waits(state: &State) -> Vec<Line<'static>> {
    let mut classes: Vec<_> = state.rates.waits.iter().collect();
    classes.sort_by_key(|(class, _)| class.as_str() != "avx");
    let head = format!("{:8} {:>9} {:>9} {:>8}", "waits", "p50", "p99", "of");
    let rows = classes.into_iter().map(|(class, waits)| row_of(class, waits));
    iter::once(head).chain(rows).map(Line::raw).collect()
}

fn row_of(class: &str, waits: &Waits) -> String {
    let length = |percent| match waits.percentile(percent) {
        None => "-".to_owned(),
        Some(Length::Below(end)) => format!("<{end:.1?}"),
        Some(Length::AtLeast(begin)) => format!(">={begin:.0?}"),
    };
    format!("{class:8} {:>9} {:>9} {:>8}", length(50), length(99), waits.total())
}

fn table(what: &str, rows: &[(String, f64)]) -> Vec<Line<'static>> {
    let head = (!rows.is_empty()).then(|| format!("AVX CPUs  {what}"));
    let rows = rows.iter().map(|(name, cpus)| format!("{cpus:8.2}  {name}"));
    head.into_iter().chain(rows).map(Line::raw).collect()
}

fn events(state: &State) -> Vec<Line<'static>> {
    state.events.iter().cloned().map(Line::raw).collect()
}
