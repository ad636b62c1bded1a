// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's side of a simulation, which is in C beside the scheduler: see kernel.c.

mod accounts;
mod blame;
mod changes;
pub mod channels;
pub mod engine;
mod event;
mod failure;
pub mod program;
mod steps;

#[cfg(test)]
mod caches_test;
#[cfg(test)]
mod calls_test;
#[cfg(test)]
mod changes_test;
#[cfg(test)]
mod confined_test;
#[cfg(test)]
mod engine_test;
#[cfg(test)]
mod fair_test;
#[cfg(test)]
mod retry_test;
#[cfg(test)]
mod room_test;
#[cfg(test)]
mod rules_test;
#[cfg(test)]
mod siblings_test;
#[cfg(test)]
mod stalls_test;
#[cfg(test)]
mod turns_test;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

pub use self::failure::BEGIN_NS;
use self::failure::Failure;
use crate::bpf::intf::{
    avx_clocks, avx_cpu_stats, avx_event, avx_policy_in_force, avx_tier, avx_topology,
};
use crate::bpf::names::by_number;
use crate::bpf::places::{cpus_per_core, name_by_first_cpu};

/// The bindings of kernel.h.
#[allow(clippy::all, clippy::restriction)]
#[allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals)]
pub mod native {
    include!(concat!(env!("OUT_DIR"), "/sim_kernel.rs"));
}

const CALLBACKS: [&str; native::SIM_NO_CALLBACK as usize] = by_number([
    (native::SIM_ENABLE, "enable"),
    (native::SIM_SELECT_CPU, "select_cpu"),
    (native::SIM_ENQUEUE, "enqueue"),
    (native::SIM_DISPATCH, "dispatch"),
    (native::SIM_YIELD, "yield"),
    (native::SIM_RUNNING, "running"),
    (native::SIM_DISABLE, "disable"),
    (native::SIM_CPU_RELEASE, "cpu_release"),
    (native::SIM_HIDDEN_USED, "hidden_used"),
    (native::SIM_SYSCALL_DONE, "syscall_done"),
]);

/// The words of a mask of CPUs.
pub const MASK_WORDS: usize = native::SIM_MASK_WORDS as usize;
/// How many CPUs a machine may have.
pub const CPUS_MAX: usize = native::SIM_CPUS_MAX as usize;

/// What decides which task runs where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The scheduler, which is loaded.
    Ext,
    /// The kernel itself: no scheduler is loaded.
    Fair,
}

/// There is one kernel, as on a machine.
static THE_KERNEL: Mutex<()> = Mutex::new(());

/// The kernel, with the scheduler attached or without. There is only one at a time.
pub struct Kernel {
    _alone: MutexGuard<'static, ()>,
    /// The places of all CPUs, as they were when the machine began.
    places: Vec<avx_topology>,
    clocks: avx_clocks,
    is_online: Vec<bool>,
    tier: avx_tier,
    policy: avx_policy_in_force,
}

/// A task of the present kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Task(pub(super) *mut native::sim_task);

/// Bytes of code, more than any instruction has.
pub type Code = [u8; 16];

impl Kernel {
    /// Boots the kernel. `places` has one for each CPU, and `clocks` is what the scheduler knows of
    /// clocks, if the scheduler is what decides.
    pub fn boot(
        places: &[avx_topology],
        clocks: &avx_clocks,
        tier: avx_tier,
        policy: &avx_policy_in_force,
        class: Class,
    ) -> Result<Self> {
        let alone = THE_KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
        let places = places.to_vec();
        let nr_cpus = u32::try_from(places.len())?;
        if nr_cpus == 0 || nr_cpus as usize > CPUS_MAX {
            bail!("a machine has 1 to {CPUS_MAX} CPUs, not {nr_cpus}");
        }
        let is_online = places.iter().map(|place| place.online != 0).collect();
        let kernel =
            Self { _alone: alone, places, clocks: *clocks, is_online, tier, policy: *policy };
        let (llcs, per_core) = counts(&kernel.places);
        let places = kernel.places.as_ptr();
        // SAFETY: there are as many places as CPUs, and no other thread is in the kernel.
        let error = unsafe {
            native::sim_reset(nr_cpus, llcs, per_core, tier, places, clocks, policy);
            if class == Class::Ext { native::sim_attach() } else { 0 }
        };
        kernel.is_attached_unless(error)?;
        Ok(kernel)
    }

