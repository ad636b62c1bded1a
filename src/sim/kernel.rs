// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's side of a simulation, which is in C beside the scheduler: see kernel.c.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

use super::failure::Failure;
use crate::bpf::intf::{
    avx_clocks, avx_cpu_stats, avx_event, avx_policy_in_force, avx_tier, avx_topology,
};
use crate::bpf::places::{cpus_per_core, name_by_first_cpu};

/// A task, of which the C code knows what is in it.
#[repr(C)]
struct Opaque {
    private: [u8; 0],
}

/// As kernel.h has it.
#[repr(C)]
struct SimCall {
    task: *mut Opaque,
    callback: u32,
}

/// As kernel.h has it.
#[repr(C)]
struct SimFailure {
    rule: [c_char; 256],
    at: u64,
    callback: u32,
    pid: i32,
}

/// In the order of enum sim_callback.
const CALLBACKS: [&str; 9] = [
    "enable",
    "select_cpu",
    "enqueue",
    "dispatch",
    "running",
    "disable",
    "cpu_release",
    "hidden_used",
    "syscall_done",
];

/// The words of a mask of CPUs.
pub const MASK_WORDS: usize = 16;
/// Of a machine.
pub const CPUS_MAX: usize = MASK_WORDS * 64;

mod native {
    use super::{
        MASK_WORDS, Opaque, SimCall, SimFailure, avx_clocks, avx_cpu_stats, avx_event,
        avx_policy_in_force, avx_topology,
    };

    unsafe extern "C" {
        pub fn sim_reset(
            nr_cpus: u32,
            nr_llcs: u32,
            cpus_per_core: u32,
            tier: u32,
            topology: *const avx_topology,
            clocks: *const avx_clocks,
            policy: *const avx_policy_in_force,
        );
        pub fn sim_attach() -> i32;
        pub fn sim_detach();
        pub fn sim_attach_again(
            nr_llcs: u32,
            cpus_per_core: u32,
            tier: u32,
            topology: *const avx_topology,
            clocks: *const avx_clocks,
            policy: *const avx_policy_in_force,
        ) -> i32;
        pub fn sim_is_attached() -> bool;
        pub fn sim_set_policy(policy: *const avx_policy_in_force);
        pub fn sim_failure() -> *const SimFailure;
        pub fn sim_note_calls();
        pub fn sim_noted_calls(calls: *mut *const SimCall) -> u32;
        pub fn sim_set_time(now: u64);
        pub fn sim_task_new(
            parent: *mut Opaque,
            is_thread: bool,
            weight: u32,
            cgroup: u64,
            cpu: u32,
        ) -> *mut Opaque;
        pub fn sim_task_allow(
            task: *mut Opaque,
            words: *const [u64; MASK_WORDS],
            asks_itself: bool,
        );
        pub fn sim_task_weigh(task: *mut Opaque, weight: u32, asks_itself: bool);
        pub fn sim_task_be_realtime(task: *mut Opaque, is_realtime: bool, asks_itself: bool);
        pub fn sim_task_exit(task: *mut Opaque);
        pub fn sim_wake(task: *mut Opaque, waker_cpu: u32);
        pub fn sim_block(cpu: u32);
        pub fn sim_yield(cpu: u32);
        pub fn sim_schedule(cpu: u32);
        pub fn sim_tick(cpu: u32, by: u32, code: *const u8);
        pub fn sim_set_counts(cpu: u32, counts: *const [u64; 3]);
        pub fn sim_fault(cpu: u32, code: *const u8);
        pub fn sim_syscall(cpu: u32);
        #[cfg(test)]
        pub fn sim_exec(cpu: u32, told: bool);
        pub fn sim_hint(cpu: u32, hint: u64);
        pub fn sim_end_hint(cpu: u32);
        pub fn sim_take_cpu(cpu: u32);
        pub fn sim_give_cpu(cpu: u32);
        pub fn sim_set_online(cpu: u32, is_online: bool);
        pub fn sim_audit();
        pub fn sim_current(cpu: u32) -> *mut Opaque;
        pub fn sim_task_cpu(task: *const Opaque) -> u32;
        pub fn sim_task_ran(task: *const Opaque) -> u64;
        pub fn sim_task_waived(task: *mut Opaque) -> u64;
        pub fn sim_task_moves(task: *const Opaque) -> u64;
        pub fn sim_task_waits_since(task: *const Opaque) -> u64;
        pub fn sim_task_is_hidden(task: *const Opaque) -> bool;
        pub fn sim_task_has_wide(task: *mut Opaque, has: bool);
        pub fn sim_take_resched(cpu: *mut u32) -> bool;
        pub fn sim_next_timer(at: *mut u64) -> bool;
        pub fn sim_run_timer();
        pub fn sim_stats(cpu: u32) -> *const avx_cpu_stats;
        pub fn sim_nr_avx_cpus() -> u32;
        pub fn sim_is_avx_core(cpu: u32) -> bool;
        #[cfg(test)]
        pub fn sim_suspected_at(cpu: u32) -> u64;
        pub fn sim_follow();
        pub fn sim_take_event(event: *mut avx_event) -> bool;
    }
}

