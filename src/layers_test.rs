// SPDX-License-Identifier: GPL-2.0-only
//! Which module knows which: arrows point down, and none of them leads back.
//!
//! A module is a file. It knows another one if it names it, or something in it, by a path, in a
//! `use` or elsewhere; what is there for tests alone does not count. A parent that declares a child
//! or passes its names on with `pub use` does not know it by that: whoever takes such a name from
//! the parent knows the child.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Each may know those in its line, and what is within itself.
const LAYERS: [(&str, &[&str]); 13] = [
    ("", &["cmd", "agent", "about"]),
    ("cmd", &["agent", "sim", "bpf", "processors", "about", "files"]),
    ("agent", &["bpf", "processors", "trials", "about", "files"]),
    ("sim", &["bpf", "processors", "trials"]),
    ("sim::study", &["sim::workload", "sim::kernel", "sim::machine"]),
    ("sim::workload", &["sim::kernel", "sim::machine"]),
    ("sim::kernel", &["sim::machine"]),
    ("sim::machine", &[]),
    ("trials", &[]),
    ("processors", &["bpf"]),
    ("bpf", &[]),
    ("about", &[]),
    ("files", &[]),
];

/// Who knows what is not below it, and why it may.
const ARROWS: [(&str, &str, &str); 1] = [(
    "sim::study::trial",
    "agent::policy",
    "a trial turns knobs at random, and is built for tests and the fuzzer alone",
)];

/// Those who know each other, and why they may.
const CIRCLES: [(&[&str], &str); 0] = [];

/// What boots machines, tests, measures and is typed in: each knows those before it.
const FLOORS_OF_THE_RIG: [&str; 4] = ["rig", "suite", "bench", "commands"];

/// Who tests what is above it.
const TESTS_OF_THE_RIG: [&str; 2] = ["suite::figures", "suite::host"];

type Name = Vec<String>;

fn name_of(text: &str) -> Name {
    text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn text_of(name: &[String]) -> String {
    if name.is_empty() { "main".to_owned() } else { name.join("::") }
}

/// What a `use` brings into a module.
struct Import {
    path: Name,
    /// By which it is known there.
    name: String,
    is_public: bool,
}

/// A file, without what is there for tests alone.
#[derive(Default)]
struct Source {
    imports: Vec<Import>,
    /// Beside those.
    paths: Vec<Name>,
    /// All that stands elsewhere, but for the names of modules that begin there.
    words: BTreeSet<String>,
}

impl Source {
    fn read(module: &[String], text: &str) -> Self {
        let words = without_tests(&words(text));
        let mut source = Self::default();
        // Modules within the file, and how deep their ends are.
        let (mut inner, mut depth): (Vec<(String, usize)>, usize) = (Vec::new(), 0);
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let next = |by: usize| words.get(at + by).map_or("", String::as_str);
            match word.as_str() {
                "mod" if next(2) == "{" => inner.push((next(1).to_owned(), depth)),
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inner.pop_if(|(_, end)| *end == depth);
                }
                _ => {}
            }
            let here =
                || [module, &inner.iter().map(|it| it.0.clone()).collect::<Vec<_>>()].concat();
            if word == "use" {
                let is_public = at > 0 && ["pub", ")"].contains(&words[at - 1].as_str());
                let mut found = Vec::new();
                at += 1;
                tree(&words, &mut at, &[], &mut found);
                let absolute =
                    |(path, name)| Import { path: absolute(&here(), path), name, is_public };
                source.imports.extend(found.into_iter().map(absolute));
            } else if is_name(word) && next(1) == "::" && (at == 0 || words[at - 1] != "::") {
                let mut path = vec![word.clone()];
                while next(2 * path.len() - 1) == "::" && is_name(next(2 * path.len())) {
                    path.push(next(2 * path.len()).to_owned());
                }
                source.words.insert(word.clone());
                source.paths.push(absolute(&here(), path));
            } else if at == 0 || words[at - 1] != "mod" {
                source.words.insert(word.clone());
            }
            at += 1;
        }
        source
    }
}

