// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig profile`: which functions of the kernel a workload spends instructions in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use super::boot::KernelName;
use crate::rig::{Bochs, bpf, program};
use crate::suite::hiding::with_force;
use crate::suite::{scheduler_guest, script};

#[derive(clap::Args)]
pub struct Arguments {
    /// CPUs
    #[arg(long, default_value_t = 1)]
    cpus: usize,
    /// The kernel
    #[arg(long, value_enum, default_value = "patched", conflicts_with = "instead")]
    kernel: KernelName,
    /// Arguments of the scheduler
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    scheduler: String,
    /// Another scheduler, as the source of a BPF program
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler")]
    instead: Option<PathBuf>,
    /// A program to put into /usr/bin; compiled first
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// How often the workload does whatever is to be accounted for, between its calls
    /// RESET and SNAPSHOT of the oracle
    #[arg(long, default_value_t = 1)]
    per: u64,
    /// Functions to show
    #[arg(long, default_value_t = 60)]
    top: usize,
    /// The workload
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

const SYMBOLS: &str = "/tmp/symbols";

pub fn profile(arguments: &Arguments) -> Result<ExitCode> {
    let machine = Bochs::cpus(arguments.cpus).at_a_servers_pace().profiles();
    let mut guest = scheduler_guest(machine, arguments.kernel.flavour())?.collect(SYMBOLS);
    for file in &arguments.program {
        guest = guest.program(&program::compile(file)?);
    }
    // The functions of BPF programs have names as long as they are loaded.
    let body = format!(
        "{} && dd if=/proc/kallsyms of={SYMBOLS} bs=64k 2>/dev/null",
        arguments.command.join(" ")
    );
    let guest = match &arguments.instead {
        Some(source) => with_force(guest)?
            .file("/instead.o", &bpf::compile(source)?)
            .command(&format!("rig force --object /instead.o -- sh -c '{body}'")),
        None => guest.command(&script(&format!(
            "start_scheduler {}\n{body} || fail\nstop_scheduler",
            arguments.scheduler
        ))),
    };
    let outcome = guest.limit(1800).boot()?;
    outcome.all_succeeded()?;
    let symbols = symbols_in(&String::from_utf8_lossy(&outcome.file(SYMBOLS)?));
    let places = String::from_utf8(outcome.host_file("oracle.profile")?)?;
    print!("{}", outcome.stdout(0)?);
    show(&functions_in(&places, &symbols, arguments.per)?, arguments.top);
    Ok(ExitCode::SUCCESS)
}

/// Functions by their addresses.
type Symbols = BTreeMap<u64, String>;

fn symbols_in(kallsyms: &str) -> Symbols {
    kallsyms
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_function = words.next()?.eq_ignore_ascii_case("t");
            is_function.then_some(())?;
            Some((address, words.next()?.to_owned()))
        })
        .collect()
}

/// What a function has of each turn.
#[derive(Default)]
struct Cost {
    instructions: f64,
    calls: f64,
}

fn functions_in(places: &str, symbols: &Symbols, per: u64) -> Result<BTreeMap<String, Cost>> {
    let profiles = places.lines().filter(|line| *line == "profile").count();
    ensure!(profiles > 0, "the workload took no snapshot of the oracle's counters");
    let turns = (per * profiles as u64) as f64;
    let mut functions: BTreeMap<String, Cost> = BTreeMap::new();
    for line in places.lines().filter(|line| *line != "profile") {
        let (address, count) = line.split_once(' ').context("an address and a number")?;
        let address = u64::from_str_radix(address, 16)?;
        let each = count.parse::<u64>()? as f64 / turns;
        let (start, name) = symbols.range(..=address).next_back().context("a symbol")?;
        let cost = functions.entry(name.clone()).or_default();
        cost.instructions += each;
        if *start == address {
            cost.calls += each;
        }
    }
    Ok(functions)
}

fn show(functions: &BTreeMap<String, Cost>, top: usize) {
    let mut rows: Vec<_> = functions.iter().collect();
    rows.sort_by(|(_, a), (_, b)| b.instructions.total_cmp(&a.instructions));
    let all: f64 = rows.iter().map(|(_, cost)| cost.instructions).sum();
    println!("instructions    calls  function");
    println!("{all:12.1}           all");
    for (name, cost) in rows.into_iter().take(top) {
        println!("{:12.1} {:8.2}  {name}", cost.instructions, cost.calls);
    }
}
