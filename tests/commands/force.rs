// SPDX-License-Identifier: GPL-2.0-only
//! `rig force`, inside a guest: runs a command under the scheduler of
//! `tests/guest/hiding/force.bpf.c`, which hides xfeatures without mercy, and prints
//! what that scheduler counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{Link, Map, MapCore, MapFlags, MapType, Object, ObjectBuilder};

const STATE: &str = "/sys/kernel/sched_ext/state";

#[derive(clap::Args)]
pub struct Arguments {
    /// The compiled scheduler
    #[arg(long, default_value = "/force.o")]
    object: PathBuf,

    /// Knobs of the scheduler, as name=number
    #[arg(long = "set", value_name = "KNOB")]
    knobs: Vec<String>,

    /// What to run meanwhile
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn force(arguments: &Arguments) -> Result<ExitCode> {
    let btf = Btf::from_path(&arguments.object)
        .with_context(|| format!("cannot read {}", arguments.object.display()))?;
    let mut object = ObjectBuilder::default().open_file(&arguments.object)?.load()?;
    set_knobs(&btf, &object, &arguments.knobs)?;
    let links = attach(&mut object)?;

    let (program, rest) = arguments.command.split_first().context("no command")?;
    let status = Command::new(program).args(rest).status();

    let state = fs::read_to_string(STATE)?;
    drop(links);
    show_counts(&btf, &object)?;
    // An object without a scheduler of its own hides under whichever comes.
    let has_scheduler = object.maps().any(|map| map.map_type() == MapType::StructOps);
    ensure!(
        !has_scheduler || state.trim() == "enabled",
        "the kernel ejected the scheduler: it is {}",
        state.trim()
    );
    let status = status.with_context(|| format!("cannot run {program}"))?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(255))?))
}

/// All tracing programs first: the scheduler goes to work as it is attached.
fn attach(object: &mut Object) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        if program.prog_type() == libbpf_rs::ProgramType::Tracing {
            let name = program.name().to_string_lossy().into_owned();
            links.push(program.attach().with_context(|| format!("cannot attach {name}"))?);
        }
    }
    for mut map in object.maps_mut() {
        if map.map_type() == MapType::StructOps {
            links.push(map.attach_struct_ops().context("cannot attach the scheduler")?);
        }
    }
    Ok(links)
}

fn map_named<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object
        .maps()
        .find(|map| map.name() == name)
        .with_context(|| format!("the object has no map {name}"))
}

fn set_knobs(btf: &Btf<'_>, object: &Object, knobs: &[String]) -> Result<()> {
    if knobs.is_empty() && map_named(object, "knobs").is_err() {
        return Ok(());
    }
    let ids = ids_of(btf, "knob")?;
    let map = map_named(object, "knobs")?;
    let set = |name: &str, value: u64| -> Result<()> {
        let id = ids.get(name).with_context(|| format!("there is no knob {name:?}"))?;
        Ok(map.update(&id.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)?)
    };
    set("cpus", std::thread::available_parallelism()?.get() as u64)?;
    for knob in knobs {
        let (name, value) = knob.split_once('=').context("a knob is set as name=number")?;
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        set(name, value.with_context(|| knob.clone())?)?;
    }
    Ok(())
}

fn show_counts(btf: &Btf<'_>, object: &Object) -> Result<()> {
    let Ok(map) = map_named(object, "counts") else {
        return Ok(());
    };
    for (name, id) in ids_of(btf, "count")? {
        let per_cpu = map.lookup_percpu(&id.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
        let sum: u64 = per_cpu
            .iter()
            .filter_map(|bytes| bytes.as_slice().try_into().ok())
            .map(u64::from_ne_bytes)
            .sum();
        println!("{name}={sum}");
    }
    Ok(())
}

/// The members of an enum of the object, without the prefix that they share
/// with its name: of "knob", KNOB_MIGRATE is "migrate".
fn ids_of(btf: &Btf<'_>, name: &str) -> Result<BTreeMap<String, u32>> {
    let members: types::Enum<'_> =
        btf.type_by_name(name).with_context(|| format!("the object has no enum {name}"))?;
    let prefix = format!("{}_", name.to_uppercase());
    let ids = members
        .iter()
        .filter_map(|member| {
            let text = member.name.and_then(OsStr::to_str)?;
            let id = u32::try_from(member.value).ok()?;
            Some((text.strip_prefix(&prefix)?.to_lowercase(), id))
        })
        .collect();
    Ok(ids)
}
