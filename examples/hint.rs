// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! How a thread tells scx_avxspec what its work is, and how much it has done, in Rust:
//! `cargo run --example hint`.
//!
//! The header contrib/hints/scx_avxspec_hints.h says what a hint means and what it needs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::BPF_F_WRONLY;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

const MAP: &str = "/sys/fs/bpf/scx_avxspec_hints";

/// What a thread may say of its work.
#[derive(Clone, Copy)]
enum Work {
    Scalar,
    Avx512,
}

/// Opened by each thread for itself, once.
struct Hints {
    map: MapHandle,
    thread: OwnedFd,
    work: Work,
    /// In whatever the program counts what it gets done.
    done: u64,
}

impl Hints {
    fn open() -> io::Result<Self> {
        // The right to write is enough.
        let map = MapHandle::from_pinned_path_with_file_flags(MAP, BPF_F_WRONLY)
            .map_err(io::Error::other)?;
        // SAFETY: neither call touches memory, and the result is a descriptor that nobody owns yet.
        let thread = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, libc::gettid(), libc::PIDFD_THREAD);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        Ok(Self { map, thread, work: Work::Scalar, done: 0 })
    }

    /// From now on the thread does this work.
    fn hint(&mut self, work: Work) -> io::Result<()> {
        self.work = work;
        self.say()
    }

    /// The thread has done so much more.
    fn done(&mut self, more: u64) -> io::Result<()> {
        self.done = self.done.wrapping_add(more);
        self.say()
    }

    fn say(&self) -> io::Result<()> {
        let key = self.thread.as_fd().as_raw_fd().to_ne_bytes();
        let value = [self.work as u64, self.done, 0, 0].map(u64::to_ne_bytes).concat();
        self.map.update(&key, &value, MapFlags::ANY).map_err(io::Error::other)
    }
}

fn main() -> io::Result<()> {
    let mut hints = Hints::open()?;
    hints.hint(Work::Avx512)?;
    println!("AVX work, on CPU {}", cpu()?);
    hints.hint(Work::Scalar)?;
    hints.done(1)?;
    println!("scalar work, on CPU {}", cpu()?);
    Ok(())
}

/// The one that the kernel says this thread is on.
fn cpu() -> io::Result<String> {
    let stat = io::read_to_string(File::open("/proc/thread-self/stat")?)?;
    let behind_the_name = stat.rsplit(')').next().unwrap_or_default();
    Ok(behind_the_name.split_whitespace().nth(36).unwrap_or("?").to_owned())
}