    fn is_attached_unless(&self, error: i32) -> Result<()> {
        if error != 0 {
            bail!("the scheduler cannot be attached: error {error}");
        }
        self.check()
    }

    /// The kernel goes on without the scheduler.
    pub fn detach(&mut self) {
        // SAFETY: all tasks are of this kernel.
        unsafe { native::sim_detach() }
    }

    pub fn is_attached(&self) -> bool {
        // SAFETY: a flag is read.
        unsafe { native::sim_is_attached() }
    }

    /// The scheduler is loaded once more, for the CPUs that are online now.
    pub fn attach_again(&mut self) -> Result<()> {
        let places = self.present_places();
        let (llcs, per_core) = counts(&places);
        // SAFETY: there are as many places as CPUs, and the policy is copied.
        let error = unsafe {
            native::sim_attach_again(
                llcs,
                per_core,
                self.tier,
                places.as_ptr(),
                &self.clocks,
                &self.policy,
            )
        };
        self.is_attached_unless(error)
    }

    /// Returns the places as the agent reads them: of a CPU that is offline nothing is known.
    fn present_places(&self) -> Vec<avx_topology> {
        let cpus = || (0..).zip(&self.places).zip(&self.is_online);
        let groups: BTreeMap<u32, [usize; 3]> = cpus()
            .filter(|(_, is_online)| **is_online)
            .map(|((cpu, it), _)| (cpu, [it.core, it.llc, it.node].map(|id| id as usize)))
            .collect();
        let isolated =
            cpus().filter(|((_, it), _)| it.usable == 0).map(|((cpu, _), _)| cpu).collect();
        let present = name_by_first_cpu(&groups, &isolated);
        cpus().map(|((cpu, _), _)| present.get(&cpu).copied().unwrap_or_default()).collect()
    }

    pub fn is_online(&self, cpu: u32) -> bool {
        self.is_online.get(cpu as usize).copied().unwrap_or(false)
    }

    pub fn nr_cpus(&self) -> u32 {
        self.places.len() as u32
    }

    /// Returns what the kernel would have ejected the scheduler for.
    pub fn failure(&self) -> Option<Failure> {
        // SAFETY: what is there, if anything is, stays there, and its text ends with a zero.
        unsafe {
            let failure = native::sim_failure().as_ref()?;
            Some(Failure {
                at: failure.at,
                occasion: None,
                callback: CALLBACKS.get(failure.callback as usize).copied(),
                task: (failure.pid > 0).then_some(failure.pid),
                what: CStr::from_ptr(failure.rule.as_ptr()).to_string_lossy().into_owned(),
            })
        }
    }

    fn check(&self) -> Result<()> {
        match self.failure() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }

    pub fn set_time(&mut self, now: u64) {
        // SAFETY: a number is stored.
        unsafe { native::sim_set_time(now) }
    }

    /// Makes a task: a process of its own, or a thread of the process of `parent`.
    pub fn spawn(
        &mut self,
        parent: Option<Task>,
        is_thread: bool,
        weight: u32,
        cgroup: u64,
        cpu: u32,
    ) -> Task {
        let parent = parent.map_or(std::ptr::null_mut(), |task| task.0);
        // SAFETY: a parent is a task of this kernel that did not exit.
        Task(unsafe { native::sim_task_new(parent, is_thread, weight, cgroup, cpu) })
    }

    pub fn allow(&mut self, task: Task, cpus: &[u64; MASK_WORDS], asks_itself: bool) {
        // SAFETY: tasks are of this kernel and did not exit, here and below.
        unsafe { native::sim_task_allow(task.0, cpus.as_ptr(), asks_itself) }
    }

    pub fn weigh(&mut self, task: Task, weight: u32, asks_itself: bool) {
        // SAFETY: see above.
        unsafe { native::sim_task_weigh(task.0, weight, asks_itself) }
    }

    pub fn be_realtime(&mut self, task: Task, is_realtime: bool, asks_itself: bool) {
        // SAFETY: see above.
        unsafe { native::sim_task_be_realtime(task.0, is_realtime, asks_itself) }
    }

