// SPDX-License-Identifier: GPL-2.0-only
//! The screen, on terminals of all sizes and machines of all sizes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use ratatui::widgets::Paragraph;

use super::state::{Cell, Kind, Page, Place, State};
use super::{Input, Wish, map, view, wish_of};
use crate::agent::counters::Counted;
use crate::agent::events::Event;
use crate::agent::policy::history::What;
use crate::agent::policy::named;
use crate::agent::prospect::Prospect;
use crate::agent::status::{Book, Cgroup, Cpu, Program, Status, Waits};
use crate::agent::trial::standing::Known;

/// A machine of two nodes with hyperthreads, after so many seconds. The last core of it is an
/// AVX core, half of the CPUs are busy, and one is offline.
fn status(nr_cpus: u32, seconds: f64) -> Status {
    let cpu = |cpu: u32| Cpu {
        cpu,
        core: cpu / 2 * 2,
        llc: if cpu < nr_cpus / 2 { 0 } else { nr_cpus / 2 },
        node: u32::from(cpu >= nr_cpus / 2),
        is_avx_core: cpu + 2 >= nr_cpus,
        busy_s: if cpu.is_multiple_of(2) { seconds } else { 0.0 },
        ..Cpu::default()
    };
    let waits = |n: u64| Waits { below_ns: vec![1024, 2048, 4096], counts: vec![n, n / 50, 0] };
    let count = |per_s: f64| (per_s * seconds) as u64;
    let book = |share: f64| Book {
        avx_s: share * seconds,
        sent_to_avx: count(10.0),
        sent_to_scalar: count(10.0),
        ..Book::default()
    };
    let cgroup = |path: &str, share| Cgroup {
        path: path.to_owned(),
        book: book(share),
        ..Cgroup::default()
    };
    Status {
        version: "1".to_owned(),
        tier: "trap".to_owned(),
        why: "the kernel tells of each first wide instruction".to_owned(),
        generation: 3,
        policy: "fair".to_owned(),
        runs_for_s: seconds,
        avx_s: 0.75 * seconds,
        low_clock_on_scalar_cpus_s: 0.125 * seconds,
        cpus: (0..nr_cpus).map(cpu).collect(),
        offline: vec![nr_cpus],
        queued: BTreeMap::from([("avx".to_owned(), 1), ("shared".to_owned(), 4)]),
        waits: BTreeMap::from([
            ("avx".to_owned(), waits(count(100.0))),
            ("default".to_owned(), waits(count(200.0))),
        ]),
        cgroups: vec![cgroup("/db", 0.25), cgroup("/web", 0.5)],
        programs: vec![Program { name: "server".to_owned(), book: book(0.75), light_in: None }],
        ..Status::default()
    }
}

fn watched(nr_cpus: u32) -> State {
    let mut state = State::new(Duration::from_secs(1));
    state.hear(Ok(status(nr_cpus, 98.0)));
    state.hear(Ok(status(nr_cpus, 100.0)));
    for n in 0..3 {
        let json = format!(r#"{{"at_s":{n}.5,"kind":"policy","why":"avx-cpus={n}","policy":{n}}}"#);
        state.note(&serde_json::from_str::<Event>(&json).unwrap());
    }
    state
}

fn rendered(state: &State, width: u16, height: u16, colours: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let lines = view::screen(state, width, height, colours);
    terminal.draw(|frame| frame.render_widget(Paragraph::new(lines), frame.area())).unwrap();
    terminal
}

fn text(state: &State, width: u16, height: u16) -> Vec<String> {
    let terminal = rendered(state, width, height, false);
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>())
        .map(|row| row.trim_end().to_owned())
        .collect()
}

#[test]
fn a_screen_of_80_columns_shows_everything() {
    assert_eq!(
        text(&watched(8), 80, 24),
        [
            "scx_avxspec  tier trap: the kernel tells of each first wide instruction",
            "AVX cores: 2 of 8  policy 3: fair  up 1m 40s",
            "node 0 cache 0 Ss Ss",
            "node 1 cache 4 Ss Aa",
            "offline x",
            "A AVX core  S scalar  a s idle  x offline",
            "AVX work 0.75 CPUs  moves 40/s",
            "low clock on scalar CPUs (modelled): 0.125 s/s, 12.5 s in all",
            "waiting: 1 avx, 4 shared",
            "waits          p50       p99       of",
            "avx         <1.0µs    <2.0µs      204",
            "default     <1.0µs    <2.0µs      408",
            "AVX CPUs  cgroup",
            "    0.50  /web",
            "    0.25  /db",
            "AVX CPUs  program",
            "    0.75  server",
            "0.500000 policy 0 is in force: avx-cpus=0",
            "1.500000 policy 1 is in force: avx-cpus=1",
            "2.500000 policy 2 is in force: avx-cpus=2",
            "",
            "",
            "",
            "q quit  h help  p policy  every 1.00s",
        ]
    );
}

