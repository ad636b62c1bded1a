// SPDX-License-Identifier: GPL-2.0-only
//! Machines as text: what their files say, laid out below a directory.
//!
//! A line that begins in the first column is a path, and what is indented below it its content.
//! `{0-3,8}` in a path stands for each of these numbers, `\0` in a content for the byte 0. A path
//! that ends with a slash is a directory. `path = file - A B` takes a file of this repository,
//! without what it says of CONFIG_A and CONFIG_B. Where a path ends in `.gz` it is packed.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use crate::agent::cpulist;

/// The machine that tests/suite/fixtures/machines knows by this name.
pub fn machine(name: &str) -> TempDir {
    let text = of_repository(&format!("tests/suite/fixtures/machines/{name}.tree"));
    let root = TempDir::new().unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let mut content = String::new();
        while let Some(indented) = lines.next_if(|next| next.starts_with('\t')) {
            content += &(indented[1..].replace("\\0", "\0") + "\n");
        }
        let (path, content) = match line.split_once(" = ") {
            Some((path, source)) => (path, taken_from(source)),
            None => (line, content),
        };
        expanded(path).iter().for_each(|path| put(&root.path().join(path), &content));
    }
    root
}

fn of_repository(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn taken_from(source: &str) -> String {
    let (file, without) = source.split_once(" - ").unwrap_or((source, ""));
    let is_kept = |line: &&str| {
        !without.split(' ').any(|option| line.starts_with(&format!("CONFIG_{option}=")))
    };
    of_repository(file).lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (list, after) = rest.split_once('}').unwrap();
    let numbers = cpulist::parse(list, 8192).unwrap();
    numbers.into_iter().map(|number| format!("{before}{number}{after}")).collect()
}

fn put(path: &Path, content: &str) {
    if path.to_str().unwrap().ends_with('/') {
        return fs::create_dir_all(path).unwrap();
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs::File::create(path).unwrap();
    if path.extension().is_some_and(|end| end == "gz") {
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(content.as_bytes()).unwrap();
        packed.finish().unwrap();
    } else {
        file.write_all(content.as_bytes()).unwrap();
    }
}
