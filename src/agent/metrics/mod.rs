// SPDX-License-Identifier: GPL-2.0-only
//! Metrics for Prometheus, over HTTP.
//!
//! The threads that serve HTTP never look into the kernel. They ask the scheduler's main loop
//! for a snapshot, one at a time, and make text of it.

mod connection;
mod exposition;
mod families;
mod http;
mod process;
mod shown;
pub mod snapshot;
pub mod source;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use tracing::{info, warn};

pub use exposition::reference;
use source::Exporter;

/// Where metrics are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Listen {
    Off,
    At(SocketAddr),
}

impl Default for Listen {
    fn default() -> Self {
        Self::At(SocketAddr::from(([127, 0, 0, 1], 9829)))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| {
            "write an address in numbers and a port, as in 127.0.0.1:9829, or off".to_owned()
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => out.write_str("off"),
            Self::At(address) => address.fmt(out),
        }
    }
}

/// Opens the socket, which outlives the restarts of the scheduler. Where that fails, tasks are
/// scheduled without anybody being told.
pub fn serve(listen: Listen) -> Exporter {
    let (exporter, source) = source::channel();
    if let Listen::At(address) = listen {
        match http::serve(address, source) {
            Ok(bound) => info!("metrics at http://{bound}/metrics"),
            Err(error) => warn!("no metrics, choose another address with --metrics: {error:#}"),
        }
    }
    exporter
}

#[cfg(test)]
mod contrib_test;
#[cfg(test)]
mod exposition_test;
#[cfg(test)]
mod http_test;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_off() {
        assert_eq!("off".parse(), Ok(Listen::Off));
        assert_eq!("127.0.0.1:9829".parse(), Ok(Listen::default()));
        assert!("[::1]:80".parse::<Listen>().is_ok());
        for bad in ["", "on", "127.0.0.1", "localhost:9829", ":9829", "1.2.3.4:99999"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn an_address_that_is_taken_stops_nobody() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let exporter = serve(Listen::At(taken.local_addr().unwrap()));
        assert!(exporter.requests().try_recv().is_err_and(|error| error.is_empty()));
    }
}
