// SPDX-License-Identifier: GPL-2.0-only
//! What the agent itself takes of the machine.

use std::fs;

/// Memory that is resident, in bytes, and CPU time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub resident_bytes: u64,
    pub cpu_ns: u64,
}

impl Usage {
    /// Returns what the agent takes now. What cannot be read is 0, because metrics are no reason to
    /// fail.
    pub fn now() -> Self {
        let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|it| resident_in(&it));
        // SAFETY: sysconf() has no preconditions.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        Self { resident_bytes: pages.unwrap_or(0) * page, cpu_ns: cpu_ns() }
    }
}

/// Returns the resident memory in pages.
fn resident_in(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the object that it is given, which outlives it. When it fails it
    // writes nothing, and the time is 0.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_used_time() {
        let usage = Usage::now();
        assert!(usage.resident_bytes > 100_000 && usage.cpu_ns > 0, "{usage:?}");
        assert_eq!(resident_in("10 7 3 1 0 2 0\n"), Some(7));
        assert_eq!(resident_in("10"), None);
    }
}
