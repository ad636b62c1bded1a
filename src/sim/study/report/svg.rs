// SPDX-License-Identifier: GPL-2.0-only
//! Charts as SVG. They show everything by form as well as by colour.

use std::fmt::Write;

use crate::sim::study::comparison::Comparison;
use crate::sim::study::outcome::Outcome;
use crate::sim::study::score::ratio;
use crate::sim::study::sweep::percentile;
use crate::sim::study::watch::{CoreStrip, Strip};
use crate::sim::workload::record::Latency;

const WIDTH: f64 = 860.0;
/// The width of the names at the left.
const NAMES: f64 = 270.0;
const ROW: f64 = 26.0;
/// The width of each letter of a name, on average.
const LETTER: f64 = 6.2;

/// The most cores that are shown. More would not be legible.
pub const CORES_SHOWN: usize = 32;

/// Returns text with all that HTML needs escaped.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn svg(height: f64, about: &str, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">{body}</svg>\n",
        escape(about)
    )
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(text))
}

/// Draws a name at the left of a row, up to `x`. Of a name that is too long it shows the beginning,
/// and all of it while a pointer stays on it.
fn name(x: f64, y: f64, name: &str) -> String {
    let room = (x / LETTER) as usize;
    if name.chars().count() <= room {
        return text(x, y, "end", name);
    }
    let begin: String = name.chars().take(room.saturating_sub(1)).collect();
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\"><title>{}</title>{}&#8230;</text>",
        escape(name),
        escape(&begin)
    )
}

fn line(class: &str, [x1, y1, x2, y2]: [f64; 4]) -> String {
    format!("<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>")
}

fn rect(class: &str, [x, y, width, height]: [f64; 4]) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\"/>"
    )
}

/// Returns the hatches that charts refer to.
pub fn patterns() -> &'static str {
    "<svg width=\"0\" height=\"0\" aria-hidden=\"true\" style=\"position:absolute\"><defs>\
     <pattern id=\"h1\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
     <rect class=\"b1\" width=\"5\" height=\"5\"/>\
     <path class=\"hatch\" d=\"M-1 1L1 -1M0 5L5 0M4 6L6 4\"/></pattern>\
     <pattern id=\"h2\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\">\
     <rect class=\"b2\" width=\"7\" height=\"7\"/>\
     <path class=\"hatch\" d=\"M0 0L7 7M7 0L0 7\"/></pattern></defs></svg>\n"
}

/// Draws a bar for each policy, with the interval in which its work is.
pub fn throughput(comparison: &Comparison) -> String {
    let most = comparison
        .outcomes
        .iter()
        .filter_map(|it| Some(it.relative_95.map_or(it.relative?, |[_, high]| high)))
        .fold(1.0, f64::max);
    let scale = (WIDTH - NAMES - 80.0) / most;
    let height = comparison.outcomes.len() as f64 * ROW;
    let mut body = line("guide", [NAMES + scale, 0.0, NAMES + scale, height]);
    for (n, outcome) in comparison.outcomes.iter().enumerate() {
        let y = n as f64 * ROW;
        body += &name(NAMES - 10.0, y + 17.0, &outcome.variant);
        body += &outcome.relative.map_or_else(String::new, |relative| {
            rect("bar", [NAMES, y + 4.0, relative * scale, ROW - 8.0])
        });
        body += &outcome.relative_95.map_or_else(String::new, |ends| {
            whisker(ends.map(|end| NAMES + end * scale), y + ROW / 2.0)
        });
        body += &text(WIDTH - 4.0, y + 17.0, "end", &ratio(outcome.relative));
    }
    svg(height, "throughput by policy", &body)
}

fn whisker([low, high]: [f64; 2], y: f64) -> String {
    let end = |x: f64| line("mark", [x, y - 5.0, x, y + 5.0]);
    line("mark", [low, y, high, y]) + &end(low) + &end(high)
}

