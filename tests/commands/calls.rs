// SPDX-License-Identifier: GPL-2.0-only
//! `rig calls`, inside a guest: runs commands, each a line of its input, while it notes which
//! callbacks of the scheduler that runs the kernel calls for them, and prints these: for each
//! command itself, and then a line for each callback, with the task.

use std::cell::RefCell;
use std::io::{BufRead, stdin};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    Link, MapCore, Object, ObjectBuilder, OpenObject, ProgramMut, RingBufferBuilder, libbpf_sys,
};

const OBJECT: &str = "/calls.o";

/// The kernel keeps so much of a program's name.
const NAME_MAX: usize = 15;

pub fn calls() -> Result<ExitCode> {
    let mut object = ObjectBuilder::default().open_file(Path::new(OBJECT))?;
    let targets = aim(&mut object)?;
    let mut object = object.load().context("cannot load the programs")?;
    drop(targets);
    let _links = attach(&mut object)?;

    for command in stdin().lock().lines() {
        let command = command?;
        println!("= {command}");
        let status = Command::new("sh").args(["-c", &command]).status();
        // Whoever ended is told of a little later.
        std::thread::sleep(Duration::from_millis(200));
        for [task, callback] in noted(&object)? {
            println!("{task} {callback}");
        }
        let status = status.with_context(|| format!("cannot run {command}"))?;
        ensure!(status.success(), "{command} failed: {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Programs of the scheduler that are there where AVX-512 can be hidden.
const OF_HIDING: [&str; 2] = ["avxspec_hidden_used", "avxspec_syscall_done"];

/// At programs of the scheduler, and not at the kernel.
fn is_aimed(name: &str) -> bool {
    name.starts_with("avxspec_")
}

/// At the programs of the scheduler that have the same names, which have to be open until all is
/// loaded.
fn aim(object: &mut OpenObject) -> Result<Vec<OwnedFd>> {
    let mut targets = Vec::new();
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if !is_aimed(&name) {
            continue;
        }
        let short = name.get(..NAME_MAX).unwrap_or(&name);
        let target = match running_program(short)? {
            Some(target) => target,
            None if OF_HIDING.contains(&name.as_str()) => {
                program.set_autoload(false);
                continue;
            }
            None => bail!("no program {short} runs"),
        };
        program
            .set_attach_target(target.as_raw_fd(), Some(name.clone()))
            .with_context(|| format!("cannot aim at {name}"))?;
        targets.push(target);
    }
    Ok(targets)
}

fn running_program(name: &str) -> Result<Option<OwnedFd>> {
    let mut all = ProgInfoIter::default();
    let Some(found) = all.find(|program| program.name.to_string_lossy() == name) else {
        return Ok(None);
    };
    let id = found.id;
    // SAFETY: the call touches no memory, and the result is a descriptor that nobody owns yet.
    unsafe {
        let fd = libbpf_sys::bpf_prog_get_fd_by_id(id);
        ensure!(fd >= 0, "cannot open the program {name}: error {fd}");
        Ok(Some(OwnedFd::from_raw_fd(fd)))
    }
}

fn attach(object: &mut Object) -> Result<Vec<Link>> {
    let attach = |program: ProgramMut<'_>| {
        let name = program.name().to_string_lossy().into_owned();
        program.attach().with_context(|| format!("cannot attach to {name}"))
    };
    object.progs_mut().filter(|program| program.autoload()).map(attach).collect()
}

fn noted(object: &Object) -> Result<Vec<[String; 2]>> {
    let map = object.maps().find(|map| map.name() == "calls").context("there is no map")?;
    let all = RefCell::new(Vec::new());
    let mut builder = RingBufferBuilder::new();
    builder.add(&map, |bytes: &[u8]| {
        let text = |bytes: &[u8]| {
            let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        let (task, callback) = bytes.split_at(bytes.len() / 2);
        all.borrow_mut().push([text(task), text(callback)]);
        0
    })?;
    builder.build()?.consume()?;
    Ok(all.into_inner())
}
