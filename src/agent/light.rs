// SPDX-License-Identifier: GPL-2.0-only
//! Finds the file with the light instructions of AVX-512 that a program mixes with wide ones.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::bpf::intf::{avx_light_fault, avx_owner};
use crate::bpf::names::{printable, text_of};

/// How much of a list of mappings is read. Nobody needs the rest of one that is longer.
const LARGEST: u64 = 4 << 20;

/// Returns the name of the file in which a program of this name had a light fault, if it had one
/// and its process is still there.
pub fn file_of(program: &str, faults: &[(avx_owner, avx_light_fault)]) -> Option<String> {
    let is_of_it = |owner: &avx_owner| printable(&text_of(&owner.program)) == program;
    faults.iter().filter(|(owner, _)| is_of_it(owner)).find_map(|(_, fault)| {
        let mut maps = String::new();
        let file = File::open(format!("/proc/{}/maps", fault.process)).ok()?;
        file.take(LARGEST).read_to_string(&mut maps).ok()?;
        file_at(&maps, fault.ip)
    })
}

/// Returns true if the file is of the C library, or of its linker, which starts a program.
pub fn is_of_c_library(file: &str) -> bool {
    ["libc.", "libc-", "ld-"].iter().any(|begin| file.starts_with(begin))
}

fn file_at(maps: &str, address: u64) -> Option<String> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let is_there = |line: &&str| {
        let ends = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let range = ends.and_then(|(begin, end)| Some(number(begin)?..number(end)?));
        range.is_some_and(|range| range.contains(&address))
    };
    let path = &maps.lines().find(is_there)?;
    let path = &path[path.find('/')?..];
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Some(printable(&Path::new(path).file_name()?.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5581e3c00000-5581e3c28000 r--p 00000000 08:01 1234                       /usr/bin/x265
5581e3c28000-5581e3d00000 r-xp 00028000 08:01 1234                       /usr/bin/x265
7f2a10000000-7f2a10021000 rw-p 00000000 00:00 0 
7f2a14000000-7f2a14100000 r-xp 00000000 08:01 77                         /opt/a b/libx265.so.199 (deleted)
7f2a15000000-7f2a15100000 r-xp 00000000 08:01 78                         /lib/x86_64-linux-gnu/libc.so.6
7ffd5f1f3000-7ffd5f1f5000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn a_fault_is_in_the_file_that_is_mapped_there() {
        let at = |address| file_at(MAPS, address);
        assert_eq!(at(0x5581e3c28000).as_deref(), Some("x265"));
        assert_eq!(at(0x7f2a140fffff).as_deref(), Some("libx265.so.199"));
        assert_eq!(at(0x7f2a15000010).as_deref(), Some("libc.so.6"));
        for nowhere in [0, 0x7f2a10000000, 0x7f2a14100000, 0x7ffd5f1f3000] {
            assert_eq!(at(nowhere), None);
        }
    }

    #[test]
    fn the_c_library_is_known_by_its_name() {
        for it in ["libc.so.6", "libc-2.31.so", "ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1"] {
            assert!(is_of_c_library(it), "{it}");
        }
        for it in ["libx265.so.199", "libcrypto.so.3", "libc++.so.1", "ld"] {
            assert!(!is_of_c_library(it), "{it}");
        }
    }

    #[test]
    fn who_is_gone_has_no_file() {
        let program =
            crate::bpf::intf::avx_name { words: [u64::from_ne_bytes(*b"x265\0\0\0\0"), 0] };
        let fault = |process| avx_light_fault { ip: file_at as *const () as u64, process };
        let faults = [(avx_owner { cgroup: 1, program }, fault(u64::from(u32::MAX)))];
        assert_eq!(file_of("x265", &faults), None);
        let faults =
            [faults[0], (avx_owner { cgroup: 2, program }, fault(std::process::id().into()))];
        assert!(file_of("x265", &faults).is_some());
        assert_eq!(file_of("x264", &faults), None);
    }
}
