// SPDX-License-Identifier: GPL-2.0-only
//! Tells what programs are started with here, and what this one is allowed to do.

use std::fs;
use std::path::Path;

use super::Finding;
use super::files::text_at;

/// Where the C library is, by distribution.
const LIBRARIES: [&str; 4] = [
    "lib/x86_64-linux-gnu/libc.so.6",
    "usr/lib/x86_64-linux-gnu/libc.so.6",
    "lib64/libc.so.6",
    "usr/lib/libc.so.6",
];
const MUSL: &str = "lib/ld-musl-x86_64.so.1";

/// Since this version of glibc, ordinary string functions use the encoding of AVX-512.
const FIRST_LOUD: (u32, u32) = (2, 34);

/// The capabilities that it takes to load the programs and to attach them, by number and name.
pub const NEEDED: [(u32, &str); 2] = [(38, "CAP_PERFMON"), (39, "CAP_BPF")];
/// The number of CAP_SYS_ADMIN. A process that has this capability needs no other.
const SYS_ADMIN: u32 = 21;

/// What the first user namespace maps.
const ALL_USERS: [&str; 3] = ["0", "0", "4294967295"];

/// A limit of memory below this is worth a note.
const LITTLE_MEMORY: u64 = 128 << 20;

enum Library {
    Glibc(u32, u32),
    Musl,
    Unknown,
}

pub struct Surroundings {
    library: Library,
    tunables: String,
    is_root: bool,
    /// False in a user namespace other than the first one, because the powers of its root end
    /// there.
    is_root_of_all: bool,
    /// The capabilities that root has here, or would have.
    capabilities: Option<u64>,
    memory_max: Option<u64>,
}

impl Surroundings {
    pub fn look(root: &Path) -> Self {
        let status = text_at(root, "proc/self/status").unwrap_or_default();
        let is_root = effective_user(&status) == Some(0);
        let users = text_at(root, "proc/self/uid_map").unwrap_or_default();
        let set = if is_root { "CapEff" } else { "CapBnd" };
        let capabilities = value_of(&status, set);
        Self {
            library: library_in(root),
            tunables: tunables_in(root),
            is_root,
            is_root_of_all: users.is_empty() || users.split_whitespace().eq(ALL_USERS),
            capabilities: capabilities.and_then(|hex| u64::from_str_radix(hex, 16).ok()),
            memory_max: memory_max(root),
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        vec![self.library(), self.tunables(), self.rights(), self.memory()]
    }

    fn library(&self) -> Finding {
        match self.library {
            Library::Glibc(major, minor) if (major, minor) >= FIRST_LOUD => Finding::ok(
                "libc",
                format!(
                    "glibc {major}.{minor} has string functions with the encoding of AVX-512, \
                     which the tier trap tells from wide ones, and quiet-library keeps away"
                ),
            ),
            Library::Glibc(major, minor) => Finding::ok(
                "libc",
                format!("the string functions of glibc {major}.{minor} do without AVX-512"),
            ),
            Library::Musl => Finding::ok(
                "libc",
                "musl's string functions do without AVX-512 or any wide vectors",
            ),
            Library::Unknown => Finding::note(
                "libc",
                "no C library was found where it usually is",
                "nothing, unless programs run here that are not in containers of their own",
            ),
        }
    }

    fn tunables(&self) -> Finding {
        let text = &self.tunables;
        if text.is_empty() {
            return Finding::ok("tunables", "GLIBC_TUNABLES is not set");
        }
        if let Library::Musl = self.library {
            return Finding::ok("tunables", "GLIBC_TUNABLES is set, and means nothing to musl");
        }
        let masks_avx512 = text
            .split(':')
            .filter_map(|tunable| tunable.strip_prefix("glibc.cpu.hwcaps="))
            .any(|masks| masks.split(',').any(|mask| mask.starts_with("-AVX512")));
        match masks_avx512 {
            true => Finding::note(
                "tunables",
                format!(
                    "GLIBC_TUNABLES={text} keeps AVX-512 out of string functions of programs that \
                     are started from here"
                ),
                "leave it if you like, for quiet-library=on does the same for all programs where \
                 the tier is trap",
            ),
            false => Finding::ok(
                "tunables",
                format!("GLIBC_TUNABLES={text} does not change which vectors are used"),
            ),
        }
    }

    fn rights(&self) -> Finding {
        let Some(capabilities) = self.capabilities else {
            return Finding::note("rights", "nobody tells what is allowed here", "mount /proc");
        };
        if self.is_root && !self.is_root_of_all {
            return Finding::problem(
                "rights",
                "you are root of a user namespace, who may load no BPF programs",
                "run it outside, or in a container without a user namespace of its own",
            );
        }
        let has = |number: u32| capabilities >> number & 1 == 1;
        let missing: Vec<&str> = NEEDED
            .iter()
            .filter(|(number, _)| !has(*number) && !has(SYS_ADMIN))
            .map(|(_, name)| *name)
            .collect();
        if !missing.is_empty() {
            return Finding::problem(
                "rights",
                format!("root lacks {} here", missing.join(" and ")),
                "give the container or the service these capabilities",
            );
        }
        match self.is_root {
            true => Finding::ok("rights", "you are root, and may load BPF programs"),
            false => Finding::note(
                "rights",
                "you are not root, who may load BPF programs here",
                "run it with sudo, or as a service; for this check it makes no difference",
            ),
        }
    }

    fn memory(&self) -> Finding {
        match self.memory_max {
            Some(max) if max < LITTLE_MEMORY => Finding::note(
                "memory",
                format!("this control group may have {} MiB of memory", max >> 20),
                format!("let it have {} MiB, maps included", LITTLE_MEMORY >> 20),
            ),
            _ => Finding::ok(
                "memory",
                "no limit of memory is too low; that of locked memory (ulimit -l) does not count, \
                 since kernels with sched_ext book maps to the control group",
            ),
        }
    }
}

fn library_in(root: &Path) -> Library {
    let found = LIBRARIES.iter().find_map(|file| fs::read(root.join(file)).ok());
    match found.and_then(|content| version_in(&content)) {
        Some((major, minor)) => Library::Glibc(major, minor),
        None if root.join(MUSL).exists() => Library::Musl,
        None => Library::Unknown,
    }
}

/// Returns the version of the library. It is in a sentence that the library has for people who run
/// it.
fn version_in(library: &[u8]) -> Option<(u32, u32)> {
    const BEFORE: &[u8] = b"release version ";
    let at = library.windows(BEFORE.len()).position(|it| it == BEFORE)? + BEFORE.len();
    let after = library.get(at..)?.get(..16).or_else(|| library.get(at..))?;
    let text = String::from_utf8_lossy(after);
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns GLIBC_TUNABLES from the environment of this process.
fn tunables_in(root: &Path) -> String {
    let environment = fs::read(root.join("proc/self/environ")).unwrap_or_default();
    let tunables = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(b"GLIBC_TUNABLES="));
    String::from_utf8_lossy(tunables.unwrap_or_default()).trim().to_owned()
}

fn value_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = status.lines().filter_map(|line| line.split_once(':'));
    pairs.find_map(|(key, value)| (key == name).then(|| value.trim()))
}

