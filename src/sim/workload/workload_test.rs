// SPDX-License-Identifier: GPL-2.0-only
//! Files of workloads: what may stand in them, and what is said of what may not.

use proptest::prelude::*;

use super::file::read;
use super::{Form, Length, Per, Process, Queue, Step, What};
use crate::sim::machine::model::Kind;

const SMALL: &str = "about = \"small\"\n[[group]]\nname = \"a\"\nsteps = [\"syscall\", \"done\"]\n";

/// A file with one group, of which these are the steps.
fn with_steps(steps: &str) -> String {
    format!("about = \"some\"\nphases_s = [0, 1]\n[[group]]\nname = \"a\"\nsteps = [\n{steps}\n]\n")
}

/// A file with one group, for which something arrives.
fn arriving(what: &str, steps: &str) -> String {
    with_steps(steps).replace("steps", &format!("arrivals = {{ {what} }}\nsteps"))
}

/// Steps with work of so many microseconds.
fn request_of(us: &str) -> String {
    format!("\"wait\", {{ work = \"scalar\", us = {us} }}, \"done\"")
}

/// What takes no time is no share of what a machine can do, but nothing of it may arrive.
#[test]
fn where_nothing_arrives_there_need_be_no_work() {
    let text = arriving("of_capacity = [0.5, 0]", &request_of("[1700, 0]"));
    assert!(read("w", &text).is_ok());
    assert!(read("w", &arriving("per_second = 1e7", "\"wait\", \"done\"")).is_ok());
}

#[test]
fn what_is_not_said_is_as_usual() {
    let workload = read("small", SMALL).unwrap();
    assert_eq!((workload.name.as_str(), workload.seconds, workload.phases), ("small", 5, vec![0]));
    let group = &workload.groups[0];
    assert_eq!((group.threads, group.weight, group.cgroup), (1, 100, 1));
    assert_eq!(
        (group.per, group.process, group.queue),
        (Per::Machine, Process::Each, Queue::Shared)
    );
    let step = |what| Step { what, every: 1, uses: 1.0 };
    assert_eq!(group.steps, [What::Syscall, What::Done].map(step));
}

#[test]
fn steps_are_words_or_tables() {
    let text = with_steps(
        "{ work = \"light512\", us = [1.5, 2], speed_up = 2 },\n\
         { work = \"heavy512\", without = \"heavy256\", us = 1 },\n\
         \"yield\", { do = \"syscall\", every = 3 }, \"done\"",
    );
    let length = |ns: &[f64]| Length::new(ns.to_vec(), Form::Fixed, 1.0).unwrap();
    let expected = [
        (What::Work(Kind::Light512, Kind::Scalar, length(&[1500.0, 2000.0]), 2.0), 1),
        (What::Work(Kind::Heavy512, Kind::Heavy256, length(&[1000.0, 1000.0]), 1.0), 1),
        (What::Yield, 1),
        (What::Syscall, 1),
        (What::Syscall, 3),
        (What::Done, 1),
    ];
    let expected: Vec<Step> = expected.map(|(what, every)| Step { what, every, uses: 1.0 }).into();
    assert_eq!(read("some", &text).unwrap().groups[0].steps, expected);
}

/// In the same round or in the next one; or somebody else has them, and they come back.
#[test]
fn clients_are_answered_somewhere() {
    for steps in [
        "\"done\", \"wait\", \"syscall\"",
        "\"wait\", \"done\", \"wait\", \"done\"",
        "{ do = \"wait\", every = 4 }, { do = \"done\", every = 2 }",
    ] {
        assert!(read("w", &arriving("clients = 2", steps)).is_ok(), "{steps}");
    }
    let steps = ["\"wait\", { send = \"b\" }", "\"wait\", { send = \"a\" }, \"done\""];
    assert!(read("w", &two_groups(steps)).is_ok());
}