/// There is one, as on a machine.
static THE_KERNEL: Mutex<()> = Mutex::new(());

/// Where a CPU is that is offline.
const NOWHERE: avx_topology = avx_topology {
    core: 0,
    llc: 0,
    node: 0,
    next_llc: 0,
    core_cpus: 0,
    sibling: 0,
    online: 0,
    usable: 0,
};

/// When a simulation begins: time 0 means "never" to the scheduler.
pub const BEGIN_NS: u64 = 1_000_000_000;

/// The kernel with the scheduler attached; whoever has it has it alone.
pub struct Kernel {
    _alone: MutexGuard<'static, ()>,
    /// With all CPUs, as the machine began.
    places: Vec<avx_topology>,
    clocks: avx_clocks,
    is_online: Vec<bool>,
    tier: avx_tier,
    policy: avx_policy_in_force,
}

/// A task of the present kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Task(*mut Opaque);

/// Bytes of code, more than any instruction has.
pub type Code = [u8; 16];

impl Kernel {
    /// `places` has one for each CPU, and `clocks` what the scheduler knows of them.
    pub fn boot(
        places: &[avx_topology],
        clocks: &avx_clocks,
        tier: avx_tier,
        policy: &avx_policy_in_force,
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
        // SAFETY: there are as many places as CPUs, and nobody else is in the kernel.
        let error = unsafe {
            native::sim_reset(nr_cpus, llcs, per_core, tier, places, clocks, policy);
            native::sim_attach()
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

    /// As the agent reads it: of a CPU that is offline nothing is known.
    fn present_places(&self) -> Vec<avx_topology> {
        let cpus = || (0..).zip(&self.places).zip(&self.is_online);
        let groups: BTreeMap<u32, [usize; 3]> = cpus()
            .filter(|(_, is_online)| **is_online)
            .map(|((cpu, it), _)| (cpu, [it.core, it.llc, it.node].map(|id| id as usize)))
            .collect();
        let isolated =
            cpus().filter(|((_, it), _)| it.usable == 0).map(|((cpu, _), _)| cpu).collect();
        let present = name_by_first_cpu(&groups, &isolated);
        cpus().map(|((cpu, _), _)| present.get(&cpu).copied().unwrap_or(NOWHERE)).collect()
    }

    pub fn is_online(&self, cpu: u32) -> bool {
        self.is_online.get(cpu as usize).copied().unwrap_or(false)
    }

    pub fn nr_cpus(&self) -> u32 {
        self.places.len() as u32
    }

    /// What the kernel would have ejected the scheduler for.
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

    pub fn set_policy(&mut self, policy: &avx_policy_in_force) {
        self.policy = *policy;
        // SAFETY: the policy is copied.
        unsafe { native::sim_set_policy(policy) }
    }

    /// From now on it is noted which callbacks are called of which task.
    pub fn note_calls(&mut self) {
        // SAFETY: a flag is stored.
        unsafe { native::sim_note_calls() }
    }

    /// In their order.
    pub fn noted_calls(&self) -> Vec<(Task, &'static str)> {
        let mut calls = std::ptr::null();
        // SAFETY: there are as many calls as it says, until the next one is noted.
        let calls = unsafe {
            match native::sim_noted_calls(&mut calls) {
                0 => &[],
                nr => std::slice::from_raw_parts(calls, nr as usize),
            }
        };
        let name = |call: &SimCall| CALLBACKS.get(call.callback as usize).copied().unwrap_or("?");
        calls.iter().map(|call| (Task(call.task), name(call))).collect()
    }

    pub fn set_time(&mut self, now: u64) {
        // SAFETY: a number is stored.
        unsafe { native::sim_set_time(now) }
    }

    /// A process of its own, or a thread of the one of `parent`.
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
        unsafe { native::sim_task_allow(task.0, cpus, asks_itself) }
    }

    pub fn weigh(&mut self, task: Task, weight: u32, asks_itself: bool) {
        // SAFETY: see above.
        unsafe { native::sim_task_weigh(task.0, weight, asks_itself) }
    }

    pub fn be_realtime(&mut self, task: Task, is_realtime: bool, asks_itself: bool) {
        // SAFETY: see above.
        unsafe { native::sim_task_be_realtime(task.0, is_realtime, asks_itself) }
    }

    /// A task that does not run; it is gone afterwards.
    pub fn exit(&mut self, task: Task) {
        // SAFETY: see above.
        unsafe { native::sim_task_exit(task.0) }
    }

    pub fn wake(&mut self, task: Task, waker_cpu: u32) {
        // SAFETY: see above; CPUs are those of this machine.
        unsafe { native::sim_wake(task.0, waker_cpu) }
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

    /// Some CPUs have no ticks, and others do it for them.
    pub fn tick_by(&mut self, by: u32, cpu: u32, code: &'static Code) {
        // SAFETY: no more is read than the longest instruction has, which is less.
        unsafe { native::sim_tick(cpu, by, code.as_ptr()) }
    }

    /// What counters that tell of the CPU's clock have counted by now.
    pub fn set_counts(&mut self, cpu: u32, counts: [u64; 3]) {
        // SAFETY: no more is read than there is.
        unsafe { native::sim_set_counts(cpu, &raw const counts) }
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

    pub fn hint(&mut self, cpu: u32, hint: u64) {
        // SAFETY: see above.
        unsafe { native::sim_hint(cpu, hint) }
    }

    /// The program that heard of it ends.
    pub fn end_hint(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_end_hint(cpu) }
    }

    /// For a realtime task.
    pub fn take_cpu(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_take_cpu(cpu) }
    }

    pub fn give_cpu(&mut self, cpu: u32) {
        // SAFETY: see above.
        unsafe { native::sim_give_cpu(cpu) }
    }

    /// The scheduler does not hear of it.
    pub fn set_online(&mut self, cpu: u32, is_online: bool) {
        if let Some(it) = self.is_online.get_mut(cpu as usize) {
            *it = is_online;
            // SAFETY: see above.
            unsafe { native::sim_set_online(cpu, is_online) }
        }
    }

    /// Whether all that has to hold between two events does.
    pub fn audit(&self) -> Result<()> {
        // SAFETY: what is written is what the audit itself keeps.
        unsafe { native::sim_audit() }
        self.check()
    }

    pub fn current(&self, cpu: u32) -> Option<Task> {
        // SAFETY: see above.
        let task = unsafe { native::sim_current(cpu) };
        (!task.is_null()).then_some(Task(task))
    }

    /// The next CPU that has to schedule.
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

    /// When the scheduler last looked by its clock whether there was AVX work on the CPU.
    #[cfg(test)]
    pub fn suspected_at(&self, cpu: u32) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_suspected_at(cpu) }
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

    pub fn cpu_of(&self, task: Task) -> u32 {
        // SAFETY: see above.
        unsafe { native::sim_task_cpu(task.0) }
    }

    /// For how long it has run, as the kernel accounts for it: with each tick and switch.
    pub fn ran(&self, task: Task) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_task_ran(task.0) }
    }

    /// Of that time, for how much it does not pay.
    pub fn waived(&self, task: Task) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_task_waived(task.0) }
    }

    pub fn moves(&self, task: Task) -> u64 {
        // SAFETY: see above.
        unsafe { native::sim_task_moves(task.0) }
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

    pub fn set_wide_registers(&mut self, task: Task, has: bool) {
        // SAFETY: see above.
        unsafe { native::sim_task_has_wide(task.0, has) }
    }
}

/// Of caches, and of CPUs of a core.
fn counts(places: &[avx_topology]) -> (u32, u32) {
    let online = || places.iter().filter(|place| place.online != 0);
    let llcs: BTreeSet<u32> = online().map(|place| place.llc).collect();
    (llcs.len() as u32, cpus_per_core(online()))
}
