// SPDX-License-Identifier: GPL-2.0-only
//! The dashboard and the alerts ask for metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::families::{self, Family};
use crate::agent::policy::{self, named, standard};
use crate::bpf::intf::avx_policy;

/// What is no metric, beside functions, which are followed by a parenthesis.
const KEYWORDS: &[&str] = &["and", "or", "unless", "by", "without", "on", "ignoring", "bool"];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn known() -> BTreeSet<String> {
    families::all().iter().flat_map(Family::sample_names).collect()
}

/// Without what stands between these, which do not nest.
fn without(text: &str, open: char, close: char) -> String {
    let mut depth = 0;
    text.chars()
        .filter(|c| {
            let was_inside = depth > 0;
            depth += i32::from(*c == open) - i32::from(*c == close);
            !was_inside && depth == 0
        })
        .collect()
}

/// Without the labels that `by (...)` and its like list.
fn without_groups(text: &str) -> String {
    let mut out = text.to_owned();
    for keyword in ["by", "without", "on", "ignoring", "group_left"] {
        while let Some(begin) = out.find(&format!("{keyword} (")) {
            let end = begin + out[begin..].find(')').unwrap();
            out.replace_range(begin..=end, " ");
        }
    }
    out
}

fn metrics_in(expression: &str) -> BTreeSet<String> {
    let bare = without_groups(&without(&without(expression, '{', '}'), '[', ']'));
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut names = BTreeSet::new();
    let mut rest = bare.as_str();
    while let Some(begin) = rest.find(is_of_name) {
        let tail = &rest[begin..];
        let end = tail.find(|c| !is_of_name(c)).unwrap_or(tail.len());
        let (word, after) = tail.split_at(end);
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        let is_function = after.trim_start().starts_with('(');
        if !is_number && !is_function && !KEYWORDS.contains(&word) {
            names.insert(word.to_owned());
        }
        rest = after;
    }
    names
}

fn assert_known(expressions: &[String]) {
    for expression in expressions {
        let metrics = metrics_in(expression);
        assert!(!metrics.is_empty(), "{expression} asks for nothing");
        let known = known();
        let unknown: Vec<_> = metrics.difference(&known).collect();
        assert!(unknown.is_empty(), "{expression} asks for {unknown:?}");
    }
}

/// Every value of a key named `expr`, wherever it is.
fn expressions_in(json: &Value, found: &mut Vec<String>) {
    match json {
        Value::Array(items) => items.iter().for_each(|item| expressions_in(item, found)),
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if key == "expr" => found.push(text.clone()),
                    other => expressions_in(other, found),
                }
            }
        }
        _ => {}
    }
}

fn after(text: &str, key: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(key));
    lines.map(|value| value.trim().to_owned()).collect()
}

#[test]
fn names_are_found_in_expressions() {
    let expression = "histogram_quantile(0.99, sum by (le, class) (rate(a_bucket{x=\"y\"}[5m]))) \
                      > 2 * b_total and on (instance) c:d";
    let names: Vec<String> = metrics_in(expression).into_iter().collect();
    assert_eq!(names, ["a_bucket", "b_total", "c:d"]);
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let dashboard: Value = serde_json::from_str(&read("contrib/grafana/scx_avxspec.json")).unwrap();
    let mut expressions = Vec::new();
    expressions_in(&dashboard, &mut expressions);
    assert!(expressions.len() >= 20);
    assert_known(&expressions);
}

#[test]
fn what_is_modelled_is_called_so() {
    let dashboard: Value = serde_json::from_str(&read("contrib/grafana/scx_avxspec.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        if panel["targets"].to_string().contains("avxspec_lowered") {
            assert!(panel["title"].as_str().unwrap().contains("modelled"), "{panel}");
        }
    }
    let lowered = families::all().iter().filter(|it| it.name.starts_with("avxspec_lowered"));
    assert!(lowered.map(|family| &family.help).all(|help| help.contains("modelled")));
}

/// By what they all have AVX cores for, whatever they are called.
#[test]
fn alerts_leave_out_policies_that_promise_nothing() {
    let usable = (0..8).collect();
    let served = |policy: avx_policy| policy::avx_cores_for(&policy, &usable).unwrap();
    let rules = read("contrib/prometheus/rules.yml");
    let promises = format!("avxspec_policy_info{{avx_cores_for!=\"{}\"}}", served(standard()));
    assert_eq!(rules.matches(&promises).count(), 2);
    for name in ["observe", "fair", "hints"] {
        assert_ne!(served(named::find(name).unwrap().policy().unwrap()), served(standard()));
    }
    let listed = |list: &str| {
        let turns = ["sizing=list".to_owned(), format!("avx-cpu-list={list}")];
        policy::turned(standard(), &turns).unwrap()
    };
    for (list, is_in_vain) in [("7-9", false), ("8-9", true), ("", false)] {
        let policy = listed(list);
        assert_eq!(served(policy) == served(standard()), list == "7-9", "{list}");
        assert_eq!(policy::lists_in_vain(&policy, &usable).is_some(), is_in_vain, "{list}");
    }
    assert!(policy::lists_in_vain(&standard(), &usable).is_none());
}

#[test]
fn alerts_and_their_tests_ask_for_metrics_that_there_are() {
    let rules = read("contrib/prometheus/rules.yml");
    let expressions = after(&rules, "expr:");
    assert_eq!(expressions.len(), after(&rules, "- alert:").len());
    assert_known(&expressions);
    let tests = read("contrib/prometheus/rules_test.yml");
    assert_known(&after(&tests, "- series:"));
    for alert in after(&rules, "- alert:") {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
    }
}