    /// Ends a task that does not run. It is gone afterwards.
    pub fn exit(&mut self, task: Task) {
        // SAFETY: see above.
        unsafe { native::sim_task_exit(task.0) }
    }

    pub fn wake_by_timer(&mut self, task: Task) {
        let cpu = self.cpu_of(task);
        // SAFETY: see above; CPUs are those of this machine.
        unsafe { native::sim_wake(task.0, cpu, 0) }
    }

    /// Something comes through a pipe or a socket. Both say that the waker is about to sleep,
    /// whether or not it is.
    pub fn wake_by_message(&mut self, task: Task, waker_cpu: u32) {
        // SAFETY: see above; CPUs are those of this machine.
        unsafe { native::sim_wake(task.0, waker_cpu, native::SCX_WAKE_SYNC.into()) }
    }

    pub fn block(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_block(cpu) }
    }

    /// What runs on the CPU lets others run first.
    pub fn let_others_run(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_yield(cpu) }
    }

    pub fn schedule(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_schedule(cpu) }
    }

    /// What runs on the CPU, if anything, is interrupted at this code.
    pub fn tick(&mut self, cpu: u32, code: &'static Code) {
        self.tick_by(cpu, cpu, code);
    }

    /// Some CPUs have no ticks, and others tick for them.
    pub fn tick_by(&mut self, by: u32, cpu: u32, code: &'static Code) {
        // SAFETY: no more is read than the longest instruction has, which is less.
        unsafe { native::sim_tick(cpu, by, code.as_ptr()) }
    }

    /// Sets what the counters that tell of the CPU's clock have counted by now.
    pub fn set_counts(&mut self, cpu: u32, counts: [u64; 3]) {
        // SAFETY: no more is read than there is.
        unsafe { native::sim_set_counts(cpu, counts.as_ptr()) }
    }

    pub fn fault(&mut self, cpu: u32, code: &Code) {
        // SAFETY: no more is read than the longest instruction has, which is less.
        unsafe { native::sim_fault(cpu, code.as_ptr()) }
    }

    pub fn syscall(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_syscall(cpu) }
    }

    /// What runs on the CPU begins another program, of which the scheduler is told or not.
    #[cfg(test)]
    pub fn exec(&mut self, cpu: u32, told: bool) {
        // SAFETY: see above.
        unsafe { native::sim_exec(cpu, told) }
    }

    /// Leaves a program alone, as the agent does with one that says that it gets less done with
    /// AVX cores.
    #[cfg(test)]
    pub fn leave_alone(&mut self, task: Task) {
        // SAFETY: see above.
        unsafe { native::sim_leave_alone(task.0) }
    }

    pub fn hint(&mut self, cpu: u32, hint: u64) {
        // SAFETY: see above.
        unsafe { native::sim_hint(cpu, hint) }
    }

    /// The BPF program that heard of the hint ends.
    pub fn end_hint(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_end_hint(cpu) }
    }

    /// A realtime task takes the CPU.
    pub fn take_cpu(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_take_cpu(cpu) }
    }

    pub fn give_cpu(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_give_cpu(cpu) }
    }

    /// A CPU goes or comes. The scheduler does not hear of it.
    pub fn set_online(&mut self, cpu: u32, is_online: bool) {
        if let Some(it) = self.is_online.get_mut(cpu as usize) {
            *it = is_online;
            // SAFETY: see above.
            unsafe { native::sim_set_online(cpu, is_online) }
        }
    }

    pub fn current(&self, cpu: u32) -> Option<Task> {
        // SAFETY: see above.
        let task = unsafe { native::sim_current(cpu) };
        (!task.is_null()).then_some(Task(task))
    }

    /// Returns the next CPU that has to schedule.
    pub fn take_resched(&mut self) -> Option<u32> {
        let mut cpu = 0;
        // SAFETY: the number is written if there is one.
        unsafe { native::sim_take_resched(&mut cpu) }.then_some(cpu)
    }

    pub fn next_timer(&self) -> Option<u64> {
        let mut at = 0;
        // SAFETY: the number is written if there is one.
        unsafe { native::sim_next_timer(&mut at) }.then_some(at)
    }

    pub fn run_timer(&mut self) {
        // SAFETY: timers are of this scheduler.
        unsafe { native::sim_run_timer() }
    }

    pub fn stats(&self, cpu: u32) -> avx_cpu_stats {
        // SAFETY: there are statistics of each CPU that there may be.
        unsafe { *native::sim_stats(cpu) }
    }

    pub fn nr_avx_cores(&self) -> u32 {
        // SAFETY: a number is read.
        unsafe { native::sim_nr_avx_cpus() }
    }

    pub fn is_avx_core(&self, cpu: u32) -> bool {
        // SAFETY: see above.
        unsafe { native::sim_is_avx_core(cpu) }
    }

    /// Returns when the scheduler last looked by the CPU's clock whether there was AVX work there.
    #[cfg(test)]
    pub fn suspected_at(&self, cpu: u32) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_suspected_at(cpu) }
    }

    pub fn cpu_of(&self, task: Task) -> u32 {
        // SAFETY: see above.
        unsafe { native::sim_task_cpu(task.0) }
    }

    /// Returns for how long the task has run. The kernel accounts for that with each tick and
    /// switch.
    pub fn ran(&self, task: Task) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_task_ran(task.0) }
    }

    /// Returns for how much of the time that it ran the task does not pay.
    pub fn waived(&self, task: Task) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_task_waived(task.0) }
    }

    pub fn moves(&self, task: Task) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_task_moves(task.0) }
    }

    /// Returns for how long the task has waited for a CPU in all.
    pub fn waited(&self, task: Task) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_task_waited(task.0) }
    }

    pub fn waits_since(&self, task: Task) -> Option<u64> {
        // SAFETY: see above.
        let since = unsafe { native::sim_task_waits_since(task.0) };
        (since > 0).then_some(since)
    }

    pub fn is_hidden_from(&self, task: Task) -> bool {
        // SAFETY: see above.
        unsafe { native::sim_task_is_hidden(task.0) }
    }

    pub fn set_policy(&mut self, policy: &avx_policy_in_force) {
        self.policy = *policy;
        // SAFETY: the policy is copied.
        unsafe { native::sim_set_policy(policy) }
    }

    pub fn set_wide_registers(&mut self, task: Task, has: bool) {
        // SAFETY: see above.
        unsafe { native::sim_task_has_wide(task.0, has) }
    }
}

