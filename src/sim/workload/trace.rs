// SPDX-License-Identifier: GPL-2.0-only
//! Makes a workload of what real programs did, as the emulator's trace tells it.
//!
//! A thread is known by its address space and its FS base. What it executes, in the kernel too, is
//! work whose length follows from the number of instructions. Wide vectors make it work of their
//! kind. Time in which a thread does not run is left out: whatever it waits for is taken to be
//! there. tests/rig/oracle/trace.cc tells what a trace contains.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, ensure};

use crate::sim::machine::model::Kind;

/// How instructions become time.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// The speed of a CPU that has a core at its highest clock to itself.
    pub instructions_per_us: f64,
    /// The speed of work with 512-bit vectors, relative to the same work without them.
    pub speed_up: f64,
}

/// Heavy instructions need the licence for them if they are at least this share of all
/// instructions: one in two cycles (Travis Downs, "Gathering Intel on Intel AVX-512 Transitions").
/// Assumption: there are 1.5 instructions in a cycle, of the two at most that are possible with
/// 512-bit vectors.
const DENSE: f64 = 1.0 / 3.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Piece {
    /// A number of instructions of one kind.
    Work(Kind, u64),
    Syscall,
}

/// The address space and the FS base of a thread, both in hexadecimal.
type Thread<'a> = (&'a str, &'a str);

/// Returns the text of a workload that has a group for each thread that uses 512-bit vectors.
pub fn workload(trace: &str, speed: Speed) -> Result<String> {
    let mut threads = read(trace)?;
    threads.retain(|_, pieces| pieces.iter().any(is_wide));
    ensure!(!threads.is_empty(), "no thread in that trace uses 512-bit vectors");
    let about = "about = \"a trace of real programs\"\n";
    let groups = threads.values().enumerate().map(|(n, pieces)| group(n + 1, pieces, speed));
    Ok(groups.fold(about.to_owned(), |text, group| text + &group))
}

fn is_wide(piece: &Piece) -> bool {
    matches!(piece, Piece::Work(Kind::Light512 | Kind::Heavy512, _))
}

fn group(number: usize, pieces: &[Piece], speed: Speed) -> String {
    let mut text = format!("\n[[group]]\nname = \"thread {number}\"\nbegin = \"anywhere\"\n");
    text.push_str("steps = [\n");
    for piece in pieces {
        let line = match *piece {
            Piece::Syscall => "\"syscall\"".to_owned(),
            Piece::Work(kind, instructions) => {
                let us = instructions as f64 / speed.instructions_per_us;
                let (us, more) = match is_wide(piece) {
                    true => (us * speed.speed_up, format!(", speed_up = {}", speed.speed_up)),
                    false => (us, String::new()),
                };
                // A single instruction is enough to begin a phase.
                format!("{{ work = \"{}\", us = {:.3}{more} }}", kind.name(), us.max(0.001))
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {line},");
    }
    text + "  \"done\",\n]\n"
}

/// The parts of a line of the trace that are of interest.
struct Event<'a> {
    tick: u64,
    cpu: u32,
    /// The instructions that the CPU had executed by then.
    at: u64,
    /// The last instruction of a run of vector instructions, and how many of the run are heavy.
    end_at: Option<u64>,
    heavy_256: u64,
    heavy_512: u64,
    name: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

fn event_of(line: &str) -> Option<Event<'_>> {
    let mut words = line.split(' ');
    let tick = words.next()?.parse().ok()?;
    let cpu = words.next()?.parse().ok()?;
    let name = words.nth(1)?;
    let values: BTreeMap<_, _> = words.filter_map(|word| word.split_once('=')).collect();
    let number = |name| values.get(name).map(|number| number.parse::<u64>()).transpose().ok();
    Some(Event {
        tick,
        cpu,
        at: number("at")??,
        end_at: number("end_at")?,
        heavy_256: number("v256h")?.unwrap_or(0),
        heavy_512: number("v512h")?.unwrap_or(0),
        name,
        values,
    })
}

/// Returns the events of the trace with the numbers of their lines.
fn events_in(trace: &str) -> Result<Vec<(usize, Event<'_>)>> {
    let mut events = Vec::new();
    for (n, line) in (1..).zip(trace.lines()).filter(|(_, line)| !line.starts_with('#')) {
        events.push((n, event_of(line).with_context(|| format!("line {n} is none of a trace"))?));
    }
    // Runs of vector instructions are written when they end. Across CPUs only ticks tell which
    // event was first.
    events.sort_by_key(|(_, event)| (event.tick, event.cpu, event.at));
    Ok(events)
}

/// The state of a CPU while the trace is read.
#[derive(Default)]
struct Cpu<'a> {
    space: &'a str,
    thread: Option<Thread<'a>>,
    /// The instructions that are accounted for.
    at: u64,
}

