// SPDX-License-Identifier: GPL-2.0-only
//! What runs on a machine, and what sends to it from outside.

use super::channels::Channel;
use super::{Code, Task};
use crate::sim::machine::caches::Footprint;
use crate::sim::machine::model::Kind;

/// Returns one instruction of such work that can be hidden, if there is any. All work that is light
/// and of 256 bits is taken to be the C library's string functions, which have the encoding of
/// AVX-512.
pub fn code_of(kind: Kind) -> Option<&'static Code> {
    // vpaddq of ymm16 to ymm18, and of zmm0 to zmm2.
    const EVEX256: Code = *b"\x62\xa1\xf5\x20\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
    const EVEX512: Code = *b"\x62\xf1\xf5\x48\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
    match kind {
        Kind::Scalar | Kind::Heavy256 => None,
        Kind::Light256 => Some(&EVEX256),
        Kind::Light512 | Kind::Heavy512 => Some(&EVEX512),
    }
}

/// Returns the code at which the tick finds what runs. Of wide code, one sample in four is heavy
/// arithmetic if it has that, another one is light, and the others are what is between them. All
/// programs call the C library's string functions now and then.
pub fn sample_of(kind: Option<Kind>, nth: u64) -> &'static Code {
    const SCALAR: Code = *b"\x48\x01\xd8\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
    // vmulpd of ymm0 to ymm2, vpaddq of the same, vmulpd and vpaddq of zmm0 to zmm2.
    const HEAVY256: Code = *b"\xc5\xf5\x59\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
    const LIGHT256: Code = *b"\xc5\xf5\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
    const HEAVY512: Code = *b"\x62\xf1\xf5\x48\x59\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
    const LIGHT512: Code = *b"\x62\xf1\xf5\x48\xd4\xc2\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
    match (kind, nth % 4) {
        (None, _) | (Some(_), 2..) => &SCALAR,
        (Some(Kind::Heavy512), 0) => &HEAVY512,
        (Some(Kind::Heavy512 | Kind::Light512), _) => &LIGHT512,
        (Some(Kind::Heavy256), 0) => &HEAVY256,
        (Some(Kind::Heavy256 | Kind::Light256 | Kind::Scalar), _) => &LIGHT256,
    }
}

pub fn is_wide(kind: Kind) -> bool {
    matches!(kind, Kind::Light512 | Kind::Heavy512)
}

/// What a program does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Does so many nanoseconds of work.
    Work(Kind, f64),
    Syscall,
    /// Says what its work is: enum avx_hint_value. No workload does that.
    #[cfg_attr(not(test), allow(dead_code))]
    Hint(u64),
    Sleep(u64),
    /// Lets others run first, in a system call that does not end with that.
    Yield,
    /// Waits for something to come through the channel.
    Wait(Channel),
    /// Sends something through the channel, after so many nanoseconds.
    Send(Channel, u64),
    /// Ends, and leaves the program to another task, which begins.
    Succeed,
    /// Ends. No workload does that, because each task that ends has a successor.
    #[cfg_attr(not(test), allow(dead_code))]
    Exit,
}

/// What a thread executes.
pub trait Program {
    fn next(&mut self, now: u64) -> Step;

    /// Returns a name for people to read.
    fn name(&self) -> &str {
        "a program"
    }

    /// What it waited for has come, and was sent at that time.
    fn received(&mut self, _sent_at: u64) {}

    /// Returns the share of the footprint that is used by the work that was given last.
    fn uses(&self) -> f64 {
        1.0
    }
}

/// Sends from outside of the machine.
pub trait Source {
    /// Returns when it sends next, and through which channel, or None if it is done.
    fn next(&mut self) -> Option<(u64, Channel)>;
}

/// The process that a new task is in, what it counts for, and what it uses again and again.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// The first task of the process, unless this is it.
    pub process: Option<Task>,
    pub weight: u32,
    pub cgroup: u64,
    pub footprint: Footprint,
}
