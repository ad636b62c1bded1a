// SPDX-License-Identifier: GPL-2.0-only
//! What the documents and the files of contrib call by name is there, by that name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use serde_yaml_ng::Value;

use super::Opts;
use crate::agent::metrics::{self, Listen};
use crate::agent::policy;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(in_repository(path)).unwrap()
}

/// The program's flags and those of its commands.
fn flags() -> BTreeSet<String> {
    fn add(command: &Command, flags: &mut BTreeSet<String>) {
        let longs = command.get_arguments().filter_map(|argument| argument.get_long());
        flags.extend(longs.map(|long| format!("--{long}")));
        command.get_subcommands().for_each(|below| add(below, flags));
    }
    let mut flags = BTreeSet::from(["--help".to_owned()]);
    add(&Opts::command(), &mut flags);
    flags
}

fn knobs() -> BTreeSet<String> {
    policy::settings(&policy::standard()).into_iter().map(|setting| setting.knob).collect()
}

/// What stands between backticks; of blocks between three of them, what is typed there.
fn quoted(text: &str) -> Vec<&str> {
    let (mut found, mut is_block) = (Vec::new(), false);
    for part in text.split("```") {
        if is_block {
            found.extend(part.lines().filter_map(|line| line.strip_prefix("$ ")));
        } else {
            found.extend(part.split('`').skip(1).step_by(2));
        }
        is_block = !is_block;
    }
    found
}

/// What is wrong with words that a document quotes.
fn trouble_with(words: &str) -> Option<String> {
    let line = words.strip_prefix("sudo ").unwrap_or(words);
    let all: Vec<&str> = line.split_whitespace().collect();
    let is_started = all.first() == Some(&"scx_avxspec");
    if is_started && let Some(command) = trouble_with_command(&all[1..]) {
        return Some(command);
    }
    if is_started || line.starts_with("--") {
        let flags = flags();
        let unknown = all.iter().filter_map(|word| {
            let flag = word.split('=').next().unwrap_or_default();
            (word.starts_with("--") && !flags.contains(flag)).then_some(flag)
        });
        if let Some(flag) = unknown.into_iter().next() {
            return Some(format!("no flag {flag}"));
        }
    }
    if words.starts_with("avxspec_") && !metrics::reference().contains(&format!("`{words}`")) {
        return Some(format!("no metric {words}"));
    }
    // What stands behind that flag is none, though it looks like one.
    let is_setting = |(n, word): &(usize, &&str)| {
        !word.starts_with('-') && n.checked_sub(1).is_none_or(|n| all[n] != "--progress")
    };
    let settings = all.iter().enumerate().filter(is_setting);
    let mut settings = settings.filter_map(|(_, word)| word.split_once('='));
    settings
        .find(|(knob, value)| {
            let is_example = value.is_empty() || *knob == "KNOB";
            let is_knob = knob.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            let setting = [format!("{knob}={value}")];
            is_knob && !is_example && policy::turned(policy::standard(), &setting).is_err()
        })
        .map(|(knob, value)| format!("no setting {knob}={value}"))
}

/// What follows the program's name, unless it is a flag, is a command of it, and so on.
fn trouble_with_command(words: &[&str]) -> Option<String> {
    let mut command = Opts::command();
    for word in words {
        let is_name = word.chars().all(|c| c.is_ascii_lowercase());
        if !is_name || !command.has_subcommands() {
            return None;
        }
        match command.find_subcommand(word) {
            Some(below) => command = below.clone(),
            None => return Some(format!("no command {word}")),
        }
    }
    None
}

#[test]
fn what_is_quoted_is_found() {
    assert_eq!(quoted("a `b c` d\n```sh\n$ x `y`\nz\n```\ne `f`"), ["b c", "x `y`", "f"]);
    for good in [
        "scx_avxspec policy set KNOB=VALUE",
        "sudo scx_avxspec status --json",
        "sudo systemctl enable --now scx_avxspec",
        "avxspec_cpus",
        "sizing=static",
        "--set avx-cpus=4",
        "scx_avxspec --progress nginx=/run/laps",
        "OPTIONS=",
        "CONFIG_BPF=y",
        "trap",
    ] {
        assert_eq!(trouble_with(good), None, "{good}");
    }
    for bad in [
        "scx_avxspec policies",
        "scx_avxspec policy turn",
        "scx_avxspec status --yaml",
        "--fast",
        "avxspec_speed",
        "sizing=large",
        "avx-cores=4",
    ] {
        assert!(trouble_with(bad).is_some(), "{bad}");
    }
}