fn read(trace: &str) -> Result<BTreeMap<Thread<'_>, Vec<Piece>>> {
    let mut threads = BTreeMap::new();
    let mut cpus: BTreeMap<u32, Cpu<'_>> = BTreeMap::new();
    for (n, event) in &events_in(trace)? {
        let cpu = cpus.entry(event.cpu).or_default();
        cpu.go_on(event, &mut threads)
            .with_context(|| format!("line {n} tells of more instructions than can be counted"))?;
    }
    Ok(threads)
}

impl<'a> Cpu<'a> {
    /// Takes an event into account. Returns None if there are more instructions than can be
    /// counted.
    fn go_on(
        &mut self,
        event: &Event<'a>,
        threads: &mut BTreeMap<Thread<'a>, Vec<Piece>>,
    ) -> Option<()> {
        self.work(Kind::Scalar, event.at, threads)?;
        // The thread that runs is known as soon as the address space is.
        let base = event.values.get(if event.name == "fsbase" { "base" } else { "fs" });
        if event.name == "cr3" {
            self.space = event.values.get("base").copied().unwrap_or_default();
        } else if let Some(base) = base.filter(|_| !self.space.is_empty()) {
            self.thread = Some((self.space, base));
        }
        match event.name {
            "syscall" => {
                let pieces = self.thread.map(|thread| threads.entry(thread).or_default());
                pieces.into_iter().for_each(|pieces| pieces.push(Piece::Syscall));
            }
            "run" => {
                // The last instruction of a run belongs to it.
                let end = event.end_at.map_or(Some(event.at), |end| end.checked_add(1))?;
                self.work(kind_of(event, end.saturating_sub(event.at)), end, threads)?;
            }
            _ => {}
        }
        Some(())
    }

    /// Adds the instructions up to `to` to the work of the thread that runs. Returns None if there
    /// are more than can be counted.
    fn work(
        &mut self,
        kind: Kind,
        to: u64,
        threads: &mut BTreeMap<Thread<'a>, Vec<Piece>>,
    ) -> Option<()> {
        let instructions = to.saturating_sub(self.at);
        self.at = self.at.max(to);
        let Some(thread) = self.thread.filter(|_| instructions > 0) else { return Some(()) };
        let pieces = threads.entry(thread).or_default();
        match pieces.last_mut() {
            Some(Piece::Work(last, count)) if *last == kind => {
                *count = count.checked_add(instructions)?;
            }
            _ => pieces.push(Piece::Work(kind, instructions)),
        }
        Some(())
    }
}

