// SPDX-License-Identifier: GPL-2.0-only
//! Programs that modelled machines run.

use std::cell::Cell;
use std::rc::Rc;

use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::engine::{Program, Step};
use super::model::Kind;

/// How the server encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    Scalar,
    Avx512,
}

/// A web server's worker under full load, which never has to wait for a request: it compresses,
/// encrypts, and writes, twice for each.
///
/// After a test of nginx with OpenSSL's ChaCha20-Poly1305 and brotli (M. Gottschlag, Y. Khalil and
/// F. Bellosa, "Automatic Core Specialization", and the thesis behind it): 9.1 million reference
/// cycles of 3.1 GHz for a request with siblings at work, 1.5 % of it in the cipher, which AVX-512
/// makes 1.589 times as fast in spite of its clock, and 2.2 first uses of AVX-512 in each.
pub struct Worker {
    random: Pcg64,
    /// Of what is between two bursts of encryption.
    scalar_ns: Option<Gamma<f64>>,
    cipher: Step,
    at: usize,
    requests: Rc<Cell<u64>>,
}

/// What a request takes of a CPU at its best.
const REQUEST_NS: f64 = 1_700_000.0;
const CIPHER_SHARE: f64 = 0.015;
const BURSTS: usize = 2;
/// In instructions, that is without what the lower clock costs: 1.589 times 3.8 over 3.3 GHz.
const SPEED_UP: f64 = 1.83;
/// Requests differ: the standard deviation is half of the mean.
const SHAPE: f64 = 4.0;

/// One write of a request.
const STEPS: usize = 3;

impl Worker {
    pub fn new(seed: u64, cipher: Cipher, requests: Rc<Cell<u64>>) -> Self {
        let burst = REQUEST_NS * CIPHER_SHARE / BURSTS as f64;
        let scalar = REQUEST_NS * (1.0 - CIPHER_SHARE) / BURSTS as f64;
        let cipher = match cipher {
            Cipher::Scalar => Step::Work(Kind::Scalar, burst),
            // Nearly all of it is light, and what is not is too sparse to count as heavy.
            Cipher::Avx512 => Step::Work(Kind::Light512, burst / SPEED_UP),
        };
        Self {
            random: Pcg64::seed_from_u64(seed),
            scalar_ns: Gamma::new(SHAPE, scalar / SHAPE).ok(),
            cipher,
            at: 0,
            requests,
        }
    }
}

impl Program for Worker {
    fn next(&mut self, _now: u64) -> Step {
        let at = self.at;
        self.at = (at + 1) % (STEPS * BURSTS);
        match at % STEPS {
            0 => {
                let ns = self.scalar_ns.map_or(0.0, |scalar| scalar.sample(&mut self.random));
                Step::Work(Kind::Scalar, ns)
            }
            1 => self.cipher,
            _ => {
                self.requests.set(self.requests.get() + u64::from(self.at == 0));
                Step::Syscall
            }
        }
    }
}
