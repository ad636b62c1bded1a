// SPDX-License-Identifier: GPL-2.0-only
//! How the kernel's cgroups are called: it knows them by number.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// By number. Nothing but the file system is asked, so anyone may, at any time.
pub fn paths() -> BTreeMap<u64, String> {
    paths_in(&hierarchy_in(Path::new("/")))
}

/// Where cgroups have their names, by which they are found.
pub fn hierarchy_in(root: &Path) -> PathBuf {
    hierarchy_below(&root.join("sys/fs/cgroup"))
}

/// The one that is the same for all controllers, which older systems have beside those of each.
fn hierarchy_below(root: &Path) -> PathBuf {
    let unified = root.join("unified");
    if unified.join("cgroup.procs").exists() && !root.join("cgroup.procs").exists() {
        unified
    } else {
        root.to_owned()
    }
}

/// The number is that of the directory, in this hierarchy: others may be mounted below.
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

/// What is no text is spelled out, so that siblings are not called the same: a metric may not
/// have two values.
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

    /// By the file that each of its directories has, and the root of a mixed one has not.
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