/// Draws the median, 99th percentile and maximum for each policy, on a logarithmic axis.
pub fn latency(rows: &[(&str, Latency)]) -> String {
    let times = || rows.iter().flat_map(|(_, it)| [it.p50, it.p99, it.max]).map(|us| us.max(0.1));
    let first = times().fold(f64::MAX, f64::min).log10().floor();
    let last = times().fold(0.1, f64::max).log10().ceil().max(first + 1.0);
    let scale = (WIDTH - NAMES - 30.0) / (last - first);
    let x = |us: f64| NAMES + (us.max(0.1).log10() - first) * scale;
    let bottom = rows.len() as f64 * ROW;
    let mut body = String::new();
    for power in first as i32..=last as i32 {
        let us = 10f64.powi(power);
        body += &line("guide", [x(us), 0.0, x(us), bottom]);
        body += &text(x(us), bottom + 16.0, "middle", &time(us));
    }
    for (n, (of, it)) in rows.iter().enumerate() {
        let y = n as f64 * ROW + ROW / 2.0;
        body += &name(NAMES - 10.0, y + 4.0, of);
        body += &line("axis", [x(it.p50), y, x(it.max), y]);
        body += &disc("bar", x(it.p50), y, 5.0);
        body += &diamond(x(it.p99), y);
        body += &line("mark", [x(it.max), y - 7.0, x(it.max), y + 7.0]);
    }
    svg(bottom + 24.0, "latency by policy", &body)
}

fn time(us: f64) -> String {
    match us {
        0.0 => "0".to_owned(),
        us if us >= 1e6 => format!("{} s", us / 1e6),
        us if us >= 1e3 => format!("{} ms", us / 1e3),
        us => format!("{us} us"),
    }
}

/// An axis of numbers from `least` to `most`.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    /// Returns an axis with all of the numbers on it, and some space around them.
    fn of(numbers: impl Iterator<Item = f64> + Clone) -> Self {
        let numbers = numbers.filter(|it| it.is_finite());
        let least = numbers.clone().fold(f64::INFINITY, f64::min);
        let most = numbers.fold(f64::NEG_INFINITY, f64::max);
        if least > most {
            return Self { least: 0.0, most: 1.0 };
        }
        let around = ((most - least) * 0.05).max(1e-3);
        Self { least: least - around, most: most + around }
    }

    /// Returns where a number is, as a share of the axis.
    fn share(&self, number: f64) -> f64 {
        (number - self.least) / (self.most - self.least)
    }

    /// Returns some marks that are easily read: they are one, two or five of some power of ten
    /// apart.
    fn marks(&self) -> Vec<f64> {
        let raw = (self.most - self.least) / 5.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power).into_iter().find(|it| *it >= raw);
        let step = step.unwrap_or(raw);
        let first = (self.least / step).ceil() as i64;
        let last = (self.most / step).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// Returns the name of a mark, as short as tells it from the next one.
