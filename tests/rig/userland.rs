// SPDX-License-Identifier: GPL-2.0-only
//! Root file systems for guests: busybox, and any Debian package by name.
//!
//! Packages are unpacked, not installed, and the image is made by mke2fs from
//! a directory: no mount, no chroot, no device node, so a container builds it
//! as well as a machine does.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cache::{Cache, Key, files_below};
use super::census;
use super::kernel::in_repository;
use super::packages::{self, Apt};
use super::process::{output_of, text_of};

/// What every guest has. The C library is that of the host's release or of a
/// newer one, so that programs built on the host run in the guest.
const BASE: [&str; 5] = ["busybox-static", "libc6", "libelf1", "zlib1g", "libgcc-s1"];
const INIT: &str = "tests/rig/init";
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// A root file system: the image, and the directory it was made from.
#[derive(Clone)]
pub struct Userland {
    pub image: PathBuf,
    pub tree: PathBuf,
}

impl Userland {
    /// The base and `packages`, from `release` or else from the host's own.
    pub fn with(release: Option<&str>, packages: &[&str]) -> Result<Self> {
        let cache = Cache::open()?;
        let mut names: Vec<&str> = BASE.into_iter().chain(packages.iter().copied()).collect();
        names.sort_unstable();
        names.dedup();
        let oraclectl = census::oraclectl()?;
        let key = Key::new()
            .text_part("host", &fs::read_to_string("/etc/os-release")?)
            .text_part("release", release.unwrap_or("the host's"))
            .text_part("packages", &names.join(" "))
            .text_part("made by", include_str!("userland.rs"))
            .file_part(&in_repository(INIT))?
            .file_part(&oraclectl)?;
        let dir = cache.artefact("userlands", &key, |dir| {
            eprintln!("rig: root file system: {}", names.join(" "));
            let tree = dir.join("tree");
            lay_out(&tree)?;
            let apt = match release {
                Some(name) => Apt::release(&cache, name)?,
                None => Apt::host(&cache),
            };
            for deb in apt.download_closure(&names)? {
                packages::unpack(&deb, &tree)?;
            }
            furnish(&tree)?;
            fs::copy(&oraclectl, tree.join("usr/bin/oraclectl"))?;
            make_image(&tree, &dir.join("root.img"))
        })?;
        Ok(Self { image: dir.join("root.img"), tree: dir.join("tree") })
    }
}

fn lay_out(tree: &Path) -> Result<()> {
    for dir in ["dev", "proc", "sys", "run", "tmp", "root", "etc", "job"] {
        fs::create_dir_all(tree.join(dir))?;
    }
    for dir in MERGED {
        fs::create_dir_all(tree.join("usr").join(dir))?;
        symlink(format!("usr/{dir}"), tree.join(dir))?;
    }
    Ok(())
}

fn furnish(tree: &Path) -> Result<()> {
    fs::copy(in_repository(INIT), tree.join("init"))?;
    for (file, content) in [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"),
        ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
        ("etc/hosts", "127.0.0.1 localhost\n"),
        ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ] {
        fs::write(tree.join(file), content)?;
    }
    let busybox = tree.join("bin/busybox");
    for applet in text_of(Command::new(&busybox).arg("--list"))?.lines() {
        // A package that brings the real program has precedence.
        let present = ["bin", "sbin"]
            .iter()
            .any(|dir| tree.join("usr").join(dir).join(applet).symlink_metadata().is_ok());
        if !present {
            symlink("busybox", tree.join("usr/bin").join(applet))?;
        }
    }
    let host_cache = tree.join("etc/ld.so.cache");
    if host_cache.exists() {
        fs::remove_file(host_cache)?;
    }
    Ok(())
}

/// The disk that holds a root file system is told from others by the number in
/// its partition table: the kernel names disks in the order in which they
/// answer, which is another one with every boot.
const DISK_NUMBER: u32 = 0x5ca7_512f;
const PARTITION_OFFSET: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// What tells the kernel which disk it is.
pub fn root_argument() -> String {
    format!("root=PARTUUID={DISK_NUMBER:08x}-01 rootwait")
}

fn make_image(tree: &Path, image: &Path) -> Result<()> {
    let used: u64 = files_below(tree)?
        .iter()
        .filter_map(|file| file.symlink_metadata().ok())
        .map(|metadata| metadata.len().next_multiple_of(4096))
        .sum();
    // Directories, inodes and bitmaps take their share beside the content.
    let size = (used * 5 / 4 + (32 << 20)).next_multiple_of(1 << 20);
    let file = fs::File::create(image)?;
    file.set_len(PARTITION_OFFSET + size)?;
    file.write_all_at(&partition_table(size), 0)?;
    output_of(
        Command::new("mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E"])
            .arg(format!("offset={PARTITION_OFFSET}"))
            .arg("-d")
            .arg(tree)
            .arg(image)
            .arg(format!("{}k", size >> 10)),
    )
    .context("cannot make a root file system")?;
    Ok(())
}

/// A boot sector without code: one Linux partition of `size` bytes.
fn partition_table(size: u64) -> [u8; SECTOR as usize] {
    let mut sector = [0; SECTOR as usize];
    sector[0x1b8..0x1bc].copy_from_slice(&DISK_NUMBER.to_le_bytes());
    let entry = &mut sector[0x1be..0x1ce];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&((PARTITION_OFFSET / SECTOR) as u32).to_le_bytes());
    entry[12..16].copy_from_slice(&((size / SECTOR) as u32).to_le_bytes());
    sector[0x1fe..].copy_from_slice(&[0x55, 0xaa]);
    sector
}