#[test]
fn a_trial_is_told_with_its_end() {
    let mut state = watched(8);
    state.hear(Ok(Status { trial_left_s: Some(312), ..status(8, 102.0) }));
    assert_eq!(text(&state, 60, 10)[2], "on trial: the policy before comes back in 312 s");
}

/// What an operator wants to know before anything is switched on is there at any size.
#[test]
fn while_nothing_is_done_it_is_told_what_it_would_be_worth() {
    let mut state = watched(64);
    let prospect = Some(Prospect::NotKnown("too little was seen yet".to_owned()));
    state.hear(Ok(Status { prospect, ..status(64, 102.0) }));
    for (width, height) in [(80, 24), (40, 10)] {
        let line = &text(&state, width, height)[2];
        assert!(line.starts_with("AVX cores: it is not known whether they"), "{line}");
    }
}

#[test]
fn what_trials_found_is_told() {
    let mut state = watched(8);
    state.hear(Ok(Status { trials: Some(Known::TriesFirst), ..status(8, 102.0) }));
    assert_eq!(text(&state, 60, 10)[2], "whether AVX cores pay is being tried");
}

#[test]
fn the_longest_waits_have_no_end() {
    let mut state = watched(8);
    let ns: Vec<u64> = [1 << 29, 1 << 30].into();
    let mut status = status(8, 102.0);
    let earlier = status.waits["avx"].total();
    status.waits.insert("avx".to_owned(), Waits { below_ns: ns, counts: vec![0, 2 * earlier] });
    state.hear(Ok(status));
    let screen = text(&state, 80, 24);
    let line = screen.iter().find(|line| line.starts_with("avx ")).unwrap();
    assert!(line.starts_with("avx        >=537ms   >=537ms "), "{line}");
}

/// What is most important is there, and the last event.
#[test]
fn a_screen_of_40_columns_and_10_rows_is_readable() {
    assert_eq!(
        text(&watched(64), 40, 10),
        [
            "scx_avxspec  tier trap: the kernel tells",
            "AVX cores: 2 of 64  policy 3: fair",
            "SsSsSsSsSsSsSsSsSsSsSsSsSsSsSsSs",
            "SsSsSsSsSsSsSsSsSsSsSsSsSsSsSsAa x",
            "A AVX core  S scalar  a s idle  x offlin",
            "AVX work 0.75 CPUs  moves 40/s",
            "waits          p50       p99       of",
            "avx         <1.0µs    <2.0µs      204",
            "2.500000 policy 2 is in force: avx-cpus=",
            "q quit  h help  p policy  every 1.00s",
        ]
    );
}

/// The AVX cores are not lost among those that a letter stands for.
#[test]
fn many_cpus_share_letters() {
    let screen = text(&watched(512), 40, 10);
    assert_eq!(screen[2..5].concat().len(), 513usize.div_ceil(5));
    assert!(screen[4].ends_with("SA") || screen[4].ends_with('A'), "{screen:?}");
    assert_eq!(screen[5], "each letter: 5 CPUs; A AVX core  S scala");
}