// Only trials and tests ask for these.
#[cfg_attr(not(test), allow(dead_code))]
impl Kernel {
    /// Notes from now on which callbacks are called of which task.
    pub fn note_calls(&mut self) {
        // SAFETY: a flag is stored.
        unsafe { native::sim_note_calls() }
    }

    /// Returns the noted calls in their order.
    pub fn noted_calls(&self) -> Vec<(Task, &'static str)> {
        let mut calls = std::ptr::null();
        // SAFETY: there are as many calls as it says, until the next one is noted.
        let calls = unsafe {
            match native::sim_noted_calls(&mut calls) {
                0 => &[],
                nr => std::slice::from_raw_parts(calls, nr as usize),
            }
        };
        let name =
            |call: &native::sim_call| CALLBACKS.get(call.callback as usize).copied().unwrap_or("?");
        calls.iter().map(|call| (Task(call.task), name(call))).collect()
    }

    /// Fails unless all holds that has to hold between two events.
    pub fn audit(&self) -> Result<()> {
        // SAFETY: what is written is what the audit itself keeps.
        unsafe { native::sim_audit() }
        self.check()
    }

    /// From now on the scheduler tells what happens.
    pub fn follow(&mut self) {
        // SAFETY: a number is stored.
        unsafe { native::sim_follow() }
    }

    pub fn take_event(&mut self) -> Option<avx_event> {
        let mut event = MaybeUninit::uninit();
        // SAFETY: the event is written if there is one.
        unsafe { native::sim_take_event(event.as_mut_ptr()).then(|| event.assume_init()) }
    }
}

/// Returns how many caches there are, and how many CPUs a core has.
fn counts(places: &[avx_topology]) -> (u32, u32) {
    let online = || places.iter().filter(|place| place.online != 0);
    let llcs: BTreeSet<u32> = online().map(|place| place.llc).collect();
    (llcs.len() as u32, cpus_per_core(online()))
}
