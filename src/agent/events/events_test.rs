// SPDX-License-Identifier: GPL-2.0-only
//! Events: what they say, and who hears of them.

use std::sync::Arc;
use std::time::Duration;

use super::hub::{Following, Hub};
use super::summary::Summary;
use super::{Event, KINDS, Kind, Wanted};
use crate::agent::scheduler::Ended;
use crate::bpf::intf::{self, avx_event, avx_name};

const AT_ONCE: Duration = Duration::ZERO;

fn told(kind: intf::avx_event_kind, why: u32, detail: i64) -> avx_event {
    avx_event {
        at: 3_500_000_000,
        kind,
        why,
        detail,
        cpu: 3,
        thread: 12,
        process: 10,
        missed: 0,
        comm: avx_name { words: [u64::from_ne_bytes(*b"phases\0\0"), 0] },
    }
}

fn parsed(kind: intf::avx_event_kind, why: u32, detail: i64) -> Event {
    Event::parse(&told(kind, why, detail), 1_000_000_000).unwrap()
}

#[test]
fn each_kind_is_a_line_with_its_reason() {
    for (event, line) in [
        (
            parsed(intf::EVENT_BEGAN, intf::CAUSE_FAULT, 0),
            "CPU 3 phases[12] began a phase of AVX work: fault",
        ),
        (
            parsed(intf::EVENT_ENDED, intf::BOUNDARY_SYSCALL, 1500),
            "CPU 3 phases[12] ended it after 1.5µs: syscall",
        ),
        (
            parsed(intf::EVENT_FAULT, intf::VERDICT_LIGHT, 0),
            "CPU 3 phases[12] needs no AVX core after a fault: light",
        ),
        (
            parsed(intf::EVENT_SENT, intf::ROLE_AVX, 7),
            "CPU 3 phases[12] goes to an AVX core, CPU 7: AVX work",
        ),
        (
            parsed(intf::EVENT_SENT, intf::ROLE_SCALAR, -1),
            "CPU 3 phases[12] waits for a scalar CPU: scalar work",
        ),
        (
            parsed(intf::EVENT_ROLE, intf::ROLE_FIRST_NEED, intf::ROLE_AVX.into()),
            "CPU 3 became an AVX core: first need",
        ),
    ] {
        assert_eq!(event.to_string(), format!("    2.500000 {line}"));
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
    }
}

#[test]
fn programs_find_each_fact_under_a_name() {
    let event = parsed(intf::EVENT_SENT, intf::ROLE_AVX, 7);
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        r#"{"at_s":2.5,"kind":"sent","why":"AVX work","cpu":3,"thread":12,"process":10,"comm":"phases","role":"AVX core","to_cpu":7}"#
    );
}

#[test]
fn what_is_not_understood_is_no_event() {
    assert_eq!(Event::parse(&told(KINDS.len() as u32, 0, 0), 0), None);
    assert_eq!(Event::parse(&told(intf::EVENT_ENDED, 99, 0), 0), None);
    assert_eq!(Event::parse(&told(intf::EVENT_ROLE, 0, -1), 0), None);
}

#[test]
fn a_name_moves_no_cursor() {
    let mut event = told(intf::EVENT_FAULT, 0, 0);
    event.comm.words[0] = u64::from_ne_bytes(*b"a\x1b[2Jb\n\xff");
    let line = Event::parse(&event, 0).unwrap().to_string();
    assert!(line.contains(" a?[2Jb?\u{fffd}[12] "), "{line:?}");
}

#[test]
fn each_hears_of_what_it_wants() {
    let began = parsed(intf::EVENT_BEGAN, intf::CAUSE_FAULT, 0);
    let role = parsed(intf::EVENT_ROLE, 0, 0);
    let wanted = |pid, kinds: &[Kind]| Wanted { pid, kinds: kinds.to_vec() };
    let hears = |wanted: &Wanted| (wanted.has(&began), wanted.has(&role));
    assert_eq!(hears(&Wanted::default()), (true, true));
    assert_eq!(hears(&wanted(Some(12), &[])), (true, false));
    assert_eq!(hears(&wanted(Some(10), &[])), (true, false));
    assert_eq!(hears(&wanted(Some(11), &[])), (false, false));
    assert_eq!(hears(&wanted(None, &[Kind::Role, Kind::Ended])), (false, true));
    assert!(wanted(Some(11), &[Kind::Role]).has(&Event::lost(0.0, 1, "")));
}

/// Who has heard which policy is in force.
fn follow(hub: &Arc<Hub>) -> Following {
    let following = hub.follow(Wanted::default()).unwrap();
    hub.welcome(3);
    let first = following.next(AT_ONCE).unwrap();
    assert_eq!((first.kind, first.policy), (Kind::Policy, Some(3)));
    following
}