#[test]
fn who_goes_away_is_missed_and_what_is_known_stays() {
    let mut state = State::new(Duration::from_secs(1));
    assert_eq!(
        text(&state, 40, 3),
        ["asking the scheduler", "", "q quit  h help  p policy  every 1.00s"]
    );
    state.hear(Err("no scheduler listens".to_owned()));
    assert_eq!(text(&state, 40, 3)[0], "trying again: no scheduler listens");

    let mut state = watched(8);
    let heard_at = Instant::now();
    state.hear_at(Ok(status(8, 100.0)), heard_at);
    state.hear(Err("no scheduler listens".to_owned()));
    let screen = text(&state, 80, 24);
    assert_eq!(screen[0], "trying again: no scheduler listens");
    assert_eq!(screen[2], "AVX cores: 2 of 8  policy 3: fair  up 1m 40s");
    // It comes back, counts from zero, and what it did before is no rate. The kernel's account of
    // the CPUs goes on: in 6 s all were busy for half of it and more, but for the first core.
    let mut anew = Status { avx_s: 1.0, ..status(8, 2.0) };
    for cpu in &mut anew.cpus {
        let before = if cpu.cpu.is_multiple_of(2) { 100.0 } else { 0.0 };
        (cpu.busy_s, cpu.low_clock_s) = (before + f64::from(cpu.cpu.min(3)) * 2.0, 0.1);
    }
    anew.cpus[6].low_clock_s = 0.5;
    state.hear_at(Ok(anew), heard_at + Duration::from_secs(6));
    let screen = text(&state, 80, 24);
    assert_eq!(screen[2..4], ["node 0 cache 0 ss SS", "node 1 cache 4 SS AA"]);
    let terminal = rendered(&state, 80, 24, true);
    let row = terminal.backend().buffer().content().chunks(80).nth(3).unwrap();
    assert_eq!([15, 18, 19].map(|n| row[n].bg), [Color::Green, Color::LightMagenta, Color::Yellow]);
    assert_eq!(screen[6], "AVX work 0.50 CPUs  moves 40/s");
    assert!(screen[0].starts_with("scx_avxspec"));
}

#[test]
fn colours_are_there_if_wanted() {
    let colours_of = |colours| -> Vec<(Color, Color)> {
        let terminal = rendered(&watched(8), 80, 24, colours);
        let row = terminal.backend().buffer().content().chunks(80).nth(3).unwrap();
        row.iter().map(|cell| (cell.fg, cell.bg)).collect()
    };
    let plain = (Color::Reset, Color::Reset);
    assert!(colours_of(false).iter().all(|it| *it == plain));
    let coloured = colours_of(true);
    assert_eq!(coloured[18], (Color::Black, Color::Yellow));
    assert_eq!(coloured[16], (Color::Green, Color::Reset));
    assert_eq!(coloured[0], plain);
}

/// Of its cycles where these are counted, and otherwise as it is modelled.
#[test]
fn a_low_clock_is_seen_by_its_colour() {
    let with = |seconds, change: &dyn Fn(&mut Cpu)| {
        let mut status = status(8, seconds);
        status.cpus.iter_mut().for_each(change);
        status
    };
    let colour_after = |before: Status, now: Status| {
        let mut state = State::new(Duration::from_secs(1));
        state.hear(Ok(before));
        state.hear(Ok(now));
        let terminal = rendered(&state, 80, 24, true);
        let row = terminal.backend().buffer().content().chunks(80).nth(3).unwrap();
        [row[15].bg, row[18].bg]
    };
    let low = |seconds: f64| move |cpu: &mut Cpu| cpu.low_clock_s = seconds;
    let colours = colour_after(with(98.0, &low(1.0)), with(100.0, &low(2.0)));
    assert_eq!(colours, [Color::Red, Color::LightMagenta]);

    let counted = |cycles| {
        move |cpu: &mut Cpu| {
            cpu.low_clock_s = 0.0;
            cpu.counted = Some(Counted { cycles, cycles_ns: 1, ..Counted::default() });
        }
    };
    let (before, high) = (counted([9, 9, 9]), counted([99, 9, 9]));
    let colours = colour_after(with(98.0, &before), with(100.0, &high));
    assert_eq!(colours, [Color::Green, Color::Yellow]);
    let colours = colour_after(with(98.0, &before), with(100.0, &counted([99, 9, 39])));
    assert_eq!(colours, [Color::Red, Color::LightMagenta]);
    // Somebody else has the counters for now.
    let with = |busy_s, low_clock_s| {
        with(busy_s, &move |cpu: &mut Cpu| {
            before(cpu);
            cpu.low_clock_s = low_clock_s;
        })
    };
    assert_eq!(colour_after(with(98.0, 1.0), with(100.0, 1.0)), [Color::Green, Color::Yellow]);
    assert_eq!(colour_after(with(98.0, 1.0), with(100.0, 3.0)), [Color::Red, Color::LightMagenta]);
}

fn press(state: &mut State, key: char) -> Wish {
    press_with(state, KeyModifiers::NONE, key)
}

fn press_with(state: &mut State, modifiers: KeyModifiers, key: char) -> Wish {
    wish_of(state, &Input::Key(KeyEvent::new(KeyCode::Char(key), modifiers))).unwrap()
}

