// SPDX-License-Identifier: GPL-2.0-only
//! The control socket, by which the policy is shown and changed while the scheduler runs. A line of
//! JSON asks, another one answers, and the connection is closed.

mod access;
mod client;
mod host;
mod protocol;
pub mod stream;

#[cfg(test)]
mod host_test;

pub use access::Peer;
pub use client::ask;
pub use host::{Pending, serve};
pub use protocol::{Answer, Request};