#[test]
fn documents_name_what_there_is() {
    let documents = ["README.md", "docs/operating.md", "docs/policy.md", "docs/metrics.md"];
    for document in documents {
        let text = read(document);
        for words in quoted(&text) {
            assert_eq!(trouble_with(words), None, "{document}: `{words}`");
        }
    }
}

/// Of each command, all that may be given.
fn arguments(command: &Command) -> Vec<(String, clap::Arg)> {
    let name = command.get_name();
    let own = command.get_arguments().map(|it| (format!("{name} {}", it.get_id()), it.clone()));
    own.chain(command.get_subcommands().flat_map(arguments)).collect()
}

#[test]
fn the_help_leaves_nothing_out() {
    let mut line = Opts::command();
    line.build();
    let all = arguments(&line);
    let silent = all.iter().filter(|(_, it)| {
        let is_said = it.get_help().is_some_and(|help| !help.to_string().is_empty());
        !is_said && it.get_id() != "subcommand"
    });
    let silent: Vec<&String> = silent.map(|(name, _)| name).collect();
    assert!(silent.is_empty(), "nothing is said of {silent:?}");

    let sim = line.find_subcommand("sim").unwrap();
    let about = [sim.get_about(), sim.get_long_about()].map(|it| it.unwrap().to_string());
    assert!(about[0].starts_with("Compare policies by simulation"), "{about:?}");
    assert!(about[1].contains("all figures are modelled"), "{about:?}");
    let revert = all.iter().find(|(name, _)| name == "use revert_after").unwrap();
    assert!(revert.1.get_help().unwrap().to_string().contains("1s to 24h"));
}

/// Who reads of a flag wants to find it.
#[test]
fn what_is_hidden_is_not_written_about() {
    let hidden = arguments(&Opts::command()).into_iter().filter(|(_, it)| it.is_hide_set());
    let flags: Vec<String> =
        hidden.filter_map(|(_, it)| Some(format!("--{}", it.get_long()?))).collect();
    assert_eq!(flags, ["--check-policies"]);
    let mut stats = Vec::new();
    crate::agent::stats::server_data().describe_meta(&mut stats, None).unwrap();
    let told = [String::from_utf8(stats).unwrap(), metrics::reference(), policy::reference()];
    for text in told.into_iter().chain(["README.md", "docs/operating.md"].map(read)) {
        assert!(flags.iter().all(|flag| !text.contains(flag)), "{text}");
    }
}

/// In operating.md a knob is named by itself as well, in a table of its own.
#[test]
fn knobs_of_the_guide_are_knobs() {
    let text = read("docs/operating.md");
    let (_, tuning) = text.split_once("\n## Tuning").unwrap();
    let (tuning, _) = tuning.split_once("\n## ").unwrap();
    let rows = tuning.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
    let named: Vec<&str> = rows.flat_map(quoted).filter(|words| !words.contains('=')).collect();
    assert!(named.len() >= 8, "{named:?}");
    let knobs = knobs();
    let unknown: Vec<_> = named.iter().filter(|knob| !knobs.contains(**knob)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Of the headings of a document, as links have them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    headings.map(anchor).collect()
}

/// Links of documents to files of this repository, and to headings in them, lead there.
#[test]
fn links_lead_somewhere() {
    let documents = fs::read_dir(in_repository("docs")).unwrap().map(|it| it.unwrap().path());
    let documents = documents.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let others = ["README.md", "kernel-patch/README.md", "kernel-patch/7.3/README.md"];
    for document in documents.chain(others.map(in_repository)) {
        let text = fs::read_to_string(&document).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|it| !it.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.clone(),
                _ => document.parent().unwrap().join(file),
            };
            assert!(path.exists(), "{} links to {target}", document.display());
            assert!(
                anchor.is_empty() || anchors(&fs::read_to_string(&path).unwrap()).contains(anchor),
                "{} links to {target}, and there is no such heading",
                document.display()
            );
        }
    }
}