/// Of two groups the first one has clients, and each has these steps.
fn two_groups(steps: [&str; 2]) -> String {
    let [a, b] = steps;
    let other = format!("[[group]]\nname = \"b\"\nsteps = [{b}]\n");
    format!("{}{other}", arriving("clients = 2", a))
}

/// Whoever sleeps or sends something is in the kernel for that.
#[test]
fn who_sleeps_or_sends_has_called_the_system() {
    let text = two_groups(["\"wait\", { send = \"b\" }, \"done\"", "\"wait\", { sleep_us = 2 }"]);
    let groups = read("w", &text).unwrap().groups;
    let whats = |group: usize| -> Vec<_> {
        groups[group].steps.iter().map(|step| step.what.clone()).collect()
    };
    let sleep = What::Sleep(Length::new(vec![2000.0, 2000.0], Form::Fixed, 1.0).unwrap());
    let [wait, call] = [What::Wait, What::Syscall];
    assert_eq!(whats(0), [wait.clone(), call.clone(), What::Send(1), call.clone(), What::Done]);
    assert_eq!(whats(1), [wait, call.clone(), sleep, call]);
}

/// One of them is enough, for others may pass on what they do.
#[test]
fn some_group_gets_something_done() {
    let other = "[[group]]\nname = \"b\"\nsteps = [\"syscall\"]\n";
    assert_eq!(read("w", &format!("{SMALL}{other}")).unwrap().groups.len(), 2);
}

