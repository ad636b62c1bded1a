// SPDX-License-Identifier: GPL-2.0-only
//! The slots in which BPF programs find the policy in force.
//!
//! There are several slots. A policy is written into one that no program reads, and one store makes
//! it the one that all of them read. A program that found the old policy may still decide by it, so
//! the old slot stays as it is until all these decisions are made. Only the kernel knows when that
//! is, and it takes its time to say so. There are enough slots to change the policy several times
//! meanwhile.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use tracing::warn;

use super::policy::{self, InForce};
use super::setup::as_bytes;
use crate::bpf::intf;
use crate::bpf::skel::BpfSkel;

pub struct Slots {
    readers: Readers,
    retired: Retired,
}

/// The slots before the one in force by whose policies a program may still decide.
#[derive(Default)]
struct Retired {
    nr: u32,
    /// True once it was logged that waiting failed, so that this is not logged again and again.
    is_said: bool,
}

impl Slots {
    pub fn new() -> Result<Self> {
        Ok(Self { readers: Readers::new()?, retired: Retired::default() })
    }

    /// Puts a policy into force, for each decision that begins after this.
    pub fn put(&mut self, skel: &mut BpfSkel<'_>, new: &InForce, licence_drop: u64) -> Result<()> {
        if self.retired.nr == intf::AVX_POLICY_SLOTS - 1 {
            self.retired.end(|| self.readers.wait())?;
        }
        let new = InForce { policy: policy::on_cpu(&new.policy, licence_drop), ..*new };
        let in_force = intf::avx_policy_in_force {
            generation: new.generation,
            checksum: checksum_of(&new),
            policy: new.policy,
        };
        let variables =
            skel.maps.bss_data.as_mut().context("the BPF programs have no variables")?;
        // SAFETY: it is aligned and lives as long as the programs, and this is all that accesses it
        // from here.
        let looked_at = unsafe { AtomicU32::from_ptr(&raw mut variables.policy_slot) };
        let free = (looked_at.load(Ordering::Relaxed) + 1) % intf::AVX_POLICY_SLOTS;
        skel.maps
            .policies
            .update(&free.to_ne_bytes(), as_bytes(&in_force), MapFlags::ANY)
            .context("cannot write the policy")?;
        looked_at.store(free, Ordering::Release);
        self.retired.nr += 1;
        Ok(())
    }

    /// Waits for programs that may still decide by an old policy. It is called when there is time,
    /// so that a change of the policy does not have to wait for the kernel.
    pub fn wait_for_late_readers(&mut self) {
        if let Some(error) = self.retired.try_to_end(|| self.readers.wait()) {
            warn!("{error:#}: it is tried again");
        }
    }
}

impl Retired {
    /// Frees the retired slots. When `wait` returns, no program decides by them any more. If it
    /// cannot wait, they stay retired.
    fn end(&mut self, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.nr > 0 {
            wait().context("cannot wait for who decides by an old policy")?;
        }
        *self = Self::default();
        Ok(())
    }

    /// Tries to free the retired slots. A failure is no reason to stop scheduling, because there is
    /// time to try again. Returns the error if it is to be logged.
    fn try_to_end(&mut self, wait: impl FnOnce() -> Result<()>) -> Option<anyhow::Error> {
        let error = self.end(wait).err()?;
        (!std::mem::replace(&mut self.is_said, true)).then_some(error)
    }
}

/// The BPF programs that run. When a map of maps is written to, the kernel returns once all
/// programs have ended that may have found what was there before. This map has no other purpose.
struct Readers {
    outer: MapHandle,
    inner: MapHandle,
}

impl Readers {
    fn new() -> Result<Self> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let create = |kind, options: &libbpf_sys::bpf_map_create_opts| {
            let size = size_of::<u32>() as u32;
            MapHandle::create(kind, Some("readers"), size, size, 1, options)
                .context("cannot create a map")
        };
        let inner = create(MapType::Array, &options)?;
        let inner_map_fd = inner.as_fd().as_raw_fd() as u32;
        let of_maps = libbpf_sys::bpf_map_create_opts { inner_map_fd, ..options };
        Ok(Self { outer: create(MapType::ArrayOfMaps, &of_maps)?, inner })
    }

    fn wait(&self) -> Result<()> {
        let inner = self.inner.as_fd().as_raw_fd().to_ne_bytes();
        Ok(self.outer.update(&0u32.to_ne_bytes(), &inner, MapFlags::ANY)?)
    }
}

/// Computes the checksum in the same way as the BPF programs.
fn checksum_of(new: &InForce) -> u64 {
    let words = as_bytes(&new.policy).chunks_exact(size_of::<u64>());
    words
        .filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes))
        .fold(new.generation, |sum, word| {
            sum.wrapping_mul(intf::AVX_CHECKSUM_FACTOR).wrapping_add(word)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn short_of_memory() -> Result<()> {
        bail!("out of memory")
    }

    #[test]
    fn slots_stay_retired_until_the_kernel_can_wait() {
        let mut retired = Retired { nr: 2, ..Retired::default() };
        for says in [true, false, false] {
            assert_eq!(retired.try_to_end(short_of_memory).is_some(), says);
            assert_eq!(retired.nr, 2);
        }
        // A policy that needs one of them is refused.
        assert!(retired.end(short_of_memory).is_err());
        assert!(retired.try_to_end(|| Ok(())).is_none());
        assert_eq!(retired.nr, 0);
        // There is nothing to wait for, and later something to say again.
        assert!(retired.try_to_end(short_of_memory).is_none());
        retired.nr = 1;
        assert!(retired.try_to_end(short_of_memory).is_some());
    }
}