#[test]
fn keys_do_what_the_help_says() {
    let mut state = watched(8);
    assert_eq!((press(&mut state, 'h'), press(&mut state, 'q')), (Wish::Nothing, Wish::Quit));
    assert!(text(&state, 40, 12)[0].starts_with("A a  an AVX core"));
    press(&mut state, '?');
    assert!(text(&state, 40, 12)[0].starts_with("scx_avxspec"));
    for (key, interval) in [('+', 500), ('+', 250), ('+', 250), ('-', 500), ('-', 1000)] {
        press(&mut state, key);
        assert_eq!(state.interval, Duration::from_millis(interval));
    }
    assert_eq!(press_with(&mut state, KeyModifiers::CONTROL, 'c'), Wish::Quit);
}

#[test]
fn a_policy_is_chosen_by_two_keys() {
    let mut state = watched(8);
    assert_eq!((press(&mut state, '2'), press(&mut state, 'u')), (Wish::Nothing, Wish::Nothing));
    press(&mut state, 'p');
    let page = text(&state, 40, 12);
    assert_eq!(page[0], "policy 3: fair is in force; another one:");
    assert!(page[2].starts_with("2  fault-migrate"), "{page:?}");
    assert_eq!(press(&mut state, '9'), Wish::Nothing);
    let expected = What::to(&named::named("fault-migrate").unwrap().policy().unwrap());
    assert_eq!(press(&mut state, '2'), Wish::Change(expected));
    assert!(text(&state, 40, 12)[0].starts_with("scx_avxspec"));
    press(&mut state, 'p');
    assert_eq!(press(&mut state, 'u'), Wish::Change(What::Undo));
}

fn place() -> impl Strategy<Value = Place> {
    let kind = prop_oneof![
        any::<bool>().prop_map(|busy| Kind::Avx { busy }),
        any::<bool>().prop_map(|busy| Kind::Scalar { busy }),
        Just(Kind::Offline),
    ];
    let cell = (kind, any::<bool>()).prop_map(|(kind, is_low)| Cell { kind, is_low });
    (0..1024u32, 0..512u32, 0..16u32, 0..4u32, cell)
        .prop_map(|(cpu, core, llc, node, cell)| Place { cpu, core, llc, node, cell })
}

#[test]
fn a_name_that_does_not_fit_is_left_out() {
    let cell = Cell { kind: Kind::Avx { busy: false }, is_low: false };
    let place = Place { cpu: 0, core: 0, llc: 0, node: 0, cell };
    let (lines, each) = map::lines(&[place], 1, 2, false);
    assert_eq!((lines.len(), lines[0].to_string().as_str(), each), (1, "a", 1));
}

proptest! {
    #[test]
    fn no_size_is_too_small_or_too_large(
        width in 1..300u16,
        height in 1..100u16,
        nr_cpus in 0..600u32,
        trouble in any::<bool>(),
        page in prop_oneof![Just(Page::All), Just(Page::Help), Just(Page::Policies)],
        colours in any::<bool>(),
    ) {
        let mut state = watched(nr_cpus);
        state.page = page;
        if trouble {
            state.hear(Err("gone".to_owned()));
        }
        rendered(&state, width, height, colours);
        let lines = view::screen(&state, width, height, colours);
        prop_assert_eq!(lines.len(), usize::from(height));
        prop_assert!(lines.last().unwrap().to_string().starts_with("q quit"));
    }

    /// Each CPU is in the map, in the room that there is.
    #[test]
    fn a_map_keeps_within_its_bounds(
        places in proptest::collection::vec(place(), 1..700),
        width in 1..200usize,
        rows in 1..40usize,
    ) {
        let (lines, each) = map::lines(&places, width, rows, false);
        prop_assert!(lines.len() <= rows);
        prop_assert!(lines.iter().all(|line| line.width() <= width));
        let is_letter = |c: &char| "AaSsx".contains(*c);
        let text: String = lines.iter().map(|line| line.to_string()).collect();
        if each > 1 {
            prop_assert_eq!(text.chars().count(), places.len().div_ceil(each));
        } else {
            let of = |busy: char| text.chars().filter(|c| *c == busy).count();
            let avx = places.iter().filter(|it| it.cell.kind == Kind::Avx { busy: true }).count();
            prop_assert_eq!(of('A'), avx);
            prop_assert!(text.chars().filter(is_letter).count() >= places.len());
        }
    }
}