#[test]
fn who_is_new_is_told_what_is_in_force_before_anything_else() {
    let hub = Hub::new();
    let old = follow(&hub);
    let new = hub.follow(Wanted::default()).unwrap();
    let event = parsed(intf::EVENT_FAULT, 0, 0);
    hub.publish(&event);
    hub.welcome(4);
    hub.publish(&event);
    assert_eq!(new.next(AT_ONCE).unwrap().policy, Some(4));
    assert_eq!((new.next(AT_ONCE), new.next(AT_ONCE)), (Some(event.clone()), None));
    let heard: Vec<Event> = std::iter::from_fn(|| old.next(AT_ONCE)).collect();
    assert_eq!(heard, [event.clone(), event]);
}

/// Nobody waits for it, and it is told how much it did not hear.
#[test]
fn who_is_slow_is_told_what_it_lost() {
    let hub = Hub::new();
    let slow = follow(&hub);
    let quick = follow(&hub);
    let event = parsed(intf::EVENT_FAULT, 0, 0);
    let published = 5000;
    for _ in 0..published {
        hub.publish(&event);
        assert_eq!(quick.next(AT_ONCE), Some(event.clone()));
    }
    assert_eq!(quick.next(AT_ONCE), None);

    let mut heard = 0;
    let lost = loop {
        let next = slow.next(AT_ONCE).unwrap();
        if next.kind == Kind::Lost {
            break next.count.unwrap();
        }
        heard += 1;
    };
    assert!(lost > 0);
    assert_eq!(heard + lost, published);
    assert_eq!(slow.next(AT_ONCE), None);
    hub.publish(&event);
    assert_eq!(slow.next(AT_ONCE), Some(event));
}

#[test]
fn who_lost_something_is_told_before_it_hears_more() {
    let hub = Hub::new();
    let slow = follow(&hub);
    let event = parsed(intf::EVENT_FAULT, 0, 0);
    for _ in 0..5000 {
        hub.publish(&event);
    }
    // Room for what tells of the loss, and for one more.
    (0..2).for_each(|_| drop(slow.next(AT_ONCE)));
    hub.publish(&event);
    let mut rest: Vec<Event> = std::iter::from_fn(|| slow.next(AT_ONCE)).collect();
    assert_eq!(rest.pop(), Some(event));
    assert_eq!(rest.pop().unwrap().kind, Kind::Lost);
    assert!(rest.iter().all(|it| it.kind != Kind::Lost));
}

#[test]
fn who_follows_is_told_why_it_was_loaded_anew() {
    let hub = Hub::new();
    let following = follow(&hub);
    for (ended, expected) in [
        (Ended::Restart, "the scheduler was loaded anew: a CPU came or went"),
        (Ended::CannotHide, "the scheduler was loaded anew: the kernel hides nothing on this CPU"),
        (
            Ended::MustNotHide,
            "the scheduler was loaded anew: OpenZFS was loaded, which AVX-512 must not be hidden from",
        ),
    ] {
        hub.publish_loaded(ended.why_again().unwrap());
        let line = following.next(AT_ONCE).unwrap().to_string();
        assert!(line.ends_with(expected), "{line}");
    }
    assert_eq!(Ended::Stopped.why_again(), None);
}

#[test]
fn events_are_wanted_as_long_as_somebody_follows() {
    let hub = Hub::new();
    assert_eq!(hub.newest(), None);
    let first = hub.follow(Wanted::default()).unwrap();
    let rest: Vec<_> = (1..16).map(|_| hub.follow(Wanted::default()).unwrap()).collect();
    assert!(hub.follow(Wanted::default()).is_err_and(|error| error.to_string().contains("16")));
    drop(first);
    assert_eq!(hub.newest(), Some(15));
    assert!(hub.follow(Wanted::default()).is_ok());
    drop(rest);
    assert_eq!(hub.newest(), None);
}

#[test]
fn who_awaits_an_answer_is_not_let_go() {
    let hub = Hub::new();
    let old = follow(&hub);
    let new = hub.follow(Wanted::default()).unwrap();
    hub.dismiss();
    assert_eq!((old.is_over(), new.is_over()), (true, false));
    assert_eq!(hub.newest(), Some(1));
}

#[test]
fn a_summary_counts_by_kind_and_reason() {
    let mut summary = Summary::default();
    assert_eq!(summary.to_string(), "  nothing happened to it\n");
    let syscall = intf::BOUNDARY_SYSCALL;
    let ended = parsed(intf::EVENT_ENDED, syscall, 500_000);
    (0..3).for_each(|_| summary.add(&ended));
    summary.add(&parsed(intf::EVENT_ENDED, intf::BOUNDARY_TICK, 500_000));
    summary.add(&Event::lost(0.0, 7, "too slow"));
    assert_eq!(
        summary.to_string(),
        "  phases ended: 3 syscall, 1 timeout\n  events lost: 7 too slow\n  \
         it ran for 0.002000 s in the phases that ended\n"
    );
}
