// SPDX-License-Identifier: GPL-2.0-only
//! The list in which BPF programs find the programs that get no AVX cores, because each says itself
//! that it gets less done with them.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags};

use super::setup::as_bytes;
use crate::bpf::intf::avx_owner;
use crate::bpf::skel::BpfSkel;

#[derive(Default)]
pub struct LeftAlone {
    programs: Vec<avx_owner>,
}

impl LeftAlone {
    /// Lists these programs and no others, as many of them as there is room for.
    pub fn put(&mut self, skel: &mut BpfSkel<'_>, programs: &[avx_owner]) -> Result<()> {
        if self.programs.is_empty() && programs.is_empty() {
            return Ok(());
        }
        let map = &skel.maps.left_alone;
        for old in self.programs.drain(..) {
            map.delete(as_bytes(&old)).context("cannot serve a program again")?;
        }
        let room = map.max_entries() as usize;
        for new in programs.iter().take(room) {
            let put = map.update(as_bytes(new), &[1], MapFlags::ANY);
            put.context("cannot leave a program alone")?;
            self.programs.push(*new);
        }
        let variables =
            skel.maps.bss_data.as_mut().context("the BPF programs have no variables")?;
        // This makes the BPF programs look up anew what they know of programs.
        variables.left_alone_changes += 1;
        Ok(())
    }
}
