// SPDX-License-Identifier: GPL-2.0-only
//! The names of cgroups, which the kernel knows by number.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the paths of all cgroups by their numbers. This asks nothing but the file system, so it
/// may be called by any thread at any time.
pub fn paths() -> BTreeMap<u64, String> {
    paths_in(&hierarchy_in(Path::new("/")))
}

/// Returns the directory in which cgroups are found by their names.
pub fn hierarchy_in(root: &Path) -> PathBuf {
    hierarchy_below(&root.join("sys/fs/cgroup"))
}

/// Returns the hierarchy that all controllers share. Older systems have it beside those of each
/// controller.
fn hierarchy_below(root: &Path) -> PathBuf {
    let unified = root.join("unified");
    if unified.join("cgroup.procs").exists() && !root.join("cgroup.procs").exists() {
        unified
    } else {
        root.to_owned()
    }
}

/// Returns the paths of cgroups by the inode numbers of their directories. It stays within this
/// hierarchy, because others may be mounted below.
pub fn paths_in(root: &Path) -> BTreeMap<u64, String> {
    let mut paths = BTreeMap::new();
    let Ok(hierarchy) = fs::metadata(root).map(|it| it.dev()) else { return paths };
    let mut pending: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        let Ok(metadata) = fs::metadata(&dir) else { continue };
        if metadata.dev() != hierarchy {
            continue;
        }
        let below = dir.strip_prefix(root).unwrap_or(&dir);
        paths.insert(metadata.ino(), format!("/{}", text_of(below)));
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        pending.extend(entries.filter(is_dir).map(|entry| entry.path()));
    }
    paths
}

/// Spells out the bytes that are no text, so that no two siblings get the same name: a metric may
/// not have two values.
fn text_of(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn they_are_found_by_the_number_of_their_directory() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("web.slice/nginx");
        fs::create_dir_all(&inner).unwrap();
        let paths = paths_in(root.path());
        assert_eq!(paths[&fs::metadata(&inner).unwrap().ino()], "/web.slice/nginx");
        assert_eq!(paths[&fs::metadata(root.path()).unwrap().ino()], "/");
    }

    #[test]
    fn names_that_are_no_text_differ_still() {
        let root = tempfile::tempdir().unwrap();
        for name in [b"caf\xe8".as_slice(), b"caf\xe9", "café".as_bytes()] {
            fs::create_dir(root.path().join(OsStr::from_bytes(name))).unwrap();
        }
        let mut names: Vec<String> = paths_in(root.path()).into_values().collect();
        names.sort();
        assert_eq!(names, ["/", r"/caf\xe8", r"/caf\xe9", "/café"]);
    }

    /// It is known by a file that each of its directories has, and that the root of a mixed one has
    /// not.
    #[test]
    fn the_hierarchy_is_found_beside_those_of_controllers() {
        let root = tempfile::tempdir().unwrap();
        let unified = root.path().join("unified");
        fs::create_dir(&unified).unwrap();
        assert_eq!(hierarchy_below(root.path()), root.path());
        fs::write(unified.join("cgroup.procs"), "").unwrap();
        assert_eq!(hierarchy_below(root.path()), unified);
        fs::write(root.path().join("cgroup.procs"), "").unwrap();
        assert_eq!(hierarchy_below(root.path()), root.path());
    }
}