/// What the documentation shows can be read.
#[test]
fn the_example_of_the_documentation_is_a_workload() {
    let text = include_str!("../../../docs/simulator.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let workload = read("example", example).unwrap();
    assert_eq!((workload.groups.len(), workload.phases.len(), workload.seconds), (2, 2, 4));
}

#[test]
fn whatever_is_wrong_is_said_with_its_line() {
    let bad_step = |step: &str| with_steps(&format!("\"syscall\",\n{step}"));
    for (text, expected) in [
        (String::new(), "line 1: missing field `about`"),
        ("about = 3".to_owned(), "line 1: invalid type: integer `3`, expected a string"),
        (SMALL.replace("name", "nmae"), "line 3: unknown field `nmae`"),
        (SMALL.replace("\"a\"", "\"a\"\nthreads = 0"), "line 2: threads are 1 to 10000"),
        (SMALL.replace("\"a\"", "\"a\"\nthreads = -1"), "line 4: invalid value"),
        (SMALL.replace("\"a\"", "\"a\"\nper = \"socket\""), "line 4: unknown variant `socket`"),
        (
            SMALL.replace("\"a\"", "\"a\"\nbegin = \"anywhere\"").replace("syscall", "wait"),
            "line 2: a group that waits begins with its first step",
        ),
        (SMALL.to_owned() + &SMALL[16..], "line 3: another group has that name"),
        (SMALL.replace("[[", "phases_s = [1]\n[["), "line 2: the first phase begins at 0"),
        (SMALL.replace("[[", "phases_s = [0, 2, 1]\n[["), "line 2: phases begin one after the"),
        (SMALL.replace("[[", "seconds = 0\n[["), "line 2: seconds are 1 to 3600"),
        (
            SMALL.replace("\"a\"", "\"a\"\ndata_kib = 1025"),
            "line 2: code_kib and data_kib are 0 to",
        ),
        (SMALL.replace("syscall", "done"), "line 2: no step takes any time"),
        (bad_step("{ do = \"syscall\", uses = 0.5 }"), "line 7: uses is for work"),
        (bad_step("{ work = \"scalar\", us = 1, uses = 1.5 }"), "line 7: uses is 0 to 1"),
        (SMALL.replace("syscall", "wait"), "group \"a\" waits, but nothing is sent to it"),
        (
            two_groups(["\"wait\", { send = \"b\" }", "\"wait\", \"done\""]),
            "line 1: clients of group \"a\" ask once: add a step \"done\" there",
        ),
        (
            two_groups(["\"wait\", { send = \"b\" }", "\"wait\", { send = \"a\" }, \"done\""])
                .replace("arrivals = { clients = 2 }\n", ""),
            "line 1: group \"a\" waits, and so does for ever whoever sends to it",
        ),
        (SMALL.replace(", \"done\"", ""), "line 1: no group has a step \"done\": add one where"),
        (bad_step("\"sycall\""), "line 7: unknown variant `sycall`, expected one of `syscall`"),
        (bad_step("{ work = \"scalar\" }"), "line 7: work says how much it is in us"),
        (bad_step("{ work = \"wide\", us = 1 }"), "line 7: unknown variant `wide`"),
        (bad_step("{ work = \"scalar\", us = -1 }"), "line 7: numbers here are 0 to 1000000000"),
        (bad_step("{ work = \"scalar\", us = nan }"), "line 7: numbers here are 0 to"),
        (bad_step("{ work = \"scalar\", us = [1] }"), "line 7: there are 2 phases, but 1 numbers"),
        (bad_step("{ work = \"scalar\", us = \"1\" }"), "line 7: a number is expected here, or a"),
        (
            bad_step("{ work = \"light512\", us = 1, speed_up = [1, 2] }"),
            "line 7: one number is expected here: only us, sleep_us, of_capacity, per_second and think_us",
        ),
        (
            bad_step("{ do = \"syscall\", every = [1, 2] }"),
            "line 7: one number is expected here: only",
        ),
        (SMALL.replace("\"a\"", "\"a\"\nweight = [1, 2]"), "one number is expected here: only us"),
        (
            SMALL.replace("\"a\"", "\"a\"\nname = [1, 2]").replacen("name = \"a\"\n", "", 1),
            "a string",
        ),
        (arriving("clients = [1, 2]", &request_of("1")), "one number is expected here: only us"),
        (bad_step("{ work = \"scalar\", us = 1, spread = 1 }"), "line 7: gamma and lognormal have"),
        (bad_step("{ do = \"done\", us = 1 }"), "line 7: without, us and speed_up are for work"),
        (bad_step("{ send = \"b\" }"), "line 7: there is no group \"b\""),
        (bad_step("{ send = \"a\" }"), "group \"a\" is sent something, but never waits"),
        (bad_step("{ }"), "line 7: a step is one of do, work, sleep_us and send"),
        (bad_step("{ do = \"done\", every = 0 }"), "line 7: every is at least 1"),
        (
            arriving("of_capacity = 0.5", "\"wait\", { sleep_us = 100 }, \"done\""),
            "line 3: of_capacity needs work in each phase in which something arrives",
        ),
        (
            arriving("of_capacity = [0, 0.5]", &request_of("[1700, 0]")),
            "line 3: of_capacity needs work in each phase in which something arrives",
        ),
        (
            arriving("per_second = 10000001", &request_of("1")),
            "line 5: numbers here are 0 to 10000000",
        ),
        (
            arriving("clients = 2", "\"wait\", { do = \"done\", every = 2 }"),
            "line 3: clients ask again after \"done\": let one follow each \"wait\", as often",
        ),
        (
            arriving("clients = 2", "\"wait\", \"wait\", \"done\""),
            "line 3: clients ask again after",
        ),
        (bad_step("3"), "line 7: invalid type: integer `3`, expected a step: a word, or a table"),
    ] {
        let error = read("w", &text).unwrap_err().to_string();
        assert!(error.starts_with("w, line ") && error.contains(expected), "{expected}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

proptest! {
    /// Whatever somebody writes, it is read or refused in a line.
    #[test]
    fn no_file_is_too_bad(text in "[a-z_=\\[\\]{}\", 0-9\n#.-]{0,200}", cut in 0usize..4000) {
        let own = include_str!("shipped/x265-parsec.toml");
        let cut = own.floor_char_boundary(cut);
        for text in [text.clone(), own[..cut].to_owned() + &text] {
            if let Err(error) = read("w", &text) {
                prop_assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}
