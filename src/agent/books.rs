// SPDX-License-Identifier: GPL-2.0-only
//! Reads what the BPF programs keep in their maps.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::{MapCore, MapFlags};

use crate::bpf::intf::{
    NR_QUEUE_KINDS, avx_book, avx_cpu_role, avx_cpu_stats, avx_event, avx_light_fault, avx_owner,
    avx_process, avx_progress, avx_queue_kind, queue_ctx, task_ctx,
};
use crate::bpf::skel::BpfSkel;

/// Returns the statistics of each possible CPU.
pub fn cpu_stats(skel: &BpfSkel<'_>) -> Result<Vec<avx_cpu_stats>> {
    let per_cpu = skel
        .maps
        .cpu_stats
        .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
        .context("cannot read the statistics")?
        .context("the kernel holds no statistics")?;
    per_cpu.iter().map(|bytes| parse(bytes)).collect()
}

/// Reads the roles of all possible CPUs, at the price of one call.
fn look_at_roles(skel: &BpfSkel<'_>, nr_cpu_ids: u32) -> Result<Vec<avx_cpu_role>> {
    // There is room for one more. Otherwise the kernel is asked again whether that was all.
    let rows = skel.maps.cpu_roles.lookup_batch(nr_cpu_ids + 1, MapFlags::ANY, MapFlags::ANY);
    let rows = rows.context("cannot read what the CPUs are")?;
    let roles: Vec<_> = rows.map(|(_, role)| parse(&role)).collect::<Result<_>>()?;
    ensure!(roles.len() == nr_cpu_ids as usize, "the kernel tells of {} CPUs", roles.len());
    Ok(roles)
}

/// Reads the roles until two looks in a row agree, at most four times. A look while a role is being
/// written might count a time twice, and that time would be less at the next look. Few looks are
/// needed until two agree.
pub fn roles(skel: &BpfSkel<'_>) -> Result<Vec<avx_cpu_role>> {
    let nr_cpu_ids = skel.maps.cpu_roles.max_entries();
    let content = |role: &avx_cpu_role| (role.changes, role.since, role.avx_ns);
    let mut last = look_at_roles(skel, nr_cpu_ids)?;
    for _ in 0..3 {
        let again = look_at_roles(skel, nr_cpu_ids)?;
        if again.iter().map(content).eq(last.iter().map(content)) {
            return Ok(again);
        }
        last = again;
    }
    Ok(last)
}

/// Returns the books of programs in cgroups.
pub fn ledgers(skel: &BpfSkel<'_>) -> Vec<(avx_owner, avx_book)> {
    rows(&skel.maps.ledgers)
}

/// Returns one light fault of each program that had any.
pub fn light_faults(skel: &BpfSkel<'_>) -> Vec<(avx_owner, avx_light_fault)> {
    rows(&skel.maps.light_faults)
}

/// Reads all rows of a map. A row that goes away meanwhile is left out. Because this makes the
/// kernel begin again, other rows may be met twice, so they are collected by their keys.
fn rows<T: Plain>(map: &impl MapCore) -> Vec<(avx_owner, T)> {
    let row = |key: Vec<u8>| {
        let value = map.lookup(&key, MapFlags::ANY).ok()??;
        let row = (parse(&key).ok()?, parse(&value).ok()?);
        Some((key, row))
    };
    let rows: BTreeMap<_, _> = map.keys().filter_map(row).collect();
    rows.into_values().collect()
}

/// Reads what programs got done. No program goes away from this map.
pub fn progress(programs: &impl MapCore) -> Result<Vec<(avx_owner, avx_progress)>> {
    let row = |key: Vec<u8>| {
        let it = programs.lookup(&key, MapFlags::ANY).context("cannot read what programs do")?;
        it.map(|it| Ok((parse(&key)?, parse(&it)?))).transpose()
    };
    programs.keys().filter_map(|key| row(key).transpose()).collect()
}

/// Sums up the books whose owners have the same key.
pub fn summed<K: Ord>(
    ledgers: &[(avx_owner, avx_book)],
    key: impl Fn(&avx_owner) -> K,
) -> BTreeMap<K, avx_book> {
    let mut sums: BTreeMap<K, avx_book> = BTreeMap::new();
    for (owner, book) in ledgers {
        sums.entry(key(owner)).and_modify(|sum| add(sum, book)).or_insert(*book);
    }
    sums
}