/// Names, punctuation, and what is left out.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    let left_out = [
        r"//[^\n]*",
        r"/\*.*?\*/",
        r##"[bc]?r"[^"]*"|[bc]?r#".*?"#"##,
        r#"[bc]?"(?:\\.|[^"\\])*""#,
        r"b?'(?:\\.[^']*|[^'\\])'",
    ];
    Regex::new(&format!(r"(?s){}|[A-Za-z_][A-Za-z_0-9]*|::|\S", left_out.join("|"))).unwrap()
});

/// Without comments and literals.
fn words(text: &str) -> Vec<String> {
    let found = WORD.find_iter(text).map(|it| it.as_str());
    found.filter(|word| !is_left_out(word)).map(str::to_owned).collect()
}

fn is_left_out(word: &str) -> bool {
    word.contains('"') || word.len() > 1 && (word.starts_with('/') || word.ends_with('\''))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// What `#[cfg(test)]` stands before goes with it: up to a semicolon, or the end of a block.
fn without_tests(words: &[String]) -> Vec<String> {
    const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if !words[at..].iter().take(FOR_TESTS.len()).eq(FOR_TESTS) {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += FOR_TESTS.len();
        while let Some(word) = words.get(at) {
            at += 1;
            match word.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && [";", "}"].contains(&word.as_str()) {
                break;
            }
        }
    }
    kept
}

/// The paths of a tree of a `use`, each with the name that it has from then on.
fn tree(words: &[String], at: &mut usize, before: &[String], found: &mut Vec<(Name, String)>) {
    let mut path = before.to_vec();
    while let Some(word) = words.get(*at) {
        match word.as_str() {
            "{" => {
                while words.get(*at).is_some_and(|word| word != "}") {
                    *at += 1;
                    tree(words, at, &path, found);
                }
                *at += 1;
                return;
            }
            "," | "}" | ";" => break,
            "as" => {
                *at += 1;
                found.push((path, words[*at].clone()));
                *at += 1;
                return;
            }
            "::" => {}
            _ => path.push(word.clone()),
        }
        *at += 1;
    }
    if path.len() > before.len() {
        path.pop_if(|last| last == "self");
        let name = path.last().cloned().unwrap_or_default();
        found.push((path, name));
    }
}

/// From the root on, if it is the program's own; a child may be named without `self`.
fn absolute(here: &[String], path: Name) -> Name {
    let nr_up = path.iter().take_while(|part| *part == "super").count();
    match path[0].as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [here, &path[1..]].concat(),
        "super" => [&here[..here.len() - nr_up.min(here.len())], &path[nr_up..]].concat(),
        _ => [here, &path[..]].concat(),
    }
}

struct Program(BTreeMap<Name, Source>);

impl Program {
    fn of(sources: impl Iterator<Item = (String, String)>) -> Self {
        let read = |(name, text): (String, String)| {
            let name = name_of(&name);
            let source = Source::read(&name, &text);
            (name, source)
        };
        Self(sources.map(read).collect())
    }

    /// The module in which what is named there is.
    fn module_of(&self, path: &[String]) -> &[String] {
        let lengths = (0..=path.len()).rev();
        let mut modules = lengths.filter_map(|length| self.0.get_key_value(&path[..length]));
        let Some((module, source)) = modules.next() else { return &[] };
        let passed_on = path
            .get(module.len())
            .and_then(|name| source.imports.iter().find(|it| it.name == *name));
        match passed_on {
            // Something of a crate has no module here but this one.
            Some(import) if import.path[..] != path[..] => self.module_of(&import.path),
            _ => module,
        }
    }

    fn known_to(&self, module: &Name) -> BTreeSet<Name> {
        let source = &self.0[module];
        let is_passed_on = |it: &&Import| {
            it.is_public && it.path.starts_with(module) && !source.words.contains(&it.name)
        };
        let imports = source.imports.iter().filter(|it| !is_passed_on(it)).map(|it| &it.path);
        let known = imports.chain(&source.paths).map(|path| self.module_of(path).to_vec());
        known.filter(|it| it != module && self.0.contains_key(it)).collect()
    }

