// SPDX-License-Identifier: GPL-2.0-only
//! What clients may do to the control socket, by mistake or not.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::access::{Access, tests::access};
use super::client::{PATIENCE, ask_at, begin_at};
use super::host::{not_given, serve_at};
use super::protocol::{Answer, Request};
use crate::agent::events::Wanted;
use crate::agent::events::hub::Hub;

/// A socket behind which each request is answered by its own text.
struct Echo {
    _dir: TempDir,
    path: PathBuf,
    answered: Arc<AtomicU64>,
}

impl Echo {
    fn new() -> Self {
        Self::that_lets_in(Access::new(None).unwrap())
    }

    fn that_lets_in(access: Access) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/control");
        let answered = Arc::new(AtomicU64::new(0));
        let requests = serve_at(&path, access, Hub::new()).unwrap();
        let count = answered.clone();
        thread::spawn(move || {
            for pending in requests {
                let text = format!("{:?}", pending.request);
                pending.answer(Answer::Refused(text));
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { _dir: dir, path, answered }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(FOR_EVER)).unwrap();
        stream
    }

    fn say(&self, text: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may have heard enough before the end.
        let _ = stream.write_all(text);
        let _ = stream.shutdown(Shutdown::Write);
        hear(&mut stream)
    }

    fn is_served(&self) -> bool {
        ask_at(&self.path, &Request::Show).unwrap() == Answer::Refused("Show".to_owned())
    }
}

/// What has not come by then does not.
const FOR_EVER: Duration = Duration::from_secs(60);

fn hear(stream: &mut UnixStream) -> String {
    let mut answer = Vec::new();
    // The server may have heard enough before the end.
    let heard = stream.read_to_end(&mut answer);
    assert!(!heard.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "not cut off");
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_request_arrives_and_is_answered() {
    let echo = Echo::new();
    let request = Request::Explain(7);
    assert_eq!(ask_at(&echo.path, &request).unwrap(), Answer::Refused(format!("{request:?}")));
    let change = echo.say(b"{\"change\":{\"what\":{\"set\":[\"avx-cpus=1\"]}}}\n");
    assert!(change.contains("dry_run: false, revert_after: None"), "{change}");
}

#[test]
fn what_is_no_request_is_refused_with_a_reason() {
    let echo = Echo::new();
    for bad in ["{}", "\"hide\"", "{\"change\":1}", "\u{0}\u{1}", ""] {
        let answer = echo.say(format!("{bad}\n").as_bytes());
        assert!(answer.contains("this is no request"), "{bad}: {answer}");
    }
    for mistyped in [
        "{\"change\":{\"what\":\"undo\",\"dry-run\":true}}",
        "{\"change\":{\"what\":\"undo\",\"revert_after\":-1}}",
        "{\"change\":{\"what\":{\"set\":[1]}}}",
    ] {
        assert!(echo.say(format!("{mistyped}\n").as_bytes()).contains("this is no request"));
    }
    assert!(echo.say(b"\"show\"").contains("a line of at most"));
    assert!(echo.say(b"").contains("a line of at most"));
    assert_eq!(echo.answered.load(Ordering::Relaxed), 0);
}

#[test]
fn garbage_without_end_is_cut_off_and_the_next_one_is_served() {
    let echo = Echo::new();
    for garbage in [vec![b'x'; 1 << 20], vec![0xff; 1 << 20], vec![b'['; 1 << 20]] {
        assert!(echo.say(&garbage).contains("a line of at most 65536 bytes"));
    }
    let nested = [vec![b'['; 60_000], b"\n".to_vec()].concat();
    assert!(echo.say(&nested).contains("this is no request"));
    assert!(echo.is_served());
}

#[test]
fn half_a_request_holds_up_nobody_and_is_cut_off() {
    let echo = Echo::new();
    let mut halves: Vec<UnixStream> = (0..20).map(|_| echo.connect()).collect();
    halves.iter_mut().for_each(|half| half.write_all(b"\"sho").unwrap());
    assert!(echo.is_served());
    // They are not cut off yet, so that nobody can have waited for that.
    halves[0].set_nonblocking(true).unwrap();
    let heard = halves[0].read(&mut [0; 1]);
    assert!(heard.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    halves[0].set_nonblocking(false).unwrap();
    for half in &mut halves {
        assert!(hear(half).contains("it took too long"));
    }
}

/// A byte now and then is no way to stay.
#[test]
fn a_slow_writer_is_cut_off() {
    let echo = Echo::new();
    let mut slow = echo.connect();
    let mut writer = slow.try_clone().unwrap();
    thread::spawn(move || {
        while writer.write_all(b" ").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    assert!(hear(&mut slow).contains("it took too long"));
}

#[test]
fn who_does_not_listen_or_is_gone_holds_up_nobody() {
    let echo = Echo::new();
    let silent: Vec<UnixStream> = (0..30)
        .map(|_| {
            let mut stream = echo.connect();
            stream.write_all(b"\"show\"\n").unwrap();
            stream
        })
        .collect();
    drop(silent);
    wait_until(|| echo.answered.load(Ordering::Relaxed) == 30);
    assert!(echo.is_served());
}

#[test]
fn a_hundred_at_once_are_answered_and_those_too_many_are_told() {
    let echo = Echo::new();
    let open: Vec<UnixStream> = (0..100).map(|_| echo.connect()).collect();
    let clients: Vec<_> = open
        .into_iter()
        .map(|mut stream| {
            thread::spawn(move || {
                let _ = stream.write_all(b"\"show\"\n");
                hear(&mut stream)
            })
        })
        .collect();
    let answers: Vec<String> = clients.into_iter().map(|it| it.join().unwrap()).collect();
    let with = |text: &str| answers.iter().filter(|it| it.contains(text)).count();
    let (served, refused) = (with("\"Show\""), with("at most 32 connections"));
    assert!(served >= 32 && served + refused == 100, "{served} were served, {refused} refused");
    wait_until(|| echo.is_served());
}

/// A client gets the sentence though nobody reads what it asks.
#[test]
fn the_one_too_many_is_told_and_a_seat_that_is_left_is_free() {
    let echo = Echo::new();
    let mut open: Vec<UnixStream> = (0..32).map(|_| echo.connect()).collect();
    let Answer::Refused(why) = ask_at(&echo.path, &Request::Status).unwrap() else { panic!() };
    assert!(why.contains("at most 32 connections are served at once"), "{why}");
    drop(open.pop());
    wait_until(|| echo.is_served());
}

/// Who left is gone a moment later.
fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < FOR_EVER, "that does not come");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_scheduler_that_does_not_answer_is_not_waited_for_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control");
    let _requests = serve_at(&path, Access::new(None).unwrap(), Hub::new()).unwrap();
    let Answer::Refused(why) = ask_at(&path, &Request::Show).unwrap() else { panic!() };
    assert!(why.contains("nothing has changed, try once more"), "{why}");
}

/// Nobody waits for ever for an agent that hangs.
#[test]
fn who_wants_to_follow_waits_for_the_answer_as_long_as_anybody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control");
    let _silent = UnixListener::bind(&path).unwrap();
    let stream = begin_at(&path, &Request::Follow(Wanted::default())).unwrap();
    assert_eq!(stream.read_timeout().unwrap(), Some(PATIENCE));
}

#[test]
fn who_may_not_ask_is_told_so_and_nobody_asks_for_him() {
    let echo = Echo::that_lets_in(access(&[], None));
    let Answer::Refused(why) = ask_at(&echo.path, &Request::Show).unwrap() else { panic!() };
    assert!(why.starts_with("only root may ask the scheduler"), "{why}");
    assert_eq!(echo.answered.load(Ordering::Relaxed), 0);
}

#[test]
fn a_group_may_ask_if_it_is_told_so() {
    let own = fs::metadata(tempfile::tempdir().unwrap().path()).unwrap().gid();
    let echo = Echo::that_lets_in(access(&[], Some(own)));
    assert!(echo.is_served());
    assert_eq!(fs::metadata(&echo.path).unwrap().gid(), own);
    assert_eq!(mode(&echo.path), 0o660);
    assert_eq!(mode(echo.path.parent().unwrap()), 0o755);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_a_killed_agent_left_behind_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control");
    drop(UnixListener::bind(&path).unwrap());
    fs::write(dir.path().join("control.lock"), "12345 and more").unwrap();
    assert!(serve_at(&path, Access::new(None).unwrap(), Hub::new()).is_ok());
    assert_eq!(mode(&path), 0o600);
    let owner = fs::read_to_string(dir.path().join("control.lock")).unwrap();
    assert_eq!(owner, std::process::id().to_string());
}

#[test]
fn a_second_agent_is_refused_and_the_first_goes_on() {
    let echo = Echo::new();
    for _ in 0..2 {
        let second = serve_at(&echo.path, Access::new(None).unwrap(), Hub::new());
        let told = format!("{:#}", second.err().unwrap());
        let owner = format!("another scx_avxspec runs already, process {}:", std::process::id());
        assert!(told.starts_with(&owner), "{told}");
        assert!(echo.is_served());
    }
}

#[test]
fn of_those_who_start_at_once_one_listens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("below/control");
    let start = || serve_at(&path, Access::new(None).unwrap(), Hub::new()).is_ok();
    let listening: usize = thread::scope(|scope| {
        let agents: Vec<_> = (0..20).map(|_| scope.spawn(start)).collect();
        agents.into_iter().map(|it| usize::from(it.join().unwrap())).sum()
    });
    assert_eq!(listening, 1);
    assert!(UnixStream::connect(&path).is_ok());
}

#[test]
fn without_a_scheduler_one_is_told_to_start_it() {
    let dir = tempfile::tempdir().unwrap();
    let error = ask_at(&dir.path().join("control"), &Request::Show).unwrap_err();
    assert!(format!("{error:#}").contains("start it first"), "{error:#}");
}

#[test]
fn who_may_not_give_the_socket_to_the_group_is_told_the_cure() {
    let access = access(&[0], Some(54321));
    let group = access.group().unwrap();
    let told = not_given(io::Error::from_raw_os_error(libc::EPERM), group).to_string();
    assert_eq!(
        told,
        "it may not be given to the group operators, which this process is not in: add \
         SupplementaryGroups=operators to the service, or supplementalGroups: [54321] to the pod"
    );
    let other = not_given(io::Error::from_raw_os_error(libc::EROFS), group);
    assert_eq!(other.raw_os_error(), Some(libc::EROFS));
}
