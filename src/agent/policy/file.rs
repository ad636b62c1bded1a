// SPDX-License-Identifier: GPL-2.0-only
//! Policy files. They are TOML, with a line for each knob that differs from the policy that they
//! begin with.

use std::fmt::Write;

use anyhow::{Context, Result, anyhow, bail};
use toml::de::{DeTable, DeValue};

use super::knobs::{self, KNOBS};
use super::named::{DEFAULT, named};
use super::standard;
use super::value::Knob;
use super::words::wrapped;
use crate::bpf::intf::avx_policy;

/// The keys of a file that are no knobs: which policy it begins with, and what it is for.
const BASE: &str = "base";
const DESCRIPTION: &str = "description";

const WIDTH: usize = 78;

/// A line of a file.
struct Entry<'a> {
    line: usize,
    key: &'a str,
    value: &'a DeValue<'a>,
}

/// Returns the policy that a file describes. An error begins with its line.
pub fn parse(content: &[u8]) -> Result<avx_policy> {
    let text = std::str::from_utf8(content).map_err(|error| {
        let good = content.get(..error.valid_up_to()).unwrap_or_default();
        anyhow!("line {}: this is not UTF-8", line_at(good, good.len()))
    })?;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', ", ");
        anyhow!("line {}: this is no TOML: {message}", line_at(content, at))
    })?;
    let mut entries: Vec<Entry<'_>> = table
        .get_ref()
        .iter()
        .map(|(key, value)| Entry {
            line: line_at(content, key.span().start),
            key: key.get_ref(),
            value: value.get_ref(),
        })
        .collect();
    entries.sort_by_key(|entry| entry.line);
    policy_of(&entries)
}