/// Returns the kind of a run of vector instructions in which so many instructions are executed.
/// Light vectors of 256 bits lower no clock.
fn kind_of(run: &Event<'_>, instructions: u64) -> Kind {
    let is_dense = |heavy: u64| heavy as f64 >= DENSE * instructions as f64;
    match run.values.get("class").copied() {
        Some("256h") if is_dense(run.heavy_256) => Kind::Heavy256,
        Some("512h") if is_dense(run.heavy_512) => Kind::Heavy512,
        Some("512l" | "512h") => Kind::Light512,
        _ => Kind::Scalar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::workload::file;

    const SPEED: Speed = Speed { instructions_per_us: 1000.0, speed_up: 2.0 };

    /// One thread computes, uses wide vectors, and calls the kernel, which lets another one run.
    const TRACE: &str = "# oracle trace 1, started at tick 0, 1 CPUs, gap 1000
10 0 0 cr3 at=10 base=1000
20 0 0 sysret at=100 rax=0 fs=a
35 0 3 syscall at=9100 nr=1 fs=a rip=1
30 0 3 run at=5100 end=70 end_at=6099 class=512l v512l=900 fs=a rip=1
40 0 0 cr3 at=9600 base=2000
41 0 0 fsbase at=9600 base=b
42 0 0 sysret at=9700 rax=0 fs=b
43 0 3 interrupt at=20000 vector=236 fs=b
44 0 0 cr3 at=21000 base=1000
45 0 0 fsbase at=21000 base=a
46 0 0 sysret at=21500 rax=0 fs=a
50 0 3 syscall at=22500 nr=2 fs=a rip=1";

    #[test]
    fn what_a_thread_did_is_told_apart_from_what_others_did() {
        let threads = read(TRACE).unwrap();
        let expected = [
            Piece::Work(Kind::Scalar, 5000),
            Piece::Work(Kind::Light512, 1000),
            Piece::Work(Kind::Scalar, 3000),
            Piece::Syscall,
            Piece::Work(Kind::Scalar, 500 + 500 + 1000),
            Piece::Syscall,
        ];
        assert_eq!(threads[&("1000", "a")], expected);
        assert_eq!(threads[&("2000", "b")], [Piece::Work(Kind::Scalar, 100 + 10300 + 1000)]);
    }

    /// The thread is on CPU 0, on CPU 1, and then on CPU 0 again, where one wide instruction is
    /// enough.
    #[test]
    fn who_moves_is_one_thread() {
        let trace = "10 0 0 cr3 at=10 base=1000
11 0 0 sysret at=10 rax=0 fs=a
20 0 0 cr3 at=110 base=2000
20 0 0 sysret at=110 rax=0 fs=b
21 1 0 cr3 at=7010 base=1000
22 1 0 sysret at=7010 rax=0 fs=a
30 1 3 syscall at=7310 nr=1 fs=a rip=1
40 1 0 cr3 at=7310 base=2000
41 0 0 cr3 at=510 base=1000
42 0 0 sysret at=510 rax=0 fs=a
43 0 3 run at=510 end=43 end_at=510 class=512l v512l=1 fs=a rip=1";
        let expected =
            [Piece::Work(Kind::Scalar, 400), Piece::Syscall, Piece::Work(Kind::Light512, 1)];
        assert_eq!(read(trace).unwrap()[&("1000", "a")], expected);
        let fast = Speed { instructions_per_us: 3800.0, speed_up: 1.0 };
        assert!(workload(trace, fast).unwrap().contains("light512\", us = 0.001"));
    }

    #[test]
    fn a_workload_can_be_read_again() {
        let text = workload(TRACE, SPEED).unwrap();
        assert!(text.contains("{ work = \"light512\", us = 2.000, speed_up = 2 }"), "{text}");
        let read = file::read("it", &text).unwrap();
        assert_eq!((read.groups.len(), read.groups[0].steps.len()), (1, 7));
        assert_eq!(read.groups[0].work_of_request(0), 5000.0 + 2000.0 + 3000.0 + 2000.0);
    }

    #[test]
    fn heavy_work_is_heavy_only_if_it_is_dense() {
        let kind = |line: &str| kind_of(&event_of(line).unwrap(), 1000);
        let run = |values: &str| format!("1 0 3 run at=1 end_at=1000 {values}");
        assert_eq!(kind(&run("class=512h v512h=334")), Kind::Heavy512);
        assert_eq!(kind(&run("class=512h v512h=333 v512l=600")), Kind::Light512);
        assert_eq!(kind(&run("class=256h v256h=334")), Kind::Heavy256);
        for light in ["class=256h v256h=333", "class=256l v256l=900", "class=mask masks=900"] {
            assert_eq!(kind(&run(light)), Kind::Scalar);
        }
    }

    /// The traces have a run that never ends, and a thread with as many instructions as two CPUs
    /// can count.
    #[test]
    fn more_than_can_be_counted_is_refused() {
        let error = |trace: &str| workload(trace, SPEED).unwrap_err().to_string();
        let refused = "line 5 tells of more instructions than can be counted";
        let most = format!("end_at={}", u64::MAX);
        assert_eq!(error(&TRACE.replace("end_at=6099", &most)), refused);
        let trace = "10 0 0 cr3 at=0 base=1000
11 0 0 sysret at=10 rax=0 fs=a
12 1 0 cr3 at=0 base=1000
13 1 0 sysret at=0 rax=0 fs=a
20 0 0 interrupt at=18446744073709551615 vector=236 fs=a
21 1 0 interrupt at=18446744073709551615 vector=236 fs=a";
        assert_eq!(error(trace), refused.replace('5', "6"));
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let error = |trace: &str| workload(trace, SPEED).unwrap_err().to_string();
        assert_eq!(error("# a trace\nnone"), "line 2 is none of a trace");
        assert_eq!(error("1 0 3 syscall fs=a"), "line 1 is none of a trace");
        for (number, other) in [("end_at=6099", "end_at=x"), ("v512l=900", "v512h=-1")] {
            assert_eq!(error(&TRACE.replace(number, other)), "line 5 is none of a trace");
        }
        assert_eq!(error(""), "no thread in that trace uses 512-bit vectors");
    }
}
