// SPDX-License-Identifier: GPL-2.0-only
//! The map in which threads say what their work is: contrib/hints shows how.

use std::ffi::CString;
use std::mem::{MaybeUninit, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore, MapHandle, MapType};
use tracing::warn;

use super::symbols::kernel_has;
use crate::bpf::intf::avx_hint;
use crate::bpf::skel::OpenBpfSkel;

/// Where threads find the map. It stays there when the scheduler ends, with the owner and the mode
/// that somebody gave it. The next scheduler hears the threads that still hold it.
pub const PLACE: &str = "/sys/fs/bpf/scx_avxspec_hints";

/// The kernel's function through which all updates of the map go.
const UPDATE: &str = "bpf_pid_task_storage_update_elem";

/// The magic number of the kernel's file system for BPF objects.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Returns true if the kernel can tell of each update.
pub fn are_told() -> Result<bool> {
    kernel_has(UPDATE)
}

/// Prepares the map of hints, and what hears of them. This has to happen before the programs are
/// loaded.
pub fn listen(skel: &mut OpenBpfSkel<'_>) -> Result<()> {
    let place = Path::new(PLACE);
    let is_told = are_told()?;
    let is_there = place.exists();

    skel.progs.avxspec_hint_given.set_autoload(is_told);
    let variables = skel.maps.bss_data.as_mut().context("the BPF programs have no variables")?;
    variables.hints_given = is_there || !is_told;

    if is_there {
        is_map_of_hints(MapHandle::from_pinned_path(place))?;
    }
    if place.parent().is_some_and(is_bpf_fs) {
        skel.maps.hints.set_pin_path(place).context("cannot name the map of hints")?;
    } else {
        warn!("no file system for BPF objects is mounted: threads cannot say what their work is");
    }
    Ok(())
}

/// Fails unless the map could be opened and is one of hints. Somebody may have given it to another
/// user, and the service has no power over the files of others.
fn is_map_of_hints(opened: libbpf_rs::Result<MapHandle>) -> Result<()> {
    let map = opened.with_context(|| {
        format!("cannot open {PLACE}: let root read and write it, or remove it")
    })?;
    ensure!(
        map.map_type() == MapType::TaskStorage
            && map.value_size() as usize == size_of::<avx_hint>(),
        "{PLACE} is no map of hints: remove it"
    );
    Ok(())
}

fn is_bpf_fs(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends with a zero, and the result is read only if the call says that it
    // wrote one.
    let found = unsafe {
        if libc::statfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return false;
        }
        found.assume_init()
    };
    found.f_type == BPF_FS_MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_map_cannot_be_opened_is_told() {
        let error = is_map_of_hints(Err(libbpf_rs::Error::from_raw_os_error(libc::EACCES)));
        let text = format!("{:#}", error.unwrap_err());
        assert!(text.contains("Permission denied") && text.contains("or remove it"), "{text}");
        assert!(!text.contains("is no map of hints"), "{text}");
    }
}