#[test]
fn the_daemonset_starts_what_there_is() {
    let set: Value = serde_yaml_ng::from_str(&read("contrib/kubernetes/daemonset.yaml")).unwrap();
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments = container["args"].as_sequence().unwrap();
    let words = arguments.iter().map(|argument| argument.as_str().unwrap());
    let line = Opts::command().try_get_matches_from(std::iter::once("scx_avxspec").chain(words));
    let listen: Listen = *line.unwrap().get_one("metrics").unwrap();
    let (Listen::At(given), Listen::At(usual)) = (listen, Listen::default()) else {
        panic!("the pod tells no metrics")
    };
    assert_eq!(given.port(), usual.port());
    assert_eq!(container["ports"][0]["containerPort"].as_u64(), Some(usual.port().into()));
    // That of its life is for root alone, and answered by who schedules.
    let asks = container["livenessProbe"]["exec"]["command"].as_sequence().unwrap();
    let words: Vec<&str> = asks.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[0], "/usr/bin/scx_avxspec");
    assert!(Opts::command().try_get_matches_from(&words).is_ok(), "{words:?}");
    for probe in ["startupProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"], container["ports"][0]["name"], "{probe}");
        assert_eq!(get["path"], "/readyz", "{probe}");
    }
    let names = |list: &Value| -> BTreeSet<String> {
        let items = list.as_sequence().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&container["volumeMounts"]), names(&pod["volumes"]));
    // A pod that cannot start is not there to be asked.
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    let version = format!("scx-avxspec:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], version.as_str());
    assert!(read("contrib/kubernetes/Dockerfile").contains(&version));
}

#[test]
fn make_help_names_targets_and_itself() {
    let mut make = std::process::Command::new("make");
    // As a person types it, also where make runs the tests.
    make.args(["help"]).env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    let output = make.current_dir(in_repository("")).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let makefile = read("Makefile");
    let named: BTreeSet<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("make ")?.split_whitespace().next())
        .filter(|word| makefile.contains(&format!("\n{word}:")))
        .collect();
    for target in ["run", "test", "install", "deb", "clean", "help"] {
        assert!(named.contains(target), "no {target} in:\n{said}");
    }
}

/// What the agent needs is said in several places.
#[test]
fn everybody_gives_the_same_capabilities() {
    let set: Value = serde_yaml_ng::from_str(&read("contrib/kubernetes/daemonset.yaml")).unwrap();
    let context = &set["spec"]["template"]["spec"]["containers"][0]["securityContext"];
    let added = context["capabilities"]["add"].as_sequence().unwrap().iter();
    let added: BTreeSet<String> =
        added.map(|name| format!("CAP_{}", name.as_str().unwrap())).collect();
    let unit = read("contrib/systemd/scx_avxspec.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let bounded: BTreeSet<String> = line.split(' ').map(str::to_owned).collect();
    let needed: BTreeSet<String> =
        crate::agent::preflight::NEEDED.iter().map(|(_, name)| (*name).to_owned()).collect();
    assert_eq!((&added, &bounded), (&needed, &needed));
}

#[test]
fn manual_pages_and_completions_know_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["man", "completions"] {
        let to = dir.path().join(name);
        let words = ["scx_avxspec", "generate", name, "--to", to.to_str().unwrap()];
        let Some(super::Command::Generate(command)) =
            <Opts as clap::Parser>::try_parse_from(words).unwrap().command
        else {
            panic!("{name} is not generated")
        };
        crate::cmd::generate::run(&command, Opts::command()).unwrap();
    }
    let made = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
    let line = Opts::command();
    let page = made("man/scx_avxspec.8");
    for heading in ["SIGNALS", "EXIT STATUS", "FILES", "ENVIRONMENT", "EXAMPLES", "OPTIONS"] {
        assert!(
            page.contains(&format!(".SH \"{heading}\""))
                || page.contains(&format!(".SH {heading}\n")),
            "{heading}"
        );
    }
    let scripts = ["scx_avxspec.bash", "_scx_avxspec", "scx_avxspec.fish"]
        .map(|it| made(&format!("completions/{it}")));
    for command in line.get_subcommands() {
        let name = command.get_name();
        let file = dir.path().join(format!("man/scx_avxspec-{name}.8"));
        assert_eq!(file.exists(), !command.is_hide_set(), "{name}");
        if !command.is_hide_set() {
            assert!(scripts.iter().all(|script| script.contains(name)), "{name}");
        }
    }
}
