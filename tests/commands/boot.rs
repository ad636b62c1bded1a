// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig boot`: one command in a guest, to look around.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::rig::machine::Machine;
use crate::rig::{Bochs, Flavour, Guest, Qemu, program};
use crate::suite::hiding::with_force;
use crate::suite::scheduler_program;

#[derive(clap::Args)]
pub struct Arguments {
    /// The machine: QEMU has any number of CPUs, Bochs has AVX-512 and oraclectl
    #[arg(long, value_enum, default_value = "qemu")]
    machine: MachineName,
    /// The kernel
    #[arg(long, value_enum, default_value = "patched")]
    kernel: KernelName,
    /// CPUs, each a core of one socket
    #[arg(long, default_value_t = 2)]
    cpus: usize,
    /// QEMU: sockets, each a cache and a node, with the cores of each and the threads of these
    #[arg(
        long,
        value_name = "S,C,T",
        value_delimiter = ',',
        num_args = 1,
        conflicts_with = "cpus"
    )]
    topology: Vec<usize>,
    /// QEMU: count time in instructions of so many nanoseconds
    #[arg(long, value_name = "NS")]
    counted: Option<u32>,
    /// Give Bochs the clock of a server: twenty times the instructions in a second
    #[arg(long)]
    servers_pace: bool,
    /// Bochs: keep what `oraclectl trace` tells between its start and stop in this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Seconds after which the guest is given up
    #[arg(long, default_value_t = 600)]
    limit: u64,
    /// A program to put into /usr/bin; compiled first if it is a .c file
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// Bring `rig force` along, which hides AVX-512 while it runs a command
    #[arg(long)]
    force: bool,
    /// What to run, as root
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MachineName {
    Qemu,
    Bochs,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum KernelName {
    Patched,
    Stock,
}

impl KernelName {
    pub fn flavour(self) -> Flavour {
        match self {
            KernelName::Patched => Flavour::Patched,
            KernelName::Stock => Flavour::Stock,
        }
    }
}

fn qemu(arguments: &Arguments) -> Result<Qemu> {
    let machine = match arguments.topology[..] {
        [] => Qemu::cpus(arguments.cpus),
        [sockets, cores, threads] => Qemu::topology(sockets, cores, threads).numa_nodes(sockets),
        _ => bail!("a topology is three numbers, as in --topology 4,8,2"),
    };
    Ok(match arguments.counted {
        Some(nanoseconds) => machine.counted_time(nanoseconds),
        None => machine,
    })
}

fn bochs(arguments: &Arguments) -> Bochs {
    let mut machine = Bochs::cpus(arguments.cpus);
    if arguments.servers_pace {
        machine = machine.at_a_servers_pace();
    }
    if arguments.trace.is_some() {
        machine = machine.traces();
    }
    machine
}

pub fn boot(arguments: &Arguments) -> Result<ExitCode> {
    let machine: Machine = match arguments.machine {
        MachineName::Qemu => qemu(arguments)?.into(),
        MachineName::Bochs => bochs(arguments).into(),
    };
    let is_bochs = matches!(machine, Machine::Bochs(_));
    ensure!(is_bochs || arguments.trace.is_none(), "only --machine bochs writes a --trace");
    let mut guest = Guest::new(machine, arguments.kernel.flavour()).program(&scheduler_program()?);
    for file in &arguments.program {
        let is_source = file.extension().is_some_and(|end| end == "c");
        guest = guest.program(&if is_source { program::compile(file)? } else { file.clone() });
    }
    if arguments.force {
        guest = with_force(guest)?;
    }
    let outcome = guest
        .command(&arguments.command.join(" "))
        .limit(arguments.limit)
        .streams()
        .boots_by_itself()
        .boot()?;
    if let Some(file) = &arguments.trace {
        fs::write(file, outcome.host_file("oracle.trace")?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let result = &outcome.commands[0];
    eprintln!(
        "rig: status {}; {:.2} s by the guest's clock; booted in {:.1} s, {:.1} s in all",
        result.status,
        result.seconds,
        outcome.boot.as_secs_f64(),
        outcome.elapsed.as_secs_f64()
    );
    Ok(ExitCode::from(u8::try_from(result.status).unwrap_or(1)))
}
