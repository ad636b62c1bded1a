// SPDX-License-Identifier: GPL-2.0-only
//! What must be installed to build scx_avxspec, and which package brings it.
//!
//! The build scripts of the crates below us run before ours and answer a
//! missing header with pages of compiler output. So this file needs nothing
//! but the standard library: `rustc build/requirements.rs` makes a program of
//! it that can run before cargo starts, and `build.rs` includes it as a module
//! to say the same when cargo is called directly.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest clang whose BPF backend knows the instruction set that the
/// kernel's sched_ext headers ask for (-mcpu=v4).
const MIN_CLANG: u32 = 18;

/// A development library: the header that must compile and the name to link.
struct Library {
    name: &'static str,
    header: &'static str,
    link: &'static str,
    package: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library { name: "libelf", header: "libelf.h", link: "elf", package: "libelf-dev" },
    Library { name: "zlib", header: "zlib.h", link: "z", package: "zlib1g-dev" },
];

/// Programs that the build scripts below us start.
const TOOLS: [(&str, &str); 2] = [("make", "make"), ("pkg-config", "pkg-config")];

/// Everything found, or one sentence that says what is missing.
pub fn check(manifest_dir: &Path) -> Result<(), String> {
    let mut missing = Vec::new();

    let clang = clang_command(env::var("BPF_CLANG").ok(), manifest_dir);
    if let Err(what) = clang_version(&clang).and_then(new_enough) {
        missing.push(format!("{what} (Debian: clang-19)"));
    }
    for (tool, package) in TOOLS {
        if !runs(tool) {
            missing.push(format!("the program {tool} (Debian: {package})"));
        }
    }
    if !runs("cc") {
        missing.push("a C compiler named cc (Debian: gcc)".to_string());
    } else {
        for library in LIBRARIES.iter().filter(|library| !links(library)) {
            missing
                .push(format!("{} with its headers (Debian: {})", library.name, library.package));
        }
    }

    if missing.is_empty() { Ok(()) } else { Err(sentence(&missing)) }
}

/// The compiler that the crates below us will be told to use.
pub fn clang_command(from_env: Option<String>, manifest_dir: &Path) -> PathBuf {
    match from_env {
        Some(clang) if !clang.is_empty() => PathBuf::from(clang),
        _ => manifest_dir.join("build/clang"),
    }
}

fn clang_version(clang: &Path) -> Result<u32, String> {
    let output = Command::new(clang).arg("--version").stderr(Stdio::null()).output();
    output
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| parse_clang_version(&String::from_utf8_lossy(&output.stdout)))
        .ok_or_else(|| format!("clang {MIN_CLANG} or newer"))
}

/// The major version in the output of `clang --version`, whatever a
/// distribution writes before the name.
fn parse_clang_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("clang version ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn new_enough(major: u32) -> Result<(), String> {
    if major >= MIN_CLANG {
        return Ok(());
    }
    Err(format!("clang {MIN_CLANG} or newer instead of clang {major}"))
}

fn runs(tool: &str) -> bool {
    let status =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Whether a program that includes the header links with the library.
fn links(library: &Library) -> bool {
    let source = format!("#include <{}>\nint main(void) {{ return 0; }}\n", library.header);
    let compiler = Command::new("cc")
        .args(["-x", "c", "-", "-o", "/dev/null"])
        .arg(format!("-Wl,--no-as-needed,-l{}", library.link))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut compiler) = compiler else {
        return false;
    };
    let written = match compiler.stdin.take() {
        Some(mut stdin) => stdin.write_all(source.as_bytes()).is_ok(),
        None => false,
    };
    written && compiler.wait().is_ok_and(|status| status.success())
}

fn sentence(missing: &[String]) -> String {
    format!("cannot build scx_avxspec: please install {}", missing.join(", and "))
}

#[allow(dead_code)] // build.rs includes this file as a module and has its own main.
fn main() {
    if let Err(sentence) = check(Path::new(".")) {
        eprintln!("{sentence}");
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version_of_every_distribution() {
        let debian = "Debian clang version 19.1.7 (3~deb12u1)\nTarget: x86_64-pc-linux-gnu\n";
        assert_eq!(parse_clang_version(debian), Some(19));
        assert_eq!(parse_clang_version("clang version 22.0.0git (URL SHA1)"), Some(22));
        assert_eq!(parse_clang_version("gcc (Debian 12.2.0-14) 12.2.0"), None);
        assert_eq!(parse_clang_version("clang version unknown"), None);
    }

    #[test]
    fn refuses_an_old_clang_by_name() {
        assert_eq!(new_enough(18), Ok(()));
        assert_eq!(new_enough(14), Err("clang 18 or newer instead of clang 14".to_string()));
    }

    #[test]
    fn prefers_the_compiler_that_the_user_names() {
        let here = Path::new("/src");
        assert_eq!(clang_command(Some("clang-20".into()), here), Path::new("clang-20"));
        assert_eq!(clang_command(Some(String::new()), here), Path::new("/src/build/clang"));
        assert_eq!(clang_command(None, here), Path::new("/src/build/clang"));
    }

    #[test]
    fn names_everything_in_one_sentence() {
        let missing = ["a (Debian: x)".to_string(), "b (Debian: y)".to_string()];
        assert_eq!(
            sentence(&missing),
            "cannot build scx_avxspec: please install a (Debian: x), and b (Debian: y)"
        );
    }
}