fn add(sum: &mut avx_book, book: &avx_book) {
    let counts = |sums: &mut [u64], counts: &[u64]| {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    };
    counts(&mut sum.phases, &book.phases);
    counts(&mut sum.ends, &book.ends);
    counts(&mut sum.faults, &book.faults);
    sum.avx_ns += book.avx_ns;
    sum.scalar_ns += book.scalar_ns;
    sum.sent_to_avx += book.sent_to_avx;
    sum.sent_to_scalar += book.sent_to_scalar;
    sum.watched_ns += book.watched_ns;
    sum.lost_ns += book.lost_ns;
}

/// Returns how many tasks wait in a queue of a CPU, or of the cache whose first CPU it is.
pub fn waiting(skel: &BpfSkel<'_>, cpu: u32, kind: avx_queue_kind) -> Result<u64> {
    let queue = cpu * NR_QUEUE_KINDS + kind;
    let bytes = skel
        .maps
        .queues
        .lookup(&queue.to_ne_bytes(), MapFlags::ANY)
        .with_context(|| format!("cannot look into queue {queue}"))?;
    let queue: queue_ctx = parse(&bytes.with_context(|| format!("there is no queue {queue}"))?)?;
    Ok(queue.nr_waiting)
}

/// Parses an event that a BPF program wrote.
pub fn event(bytes: &[u8]) -> Result<avx_event> {
    parse(bytes)
}

/// Reads what is known of a thread, and what is known of its process, if anything is. It is an
/// error if nothing is known of the thread.
pub fn task(skel: &BpfSkel<'_>, thread: i32) -> Result<(task_ctx, Option<avx_process>)> {
    let task = of_thread(&skel.maps.tasks, thread)?;
    let process = match first_thread_of(thread)? {
        Some(first) => of_thread(&skel.maps.processes, first)?,
        None => None,
    };
    Ok((task.with_context(|| format!("nothing is known of thread {thread}"))?, process))
}

/// Returns the message that tells a client that the thread it watches is gone. The client knows it
/// by nothing else.
pub fn no_such_thread(thread: i32) -> String {
    format!("there is no thread {thread}")
}

fn of_thread<T: Plain>(map: &impl MapCore, thread: i32) -> Result<Option<T>> {
    let pidfd = match open_thread(thread) {
        Err(error) if is_gone(&error) => bail!("{}", no_such_thread(thread)),
        other => other.with_context(|| format!("cannot look at thread {thread}"))?,
    };
    let bytes = map
        .lookup(&pidfd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
        .with_context(|| format!("cannot read what is known of thread {thread}"))?;
    bytes.map(|bytes| parse(&bytes)).transpose()
}

/// Returns the first thread of its process. There is none if the thread is gone, or if `/proc`
/// hides the threads of others (`hidepid`).
fn first_thread_of(thread: i32) -> Result<Option<i32>> {
    let status = match fs::read_to_string(format!("/proc/{thread}/status")) {
        Err(error) if is_gone(&error) || is_hidden(&error) => return Ok(None),
        other => other.with_context(|| format!("cannot look at thread {thread}"))?,
    };
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    let first = number.and_then(|it| it.trim().parse().ok());
    Ok(Some(first.context("the kernel tells of no process")?))
}

/// Returns true if the thread is gone, before its directory was opened or afterwards.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Returns true if `hidepid=1` hides the thread. With `hidepid=2` it seems to be gone.
fn is_hidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn open_thread(thread: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory, and the result is a descriptor that nothing owns yet.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, thread, libc::PIDFD_THREAD);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

/// Types of which any bytes are a value, except for flags, which only BPF programs write.
trait Plain: Copy {}
impl Plain for u64 {}
impl Plain for avx_book {}
impl Plain for avx_cpu_role {}
impl Plain for avx_cpu_stats {}
impl Plain for avx_event {}
impl Plain for avx_light_fault {}
impl Plain for avx_owner {}
impl Plain for avx_process {}
impl Plain for avx_progress {}
impl Plain for queue_ctx {}
impl Plain for task_ctx {}

fn parse<T: Plain>(bytes: &[u8]) -> Result<T> {
    ensure!(bytes.len() >= size_of::<T>(), "the kernel's answer is shorter than it should be");
    // SAFETY: the length was checked, the type says that the bytes are a value of it, and the read
    // does not ask for alignment.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
