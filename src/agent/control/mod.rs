// SPDX-License-Identifier: GPL-2.0-only
//! The control socket: the policy is shown and changed while the scheduler runs. A line of JSON
//! asks, another one answers, and that was the connection.

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