fn line_at(content: &[u8], offset: usize) -> usize {
    let before = content.get(..offset).unwrap_or(content);
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

fn policy_of(entries: &[Entry<'_>]) -> Result<avx_policy> {
    let base = entries.iter().find(|entry| entry.key == BASE);
    let mut policy = base.map_or_else(|| Ok(standard()), |entry| entry.about(base_of))?;
    for entry in entries {
        match entry.key {
            BASE => {}
            DESCRIPTION => entry.about(|value| string(DESCRIPTION, value).map(|_| ()))?,
            key => entry.about(|value| {
                let knob = knobs::knob(key)?;
                knob.turn(&mut policy, &knob.text_of(value)?)
            })?,
        }
    }
    let Some(contradiction) = knobs::contradiction(&policy) else { return Ok(policy) };
    // No policy that a file can begin with has a contradiction, so the file turned one of the
    // knobs.
    let last = entries.iter().rfind(|entry| contradiction.knobs.contains(&entry.key));
    bail!("line {}: {}", last.map_or(1, |entry| entry.line), contradiction.why)
}

impl Entry<'_> {
    /// Has `look` look at the value. An error tells this line.
    fn about<T>(&self, look: impl FnOnce(&DeValue<'_>) -> Result<T>) -> Result<T> {
        look(self.value).with_context(|| format!("line {}", self.line))
    }
}

fn base_of(value: &DeValue<'_>) -> Result<avx_policy> {
    named(string(BASE, value)?)?.policy()
}

fn string<'a>(key: &str, value: &'a DeValue<'_>) -> Result<&'a str> {
    value
        .as_str()
        .with_context(|| format!("{key} cannot be this {}: it takes a string", value.type_str()))
}

/// Returns a file that describes this policy, whatever the defaults will be.
pub fn file_of(policy: &avx_policy) -> String {
    KNOBS.iter().map(|knob| line_of(knob, policy)).collect()
}

fn line_of(knob: &Knob, policy: &avx_policy) -> String {
    format!("{} = {}\n", knob.name, knob.to_toml(policy))
}

/// Returns a file that describes the default policy, with comments that explain each knob.
pub fn document() -> String {
    let policy = standard();
    let mut text = String::new();
    comment(
        &mut text,
        "A policy of scx_avxspec: `scx_avxspec --policy FILE` starts with it, `scx_avxspec policy \
         use FILE` changes to it. What is left out is as in the policy that base names.",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n{BASE} = \"{DEFAULT}\"\n{DESCRIPTION} = \"every knob as it is by default\""
    );
    for knob in KNOBS {
        text.push('\n');
        comment(&mut text, knob.help);
        comment(&mut text, &format!("takes: {}", knob.range()));
        comment(&mut text, &format!("default: {}", knob.to_toml(&policy)));
        text.push_str(&line_of(knob, &policy));
    }
    text
}

fn comment(text: &mut String, words: &str) {
    for line in wrapped(words, WIDTH) {
        let _ = writeln!(text, "# {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::policy::{Setting, named::NAMED, settings, turned};
    use proptest::prelude::*;

    fn complaint(file: &str) -> String {
        format!("{:#}", parse(file.as_bytes()).unwrap_err())
    }

    fn value_in(file: &str, knob: &str) -> String {
        let settings = settings(&parse(file.as_bytes()).unwrap());
        settings.into_iter().find(|it| it.knob == knob).unwrap().value
    }

    #[test]
    fn each_kind_of_value_is_read() {
        for (line, knob, value) in [
            ("window = \"20ms\"", "window", "20ms"),
            ("avx-cpus = 3", "avx-cpus", "3"),
            ("avx-cpus = 0x1_0", "avx-cpus", "16"),
            ("avx-cpus = \"3\"", "avx-cpus", "3"),
            ("grow-fill = 0.9", "grow-fill", "0.900"),
            ("grow-fill = 1", "grow-fill", "1.000"),
            ("lend-idle-cores = false", "lend-idle-cores", "off"),
            ("lend-idle-cores = 'on'", "lend-idle-cores", "on"),
            ("classes = 'avx512+avx2-heavy'", "classes", "avx512+avx2-heavy"),
            ("avx-cpu-list = [0, \"2-3\", 8]", "avx-cpu-list", "0,2-3,8"),
            ("avx-cpu-list = '0-3,8'", "avx-cpu-list", "0-3,8"),
            ("never-hide = ['a b', \"c\"]", "never-hide", "a b,c"),
            ("never-hide = [' a', 'b ', ' ']", "never-hide", "a,b"),
            ("never-hide = []", "never-hide", ""),
        ] {
            assert_eq!(value_in(line, knob), value, "{line}");
        }
    }

    #[test]
    fn a_file_begins_with_another_policy() {
        assert_eq!(value_in("# nothing\n", "sizing"), "controller");
        let file = "return = \"switch\"\nbase = \"fault-migrate\"\ndescription = \"mine\"\n";
        assert_eq!(value_in(file, "sizing"), "share");
        assert_eq!(value_in(file, "return"), "switch");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (file, line, why) in [
            ("\n\nwindw = '1ms'", 3, "there is no knob \"windw\": did you mean \"window\"?"),
            ("window = 20", 1, "window cannot be this integer: it takes 1ms to 1s"),
            ("#\nwindow = '2s'", 2, "window cannot be \"2s\": it takes 1ms to 1s"),
            ("window = true", 1, "window cannot be this boolean"),
            ("avx-cpus = 3.5", 1, "avx-cpus cannot be this float: it takes 0 to 8192"),
            ("avx-cpus = -1", 1, "avx-cpus cannot be \"-1\": it takes 0 to 8192"),
            ("avx-cpus = 99999999999999999999", 1, "avx-cpus cannot be this integer"),
            ("grow-fill = nan", 1, "grow-fill cannot be \"nan\": it takes 0.001 to 1.000"),
            ("quiet-library = 1", 1, "quiet-library cannot be this integer: it takes off, on"),
            ("never-hide = [1.5]", 1, "never-hide cannot be this array"),
            ("never-hide = [\"a,b\"]", 1, "never-hide cannot be this array"),
            ("never-hide = [\"a\\u0000b\"]", 1, "never-hide cannot be"),
            ("window = 1979-05-27", 1, "window cannot be this datetime"),
            ("[window]\nx = 1", 1, "window cannot be this table"),
            ("window.x = 1", 1, "window cannot be this table"),
            ("base = 'adaptiv'", 1, "did you mean \"adaptive\"?"),
            ("base = 1", 1, "base cannot be this integer: it takes a string"),
            ("description = [1]", 1, "description cannot be this array: it takes a string"),
            ("window = '1ms'\nwindow = '2ms'", 2, "this is no TOML: duplicate key"),
            ("window", 1, "this is no TOML: "),
            ("a = 1\nb = \"\n", 2, "this is no TOML: "),
            ("shrink-fill = 0.8\n# ...\n", 1, "shrink-fill must be below grow-fill"),
            ("backoff-max = '1ms'\nbackoff-min = '2ms'", 2, "must not be above backoff-max"),
        ] {
            let told = complaint(file);
            assert!(told.starts_with(&format!("line {line}: ")), "{file}: {told}");
            assert!(told.contains(why) && !told.contains('\n'), "{file}: {told}");
        }
        let not_utf8 = parse(b"window = '1ms'\n# \xff\n").unwrap_err();
        assert_eq!(format!("{not_utf8:#}"), "line 2: this is not UTF-8");
    }

    /// The first mistake of several is told.
    #[test]
    fn lines_are_looked_at_in_their_order() {
        assert!(complaint("zoom = 1\navx-cpus = 'x'").starts_with("line 1: "));
    }

    #[test]
    fn sentences_stay_short_whatever_is_in_the_file() {
        for file in [
            format!("{} = 1", "x".repeat(60_000)),
            format!("window = '{}'", "x".repeat(60_000)),
            format!("window = {}1{}", "[".repeat(30_000), "]".repeat(30_000)),
            "[".repeat(60_000),
            format!("a{} = 1", ".a".repeat(30_000)),
        ] {
            assert!(complaint(&file).len() < 300, "{}", complaint(&file));
        }
    }

    #[test]
    fn the_documented_file_is_the_default_policy() {
        let file = document();
        assert_eq!(settings(&parse(file.as_bytes()).unwrap()), settings(&standard()));
        for knob in KNOBS {
            assert!(file.contains(&format!("\n{} = ", knob.name)), "{}", knob.name);
        }
        assert!(file.lines().all(|line| line.len() <= WIDTH + 2), "{file}");
    }

    #[test]
    fn each_named_policy_can_be_written_and_read() {
        for it in NAMED {
            let policy = it.policy().unwrap();
            let file = file_of(&policy);
            assert_eq!(settings(&parse(file.as_bytes()).unwrap()), settings(&policy));
            let based = format!("base = \"{}\"", it.name);
            assert_eq!(settings(&parse(based.as_bytes()).unwrap()), settings(&policy));
        }
    }

    /// Generates something that may be the text of a value.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            (0..3_000_000_000u64).prop_map(|ns| format!("{ns}ns")),
            (0..12_000u64).prop_map(|ms| format!("{ms}ms")),
            (0..=1100u32).prop_map(|n| format!("{}", f64::from(n) / 1024.0)),
            (0..9000u32).prop_map(|n| n.to_string()),
            prop::sample::select(vec![
                "on",
                "off",
                "share",
                "static",
                "list",
                "controller",
                "syscall",
                "switch",
                "timeout",
                "spread",
                "avx512+avx2-heavy",
                "1-3,7",
                "a,b c,\"",
                "\\,'",
            ])
            .prop_map(str::to_owned),
            "\\PC{0,12}",
        ]
    }

    fn turn() -> impl Strategy<Value = String> {
        (prop::sample::select(KNOBS.iter().map(|knob| knob.name).collect::<Vec<_>>()), value())
            .prop_map(|(name, value)| format!("{name}={value}"))
    }

    fn toml_like() -> impl Strategy<Value = String> {
        let words = prop_oneof![
            prop::sample::select(vec![
                "window",
                "base",
                "avx-cpus",
                "never-hide",
                "description",
                "=",
                "[",
                "]",
                "[[",
                "\"",
                "'",
                "\n",
                "#",
                "{",
                "}",
                ".",
                ",",
                "0x",
                "1e400",
                "nan",
                "-inf",
                "true",
                "\"20ms\"",
                "'adaptive'",
                "3",
                "\\u0000",
                "\"\"\"",
                "1979-05-27T07:32:00Z",
            ])
            .prop_map(str::to_owned),
            "\\PC{0,3}",
        ];
        prop::collection::vec(words, 0..30).prop_map(|words| words.join(" "))
    }

    /// Checks that a file is valid, or is refused with a line.
    fn look_at(content: &[u8]) {
        match parse(content) {
            Ok(policy) => {
                let all: Vec<String> = settings(&policy).iter().map(Setting::text).collect();
                assert_eq!(settings(&turned(standard(), &all).unwrap()), settings(&policy));
            }
            Err(error) => {
                let told = format!("{error:#}");
                assert!(!told.contains('\n'), "{told}");
                let (line, why) = told.strip_prefix("line ").unwrap().split_once(": ").unwrap();
                let lines = 1 + content.iter().filter(|byte| **byte == b'\n').count();
                assert!((1..=lines).contains(&line.parse().unwrap()) && !why.is_empty(), "{told}");
            }
        }
    }

    /// Damage to a file: where it begins, how many bytes it replaces, and by which.
    type Damage = (prop::sample::Index, usize, Vec<u8>);

    fn damaged(mut content: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
        for (at, length, others) in damages {
            let begin = at.index(content.len() + 1);
            let end = content.len().min(begin + length);
            content.splice(begin..end, others.iter().copied());
        }
        content
    }

    fn damage() -> impl Strategy<Value = Damage> {
        let bytes = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..4),
            prop::sample::select(vec!["\n", "\"", "=", "#", "[", "]", "-", "0", "1e9", "s\"\n"])
                .prop_map(|text| text.as_bytes().to_vec()),
        ];
        (any::<prop::sample::Index>(), 0..6usize, bytes)
    }

    proptest! {
        /// Most damaged files are no policy any more, and some are another one.
        #[test]
        fn damaged_policies_are_policies_or_refused(
            nth in 0..NAMED.len(),
            with_comments in any::<bool>(),
            damages in prop::collection::vec(damage(), 1..6),
        ) {
            let plain = file_of(&NAMED[nth].policy().unwrap());
            let content = if with_comments { document() } else { plain };
            look_at(&damaged(content.into_bytes(), &damages));
        }

        #[test]
        fn any_bytes_are_a_policy_or_refused(content in prop::collection::vec(any::<u8>(), 0..200)) {
            look_at(&content);
        }

        #[test]
        fn any_words_of_toml_are_a_policy_or_refused(content in toml_like()) {
            look_at(content.as_bytes());
        }

        /// A policy that is accepted is the same when it is written to a file and read again, and
        /// when its knobs are turned one by one.
        #[test]
        fn what_is_shown_is_read_back_as_the_same_policy(
            turns in prop::collection::vec(turn(), 0..40),
        ) {
            let mut policy = standard();
            for turn in turns {
                policy = turned(policy, &[turn]).unwrap_or(policy);
            }
            let same = parse(file_of(&policy).as_bytes()).unwrap();
            let knobs: Vec<String> = settings(&policy).iter().map(Setting::text).collect();
            let turned = turned(standard(), &knobs).unwrap();
            for it in [same, turned] {
                prop_assert_eq!(settings(&it), settings(&policy));
                prop_assert!(is_equal(&it, &policy));
            }
        }
    }

    /// Compares these members to the last bit, which texts may not show.
    fn is_equal(a: &avx_policy, b: &avx_policy) -> bool {
        let names = |it: &avx_policy| it.never_hide.map(|name| name.words);
        let numbers = |it: &avx_policy| {
            [
                it.share_alpha,
                it.grow_fill,
                it.shrink_fill,
                it.licence_drop,
                it.window_ns,
                it.stranded_ns,
                it.retry_max_ns,
                it.avx_cpus,
                it.sizing,
                it.classes,
            ]
        };
        names(a) == names(b) && numbers(a) == numbers(b) && a.avx_cpu_list == b.avx_cpu_list
    }
}