/// Returns the effective user, which is the second of four.
fn effective_user(status: &str) -> Option<u32> {
    value_of(status, "Uid")?.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the limit of memory of the control group that this process runs in.
fn memory_max(root: &Path) -> Option<u64> {
    let groups = text_at(root, "proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let max = text_at(root, &format!("sys/fs/cgroup/{path}/memory.max"))?;
    max.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::preflight::Mark;

    const ALL: Surroundings = Surroundings {
        library: Library::Glibc(2, 36),
        tunables: String::new(),
        is_root: true,
        is_root_of_all: true,
        capabilities: Some(u64::MAX),
        memory_max: None,
    };

    #[test]
    fn the_library_tells_its_version() {
        let sentence = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopy";
        assert_eq!(version_in(sentence), Some((2, 36)));
        assert_eq!(version_in(b"release version 2.5."), Some((2, 5)));
        for bad in [&b"release version"[..], b"release version x.y", b""] {
            assert_eq!(version_in(bad), None);
        }
    }

    #[test]
    fn what_root_lacks_is_named() {
        for (number, name) in NEEDED {
            let all_but_it = !(1 << number);
            let rights = |them| Surroundings { capabilities: Some(them), ..ALL }.rights();
            assert_eq!(rights(all_but_it).mark, Mark::Ok);
            let lacking = rights(all_but_it & !(1 << SYS_ADMIN));
            assert_eq!(lacking.mark, Mark::Problem);
            assert_eq!(lacking.says, format!("root lacks {name} here"));
        }
        assert_eq!(ALL.rights().mark, Mark::Ok);
        let contained = Surroundings { is_root_of_all: false, ..ALL }.rights();
        assert_eq!(contained.mark, Mark::Problem);
        assert!(contained.says.starts_with("you are root of a user namespace"));
        assert_eq!(Surroundings { is_root: false, ..ALL }.rights().mark, Mark::Note);
        assert_eq!(Surroundings { capabilities: None, ..ALL }.rights().mark, Mark::Note);
    }

    #[test]
    fn root_of_a_user_namespace_is_known_by_whom_it_maps() {
        let of_all = |map: &str| {
            let root = tempfile::tempdir().unwrap();
            let process = root.path().join("proc/self");
            std::fs::create_dir_all(&process).unwrap();
            std::fs::write(process.join("uid_map"), map).unwrap();
            Surroundings::look(root.path()).is_root_of_all
        };
        assert!(of_all("         0          0 4294967295\n"));
        assert!(!of_all("         0       1000          1\n"));
        assert!(!of_all("         0     100000      65536\n"));
        assert!(Surroundings::look(Path::new("/nowhere")).is_root_of_all);
    }

    #[test]
    fn tunables_mean_something_to_glibc_alone() {
        let with = |text: &str, library| Surroundings { tunables: text.into(), library, ..ALL };
        let masked = "glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX2,-AVX512VL";
        let of = |text, library| with(text, library).tunables();
        assert_eq!(of(masked, Library::Glibc(2, 36)).mark, Mark::Note);
        assert!(of(masked, Library::Musl).says.contains("nothing to musl"));
        assert_eq!(of("glibc.malloc.check=1", Library::Glibc(2, 36)).mark, Mark::Ok);
        assert_eq!(of("", Library::Glibc(2, 36)).says, "GLIBC_TUNABLES is not set");
    }

    #[test]
    fn little_memory_is_worth_a_word() {
        let mark = |max| Surroundings { memory_max: max, ..ALL }.memory().mark;
        assert_eq!(mark(Some(LITTLE_MEMORY - 1)), Mark::Note);
        assert_eq!(mark(Some(LITTLE_MEMORY)), Mark::Ok);
        assert_eq!(mark(None), Mark::Ok);
    }

    #[test]
    fn the_user_who_counts_is_the_effective_one() {
        assert_eq!(effective_user("Name:\tx\nUid:\t1000\t0\t0\t0\n"), Some(0));
        assert_eq!(effective_user("Name:\tx\n"), None);
    }
}