fn mark_name(mark: f64) -> String {
    format!("{:.4}", mark).trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn disc(class: &str, x: f64, y: f64, radius: f64) -> String {
    format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>")
}

fn diamond(x: f64, y: f64) -> String {
    format!("<path class=\"mark hollow\" d=\"M{:.1} {y:.1}l6 -6l6 6l-6 6z\"/>", x - 6.0)
}

/// Draws the numbers of each row as hairs, with their median and what 5 of 100 are below.
pub fn spreads(rows: &[(&str, Vec<f64>)]) -> String {
    let axis = Axis::of(rows.iter().flat_map(|(_, numbers)| numbers.iter().copied()));
    let x = |it: f64| NAMES + axis.share(it) * (WIDTH - NAMES - 30.0);
    let bottom = rows.len() as f64 * ROW;
    let mut body = String::new();
    for mark in axis.marks() {
        body += &line("guide", [x(mark), 0.0, x(mark), bottom]);
        body += &text(x(mark), bottom + 16.0, "middle", &mark_name(mark));
    }
    for (n, (of, numbers)) in rows.iter().enumerate() {
        let y = n as f64 * ROW + ROW / 2.0;
        body += &name(NAMES - 10.0, y + 4.0, of);
        let numbers: Vec<f64> = numbers.iter().copied().filter(|it| it.is_finite()).collect();
        let hairs: String = numbers
            .iter()
            .map(|it| format!("M{:.1} {:.1}V{:.1}", x(*it), y - 7.0, y + 7.0))
            .collect();
        let _ = write!(body, "<path class=\"hair\" d=\"{hairs}\"/>");
        if let [Some(median), Some(p5)] = [0.5, 0.05].map(|share| percentile(&numbers, share)) {
            body += &disc("bar", x(median), y, 5.0);
            body += &diamond(x(p5), y);
        }
    }
    svg(bottom + 24.0, "how far results are apart", &body)
}

/// Where something is, on two axes.
pub type Point = (f64, f64);

/// Draws a chart for each name, side by side, with the same vertical axis.
pub fn panels(panels: &[(&str, Vec<Point>)]) -> String {
    const LEFT: f64 = 56.0;
    const HEIGHT: f64 = 130.0;
    let all = || panels.iter().flat_map(|(_, points)| points);
    let (across, up) = (Axis::of(all().map(|it| it.0)), Axis::of(all().map(|it| it.1)));
    let width = (WIDTH - LEFT - 10.0) / panels.len().max(1) as f64;
    let y = |it: f64| 8.0 + HEIGHT * (1.0 - up.share(it));
    let mut body = String::new();
    for mark in up.marks() {
        body += &line("guide", [LEFT, y(mark), WIDTH - 10.0, y(mark)]);
        body += &text(LEFT - 8.0, y(mark) + 4.0, "end", &mark_name(mark));
    }
    for (n, (name, points)) in panels.iter().enumerate() {
        let left = LEFT + n as f64 * width;
        let x = |it: f64| left + 8.0 + across.share(it) * (width - 24.0);
        for (factor, result) in points.iter().filter(|(_, result)| result.is_finite()) {
            body += &disc("each", x(*factor), y(*result), 2.5);
        }
        for mark in across.marks() {
            body += &text(x(mark), HEIGHT + 24.0, "middle", &mark_name(mark));
        }
        body += &text(left + width / 2.0, HEIGHT + 42.0, "middle", name);
    }
    svg(HEIGHT + 50.0, "what results depend on", &body)
}

/// Draws a dot for each point, and a diamond for the one that they are compared with.
pub fn scatter(points: &[Point], one: Point, across: &str, up: &str) -> String {
    const LEFT: f64 = 76.0;
    const TOP: f64 = 26.0;
    const BOTTOM: f64 = TOP + 300.0;
    let all = || points.iter().chain([&one]);
    let (horizontal, vertical) = (Axis::of(all().map(|it| it.0)), Axis::of(all().map(|it| it.1)));
    let x = |it: f64| LEFT + horizontal.share(it) * (WIDTH - LEFT - 30.0);
    let y = |it: f64| BOTTOM - (BOTTOM - TOP) * vertical.share(it);
    let mut body = String::new();
    for mark in horizontal.marks() {
        body += &line("guide", [x(mark), TOP, x(mark), BOTTOM]);
        body += &text(x(mark), BOTTOM + 18.0, "middle", &mark_name(mark));
    }
    for mark in vertical.marks() {
        body += &line("guide", [LEFT, y(mark), WIDTH - 30.0, y(mark)]);
        body += &text(LEFT - 8.0, y(mark) + 4.0, "end", &mark_name(mark));
    }
    let is_somewhere = |(across, up): &&Point| across.is_finite() && up.is_finite();
    for (across, up) in points.iter().filter(is_somewhere) {
        body += &disc("each", x(*across), y(*up), 4.0);
    }
    if is_somewhere(&&one) {
        body += &diamond(x(one.0), y(one.1));
    }
    body += &text((LEFT + WIDTH) / 2.0, BOTTOM + 38.0, "middle", across);
    body += &text(LEFT - 8.0, TOP - 12.0, "end", up);
    svg(BOTTOM + 46.0, "partitions, and the default policy", &body)
}

/// Draws a line for each policy under which there are AVX cores, with a scale that all share.
pub fn avx_cores(outcomes: &[&Outcome], end_ms: f64) -> String {
    const HEIGHT: f64 = 80.0;
    const GAP: f64 = 30.0;
    let numbers = outcomes.iter().flat_map(|it| &it.avx_cores_over_time).map(|(_, nr)| *nr);
    let most = f64::from(numbers.max().unwrap_or(0).max(1));
    let x = |ms: f64| NAMES + ms / end_ms.max(1.0) * (WIDTH - NAMES - 30.0);
    let mut body = String::new();
    for (n, outcome) in outcomes.iter().enumerate() {
        let top = n as f64 * (HEIGHT + GAP) + 10.0;
        let y = |nr: f64| top + HEIGHT * (1.0 - nr / most);
        body += &name(NAMES - 34.0, top + HEIGHT / 2.0 + 4.0, &outcome.variant);
        for nr in [0.0, most] {
            body += &line("guide", [NAMES, y(nr), WIDTH - 30.0, y(nr)]);
            body += &text(NAMES - 8.0, y(nr) + 4.0, "end", &format!("{nr}"));
        }
        let mut path = String::new();
        for (ms, nr) in &outcome.avx_cores_over_time {
            let (x, y) = (x(*ms), y(f64::from(*nr)));
            let begin =
                if path.is_empty() { format!("M{x:.1} {y:.1}") } else { format!("H{x:.1}") };
            let _ = write!(path, "{begin}V{y:.1}");
        }
        let _ = write!(body, "<path class=\"mark\" d=\"{path}H{:.1}\"/>", x(end_ms));
    }
    let bottom = outcomes.len() as f64 * (HEIGHT + GAP);
    body += &ticks(bottom + 4.0, 0.0, end_ms, NAMES, WIDTH - 30.0);
    svg(bottom + 14.0, "AVX cores over time", &body)
}

fn ticks(y: f64, from_ms: f64, to_ms: f64, left: f64, right: f64) -> String {
    let parts = 4;
    let tick = |n: i32| {
        let share = f64::from(n) / f64::from(parts);
        let ms = from_ms + (to_ms - from_ms) * share;
        let anchor = match n {
            0 => "start",
            last if last == parts => "end",
            _ => "middle",
        };
        text(left + (right - left) * share, y, anchor, &time(ms * 1000.0))
    };
    (0..=parts).map(tick).collect()
}

/// Draws what each core had most of, in each part of the time.
pub fn timeline(strip: &Strip) -> String {
    const LEFT: f64 = 64.0;
    const HEIGHT: f64 = 17.0;
    const CELL: f64 = 11.0;
    let shown = &strip.cores[..strip.cores.len().min(CORES_SHOWN)];
    let columns = shown.first().map_or(1, |core| core.licences.len().max(1));
    let width = (WIDTH - LEFT - 10.0) / columns as f64;
    let cells = |of: fn(&CoreStrip) -> &str, letter: char, y: f64, height: f64| {
        let mut path = String::new();
        for (n, core) in shown.iter().enumerate() {
            for (from, to) in runs(of(core), letter) {
                let (x, top) = (LEFT + from as f64 * width, n as f64 * HEIGHT + y);
                let wide = (to - from) as f64 * width;
                let _ = write!(path, "M{x:.1} {top:.1}h{wide:.1}v{height}h-{wide:.1}z");
            }
        }
        path
    };
    let mut body = String::new();
    for (letter, class) in [('.', "idle"), ('0', "l0"), ('1', "l1"), ('2', "l2")] {
        let path = cells(|core| &core.licences, letter, 2.0, CELL);
        let _ = write!(body, "<path class=\"{class}\" d=\"{path}\"/>");
    }
    let path = cells(|core| &core.roles, 'A', 2.0 + CELL, 2.5);
    let _ = write!(body, "<path class=\"role\" d=\"{path}\"/>");
    for n in 0..shown.len() {
        body += &text(LEFT - 6.0, n as f64 * HEIGHT + CELL + 1.0, "end", &format!("core {n}"));
    }
    let bottom = shown.len() as f64 * HEIGHT + 14.0;
    body += &ticks(bottom, strip.from_ms, strip.to_ms, LEFT, WIDTH - 10.0);
    svg(bottom + 8.0, "licences of cores over time", &body)
}

/// Returns the ranges in which the letter stands. Each excludes its end.
fn runs(letters: &str, wanted: char) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in letters.chars().enumerate().filter(|(_, letter)| *letter == wanted) {
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

/// Draws what the hatches of a timeline mean.
pub fn legend() -> String {
    let mut body = String::new();
    let entries = [
        ("idle", "idle"),
        ("l0", "L0, the full clock"),
        ("l1", "L1"),
        ("l2", "L2, the lowest clock"),
        ("role", "AVX core"),
    ];
    let mut x = 64.0;
    for (class, name) in entries {
        let [y, height] = if class == "role" { [11.0, 2.5] } else { [4.0, 11.0] };
        body += &rect(class, [x, y, 26.0, height]);
        body += &text(x + 32.0, 14.0, "start", name);
        x += 62.0 + name.len() as f64 * 7.0;
    }
    svg(20.0, "legend", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_where_the_letter_stands() {
        assert_eq!(runs("00.011", '0'), [(0, 2), (3, 4)]);
        assert_eq!(runs("00.011", '1'), [(4, 6)]);
        assert_eq!(runs("", '1'), []);
    }

    #[test]
    fn no_text_is_taken_for_html() {
        assert_eq!(escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(text(1.0, 2.0, "end", "<b>").matches('<').count(), 2);
    }

    #[test]
    fn marks_are_round_and_on_the_axis() {
        let marks = |least: f64, most: f64| -> Vec<String> {
            Axis { least, most }.marks().into_iter().map(mark_name).collect()
        };
        assert_eq!(marks(0.48, 1.52), ["0.5", "1", "1.5"]);
        assert_eq!(marks(0.979, 0.988), ["0.98", "0.982", "0.984", "0.986", "0.988"]);
        assert_eq!(marks(0.0, 41.0), ["0", "10", "20", "30", "40"]);
        let axis = Axis::of([3.0, 1.0, f64::NAN].into_iter());
        assert!(axis.share(1.0) > 0.0 && axis.share(3.0) < 1.0 && axis.share(1.5) < 0.5);
        assert!(Axis::of(std::iter::empty()).most > 0.0);
    }

    #[test]
    fn what_is_nowhere_is_not_shown() {
        let nowhere = [(1.0, f64::NAN), (f64::INFINITY, 1.0)];
        let points = [&nowhere[..], &[(1.0, 1.0)]].concat();
        let chart = scatter(&points, (2.0, 2.0), "work", "balance");
        assert_eq!((chart.matches("<circle").count(), chart.matches("hollow").count()), (1, 1));
        let alone = scatter(&points, nowhere[0], "work", "balance");
        assert_eq!((alone.matches("<circle").count(), alone.matches("hollow").count()), (1, 0));
        for page in [chart, alone] {
            assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        }
    }

    #[test]
    fn times_have_units() {
        let times = [0.0, 0.1, 10.0, 1000.0, 2.5e6].map(time);
        assert_eq!(times, ["0", "0.1 us", "10 us", "1 ms", "2.5 s"]);
    }
}
