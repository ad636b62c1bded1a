// SPDX-License-Identifier: GPL-2.0-only
//! Host CPUs, handed out to guests that run at the same time.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

struct Pool {
    free: Mutex<usize>,
    returned: Condvar,
    total: usize,
}

/// CPUs of the host, held until this is dropped.
pub struct Slots {
    count: usize,
}

/// Waits until `wanted` CPUs are free; more than there are is all of them.
pub fn take(wanted: usize) -> Slots {
    let pool = pool();
    let count = wanted.clamp(1, pool.total);
    waiting_for(|| {
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free < count {
            free = pool.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= count;
    });
    Slots { count }
}

/// Does what keeps this thread waiting for others.
pub fn waiting_for<T>(wait: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = wait();
    WAITED.set(WAITED.get() + begun.elapsed());
    result
}

/// How long this thread has waited for CPUs so far.
pub fn waited() -> Duration {
    WAITED.get()
}

/// All CPUs of the host.
pub fn total() -> usize {
    pool().total
}

impl Drop for Slots {
    fn drop(&mut self) {
        let pool = pool();
        *pool.free.lock().unwrap_or_else(PoisonError::into_inner) += self.count;
        pool.returned.notify_all();
    }
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let total = std::thread::available_parallelism().map_or(1, usize::from);
        Pool { free: Mutex::new(total), returned: Condvar::new(), total }
    })
}
