// SPDX-License-Identifier: GPL-2.0-only
//! All CPUs in a few lines: a letter for each, by node, cache and core where that fits, and a
//! letter for several where nothing else does.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::state::{Cell, Kind, Place};

impl Cell {
    pub fn letter(self) -> char {
        match self.kind {
            Kind::Avx { busy: true } => 'A',
            Kind::Avx { busy: false } => 'a',
            Kind::Scalar { busy: true } => 'S',
            Kind::Scalar { busy: false } => 's',
            Kind::Offline => 'x',
        }
    }

    /// The colour is that of the role, or red if a clock is low where it should not be.
    fn style(self) -> Style {
        let (colour, busy) = match self.kind {
            Kind::Avx { busy } if self.is_low => (Color::LightMagenta, busy),
            Kind::Avx { busy } => (Color::Yellow, busy),
            Kind::Scalar { busy } if self.is_low => (Color::Red, busy),
            Kind::Scalar { busy } => (Color::Green, busy),
            Kind::Offline => (Color::DarkGray, false),
        };
        if busy { Style::new().fg(Color::Black).bg(colour) } else { Style::new().fg(colour) }
    }

    /// Of several CPUs the most telling one stands for all.
    fn weight(self) -> u32 {
        let of_kind = match self.kind {
            Kind::Avx { busy } => 3 + u32::from(busy),
            Kind::Scalar { busy } => 1 + u32::from(busy),
            Kind::Offline => 0,
        };
        2 * of_kind + u32::from(self.is_low)
    }
}

/// What is put down one after the other: not to be broken, and where lines may end.
enum Piece {
    Text(String),
    Cells(Vec<Cell>),
    NewLine,
}

/// No more than `rows` lines of no more than `width` letters, and how many CPUs a letter is.
pub fn lines(
    places: &[Place],
    width: usize,
    rows: usize,
    colours: bool,
) -> (Vec<Line<'static>>, usize) {
    if width == 0 || rows == 0 || places.is_empty() {
        return (Vec::new(), 1);
    }
    for pieces in [by_core(places), by_cache(places)] {
        let lines = lay_out(&pieces, width, colours);
        // A name is not broken, however little room there is.
        if lines.len() <= rows && lines.iter().all(|line| line.width() <= width) {
            return (lines, 1);
        }
    }
    let cells: Vec<Cell> = places.iter().map(|place| place.cell).collect();
    let each = cells.len().div_ceil(width * rows);
    let letters: Vec<Cell> = cells.chunks(each).filter_map(most_telling).collect();
    let line = |cells: &[Cell]| Line::from(spans(cells, colours).collect::<Vec<_>>());
    (letters.chunks(width).map(line).collect(), each)
}

fn most_telling(cells: &[Cell]) -> Option<Cell> {
    cells.iter().copied().max_by_key(|cell| cell.weight())
}

/// A line for each cache, with its name, and a gap between two cores.
fn by_core(places: &[Place]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (nth, cache) in places.chunk_by(|a, b| (a.node, a.llc) == (b.node, b.llc)).enumerate() {
        if nth > 0 {
            pieces.push(Piece::NewLine);
        }
        pieces.push(Piece::Text(name_of(cache)));
        for core in cache.chunk_by(|a, b| a.core == b.core) {
            pieces.push(Piece::Cells(core.iter().map(|place| place.cell).collect()));
        }
    }
    pieces
}

fn name_of(cache: &[Place]) -> String {
    match cache.first() {
        Some(place) if place.cell.kind != Kind::Offline => {
            format!("node {} cache {}", place.node, place.llc)
        }
        _ => "offline".to_owned(),
    }
}

/// All in a row, with a gap between two caches.
fn by_cache(places: &[Place]) -> Vec<Piece> {
    places
        .chunk_by(|a, b| (a.node, a.llc) == (b.node, b.llc))
        .map(|cache| Piece::Cells(cache.iter().map(|place| place.cell).collect()))
        .collect()
}

fn lay_out(pieces: &[Piece], width: usize, colours: bool) -> Vec<Line<'static>> {
    let mut lines = vec![Vec::new()];
    let mut used = 0;
    for piece in pieces {
        let (length, parts) = match piece {
            Piece::NewLine => (0, Vec::new()),
            Piece::Text(text) => (text.len(), vec![Span::raw(text.clone())]),
            Piece::Cells(cells) => (cells.len(), spans(cells, colours).collect()),
        };
        let is_full = used > 0 && used + 1 + length > width;
        if is_full || matches!(piece, Piece::NewLine) {
            lines.push(Vec::new());
            used = 0;
        }
        for (nth, part) in parts.into_iter().enumerate() {
            let gap = usize::from(nth == 0 && used > 0);
            // What is longer than a line goes on in the next.
            if used > 0 && used + gap + part.width() > width {
                lines.push(Vec::new());
                used = 0;
            } else if gap > 0 {
                put(&mut lines, Span::raw(" "));
                used += 1;
            }
            used += part.width();
            put(&mut lines, part);
        }
    }
    lines.into_iter().map(Line::from).collect()
}

fn put(lines: &mut [Vec<Span<'static>>], span: Span<'static>) {
    if let Some(line) = lines.last_mut() {
        line.push(span);
    }
}

fn spans(cells: &[Cell], colours: bool) -> impl Iterator<Item = Span<'static>> + '_ {
    cells.iter().map(move |cell| {
        let style = if colours { cell.style() } else { Style::new() };
        Span::styled(cell.letter().to_string(), style)
    })
}
