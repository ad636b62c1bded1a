// SPDX-License-Identifier: GPL-2.0-only
//! Tells what programs get done. BPF programs measure it, which are loaded as long as a `Meter`
//! exists.

use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapMut, Object, ObjectBuilder, OpenObject, ProgramInput, ProgramMut,
    libbpf_sys,
};
use scx_utils::NR_CPU_IDS;
use tracing::debug;

use crate::agent::books;
use crate::agent::counters::Instructions;
use crate::agent::hints;
use crate::bpf::PROGRESS_OBJECT;
use crate::bpf::intf::{avx_owner, avx_progress};

/// The program that the agent calls on each CPU. The kernel does not call it.
const TELL: &str = "progress_tell";
/// The program that hears what threads themselves say that they have done.
const SAID: &str = "progress_said";

pub struct Meter {
    object: Object,
    cpus: Vec<u32>,
    _links: Vec<Link>,
    /// The counters of instructions, where these can be counted.
    _instructions: Option<Instructions>,
}

/// Has the programs hear how much threads say that they have done, if the kernel tells when they
/// do.
fn hear_of_hints(object: &mut OpenObject) -> Result<()> {
    let is_told = hints::are_told()?;
    if let Some(mut program) = object.progs_mut().find(|it| it.name() == SAID) {
        program.set_autoload(is_told);
    }
    let place = Path::new(hints::PLACE);
    if is_told && place.exists() {
        let mut map = object.maps_mut().find(|map| map.name() == "hints");
        let map = map.as_mut().context("there is no map of hints")?;
        map.reuse_pinned_map(place).context("cannot read what threads say")?;
    }
    Ok(())
}

impl Meter {
    pub fn start(cpus: Vec<u32>) -> Result<Self> {
        let mut object = ObjectBuilder::default().open_memory(PROGRESS_OBJECT)?;
        let nr_cpu_ids = u32::try_from(*NR_CPU_IDS).context("too many CPUs")?;
        let mut counters = object.maps_mut().find(|map| map.name() == "counters");
        counters.as_mut().context("there are no counters")?.set_max_entries(nr_cpu_ids)?;
        hear_of_hints(&mut object)?;
        let mut object = object.load().context("cannot load the programs that measure")?;
        let instructions = Self::count_instructions(&mut object, &cpus)
            .inspect_err(|error| debug!("instructions are not counted: {error:#}"));
        let listening =
            object.progs_mut().filter(|program| program.name() != TELL && program.autoload());
        let attach = |program: ProgramMut<'_>| {
            program.attach().with_context(|| format!("cannot attach {:?}", program.name()))
        };
        let links = listening.map(attach).collect::<Result<_>>()?;
        Ok(Self { object, cpus, _links: links, _instructions: instructions.ok() })
    }

    fn count_instructions(object: &mut Object, cpus: &[u32]) -> Result<Instructions> {
        let instructions = Instructions::open(cpus)?;
        let map = object.maps_mut().find(|map| map.name() == "counters");
        let map: MapMut<'_> = map.context("there are no counters")?;
        for (cpu, event) in instructions.events() {
            map.update(&cpu.to_ne_bytes(), &event.to_ne_bytes(), MapFlags::ANY)?;
        }
        Ok(instructions)
    }

    /// Returns what programs have done since the meter was started.
    pub fn progress(&self) -> Result<Vec<(avx_owner, avx_progress)>> {
        self.have_all_told()?;
        let programs = self.object.maps().find(|map| map.name() == "programs");
        books::progress(&programs.context("the kernel has no books of programs")?)
    }

    /// Has each CPU tell what the task that runs there has done so far.
    fn have_all_told(&self) -> Result<()> {
        let mut all = self.object.progs_mut();
        let tell = all.find(|program| program.name() == TELL).context("nobody tells")?;
        for cpu in &self.cpus {
            let flags = libbpf_sys::BPF_F_TEST_RUN_ON_CPU;
            let on_it = ProgramInput { cpu: *cpu, flags, ..Default::default() };
            tell.test_run(on_it).with_context(|| format!("CPU {cpu} does not tell"))?;
        }
        Ok(())
    }
}