    fn arrows(&self) -> BTreeMap<&Name, BTreeSet<Name>> {
        self.0.keys().map(|module| (module, self.known_to(module))).collect()
    }
}

type Arrows<'a> = BTreeMap<&'a Name, BTreeSet<Name>>;

/// The shortest way from a module to another one, with both of them.
fn way(arrows: &Arrows<'_>, from: &Name, to: &Name) -> Option<Vec<Name>> {
    let mut ways = VecDeque::from([vec![from.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in arrows.get(way.last()?).into_iter().flatten() {
            let longer = [&way[..], std::slice::from_ref(next)].concat();
            if next == to {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

/// All that a module knows, and what these know, and so on.
fn reach<'a>(arrows: &'a Arrows<'_>, from: &Name) -> BTreeSet<&'a Name> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&Name> = arrows[from].iter().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(&arrows[next]);
        }
    }
    reached
}

/// Sets of modules of which each knows all others, if not at first hand.
fn circles(arrows: &Arrows<'_>) -> BTreeSet<BTreeSet<Name>> {
    let reached: BTreeMap<_, _> = arrows.keys().map(|it| (*it, reach(arrows, it))).collect();
    let circle_of = |it: &Name| -> BTreeSet<Name> {
        reached[it]
            .iter()
            .filter(|other| reached[**other].contains(it))
            .map(|it| (*it).clone())
            .collect()
    };
    arrows.keys().map(|it| circle_of(it)).filter(|circle| !circle.is_empty()).collect()
}

/// In a sentence.
fn told(arrows: &Arrows<'_>, circle: &BTreeSet<Name>) -> String {
    let first = circle.first().unwrap();
    let way: Vec<String> =
        way(arrows, first, first).unwrap().iter().map(|it| text_of(it)).collect();
    let others = circle.len() + 1 - way.len();
    let more = if others > 0 { format!(" ({others} more are in it)") } else { String::new() };
    format!("a circle: {} knows {}{more}", way[0], way[1..].join(", which knows "))
}

fn layer_of(module: &[String]) -> (Name, Vec<&'static str>) {
    let mut below: Vec<&str> = Vec::new();
    let mut layer = Name::new();
    for (name, known) in LAYERS {
        let name = name_of(name);
        if module.starts_with(&name) && (module.is_empty() || !name.is_empty()) {
            below.extend(known);
            layer = name;
        }
    }
    (layer, below)
}

fn points_down(from: &[String], to: &[String]) -> bool {
    let (layer, below) = layer_of(from);
    let is_within = layer_of(to).0.starts_with(&layer) && (from.is_empty() || !layer.is_empty());
    is_within || below.iter().any(|it| to.starts_with(&name_of(it)))
}

fn files_in(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = path.to_str().unwrap();
        if path.is_dir() {
            files_in(&path, found);
        } else if text.ends_with(".rs") && !text.ends_with("_test.rs") {
            found.push(text.to_owned());
        }
    }
}

fn this_program() -> Program {
    program_in(concat!(env!("CARGO_MANIFEST_DIR"), "/src/"))
}

fn program_in(root: &str) -> Program {
    let mut files = Vec::new();
    files_in(Path::new(root), &mut files);
    Program::of(files.into_iter().map(|file| {
        let name = file[root.len()..].trim_end_matches(".rs").trim_end_matches("/mod");
        let name = if name == "main" { String::new() } else { name.replace('/', "::") };
        (name, fs::read_to_string(&file).unwrap())
    }))
}

#[test]
fn there_are_no_circles() {
    let program = this_program();
    let arrows = program.arrows();
    let found = circles(&arrows);
    let known: BTreeSet<BTreeSet<Name>> =
        CIRCLES.iter().map(|(all, _)| all.iter().map(|it| name_of(it)).collect()).collect();
    let sentences: Vec<String> = found.difference(&known).map(|it| told(&arrows, it)).collect();
    assert!(sentences.is_empty(), "{}", sentences.join("\n"));
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "these are in no circle any more, so CIRCLES need not say so: {gone:?}"
    );
}

#[test]
fn arrows_point_down() {
    let program = this_program();
    let arrows = program.arrows();
    let pairs = arrows.iter().flat_map(|(from, known)| known.iter().map(move |to| (*from, to)));
    let up = pairs.filter(|(from, to)| !points_down(from, to));
    let up: BTreeSet<(String, String)> =
        up.map(|(from, to)| (text_of(from), text_of(to))).collect();
    let allowed =
        ARROWS.iter().map(|(from, to, _)| ((*from).to_owned(), (*to).to_owned())).collect();
    let sentences: Vec<String> =
        up.difference(&allowed).map(|(from, to)| format!("{from} must not know {to}")).collect();
    assert!(sentences.is_empty(), "{}", sentences.join("\n"));
    let gone: Vec<_> = allowed.difference(&up).collect();
    assert!(gone.is_empty(), "these are not known any more, so ARROWS need not say so: {gone:?}");
}

#[test]
fn the_floors_of_the_rig_know_those_below() {
    let program = program_in(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/"));
    let floor = |name: &Name| {
        FLOORS_OF_THE_RIG.iter().position(|it| name.first().is_some_and(|first| first == it))
    };
    let mut met = BTreeSet::new();
    for (from, known) in program.arrows() {
        let (Some(here), name) = (floor(from), text_of(from)) else { continue };
        met.insert(here);
        for to in known.iter().filter(|to| floor(to).is_some_and(|there| there > here)) {
            let is_its_test = TESTS_OF_THE_RIG.contains(&name.as_str());
            assert!(is_its_test, "{name} must not know {}", text_of(to));
        }
    }
    assert_eq!(met.len(), FLOORS_OF_THE_RIG.len());
}

fn sentences(sources: &[(&str, &str)]) -> Vec<String> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let program = Program::of(sources.iter().map(owned));
    let arrows = program.arrows();
    circles(&arrows).iter().map(|it| told(&arrows, it)).collect()
}

#[test]
fn a_circle_is_told_in_a_sentence() {
    let sources = [
        ("a", "use crate::{b::{self, B}, std};"),
        ("b", "fn f() { super::c::d::f::<u8>() }"),
        ("c", ""),
        ("c::d", "mod inner { use super::super::super::a::A as Other; }"),
    ];
    assert_eq!(sentences(&sources), ["a circle: a knows b, which knows c::d, which knows a"]);
    assert!(sentences(&sources[..3]).is_empty());
}

#[test]
fn a_parent_knows_a_child_that_it_uses() {
    let uses = "mod child; pub use child::Child; fn f() -> Child { child::new() }";
    let child = ("parent::child", "use super::Item;");
    let expected = "a circle: parent knows parent::child, which knows parent";
    assert_eq!(sentences(&[("parent", uses), child]), [expected]);
    assert!(sentences(&[("parent", "mod child; pub use child::Child;"), child]).is_empty());
    // The other child is known, and not the parent.
    let passes_on = "use self::other::Item; fn f() { child::f() }";
    assert!(sentences(&[("parent", passes_on), child, ("parent::other", "")]).is_empty());
}

#[test]
fn what_is_for_tests_or_said_in_passing_is_no_arrow() {
    let passing = r##"
        //! See `crate::b`.
        /* crate::b::f() */
        fn a<'a>() -> &'a str { let _ = '"'; "crate::b" }
        const B: &str = r#""crate::b""#;
        #[cfg(test)]
        mod tests { use crate::b; fn f() { if true { b::f() } } }
        #[cfg(test)]
        use crate::b::B;
    "##;
    assert!(sentences(&[("a", passing), ("b", "use crate::a;")]).is_empty());
    assert_eq!(sentences(&[("a", "fn f() { crate::b::f() }"), ("b", "use crate::a;")]).len(), 1);
}
