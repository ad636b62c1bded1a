// SPDX-License-Identifier: GPL-2.0-only
//! Who occupies AVX cores, from the emulator's trace.
//!
//! A thread, which is known by its FS base, does AVX work from its first wide instruction,
//! or the fault that announces it, to its next system call, and otherwise scalar work. AVX
//! cores are the CPUs on which any wide instruction is executed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

/// How often it is looked who is where, in ticks of the emulator.
const LOOK_EVERY: u64 = 1000;

const INVALID_OPCODE: &str = "6";

/// Of all looks those at which a scalar CPU was idle, and of these those at which an AVX core
/// did scalar work; and that though there was a better place for it: a core that idled, or half
/// of one for who shared its own.
#[derive(Debug, Default, PartialEq)]
pub struct Looks {
    pub with_idle_scalar: u64,
    pub with_scalar_on_avx: u64,
    pub with_better_place: u64,
}

/// A line of the trace.
struct Event<'a> {
    tick: u64,
    cpu: usize,
    from_user: bool,
    name: &'a str,
    /// What else it says, by name.
    values: BTreeMap<&'a str, &'a str>,
}

fn events_in(trace: &str) -> Result<Vec<Event<'_>>> {
    let lines = trace.lines().filter(|line| !line.starts_with('#'));
    let mut events = lines.map(event_of).collect::<Result<Vec<_>>>()?;
    // Runs of vector instructions are written when they end.
    events.sort_by_key(|event| event.tick);
    Ok(events)
}

fn event_of(line: &str) -> Result<Event<'_>> {
    let mut words = line.split(' ');
    let mut next = || words.next().with_context(|| format!("a torn line of a trace: {line}"));
    let (tick, cpu) = (next()?.parse()?, next()?.parse()?);
    let (from_user, name) = (next()? == "3", next()?);
    let values = words.filter_map(|word| word.split_once('=')).collect();
    Ok(Event { tick, cpu, from_user, name, values })
}

/// What a CPU does.
#[derive(Clone, Copy, Default, PartialEq)]
enum Doing {
    #[default]
    Kernel,
    Sleep,
    Scalar,
    Avx,
}

pub fn looks_at(trace: &str, threads_per_core: usize) -> Result<Looks> {
    let events = events_in(trace)?;
    let is_wide = |event: &Event| event.values.get("class").is_some_and(|it| it.starts_with("512"));
    let avx_cores: BTreeSet<usize> =
        events.iter().filter(|event| is_wide(event)).map(|event| event.cpu).collect();
    let count = events.iter().map(|event| event.cpu + 1).max().unwrap_or(0);

    let mut looks = Looks::default();
    let mut doing = vec![Doing::default(); count];
    let mut in_burst = BTreeSet::new();
    let mut next_look = events.first().map_or(0, |event| event.tick);
    for event in &events {
        while next_look < event.tick {
            looks.look(&doing, &avx_cores, threads_per_core);
            next_look += LOOK_EVERY;
        }
        let thread = event.values.get("fs").copied().unwrap_or_default();
        let announces = event.name == "exception" && event.values["vector"] == INVALID_OPCODE;
        if is_wide(event) || (announces && event.from_user) {
            in_burst.insert(thread);
        } else if event.name == "syscall" {
            in_burst.remove(thread);
        }
        doing[event.cpu] = match event.name {
            "halt" => Doing::Sleep,
            "wake" | "syscall" | "exception" | "interrupt" | "softint" => Doing::Kernel,
            "sysret" | "iret" | "run" if in_burst.contains(thread) => Doing::Avx,
            "sysret" | "iret" => Doing::Scalar,
            _ => doing[event.cpu],
        };
    }
    Ok(looks)
}

impl Looks {
    fn look(&mut self, doing: &[Doing], avx_cores: &BTreeSet<usize>, threads_per_core: usize) {
        let all = 0..doing.len();
        let core_of = |cpu: usize| {
            let first = cpu / threads_per_core * threads_per_core;
            first..doing.len().min(first + threads_per_core)
        };
        let is_avx = |cpu: usize| avx_cores.contains(&cpu);
        let idles = |cpu: usize| doing[cpu] == Doing::Sleep;
        let is_idle_scalar = |cpu: usize| !is_avx(cpu) && idles(cpu);
        let is_stray = |cpu: usize| is_avx(cpu) && doing[cpu] == Doing::Scalar;
        let shares = |cpu: usize| core_of(cpu).any(|other| other != cpu && !idles(other));
        if !all.clone().any(is_idle_scalar) {
            return;
        }
        let is_core_idle = all.clone().any(|cpu| core_of(cpu).all(is_idle_scalar));
        self.with_idle_scalar += 1;
        self.with_scalar_on_avx += u64::from(all.clone().any(is_stray));
        self.with_better_place +=
            u64::from(all.clone().any(|cpu| is_stray(cpu) && (is_core_idle || shares(cpu))));
    }
}
